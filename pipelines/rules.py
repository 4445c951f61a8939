"""The rules over Spark: what each reads, writes, sums up and is judged by.

The steps of a run know no rule by name; they go through ``RULES`` in order. A rule may read the
outcomes of one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from pipelines import (
    hwm_parking,
    incremental_fetch,
    lowest_acked_offset,
    measures,
    min_isr_acks,
)
from pipelines.accuracy import Tolerance
from pipelines.seam import Piece
from pipelines.summaries import Read
from replay.rules import (
    HWM_PARKING,
    INCREMENTAL_FETCH,
    LOWEST_ACKED_OFFSET,
    MIN_ISR_ACKS,
    Rule,
    Settings,
)
from replay.schema import TABLES, Table

Rows = Mapping[Table, DataFrame]


@dataclass(frozen=True)
class RuleSteps:
    """A rule over Spark.

    ``replayed`` runs it on the tables of some recordings, or on a piece of their logs; what comes
    out is read several times, by ``rows``, which makes each outcome table's rows of it and of the
    recordings' phases. ``facts`` are what its rows up to a time follow from, for one recording.
    ``rules_before``: of how many rules, one after another, it reads the outcomes.
    ``latencies`` (values for latency_summary), ``bandwidth`` (rows of bandwidth_summary) and
    ``predictions`` (see ``pipelines.accuracy.PREDICTED``) read the outcome tables.
    """

    rule: Rule
    replayed: Callable[[Read, Settings, Piece], DataFrame]
    facts: Callable[[Read, int], Sequence[DataFrame]]
    rows: Callable[[DataFrame, DataFrame], Rows]
    latencies: Callable[[Read, DataFrame], DataFrame] | None
    bandwidth: Callable[[Read, DataFrame], DataFrame] | None
    predictions: Callable[[Read, DataFrame, DataFrame, DataFrame], DataFrame]
    tolerances: tuple[Tolerance, ...]
    rules_before: int = 0

    @property
    def name(self) -> str:
        """The rule's name, as in the column ``rule``."""
        return self.rule.name

    @property
    def outcomes(self) -> tuple[Table, ...]:
        """The tables that its rows go to."""
        return tuple(TABLES[name] for name in self.rule.outputs)


RULES = (
    RuleSteps(
        rule=HWM_PARKING,
        replayed=hwm_parking.replayed_hwm_parking,
        facts=hwm_parking.facts,
        rows=hwm_parking.outcome_rows,
        latencies=measures.hwm_parking.latencies,
        bandwidth=measures.hwm_parking.bandwidth,
        predictions=measures.hwm_parking.predictions,
        tolerances=measures.hwm_parking.TOLERANCES,
    ),
    RuleSteps(
        rule=INCREMENTAL_FETCH,
        replayed=incremental_fetch.replayed_incremental_fetch,
        facts=incremental_fetch.facts,
        rows=incremental_fetch.outcome_rows,
        latencies=None,
        bandwidth=measures.incremental_fetch.bandwidth,
        predictions=measures.incremental_fetch.predictions,
        tolerances=measures.incremental_fetch.TOLERANCES,
    ),
    RuleSteps(
        rule=MIN_ISR_ACKS,
        replayed=min_isr_acks.replayed_min_isr_acks,
        facts=min_isr_acks.facts,
        rows=min_isr_acks.outcome_rows,
        latencies=measures.min_isr_acks.latencies,
        bandwidth=None,
        predictions=measures.min_isr_acks.predictions,
        tolerances=measures.min_isr_acks.TOLERANCES,
    ),
    # Reads high_watermark_lag, so after hwm_parking.
    RuleSteps(
        rule=LOWEST_ACKED_OFFSET,
        replayed=lowest_acked_offset.replayed_lowest_acked_offset,
        facts=lowest_acked_offset.facts,
        rows=lowest_acked_offset.outcome_rows,
        latencies=measures.lowest_acked_offset.latencies,
        bandwidth=None,
        predictions=measures.lowest_acked_offset.predictions,
        tolerances=measures.lowest_acked_offset.TOLERANCES,
        rules_before=1,
    ),
)
