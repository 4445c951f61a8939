"""What a rule states about itself to the steps of a run, which know no rule by name."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckdb import DuckDBPyConnection

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.page.accuracy import Check
from kip_replay.pipelines.page.decisions import Limits
from kip_replay.pipelines.page.values import RuleFigures
from kip_replay.pipelines.page.view import Chart, Section, Slowest


@dataclass(frozen=True, kw_only=True)
class RuleSteps(SummedRule):
    """A rule with what the report makes of it.

    ``section`` is made of its ``figures``; beside that the page has ``curves`` of what sweeps vary,
    the ``slowest`` by recording, and the time lines that ``page.toml`` states.
    """

    figures: type[RuleFigures]
    section: Callable[[Sequence[Any], Sequence[Check], Limits], Section]
    curves: Callable[[Any], Sequence[Chart]] | None = None
    slowest: Callable[[DuckDBPyConnection], Mapping[str, Slowest]] | None = None
