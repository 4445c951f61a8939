"""lowest_acked_offset as the seam runs it."""

from collections.abc import Mapping

from ..other_clocks import Comparison, times_of
from ..rule import Replay, Rule, Settings
from . import outcomes, tables
from .applying import REPLICA_APPLY_MS
from .events import INPUT_SCHEMA, ORDER
from .replay import LowestAckedOffset
from .visibility import TIMES


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    recording = str(key["recording"])
    return LowestAckedOffset(
        settings.voters[recording],
        settings.option(outcomes.RULE, outcomes.HEARTBEAT_INTERVAL),
        settings.recorded_heartbeat_interval_ms.get(recording),
        settings.option(outcomes.RULE, "counts_stopping_brokers", False),
        replica_apply_ms=settings.option(outcomes.RULE, "replica_apply_ms", REPLICA_APPLY_MS),
        saved=saved,
        gaps=settings.log_gaps.get(recording, ()),
    )


RULE = Rule(
    name=outcomes.RULE,
    key=("recording",),
    order=ORDER,
    input_schema=INPUT_SCHEMA,
    tables=tables.TABLES,
    start=_start,
    facts=("voters", "recorded_heartbeat_interval_ms", "clocks_apart"),
    sweeps={outcomes.HEARTBEAT_INTERVAL: 1},
    switches=("counts_stopping_brokers",),
    numbers={"replica_apply_ms": 0},
    comparison=Comparison(
        times_of("node_id"),
        {
            tables.HEARTBEAT_OUTCOMES.name: (
                *("lowest_acknowledged_offset", "lowest_acknowledged_offset_raw"),
                "unfenced_brokers",
            ),
            tables.METADATA_WRITE_OUTCOMES.name: (
                *("offset_low", "offset_high", "applied_everywhere_at", "last_broker_id"),
                *("known_at", "known_everywhere_at", "stale_window_ms", "read_after_write_ms"),
            ),
            tables.METADATA_WRITE_VISIBILITY.name: TIMES,
            tables.APPLIED_OFFSETS.name: ("shown_at", "applied_at"),
            tables.SHOWN_EVERYWHERE.name: ("shown_at",),
        },
    ),
)
