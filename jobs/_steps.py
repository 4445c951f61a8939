"""What more than one job needs of the steps: their settings, and how long each took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jobs._cli import Config, say
from pipelines.errors import UserError
from pipelines.recording import Recording
from pipelines.steps import ReplaySettings


def replay_settings(config: Config) -> ReplaySettings:
    """Section [hwm_parking] of the configuration. Raises UserError for a senseless wait."""
    waits = config["hwm_parking"]["max_wait_ms"]
    if not all(isinstance(wait, int) and wait > 0 for wait in waits):
        raise UserError(
            f"hwm_parking.max_wait_ms is {waits!r}: write whole milliseconds above 0, "
            "such as [100, 250]"
        )
    return ReplaySettings(tuple(sorted(set(waits))))


def names_of(recordings: Sequence[Recording]) -> list[str]:
    """Names of the recordings, in the order given."""
    return [recording.name for recording in recordings]


def kafka_versions_of(recordings: Sequence[Recording]) -> dict[str, str]:
    """What the manifests say, by recording; those that say nothing are left out."""
    return {r.name: r.kafka_version for r in recordings if r.kafka_version}


def say_all(lines: Sequence[str]) -> None:
    """Print lines of text."""
    for line in lines:
        say(line)


class Stopwatch:
    """Seconds of each phase of a job, for the last line that it prints."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        begin = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - begin

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in self.seconds.items())
        return f"seconds: {parts}, in all {sum(self.seconds.values()):.1f}"
