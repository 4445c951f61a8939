"""incremental_fetch as the seam runs it."""

from __future__ import annotations

from collections.abc import Mapping

from kip_replay.replay import incremental_fetch
from kip_replay.replay.rule import Replay, Rule, Settings
from kip_replay.replay.schema import (
    FETCH_SESSION_EVICTIONS,
    FETCH_SESSION_OUTCOMES,
)


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    return incremental_fetch.IncrementalFetch(
        int(key["node_id"]),
        settings.session_slots,
        draft_partition_id_is_string=settings.draft_partition_id_is_string,
        saved=saved,
    )


RULE = Rule(
    name=incremental_fetch.RULE,
    key=("recording", "node_id"),
    order=("dequeued_us", "request_id"),
    input_schema=incremental_fetch.INPUT_SCHEMA,
    outputs={
        FETCH_SESSION_OUTCOMES.name: incremental_fetch.OUTCOME_SCHEMA,
        FETCH_SESSION_EVICTIONS.name: incremental_fetch.EVICTION_SCHEMA,
    },
    settings=("session_slots", "draft_partition_id_is_string"),
    start=_start,
)
