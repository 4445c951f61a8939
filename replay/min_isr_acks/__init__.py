"""min_isr_acks: how long would producers wait with acks=min.insync.replicas? (KIP-926)

What the KIP is, the model and its limits: docs/rules/min_isr_acks.md. ``model.partition`` is the
leader's part of the KIP. The log is replayed twice:

* ``replay``: as recorded. For every partition of every PRODUCE, what acks=all and acks=-2
  would have done, and by which FETCH (open loop). ``events`` are its input. ``isr`` has how far ISR
  and leader are known, ``produces`` the batches that wait and the consumers that get records first;
  ``responses`` decides what a producer gets, and ``outcomes`` are the rows.
* ``closed_loop``: producers that react. ``closed_loop_replay`` feeds it what the open loop decides
  of each PRODUCE, such as how many followers it waits for, and how long these take
  (``follower_cycles``).

Read ``model.partition`` first, then ``events``, then ``replay`` from ``_replay`` on: a method for
each kind of event.

A response is NOT_ENOUGH_REPLICAS (19) before the append, while the committed ISR is smaller than
min.insync.replicas; another error before the append as recorded, for no acks change it; no error
when enough replicas have the batch; REQUEST_TIMED_OUT (7) after timeoutMs; NOT_LEADER_OR_FOLLOWER
(6) where the leader was lost first (``DelayedProduce``). A request is responded to with its slowest
partition.

The rule reads of recorded responses: a PRODUCE's ``base_offset`` (-1: nothing was appended), the
error of a partition of which nothing was appended unless it is one that the rule decides
(``DECIDED``), errors and divergence of a partition in a FETCH's response (then the leader took no
note), the session id, and whether a consumer's FETCH was still parked when a follower's was taken.
It *never* reads the time at which a PRODUCE's response was built, any other error of it, the
partition's high watermark, or the exact time of a consumer's response. These are only written
beside what was replayed.

A batch is appended when the handler of its PRODUCE returns (``handled_us``). A follower's progress
is noted somewhere within its FETCH's handler; where, the log does not have (``events``). Then the
high watermark moves, and who waits for it gets a response at once, or after consumers whose FETCHes
with the partition are parked (``Consumers``). The FETCH that completes acks=-2 early mostly moves
no high watermark; only where it does, the response comes after consumers' too. ``*_earliest_ms``
and ``*_latest_ms`` are 98 % bounds: the handler's begin and end, and what stamps of whole
milliseconds leave open. A change of the ISR that a controller decides counts from when the leader
has learned of its commit, at most ``APPLY_US_MAX`` too early.

Where it can fail: the ISR is what METADATA and ALTER_PARTITION carry, and what heartbeats imply;
before the first of them it is what the table ``held_partitions`` has of the log's beginning, else
unknown. METADATA of a node may be old: it counts where it differs from a state that has been known
for ``STALE_US``. Where lines of the *leader* are missing, what was appended before the end of the
gap and completed after its begin is unknown, and so is a ``last_offset`` whose next append may be
among them. The rule does not see a broker that was taken out of an ISR more than ``STOPPING_US``
before its last FETCH, or that came back in a gap but fetched only later; nor a transaction all of
whose PRODUCEs are in a gap, so that its marker counts as the last offset.
"""

from functools import partial

from ..log_tables import Produces
from ..model import PROGRESS_US_MAX
from ..model.brokers import FENCING_KNOWN_AFTER_US, SESSION_TIMEOUT_US
from ..records import RECORDED
from ..rule import Comparison, KeySettings, Replay, Rule
from .closed_loop_replay import PREDICTED, ProducersReact
from .events import INPUT_SCHEMA, PENDING, SILENCE, EventKind
from .isr import STALE_US
from .outcomes import (
    ACKS_ALL,
    ACKS_MIN_INSYNC_REPLICAS,
    SWEPT,
    ProduceAckOutcome,
    ProduceClosedLoopOutcome,
    variants,
)
from .replay import MinIsrAcks


def _start(own: KeySettings, saved: bytes | None) -> Replay:
    by_topic = {"": own.facts, **own.facts.get("topics", {})}
    min_isrs = {topic: stated[SWEPT] for topic, stated in by_topic.items() if SWEPT in stated}
    rules = variants(own.option(SWEPT))
    open_loop = partial(MinIsrAcks, own.node_id, rules, min_isrs, gaps=own.gaps)
    return ProducersReact(own.node_id, open_loop, saved, own.gaps)


_SLOWEST = ("request_acks_all_latency", "request_min_isr_latency")
#: Columns that follow from other nodes' logs.
_REPLAYED = (
    *("min_insync_replicas", "isr", "all_isr_acked_at", "min_isr_acked_at", "visible_at"),
    *("acks_all_error", "min_isr_error", "replicas_at_min_isr_ack", "exposure_ms"),
    *("partition_acks_all_latency_ms", "partition_min_isr_latency_ms"),
    *(name for name in ProduceAckOutcome.names if name.startswith(_SLOWEST)),
)
RULE = Rule(
    order=("at_us", "kind_order", "request_id"),
    input_schema=INPUT_SCHEMA,
    tables=(ProduceAckOutcome, ProduceClosedLoopOutcome),
    start=_start,
    facts=("voters", "clocks_apart"),
    sweeps={SWEPT: 1},
    needs=Produces,
    constants={
        "kinds": [*map(str, EventKind)],
        "progress_us_max": PROGRESS_US_MAX,
        "fenced_us": FENCING_KNOWN_AFTER_US,
        "pending": PENDING,
        "silence": SILENCE,
        "silence_us": SESSION_TIMEOUT_US,
        "stale_us": STALE_US,
        "recorded": RECORDED,
        "acks_all": ACKS_ALL,
        "min_isr": ACKS_MIN_INSYNC_REPLICAS,
    },
    comparison=Comparison(
        "replica_id",
        {ProduceAckOutcome.name: _REPLAYED, ProduceClosedLoopOutcome.name: PREDICTED},
        (EventKind.METADATA, EventKind.CONFIG),
    ),
)
