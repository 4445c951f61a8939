"""Holds what a rule states to the steps that replay it: its texts, and their constants."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

from kip_replay.pipelines.engines.text import Text, read_texts
from kip_replay.pipelines.rule_files import RULES_FOLDER, RuleFile, rule_files
from kip_replay.pipelines.warehouse.steps import Step, StepKind
from kip_replay.replay.log_tables import LogGaps
from kip_replay.replay.records import SAMPLES_MIN
from kip_replay.replay.rule import Rule
from kip_replay.replay.table import Table
from kip_replay.replay.tables import ClockBounds, ReplayState

#: Texts that all may read: names of topic ids, what lines state of min.insync.replicas, and FETCHes
#: of topic partitions with the macros that go with them.
SHARED = {
    name: Path(__file__).with_name(f"{name}.sql")
    for name in ("named_topics", "topic_names", "usable_names", "stated_configs", "topic_fetches")
}
#: What fills the account of what held when logs began, and of what gaps leave open (``log_gaps``).
HELD = tuple(
    Path(__file__).with_name(f"{name}.sql")
    for name in ("held_partitions", "held_sessions", "uncertainties")
)
_SEAM = "kip_replay.pipelines.replaying.seam"
#: Of a rule whose outcomes follow from the log up to them alone.
_NO_DEPENDENCIES = "SELECT 1 AS nothing WHERE FALSE"


@cache
def texts_of(rule: str) -> Mapping[str, str]:
    """Reads a rule's texts by their names, but for its views."""
    files = (RULES_FOLDER / rule).glob("*.sql")
    return read_texts(*sorted(file for file in files if file.stem != "views"))


@dataclass(frozen=True, kw_only=True)
class RuleTexts:
    """A rule over an engine.

    Its folder has a text for each set operation, which may read the others by name. ``events``: the
    rule's input, made of the typed tables for an increment of the log. A rule may do without
    ``dependencies``, what outcomes up to a time follow from besides the log up to it, and without
    ``latencies`` (values for latency_summary) and ``bandwidth`` (FETCHes for bandwidth_summary),
    which read the outcome tables. Its ``rule.toml`` has which of them add up (``sums``), and the
    rules that it ``follows``.
    """

    rule: Rule

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def file(self) -> RuleFile:
        return rule_files()[self.name]

    @property
    def constants(self) -> Mapping[str, object]:
        return {"rule": self.name, "samples_min": SAMPLES_MIN, **self.rule.constants}

    @property
    def outcomes(self) -> tuple[Table, ...]:
        return self.rule.tables

    @cached_property
    def texts(self) -> Mapping[str, Path | str]:
        """Its texts by name, and those of others that they may read."""
        followed = {f"{rule}_events": texts_of(rule)["events"] for rule in self.file.follows}
        texts = {"dependencies": _NO_DEPENDENCIES, **followed, **texts_of(self.name)}
        return {**SHARED, **texts}

    def text(self, name: str, beside: Collection[str] = (), **values: object) -> Text:
        """Reads a text; parts of it that are ``beside`` it are inputs."""
        parts = {part: text for part, text in self.texts.items() if part not in beside}
        return Text.read(self.texts[name], parts, **{**self.constants, **values})

    @cached_property
    def step(self) -> Step:
        """Declares its replay, whose texts are those of ``events.sql``, and what these read."""
        read = {*chain.from_iterable(self.text(n).parts_read for n in ("events", "dependencies"))}
        events = (RULES_FOLDER / rule / "events.sql" for rule in (self.name, *self.file.follows))
        return Step(
            name=self.name,
            kind=StepKind.KEPT,
            reads=(LogGaps, ClockBounds),
            queries=(*events, *(file for name, file in SHARED.items() if name in read)),
            writes=(*self.outcomes, ReplayState),
            modules=(_SEAM, self.rule.start.__module__),
            files=HELD,
        )
