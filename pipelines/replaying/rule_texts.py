"""Holds what a rule states to the steps that replay it: its texts, and their constants."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.folders import ROOT, rule_pages
from kip_replay.pipelines.warehouse.steps import Kind, Step
from kip_replay.replay.log_tables import LOG_GAPS
from kip_replay.replay.rule import Rule
from kip_replay.replay.table import Table
from kip_replay.replay.tables import CLOCK_BOUNDS, REPLAY_STATE

#: Parts for texts that read names of topic ids.
NAMES_OF_TOPICS = {
    name: Path(__file__).with_name(f"{name}.sql")
    for name in ("named_topics", "topic_names", "usable_names")
}
#: Part for texts that read what lines state of min.insync.replicas.
STATED_CONFIGS = {"stated_configs": Path(__file__).with_name("stated_configs.sql")}
#: What fills the account of what held when logs began, and of what gaps leave open (``held``).
HELD = tuple(
    Path(__file__).with_name(f"{name}.sql")
    for name in ("held_partitions", "held_sessions", "uncertainties")
)
_SEAM = "kip_replay.pipelines.replaying.seam"


@dataclass(frozen=True, kw_only=True)
class RuleTexts:
    """A rule over an engine.

    Its folder has a text for each set operation. ``events``: the rule's input, made of the typed
    tables for an increment of the log. ``dependencies``: what outcomes up to a time follow from
    besides the log up to it. ``latencies`` (values for latency_summary) and ``bandwidth`` (FETCHes
    for bandwidth_summary) read the outcome tables; a rule may do without. ``constants``: what the
    texts have ``$names`` for. ``parts``: other texts that they read. ``sums``: those of them whose
    rows add up (``states``), so that a growing recording gives them what was kept and what is new.

    ``needs``: the table without whose rows there are no events. ``follows``: rules whose outcomes
    it reads. ``behind_us``: while a log grows, rows are emitted up to so long after their time.
    """

    rule: Rule
    constants: Mapping[str, object] = field(default_factory=dict)
    parts: Mapping[str, Path] = field(default_factory=dict)
    sums: tuple[str, ...] = ()
    needs: Table | None = None
    behind_us: int = 0
    follows: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def outcomes(self) -> tuple[Table, ...]:
        return self.rule.tables

    @property
    def folder(self) -> Path:
        return ROOT / "pipelines" / "rules" / self.name

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.sql"

    def text(self, name: str, given: Collection[str] = (), **values: object) -> Text:
        """A text; parts of it that are ``given`` are inputs."""
        parts = {part: file for part, file in self.parts.items() if part not in given}
        return Text.read(self.file(name), parts, **{**self.constants, **values})

    def sum(self, name: str) -> Text:
        return Text.read(self.parts[name], self.parts, **self.constants)

    @cached_property
    def step(self) -> Step:
        """Declares its replay."""
        return Step(
            name=self.name,
            kind=Kind.KEPT,
            reads=(LOG_GAPS, CLOCK_BOUNDS),
            queries=(self.file("events"), self.file("dependencies"), *self.parts.values()),
            writes=(*self.outcomes, REPLAY_STATE),
            modules=(_SEAM, self.rule.start.__module__),
            files=HELD,
        )

    @property
    def page(self) -> Mapping[str, Any]:
        """Reads its ``page.toml``."""
        return rule_pages()[self.name]
