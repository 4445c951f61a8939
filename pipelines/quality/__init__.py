"""Data quality: what is expected of the tables, checked and kept.

Suites are data, in Great Expectations' types, and SQL where tables are joined (``suites``); texts
count the rows that fail (``step``). The same suites are a Great Expectations project in the
warehouse (``project``). No check computes what a rule would have done: whether a rule is right is
for its tests and for ``prediction_accuracy``.
"""

from kip_replay.pipelines.quality.step import QualityOutcome, QualitySettings, check, summary

__all__ = ["QualityOutcome", "QualitySettings", "check", "summary"]
