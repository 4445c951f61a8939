"""How a rule is run: by which key, in which order, on what, and which tables it fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from kip_replay.replay.phases import SteadyPhase


class Replay(Protocol):
    """The replay of one key: at every call a batch for each of the rule's outcome tables."""

    def feed(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Take the next piece of log, in the rule's order; raises ValueError if it is not."""
        ...

    def finish(self) -> Sequence[pa.RecordBatch]:
        """The log is over: hand out what is left."""
        ...

    def saved(self) -> bytes:
        """All that it carries after what it was fed, to go on from with the next piece of log."""
        ...


@dataclass(frozen=True)
class Settings:
    """What the replays are told besides the log.

    By recording: ``voters`` (ids), ``default_min_insync_replicas`` and
    ``recorded_heartbeat_interval_ms`` (of the manifest, which only fills what logs leave open).
    The others are the values that sweeps take. ``draft_partition_id_is_string``: whether KIP-227's
    draft means it when it declares a request's partition_id a STRING.
    ``lowest_acked_counts_stopping``: whether brokers in controlled shutdown hold back the lowest
    acknowledged offset. ``steady_phases`` by recording: a log alone does not state its phases.
    """

    voters: Mapping[str, Sequence[int]]
    max_wait_ms: Sequence[int] = ()
    session_slots: Sequence[int] = ()
    draft_partition_id_is_string: bool = False
    default_min_insync_replicas: Mapping[str, int] = field(default_factory=dict)
    min_insync_replicas: Sequence[int] = ()
    recorded_heartbeat_interval_ms: Mapping[str, int] = field(default_factory=dict)
    broker_heartbeat_interval_ms: Sequence[int] = ()
    lowest_acked_counts_stopping: bool = False
    steady_phases: Mapping[str, SteadyPhase] = field(default_factory=dict)

    def of(self, recording: str, names: Sequence[str]) -> dict[str, object]:
        """Some settings, of those by recording the recording's."""
        values = {name: getattr(self, name) for name in names}
        return {
            name: value.get(recording) if isinstance(value, Mapping) else value
            for name, value in values.items()
        }


@dataclass(frozen=True)
class Rule:
    """A rule as the seam runs it.

    ``settings`` are the fields of ``Settings`` that its rows follow from. ``outputs`` are the
    schemas of the batches emitted, by table name and in order, without the recording.
    """

    name: str
    key: tuple[str, ...]
    order: tuple[str, ...]
    input_schema: pa.Schema
    outputs: Mapping[str, pa.Schema]
    settings: tuple[str, ...]
    start: Callable[[Settings, Mapping[str, str | int], bytes | None], Replay]
