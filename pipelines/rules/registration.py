"""What a rule says of itself to the steps of a run, which know no rule by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kip_replay.pipelines.analysis.accuracy import Tolerance
from kip_replay.pipelines.analysis.summaries import Read
from kip_replay.pipelines.replaying.seam import Piece
from kip_replay.replay.rules import Rule, Settings
from kip_replay.replay.schema import TABLES, Table
from pyspark.sql import DataFrame

Rows = Mapping[Table, DataFrame]


@dataclass(frozen=True)
class RuleSteps:
    """A rule over Spark.

    ``replayed`` runs it on the tables of some recordings, or on a piece of their logs; what comes
    out is read several times, by ``rows``, which makes each outcome table's rows of it and of the
    recordings' phases. ``facts`` are what its rows up to a time follow from, for one recording.
    ``rules_before``: of how many rules, one after another, it reads the outcomes.
    ``latencies`` (values for latency_summary), ``bandwidth`` (rows of bandwidth_summary) and
    ``predictions`` (see ``pipelines.analysis.accuracy.PREDICTED``) read the outcome tables.
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
