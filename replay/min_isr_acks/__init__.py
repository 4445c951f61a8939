"""min_isr_acks: how long would producers wait with acks=min.insync.replicas? (KIP-926)

With acks=all the leader responds to a PRODUCE when the high watermark has passed its batches: every
in-sync replica has them, the slowest too. KIP-926 (acks=-2) responds when min.insync.replicas
replicas, the leader among them, have them: the fastest in-sync followers. Until the slow ones have
caught up, the record is *exposed*: acknowledged, but on fewer replicas than acks=all promises.

``kip_926`` is the leader's part of that, one machine with two drivers:

* ``replay``: the recorded log. A leader's log has when each batch was appended, and each FETCH of a
  follower at offset X shows that it has everything below X. For every partition of every PRODUCE
  it emits what acks=all and acks=-2 would have done, and by which FETCH (open loop: a producer that
  gets its response sooner would send sooner). ``leadership`` is what is known of ISR and leader,
  ``brokers`` who may be in an ISR, ``holes`` what gaps in logs hide, ``batches`` what waits,
  ``responses`` and ``rows`` what comes out.
* ``closed_loop``: producers that react.

A response is NOT_ENOUGH_REPLICAS (19) before the append, while the committed ISR is smaller than
min.insync.replicas (KIP-926, "Proposed Changes"); no error when enough replicas have the batch;
REQUEST_TIMED_OUT (7) after timeoutMs; NOT_LEADER_OR_FOLLOWER (6) where the leader was lost first
(``DelayedProduce``). While the ISR is too small, the high watermark stands still:
NOT_ENOUGH_REPLICAS_AFTER_APPEND (20) needs an ISR that shrinks between two steps of one handler,
and is not replayed. A request is responded to with its slowest partition. A PRODUCE with acks=0
waits for nobody: ``not_applicable``. The replay of acks=all is there to be held against what was
recorded; a broker of today responds INVALID_REQUIRED_ACKS (21) to acks=-2.

What is read of a response
--------------------------
A PRODUCE's ``base_offset`` (-1: nothing was appended), errors and divergence of a partition in a
FETCH's response (then the leader took no note), the session id, and whether a consumer's FETCH was
still parked when a follower's was taken. *Never* when a PRODUCE's response was built, its error,
the partition's high watermark, nor when exactly a consumer got its response: what was recorded is
written beside what was replayed, and nothing else depends on it.

Times
-----
A batch is appended when the handler of its PRODUCE returns (``handled_us``). A follower's progress
is noted somewhere within its FETCH's handler, [dequeued, dequeued + local]. The log does not have
where: in the middle, but at most ``PROGRESS_US_MAX`` after the begin, errs least on recordings.
That is when the high watermark moves and who waits for it gets a response, unless a consumer's
FETCH with the partition is parked: it comes first, producers when the handler is nearly done
(``consumers``). The FETCH that completes acks=-2 early mostly moves no high watermark; only where
it does, the response waits for consumers too. ``*_earliest_ms`` and ``*_latest_ms`` are 98 %
bounds: the handler's begin and end, and what stamps of whole milliseconds leave open. A change of
the ISR that a controller decides counts from when the leader has learned of its commit, at most
``APPLY_US_MAX`` too early.

Where it can fail
-----------------
* Only replicas in the ISR count for acks=-2, the leader always does, and min.insync.replicas in
  force when they have it is what counts. The KIP leaves these open.
* The ISR is what METADATA and ALTER_PARTITION carry, and what heartbeats imply; before the first of
  them it is unknown. METADATA of a node may be old: it counts where it differs from what is known,
  and that is older than ``STALE_US``. A partition that no line names for a day is forgotten.
* Where lines of the *leader* are missing, what was appended before the end of the gap and completed
  after its begin is unknown, and so is a ``last_offset`` whose next append may be among them.
* Lines of the *active controller* hide changes of ISRs and of min.insync.replicas that stay in
  force (``holes``). A gap of any other node touches nothing.
* Not seen: a broker that was taken out of an ISR more than ``STOPPING_US`` before its last FETCH,
  or came back in a gap but fetched only later; a transaction all of whose PRODUCEs are in a gap,
  so that a marker counts as the last offset.
"""

from .events import INPUT_SCHEMA as INPUT_SCHEMA
from .tables import ACKS_ALL as ACKS_ALL
from .tables import ACKS_MIN_INSYNC_REPLICAS as ACKS_MIN_INSYNC_REPLICAS
from .tables import ACKS_SCHEMA as ACKS_SCHEMA
from .tables import RULE as RULE
from .tables import variants as variants
