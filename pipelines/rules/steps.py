"""What a rule states about itself to the steps of a run, which know no rule by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckdb import DuckDBPyConnection

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.report.accuracy import Check
from kip_replay.pipelines.report.decisions import Limits
from kip_replay.pipelines.report.timeline import Timeline
from kip_replay.pipelines.report.values import RuleFigures
from kip_replay.pipelines.report.view import Chart, Section, Slowest


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


@dataclass(frozen=True, kw_only=True)
class RuleSteps(SummedRule):
    """A rule with what the report makes of it.

    ``section`` is made of its ``figures``; beside that the page has ``timelines``, ``curves`` of
    what sweeps vary, and the ``slowest`` by recording.
    """

    figures: type[RuleFigures]
    section: Callable[[Sequence[Any], Sequence[Check], Limits], Section]
    words: Words
    timelines: Sequence[Timeline] = ()
    curves: Callable[[Any], Sequence[Chart]] | None = None
    slowest: Callable[[DuckDBPyConnection], Mapping[str, Slowest]] | None = None
