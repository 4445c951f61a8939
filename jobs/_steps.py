"""What more than one job needs of the steps: their settings, and how long each took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jobs._cli import Config, read_config, say
from pipelines.errors import UserError
from pipelines.recording import Recording
from pipelines.steps import ReplaySettings


def replay_settings(config: Config) -> ReplaySettings:
    """The rules' sections of the configuration. Raises UserError for a senseless value."""
    return ReplaySettings(
        max_wait_ms=_sweep(config, "hwm_parking", "max_wait_ms", 1),
        session_slots=_sweep(config, "incremental_fetch", "session_slots", 0),
        min_insync_replicas=_sweep(config, "min_isr_acks", "min_insync_replicas", 1),
        broker_heartbeat_interval_ms=_sweep(
            config, "lowest_acked_offset", "broker_heartbeat_interval_ms", 1
        ),
        lowest_acked_counts_stopping=config["lowest_acked_offset"]["counts_stopping_brokers"],
        draft_partition_id_is_string=config["incremental_fetch"]["draft_partition_id_is_string"],
    )


def _sweep(config: Config, section: str, key: str, least: int) -> tuple[int, ...]:
    """The values of a sweep, each once, rising."""
    values = config[section][key]
    if not all(isinstance(value, int) and value >= least for value in values):
        example = read_config(None, [])[section][key]
        raise UserError(
            f"{section}.{key} is {values!r}: write whole numbers, {least} or more, "
            f"such as {example!r}"
        )
    return tuple(sorted(set(values)))


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
