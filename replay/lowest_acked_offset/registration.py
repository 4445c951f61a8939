"""lowest_acked_offset as the seam runs it."""

from __future__ import annotations

from collections.abc import Mapping

from kip_replay.replay import lowest_acked_offset
from kip_replay.replay.rule import Replay, Rule, Settings
from kip_replay.replay.schema import (
    HEARTBEAT_OUTCOMES,
    METADATA_WRITE_OUTCOMES,
    METADATA_WRITE_VISIBILITY,
)


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    recording = str(key["recording"])
    return lowest_acked_offset.LowestAckedOffset(
        settings.voters[recording],
        settings.broker_heartbeat_interval_ms,
        settings.recorded_heartbeat_interval_ms.get(recording),
        settings.lowest_acked_counts_stopping,
        saved=saved,
    )


RULE = Rule(
    name=lowest_acked_offset.RULE,
    key=("recording",),
    order=lowest_acked_offset.ORDER,
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
    start=_start,
)
