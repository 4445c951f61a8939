"""lowest_acked_offset as the seam runs it."""

from collections.abc import Mapping

from ..rule import Comparison, Replay, Rule, Settings
from . import state, tables
from .applying import REPLICA_APPLY_MS
from .events import INPUT_SCHEMA, ORDER
from .replay import LowestAckedOffset


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    recording = str(key["recording"])
    of_cluster = state.Settings(
        settings.voters[recording],
        settings.option(tables.RULE, tables.HEARTBEAT_INTERVAL),
        settings.facts_of(tables.RULE, recording).get(tables.HEARTBEAT_INTERVAL),
        settings.option(tables.RULE, "counts_stopping_brokers", False),
        settings.gaps_of(recording),
        replica_apply_ms=settings.option(tables.RULE, "replica_apply_ms", REPLICA_APPLY_MS),
    )
    return LowestAckedOffset(of_cluster, saved)


RULE = Rule(
    name=tables.RULE,
    key=("recording",),
    order=ORDER,
    input_schema=INPUT_SCHEMA,
    tables=tables.OUTCOMES,
    start=_start,
    facts=("voters", "clocks_apart"),
    sweeps={tables.HEARTBEAT_INTERVAL: 1},
    splits_sweeps=True,
    switches=("counts_stopping_brokers",),
    numbers={"replica_apply_ms": 0},
    comparison=Comparison(
        "node_id",
        {
            tables.HeartbeatOutcome.name: (
                *("lowest_acknowledged_offset", "lowest_acknowledged_offset_raw"),
                "unfenced_brokers",
            ),
            tables.WriteOutcome.name: (
                *("offset_low", "offset_high", "applied_everywhere_at", "last_broker_id"),
                *("known_at", "known_everywhere_at", "stale_window_ms", "read_after_write_ms"),
            ),
            tables.VisibilityOutcome.name: tables.VISIBLE,
            tables.AppliedOffset.name: ("shown_at", "applied_at"),
            tables.ShownEverywhere.name: ("shown_at",),
        },
    ),
)
