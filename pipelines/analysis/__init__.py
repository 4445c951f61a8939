"""Outcomes to figures: summaries, percentiles, accuracy, headlines, SQL."""
