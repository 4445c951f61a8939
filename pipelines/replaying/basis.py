"""Reads from what outcomes of recordings follow: their logs, the rules' code and settings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.replaying.clocks import nodes_apart
from kip_replay.pipelines.replaying.log_gaps import log_gaps
from kip_replay.pipelines.replaying.phases import steady_phases
from kip_replay.pipelines.replaying.rule_texts import RuleTexts
from kip_replay.pipelines.warehouse.lineage import fingerprint
from kip_replay.pipelines.warehouse.steps import Covered, contents_of, readings_of
from kip_replay.replay.rule import Settings
from kip_replay.replay.tables import ClockBounds

Say = Callable[[str], object]
Options = Mapping[str, Mapping[str, Any]]


def voters_of(recording: Recording) -> tuple[int, ...]:
    """Voter ids: what the manifest states, else its controllers. Raises UserError if neither."""
    voters = recording.controller_ids if recording.voters is None else recording.voters
    if not voters and recording.voters is None:
        raise UserError(
            f"recording {recording.name!r} does not say who votes: add "
            '"voters": [controller ids] to its recording.json, [] if they are not known or there '
            "are none, or give --voters"
        )
    return tuple(sorted(voters))


class Basis:
    """Reads, of some recordings, what outcomes follow from."""

    def __init__(
        self,
        recordings: Sequence[Recording],
        engine: Engine,
        rules: Sequence[RuleTexts],
        options: Options,
    ) -> None:
        warehouse, self._rules, self._engine = engine.warehouse, rules, engine
        names = [r.name for r in recordings]
        self.readings = readings_of(warehouse, names)
        self.settings = Settings(
            voters={r.name: voters_of(r) for r in recordings},
            facts={r.name: r.facts for r in recordings},
            log_gaps=log_gaps(warehouse, names),
            clocks_apart=nodes_apart(warehouse.rows(ClockBounds, names).to_pylist()),
            options=options,
        )

    @cached_property
    def of_replays(self) -> Settings:
        """Returns the settings with the steady phases, which identify no rows."""
        return replace(self.settings, steady_phases=steady_phases(self._engine, self.readings))

    def followed(self, steps: RuleTexts) -> list[RuleTexts]:
        return [rule for rule in self._rules if rule.name in steps.file.follows]

    def identity(self, steps: RuleTexts, recording: str) -> str:
        parts = [
            (rule.name, rule.step.code(), self.settings.identity(rule.rule, recording))
            for rule in (steps, *self.followed(steps))
        ]
        return fingerprint(*parts)

    def covered(self, steps: RuleTexts, recording: str) -> Covered:
        """States what the outcomes of the whole log follow from."""
        logs = contents_of(self.readings[recording]), self.settings.log_gaps.get(recording, ())
        return Covered(identity=self.identity(steps, recording), inputs=fingerprint(*logs))
