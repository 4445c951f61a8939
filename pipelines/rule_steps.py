"""What a rule states about itself to the steps of a run, which know no rule by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckdb import DuckDBPyConnection
from pyspark.sql import DataFrame

from kip_replay.pipelines.analysis.accuracy import Judgement
from kip_replay.pipelines.analysis.phases import Phases
from kip_replay.pipelines.page.accuracy import Check
from kip_replay.pipelines.page.decisions import Limits
from kip_replay.pipelines.page.values import RuleFigures
from kip_replay.pipelines.page.view import Chart, Section, Slowest, Timeline
from kip_replay.pipelines.replaying.seam import Increment
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.phases import SteadyPhase
from kip_replay.replay.rule import Rule
from kip_replay.replay.table import Table


@dataclass(frozen=True)
class Words:
    """A rule in words.

    ``variants``: name and CSS class, in the order of tables. ``metrics`` of prediction_accuracy, in
    the order of tables; ``beside``: those shown though they are not judged. ``accuracy``: what its
    figures mean, and what the baseline is.
    """

    variants: Mapping[str, tuple[str, str]]
    metrics: Mapping[str, str]
    accuracy: str
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class RuleSteps:
    """A rule over Spark.

    ``events`` makes the rule's input of the typed tables, for an increment of the log.
    ``dependencies``: what outcomes up to a time follow from besides the log up to it, for one
    recording. ``follows``: rules whose outcomes it reads. ``behind_us``: while a log grows, rows
    are emitted up to so long after their time. ``latencies`` (values for latency_summary) and
    ``bandwidth`` (rows of bandwidth_summary) read the outcome tables; ``judgement`` says how
    predictions are held against recordings. ``figures`` are what the report reads,
    ``section`` what it makes of them; beside that it prints ``timelines``, ``curves`` of what
    sweeps vary, and the ``slowest`` by recording.
    """

    rule: Rule
    events: Callable[[Read, Increment], DataFrame]
    dependencies: Callable[[DuckDBPyConnection, int, SteadyPhase], list[object]]
    latencies: Callable[[Read, Phases], DataFrame] | None
    bandwidth: Callable[[Read, Phases], DataFrame] | None
    judgement: Judgement
    figures: type[RuleFigures]
    section: Callable[[Sequence[Any], Sequence[Check], Limits], Section]
    words: Words
    timelines: Sequence[Timeline] = ()
    curves: Callable[[Any], Sequence[Chart]] | None = None
    slowest: Callable[[DuckDBPyConnection], Mapping[str, Slowest]] | None = None
    behind_us: int = 0
    follows: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The rule's name, as in the column ``rule``."""
        return self.rule.name

    @property
    def outcomes(self) -> tuple[Table, ...]:
        """The tables that it fills."""
        return self.rule.tables

    @property
    def package(self) -> str:
        """Its folder, as a package."""
        return f"kip_replay.pipelines.rules.{self.name}"

    @property
    def modules(self) -> tuple[str, ...]:
        """What its outcomes follow from, with all that these import."""
        return (self.events.__module__, self.rule.start.__module__)
