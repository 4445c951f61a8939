"""lowest_acked_offset as the seam runs it."""

from collections.abc import Mapping

from ..other_clocks import Comparison, times_of
from ..rule import Replay, Rule, Settings
from . import tables
from .applying import REPLICA_APPLY_MS
from .events import INPUT_SCHEMA, ORDER
from .outcomes import HEARTBEAT_INTERVAL
from .outcomes import RULE as NAME
from .replay import LowestAckedOffset
from .visibility import TIMES


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    recording = str(key["recording"])
    return LowestAckedOffset(
        settings.voters[recording],
        settings.option(NAME, HEARTBEAT_INTERVAL),
        settings.recorded_heartbeat_interval_ms.get(recording),
        settings.option(NAME, "counts_stopping_brokers", False),
        replica_apply_ms=settings.option(NAME, "replica_apply_ms", REPLICA_APPLY_MS),
        saved=saved,
        gaps=settings.log_gaps.get(recording, ()),
    )


RULE = Rule(
    name=NAME,
    key=("recording",),
    order=ORDER,
    input_schema=INPUT_SCHEMA,
    tables=tables.TABLES,
    start=_start,
    facts=("voters", "recorded_heartbeat_interval_ms", "clocks_apart"),
    sweeps={HEARTBEAT_INTERVAL: 1},
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
        },
    ),
)
