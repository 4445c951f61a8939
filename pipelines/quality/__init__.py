"""Data quality: what is expected of the tables, checked and kept.

Suites are data, in Great Expectations' types, and SQL where tables are joined (``suites``); a text
a table counts the rows that fail (``texts``). The same suites are a Great Expectations project in
the warehouse (``project``), which reads it over ``dialect``. No check computes what a rule would
have done: whether a rule is right is for its tests and for ``prediction_accuracy``.
"""

from kip_replay.pipelines.quality.results import QualityOutcome, summary
from kip_replay.pipelines.quality.step import QualitySettings, check

__all__ = ["QualityOutcome", "QualitySettings", "check", "summary"]
