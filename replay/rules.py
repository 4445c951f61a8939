"""The rules and how each is run: by which key, in which order, on what, and what it hands out.

This is all that ``pipelines`` sees of a rule: the seam runs it, and what sums up and renders takes
the names that its rows carry from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from kip_replay.replay import hwm_parking, incremental_fetch, lowest_acked_offset, min_isr_acks
from kip_replay.replay.hwm_parking import EMPTY_WAKE, WITH_KIP, WITHOUT_KIP, Completion
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL, INCREMENTAL_DRAFT, SESSION_SLOTS
from kip_replay.replay.incremental_fetch.rows import ClientKind
from kip_replay.replay.lowest_acked_offset import FINEST_EVIDENCE, HEARTBEAT_INTERVAL, LOWEST_ACKED
from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.schema import (
    FETCH_PARKING_OUTCOMES,
    FETCH_SESSION_EVICTIONS,
    FETCH_SESSION_OUTCOMES,
    HEARTBEAT_OUTCOMES,
    HIGH_WATERMARK_LAG,
    METADATA_WRITE_OUTCOMES,
    METADATA_WRITE_VISIBILITY,
    PRODUCE_ACK_OUTCOMES,
)

__all__ = [
    "ACKS_ALL",
    "ACKS_MIN_INSYNC_REPLICAS",
    "EMPTY_WAKE",
    "FINEST_EVIDENCE",
    "FULL",
    "HEARTBEAT_INTERVAL",
    "HWM_PARKING",
    "INCREMENTAL",
    "INCREMENTAL_DRAFT",
    "INCREMENTAL_FETCH",
    "LOWEST_ACKED",
    "LOWEST_ACKED_OFFSET",
    "MIN_ISR_ACKS",
    "RULES",
    "SESSION_SLOTS",
    "WITHOUT_KIP",
    "WITH_KIP",
    "ClientKind",
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
    acknowledged offset.
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
    start: Callable[[Settings, Mapping[str, str | int], bytes | None], Replay]


def _start_hwm_parking(
    settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None
) -> Replay:
    voters: Iterable[int] = settings.voters[str(key["recording"])]
    rules = hwm_parking.variants(settings.max_wait_ms)
    return hwm_parking.HwmParking(int(key["node_id"]), voters, rules, saved)


HWM_PARKING = Rule(
    name=hwm_parking.RULE,
    key=("recording", "node_id"),
    order=("built_us", "request_id"),
    keep=("recording",),
    input_schema=hwm_parking.INPUT_SCHEMA,
    outputs={
        FETCH_PARKING_OUTCOMES.name: hwm_parking.PARKING_SCHEMA,
        HIGH_WATERMARK_LAG.name: hwm_parking.LAG_SCHEMA,
    },
    settings=("voters", "max_wait_ms"),
    start=_start_hwm_parking,
)


def _start_min_isr_acks(
    settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None
) -> Replay:
    default = settings.default_min_insync_replicas.get(str(key["recording"]))
    rules = min_isr_acks.variants(settings.min_insync_replicas)
    return min_isr_acks.MinIsrAcks(int(key["node_id"]), rules, default, saved)


MIN_ISR_ACKS = Rule(
    name=min_isr_acks.RULE,
    key=("recording", "node_id"),
    order=("at_us", "kind_order", "request_id"),
    keep=("recording",),
    input_schema=min_isr_acks.INPUT_SCHEMA,
    outputs={PRODUCE_ACK_OUTCOMES.name: min_isr_acks.ACKS_SCHEMA},
    settings=("default_min_insync_replicas", "min_insync_replicas"),
    start=_start_min_isr_acks,
)


def _start_incremental_fetch(
    settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None
) -> Replay:
    return incremental_fetch.IncrementalFetch(
        int(key["node_id"]),
        settings.session_slots,
        draft_partition_id_is_string=settings.draft_partition_id_is_string,
        saved=saved,
    )


INCREMENTAL_FETCH = Rule(
    name=incremental_fetch.RULE,
    key=("recording", "node_id"),
    order=("dequeued_us", "request_id"),
    keep=("recording",),
    input_schema=incremental_fetch.INPUT_SCHEMA,
    outputs={
        FETCH_SESSION_OUTCOMES.name: incremental_fetch.OUTCOME_SCHEMA,
        FETCH_SESSION_EVICTIONS.name: incremental_fetch.EVICTION_SCHEMA,
    },
    settings=("session_slots", "draft_partition_id_is_string"),
    start=_start_incremental_fetch,
)


def _start_lowest_acked_offset(
    settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None
) -> Replay:
    recording = str(key["recording"])
    return lowest_acked_offset.LowestAckedOffset(
        settings.voters[recording],
        settings.broker_heartbeat_interval_ms,
        settings.recorded_heartbeat_interval_ms.get(recording),
        settings.lowest_acked_counts_stopping,
        saved=saved,
    )


LOWEST_ACKED_OFFSET = Rule(
    name=lowest_acked_offset.RULE,
    key=("recording",),
    order=lowest_acked_offset.ORDER,
    keep=("recording",),
    input_schema=lowest_acked_offset.INPUT_SCHEMA,
    outputs={
        HEARTBEAT_OUTCOMES.name: lowest_acked_offset.HEARTBEAT_SCHEMA,
        METADATA_WRITE_OUTCOMES.name: lowest_acked_offset.WRITE_SCHEMA,
        METADATA_WRITE_VISIBILITY.name: lowest_acked_offset.VISIBILITY_SCHEMA,
    },
    settings=(
        "voters",
        "recorded_heartbeat_interval_ms",
        "broker_heartbeat_interval_ms",
        "lowest_acked_counts_stopping",
    ),
    start=_start_lowest_acked_offset,
)

RULES = {
    rule.name: rule for rule in (HWM_PARKING, INCREMENTAL_FETCH, MIN_ISR_ACKS, LOWEST_ACKED_OFFSET)
}
