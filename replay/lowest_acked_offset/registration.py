"""lowest_acked_offset as the seam runs it."""

from collections.abc import Mapping

from kip_replay.replay import lowest_acked_offset
from kip_replay.replay.other_clocks import Comparison, times_of
from kip_replay.replay.rule import Replay, Rule, Settings

from .tables import (
    APPLIED_OFFSETS,
    HEARTBEAT_OUTCOMES,
    METADATA_WRITE_OUTCOMES,
    METADATA_WRITE_VISIBILITY,
)


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    recording = str(key["recording"])
    return lowest_acked_offset.LowestAckedOffset(
        settings.voters[recording],
        settings.sweep(lowest_acked_offset.RULE, "broker_heartbeat_interval_ms"),
        settings.recorded_heartbeat_interval_ms.get(recording),
        settings.switch(lowest_acked_offset.RULE, "counts_stopping_brokers"),
        replica_apply_ms=settings.number(
            lowest_acked_offset.RULE, "replica_apply_ms", lowest_acked_offset.REPLICA_APPLY_MS
        ),
        saved=saved,
        gaps=settings.log_gaps.get(recording, ()),
    )


#: When a broker had applied a write.
_APPLIED = ("applied_at_earliest", "applied_at_latest", "shown_at", "applied_at")
RULE = Rule(
    name=lowest_acked_offset.RULE,
    key=("recording",),
    order=lowest_acked_offset.ORDER,
    input_schema=lowest_acked_offset.INPUT_SCHEMA,
    tables=(
        HEARTBEAT_OUTCOMES,
        METADATA_WRITE_OUTCOMES,
        METADATA_WRITE_VISIBILITY,
        APPLIED_OFFSETS,
    ),
    start=_start,
    facts=("voters", "recorded_heartbeat_interval_ms", "clocks_apart"),
    sweeps={"broker_heartbeat_interval_ms": 1},
    switches=("counts_stopping_brokers",),
    numbers={"replica_apply_ms": 0},
    comparison=Comparison(
        times_of("node_id"),
        {
            HEARTBEAT_OUTCOMES.name: (
                *("lowest_acknowledged_offset", "lowest_acknowledged_offset_raw"),
                "unfenced_brokers",
            ),
            METADATA_WRITE_OUTCOMES.name: (
                *("offset_low", "offset_high", "applied_everywhere_at", "last_broker_id"),
                *("known_at", "known_everywhere_at", "stale_window_ms", "read_after_write_ms"),
            ),
            METADATA_WRITE_VISIBILITY.name: (*_APPLIED, "known_at"),
            APPLIED_OFFSETS.name: ("shown_at", "applied_at"),
        },
    ),
)
