"""incremental_fetch as the seam runs it."""

from collections.abc import Mapping

from ..rule import Replay, Rule, Settings
from . import outcomes
from .outcomes import Sent, SessionCacheEvent
from .recorded import INPUT_SCHEMA
from .replay import IncrementalFetch


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    is_string = settings.option(outcomes.RULE, "draft_partition_id_is_string", False)
    return IncrementalFetch(
        int(key["node_id"]),
        settings.option(outcomes.RULE, outcomes.SESSION_SLOTS),
        draft_partition_id_is_string=is_string,
        saved=saved,
        gaps=settings.gaps_of(str(key["recording"])),
    )


RULE = Rule(
    name=outcomes.RULE,
    key=("recording", "node_id"),
    order=("dequeued_us", "request_id"),
    input_schema=INPUT_SCHEMA,
    tables=(Sent, SessionCacheEvent),
    start=_start,
    sweeps={outcomes.SESSION_SLOTS: 0},
    switches=("draft_partition_id_is_string",),
)
