"""The Delta tables: read through their snapshots, written through one door, kept small."""
