"""closest_replica as the seam runs it."""

from collections.abc import Mapping

from ..rule import Replay, Rule, Settings
from . import outcomes
from .events import INPUT_SCHEMA
from .outcomes import FETCH_WAIT_MS, ClosestReplicaOutcome
from .replay import ClosestReplica


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    recording, node_id = str(key["recording"]), int(key["node_id"])
    return ClosestReplica(
        node_id,
        outcomes.variants(settings.option(outcomes.RULE, FETCH_WAIT_MS)),
        settings.facts_of(outcomes.RULE, recording).get("client_zones", {}),
        saved,
        gaps=settings.gaps_of(recording),
        apart=settings.clocks_apart.get(recording, ()),
    )


RULE = Rule(
    name=outcomes.RULE,
    key=("recording", "node_id"),
    order=("at_us", "kind_order", "request_id", "topic", "partition"),
    input_schema=INPUT_SCHEMA,
    tables=(ClosestReplicaOutcome,),
    start=_start,
    facts=("clocks_apart",),
    sweeps={FETCH_WAIT_MS: 1},
)
