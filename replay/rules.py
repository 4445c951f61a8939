"""The rules and how each is run: by which key, in which order, on what, and what it hands out.

This is all that ``pipelines`` sees of a rule: the seam runs it, and what sums up and renders takes
the names that its rows carry from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from replay import hwm_parking, metadata_log
from replay.hwm_parking import EMPTY_WAKE, WITH_KIP, WITHOUT_KIP, Completion
from replay.schema import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG

__all__ = [
    "EMPTY_WAKE",
    "HWM_PARKING",
    "RULES",
    "WITHOUT_KIP",
    "WITH_KIP",
    "Completion",
    "Replay",
    "Rule",
    "Settings",
]


class Replay(Protocol):
    """The replay of one key: at every call a batch for each of the rule's outcome tables."""

    def feed(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Take the next piece of log, in the rule's order; raises ValueError if it is not."""
        ...

    def finish(self) -> Sequence[pa.RecordBatch]:
        """The log is over: hand out what is left."""
        ...


@dataclass(frozen=True)
class Settings:
    """What the replays are told besides the log.

    By recording: ``voters`` (ids), ``default_min_insync_replicas`` and
    ``recorded_heartbeat_interval_ms`` (of the manifest, which only fills what logs leave open).
    The others are the values that sweeps take. ``draft_partition_id_is_string``: whether KIP-227's
    draft means it when it declares a request's partition_id a STRING.
    """

    voters: Mapping[str, Sequence[int]]
    max_wait_ms: Sequence[int] = ()
    session_slots: Sequence[int] = ()
    draft_partition_id_is_string: bool = False
    default_min_insync_replicas: Mapping[str, int] = field(default_factory=dict)
    min_insync_replicas: Sequence[int] = ()
    recorded_heartbeat_interval_ms: Mapping[str, int] = field(default_factory=dict)
    broker_heartbeat_interval_ms: Sequence[int] = ()

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
    schemas of the batches handed out, by table name and in order; the columns ``keep`` of the key
    are put in front of each row.
    """

    name: str
    key: tuple[str, ...]
    order: tuple[str, ...]
    keep: tuple[str, ...]
    input_schema: pa.Schema
    outputs: Mapping[str, pa.Schema]
    settings: tuple[str, ...]
    start: Callable[[Settings, Mapping[str, str | int]], Replay]


def _start_hwm_parking(settings: Settings, key: Mapping[str, str | int]) -> Replay:
    voters: Iterable[int] = settings.voters[str(key["recording"])]
    rules = hwm_parking.variants(settings.max_wait_ms)
    return hwm_parking.HwmParking(int(key["node_id"]), voters, rules)


HWM_PARKING = Rule(
    name=hwm_parking.RULE,
    key=("recording", "node_id"),
    order=("built_us", "request_id"),
    keep=("recording",),
    input_schema=metadata_log.INPUT_SCHEMA,
    outputs={
        FETCH_PARKING_OUTCOMES.name: hwm_parking.PARKING_SCHEMA,
        HIGH_WATERMARK_LAG.name: hwm_parking.LAG_SCHEMA,
    },
    settings=("voters", "max_wait_ms"),
    start=_start_hwm_parking,
)

RULES = {rule.name: rule for rule in (HWM_PARKING,)}
