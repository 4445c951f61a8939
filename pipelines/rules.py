"""The rules over Spark: what each reads, writes, sums up and is judged by.

The steps of a run know no rule by name; they go through ``RULES`` in order. A rule may read the
outcomes of one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from pipelines import hwm_parking
from pipelines.accuracy import Tolerance
from pipelines.measures import hwm_parking as hwm_parking_measures
from pipelines.summaries import Read
from replay.rules import HWM_PARKING, Rule, Settings
from replay.schema import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG, Table

Rows = Mapping[Table, DataFrame]


@dataclass(frozen=True)
class RuleSteps:
    """A rule over Spark.

    ``replayed`` runs it on the tables of some recordings; what comes out is read several times, by
    ``rows``, which makes each outcome table's rows of it and of the recordings' phases.
    ``latencies`` (values for latency_summary), ``bandwidth`` (rows of bandwidth_summary) and
    ``predictions`` (see ``pipelines.accuracy.PREDICTED``) read the outcome tables.
    """

    rule: Rule
    outcomes: tuple[Table, ...]
    replayed: Callable[[Read, Settings], DataFrame]
    rows: Callable[[DataFrame, DataFrame], Rows]
    latencies: Callable[[Read, DataFrame], DataFrame]
    bandwidth: Callable[[Read, DataFrame], DataFrame] | None
    predictions: Callable[[Read, DataFrame, DataFrame, DataFrame], DataFrame]
    tolerances: tuple[Tolerance, ...]

    @property
    def name(self) -> str:
        """The rule's name, as in the column ``rule``."""
        return self.rule.name


RULES = (
    RuleSteps(
        rule=HWM_PARKING,
        outcomes=(FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG),
        replayed=hwm_parking.replayed_hwm_parking,
        rows=hwm_parking.outcome_rows,
        latencies=hwm_parking_measures.latencies,
        bandwidth=hwm_parking_measures.bandwidth,
        predictions=hwm_parking_measures.predictions,
        tolerances=hwm_parking_measures.TOLERANCES,
    ),
)
