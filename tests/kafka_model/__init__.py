"""Kafka's own code, read and written down again: slow, literal, and only for tests."""
