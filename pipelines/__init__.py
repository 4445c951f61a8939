"""Spark side: readers, the one seam to the rules, writers. May import `replay`, never `jobs`."""
