"""incremental_fetch as the seam runs it."""

from collections.abc import Mapping

from kip_replay.replay import incremental_fetch
from kip_replay.replay.rule import Replay, Rule, Settings

from .holes import Holes
from .tables import FETCH_SESSION_EVICTIONS, FETCH_SESSION_OUTCOMES


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    node_id, gaps = int(key["node_id"]), settings.log_gaps.get(str(key["recording"]), ())
    return incremental_fetch.IncrementalFetch(
        node_id,
        settings.sweep(incremental_fetch.RULE, "session_slots"),
        draft_partition_id_is_string=settings.switch(
            incremental_fetch.RULE, "draft_partition_id_is_string"
        ),
        saved=saved,
        holes=Holes([gap for gap in gaps if gap.node_id == node_id]),
    )


RULE = Rule(
    name=incremental_fetch.RULE,
    key=("recording", "node_id"),
    order=("dequeued_us", "request_id"),
    input_schema=incremental_fetch.INPUT_SCHEMA,
    tables=(FETCH_SESSION_OUTCOMES, FETCH_SESSION_EVICTIONS),
    start=_start,
    sweeps={"session_slots": 0},
    switches=("draft_partition_id_is_string",),
)
