"""Engines, Delta tables, and the steps from a log to a report; never imports ``jobs``."""
