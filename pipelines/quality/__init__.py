"""Data quality: what is expected of the tables, checked and kept.

Theory of operation. Suites are data (``suites``): Great Expectations' own expectations, and SQL
where tables are joined. They and their checkpoint are a project in the warehouse (``project``),
which validates over DuckDB (``dialect``) and renders Data Docs. Results and a bounded number of
failing rows go to ``quality_results`` and ``quality_failures`` (``step``), and what failed is
printed (``words``).

Checks look at tables: whether lines are accounted for, ids have no holes, times and offsets are in
order, outcomes belong to what was logged. None computes what a rule would have done; whether a rule
is right is for its tests and for ``prediction_accuracy``.
"""

from kip_replay.pipelines.quality.step import QualitySettings, check
from kip_replay.pipelines.quality.words import Outcome, summary

__all__ = ["Outcome", "QualitySettings", "check", "summary"]
