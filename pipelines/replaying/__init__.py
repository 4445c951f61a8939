"""Typed tables to outcomes: the seam that feeds rules, and recordings that grow by increments."""
