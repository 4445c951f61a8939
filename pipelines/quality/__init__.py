"""Data quality: what is expected of the tables, checked and kept.

Theory of operation. Suites are data (``suites``): Great Expectations' types, and SQL where tables
are joined. ``texts`` makes of them SQL that counts and selects failing rows, one text a table;
``step`` runs it and keeps results and a bounded number of failing rows in ``quality_results`` and
``quality_failures``, and what failed is printed (``words``). The same suites and checkpoints are a
Great Expectations project in the warehouse (``project``), which reads it over ``dialect``.

Checks look at tables: whether lines are accounted for, ids have no holes, times and offsets are in
order, outcomes belong to what was logged. None computes what a rule would have done; whether a rule
is right is for its tests and for ``prediction_accuracy``.
"""

from kip_replay.pipelines.quality.step import QualitySettings, check
from kip_replay.pipelines.quality.words import Outcome, summary

__all__ = ["Outcome", "QualitySettings", "check", "summary"]
