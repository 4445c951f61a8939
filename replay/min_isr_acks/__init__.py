"""min_isr_acks: how long would producers wait with acks=min.insync.replicas? (KIP-926)

Theory of operation
-------------------
With acks=all the leader responds to a PRODUCE when the high watermark has passed its batches: every
in-sync replica has them, the slowest too. KIP-926 (acks=-2) responds when min.insync.replicas
replicas, the leader among them, have them: the fastest in-sync followers. Until the slow ones have
caught up, the record is *exposed*: acknowledged, but on fewer replicas than acks=all promises.

A leader's log has when each batch was appended, and each FETCH of a follower at offset X shows
that it has everything below X. So the rule is an as-of search: ``log`` has a leader's log as one
table, a row per partition of an event; ``levels`` the high watermark and the offset that enough
replicas have, as they rise from row to row; ``responses`` the rule for batches, looked up there.
``leadership`` follows ISRs and leaders, ``brokers`` which brokers may be in an ISR. ``MinIsrAcks``
reads the events of one leader and emits, for every partition of every PRODUCE, what acks=all and
acks=-2 would have done:

* NOT_ENOUGH_REPLICAS (19) before the append, while the committed ISR is smaller than
  min.insync.replicas, for both (KIP-926, "Proposed Changes");
* no error, when the offset is passed; REQUEST_TIMED_OUT (7) after timeoutMs;
  NOT_LEADER_OR_FOLLOWER (6) where the leader was lost first (``DelayedProduce``). While the ISR is
  too small, the high watermark stands still: NOT_ENOUGH_REPLICAS_AFTER_APPEND (20) needs an ISR
  that shrinks between two steps of one handler, and is not replayed;
* a request is responded to with its slowest partition.

The replay of acks=all is there to be held against what was recorded; acks=-2 is what no broker
does yet: one of today responds INVALID_REQUIRED_ACKS (21). Open loop: a producer that gets its
response sooner would send sooner.

What is read of a response
--------------------------
*Inputs of the rule:* a PRODUCE's ``base_offset`` (-1: nothing was appended), errors and divergence
of a partition in a FETCH's response (then the leader took no note), the bytes of records it
carried, the session id, and from other lines: ISR and leader (ALTER_PARTITION, METADATA), configs,
heartbeats, and the offsets and high watermarks of the *metadata* log. Of a consumer's FETCH: its
session id, and whether it was still parked when a follower's FETCH was taken.
*Never read:* when a PRODUCE's response was built, its error, the partition's high watermark, nor
when exactly a consumer got its response.
``recorded_error`` and ``*_recorded_latency_ms`` are written beside what was replayed, nothing else
depends on them; ``tests/unit/test_min_isr_acks.py`` blanks them and gets the same rows.

Times
-----
A batch is appended when the handler of its PRODUCE returns (``handled_us``). A follower's progress
is noted somewhere within its FETCH's handler, [dequeued, dequeued + local]. The log does not have
where: in the middle, but at most ``PROGRESS_US_MAX`` after the begin, errs least on recordings.
That is when the high watermark moves and who waits for it gets a response, unless a consumer's
FETCH with the partition is parked: it comes first, producers when the handler is nearly done
(``consumers``). The FETCH that completes acks=-2 early mostly moves no high watermark; only where
it does, the response waits for consumers too.
``*_earliest_ms`` and ``*_latest_ms`` are the bounds. A change of the ISR that a controller decides
counts from when the leader has learned of its commit, at most ``APPLY_US_MAX`` too early.

Assumptions, and where they can fail
------------------------------------
* Only replicas in the ISR count for acks=-2, the leader always does, and min.insync.replicas in
  force when they have it is what counts. The KIP leaves these open.
* A PRODUCE with acks=0 logs no base offset. Its neighbours' bound it, and the bytes that followers
  were sent (``unlogged``); where a follower stood between the bounds, it is unknown
  (``OFFSET_NOT_IN_LOG``).
* The ISR is what METADATA and ALTER_PARTITION carry, and what heartbeats imply. Before the first of
  them it is unknown (``ISR_NOT_IN_LOG``).
* METADATA of a node may be old: it counts where it differs from what is known, and that is
  older than ``STALE_US``.

Holes in the log
----------------
Where lines of the *leader* are missing, what was appended before the end of the hole and completed
after its begin is unknown, and so is a ``last_offset`` whose next append may be among them. Later
rows rest on later FETCHes. Lines of the *active controller* hide changes of ISRs and of
min.insync.replicas that stay in force: ``holes`` has what the leader's own log shows of them all
the same, and what is unknown until METADATA or ALTER_PARTITION shows it. A hole of any other node
touches nothing: its METADATA is one source among several.

Not seen: a broker that was taken out of an ISR more than ``STOPPING_US`` before its last FETCH, or
came back in a hole but fetched only later; a transaction all of whose PRODUCEs are in a hole, so
that a marker counts as the last offset. A consumer's session that began in a hole is one that began
before the log. In the closed loop a PRODUCE's place in the log decides which moment is drawn for
it: after a hole of the leader others are drawn, of the same kind.
"""

from .events import INPUT_SCHEMA as INPUT_SCHEMA
from .tables import ACKS_ALL as ACKS_ALL
from .tables import ACKS_MIN_INSYNC_REPLICAS as ACKS_MIN_INSYNC_REPLICAS
from .tables import ACKS_SCHEMA as ACKS_SCHEMA
from .tables import RULE as RULE
from .tables import variants as variants
