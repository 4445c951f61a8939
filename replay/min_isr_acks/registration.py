"""min_isr_acks as the seam runs it."""

from collections.abc import Mapping
from functools import partial

from kip_replay.replay import min_isr_acks

from ..rule import Comparison, Replay, Rule, Settings
from .closed_loop_replay import PREDICTED, ProducersReact
from .events import Kind
from .outcomes import ProduceAckOutcome, ProduceClosedLoopOutcome
from .replay import MinIsrAcks


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    recording, node_id = str(key["recording"]), int(key["node_id"])
    facts = settings.facts_of(min_isr_acks.RULE, recording)
    entries, name = {"": facts, **facts.get("topics", {})}, "min_insync_replicas"
    min_isrs = {topic: entry[name] for topic, entry in entries.items() if name in entry}
    rules = min_isr_acks.variants(settings.option(min_isr_acks.RULE, name))
    gaps = settings.gaps_of(recording)
    of_node = partial(MinIsrAcks, node_id, rules, min_isrs, gaps=gaps)
    return ProducersReact(node_id, of_node, saved, gaps)


_SLOWEST = ("request_acks_all_latency", "request_min_isr_latency")
#: Columns that follow from other nodes' logs.
_REPLAYED = (
    *("min_insync_replicas", "isr", "all_isr_acked_at", "min_isr_acked_at", "visible_at"),
    *("acks_all_error", "min_isr_error", "replicas_at_min_isr_ack", "exposure_ms"),
    *("partition_acks_all_latency_ms", "partition_min_isr_latency_ms"),
    *(name for name in ProduceAckOutcome.names if name.startswith(_SLOWEST)),
)
RULE = Rule(
    name=min_isr_acks.RULE,
    key=("recording", "node_id"),
    order=("at_us", "kind_order", "request_id"),
    input_schema=min_isr_acks.INPUT_SCHEMA,
    tables=(ProduceAckOutcome, ProduceClosedLoopOutcome),
    start=_start,
    facts=("voters", "clocks_apart"),
    sweeps={"min_insync_replicas": 1},
    comparison=Comparison(
        "replica_id",
        {ProduceAckOutcome.name: _REPLAYED, ProduceClosedLoopOutcome.name: PREDICTED},
        (Kind.METADATA, Kind.CONFIG),
    ),
)
