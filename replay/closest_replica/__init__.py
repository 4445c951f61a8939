"""closest_replica: what if consumers read from the replica in their own zone? (KIP-392)

What the KIP is, the model and its limits: docs/rules/closest_replica.md. ``model.partition``
has the decision that the KIP adds (``select``): which replica a leader names to a consumer.

Each partition of which a consumer's FETCH returned records is a *read*, wherever it was served. It
is decided under ``leader`` (the leader serves it), ``closest`` (the replica serves it that the
leader would name to a client of that zone, until ``metadata.max.age.ms`` has passed) and
``closest_hwm_aware`` (likewise, and leaders respond to a follower's waiting FETCH when the high
watermark moves, as KIP-1166 does for the metadata log). The log's consumers send their FETCHes when
they did: what becomes of them when records come later is not replayed (open loop).

The rule reads of consumers' responses: which partitions have records and how many bytes, the high
watermark and the last stable offset, and when they were built (the high watermark had passed by
then). It uses where a consumer read from only to know what it waited for, and of a preferred
replica only that there was a redirect: what was recorded is beside what was replayed. It reads
the offsets of followers' FETCHes, and the high watermarks of the responses to them.

The leader's log alone shows who is in sync: no high watermark passes a follower in the ISR. ISRs
of METADATA and ALTER_PARTITION count for followers of which no FETCH came since. ``partition``
is what is known of a partition, and of who is in which zone; ``replay`` has when a replica could
have given what it has.

Where it can fail: the way from leader to follower counts as half of the round trip that ends with
the follower's FETCH. A line's stamp comes late where its node stops before it is written. A
consumer that reads committed records, and waits for longer than for a record, counts as waiting for
the last stable offset of its response. Where a high watermark moved because the ISR changed, it
counts as late as a response shows it. A FETCH that waits for more bytes (``fetch.min.bytes``)
counts as if they had been there when it came. A consumer that a follower refuses
(OFFSET_OUT_OF_RANGE) reads on from it here.
"""

from ..log_tables import Fetches
from ..model import PROGRESS_US_MAX
from ..rule import KeySettings, Replay, Rule
from .events import INPUT_SCHEMA, LineKind
from .replay import FETCH_WAIT_MS, ClosestReplica, ClosestReplicaOutcome, UnknownReason, variants


def _start(own: KeySettings, saved: bytes | None) -> Replay:
    rules, zones = variants(own.option(FETCH_WAIT_MS)), own.facts.get("client_zones", {})
    return ClosestReplica(own.node_id, rules, zones, saved, gaps=own.gaps, apart=own.clocks_apart)


RULE = Rule(
    order=("at_us", "kind_order", "request_id", "topic", "partition"),
    input_schema=INPUT_SCHEMA,
    tables=(ClosestReplicaOutcome,),
    start=_start,
    facts=("clocks_apart",),
    sweeps={FETCH_WAIT_MS: 1},
    needs=Fetches,
    constants={
        "kinds": [*map(str, LineKind)],
        "progress_us_max": PROGRESS_US_MAX,
        "older": UnknownReason.OFFSET.value,
    },
)
