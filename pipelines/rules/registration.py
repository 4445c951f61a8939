"""What a rule states about itself to the steps of a run, which know no rule by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from duckdb import DuckDBPyConnection
from pyspark.sql import DataFrame

from kip_replay.pipelines.analysis.accuracy import Tolerance
from kip_replay.pipelines.analysis.phases import Phases
from kip_replay.pipelines.replaying.seam import Increment
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.phases import SteadyPhase
from kip_replay.replay.rule import Rule
from kip_replay.replay.schema import TABLES, Table


@dataclass(frozen=True)
class RuleSteps:
    """A rule over Spark.

    ``events`` makes the rule's input of the typed tables, for an increment of the log.
    ``dependencies``: what outcomes up to a time follow from besides the log up to it, for one
    recording. ``follows``: rules whose outcomes it reads. ``latencies`` (values for
    latency_summary; of ``curves``, each a metric and group_kind, distributions too), ``bandwidth`` (rows of bandwidth_summary) and ``predictions`` (see
    ``analysis.accuracy.PREDICTED``) read the outcome tables.
    """

    rule: Rule
    events: Callable[[Read, Increment], DataFrame]
    dependencies: Callable[[DuckDBPyConnection, int, SteadyPhase], list[object]]
    latencies: Callable[[Read, Phases], DataFrame] | None
    bandwidth: Callable[[Read, Phases], DataFrame] | None
    predictions: Callable[[Read, DataFrame, Phases, DataFrame], DataFrame]
    tolerances: Sequence[Tolerance]
    curves: Sequence[tuple[str, str]] = ()
    follows: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The rule's name, as in the column ``rule``."""
        return self.rule.name

    @property
    def outcomes(self) -> tuple[Table, ...]:
        """The tables that it fills."""
        return tuple(TABLES[name] for name in self.rule.outputs)

    @property
    def measures(self) -> str:
        """The module that says what is summed up and how it is judged."""
        return self.predictions.__module__

    @property
    def modules(self) -> tuple[str, ...]:
        """What its outcomes follow from, with all that these import."""
        return (self.events.__module__, self.rule.start.__module__)
