"""All that a replay carries: flat arrays of records, linked by position.

A leader's partitions, their followers, the batches that are not settled and what only they need
lie in a dozen arrays, so that compiled functions reach them, that they grow by copying, and that a
saved state is their bytes. A position is an index into an array, ``NOWHERE`` is none. Times are
microseconds; ``NULL`` is an integer that is not known.

Lists of growing length (the passings of a level, the batches that ``places`` remembers) are
stretches of a shared array: a ``HEAD`` says where. Who needs more room than its stretch has moves
to the end; what is left behind, and whatever was settled, goes when the arrays are packed
(``memory``).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kip_replay.replay.min_isr_acks.compiled import compiled

#: An array of records, or of integers.
Array: TypeAlias = np.ndarray[Any, Any]

#: An integer that is not known.
NULL = int(np.iinfo(np.int64).min)
#: No position.
NOWHERE = -1
#: ``leads`` of a partition as long as the log leaves it open; else 0 or 1.
MAYBE = -1
#: A min.insync.replicas that is not known.
UNKNOWN_MIN_ISR = -1
#: replica.lag.time.max.ms: a follower that was caught up within it may hold the high watermark.
LAG_US_MAX = 30_000_000


class Span(NamedTuple):
    """When something took effect, and the bounds that the log leaves (microseconds)."""

    at_us: int
    earliest_us: int
    latest_us: int


def _record(longs: str, flags: str = "") -> np.dtype[Any]:
    fields = [(name, "i8") for name in longs.split()] + [(name, "?") for name in flags.split()]
    return np.dtype(fields, align=True)


#: How much of each array is in use, and what there is once. ``first_request`` and ``last_request``
#: are the ends of the chain of requests that wait; ``turn`` counts consumers' FETCHes.
USED = _record(
    "node_id front_us batches requests first_request last_request leaders level_sets passings"
    " remembered edges rivals fetchers memberships sessions turn rows"
)
#: A PRODUCE of which not all partitions are settled: ``batches`` of them from ``first_batch``, the
#: first ``decided`` of which nothing can change. Flags are 0, 1 or NULL.
REQUEST = _record(
    "handled_us received_us built_us timeout_us acks is_transactional is_idempotent"
    " first_batch batches decided next",
    "is_waiting",
)
#: A batch that the leader appended, or (``base_offset`` -1) did not. ``floor`` is the least that
#: its base offset can be, ``ceiling`` the most; ``base_offset`` NULL is not logged. ``log_end`` is
#: the log end offset as far as known when it came. ``lost_us``: the leader lost its leadership
#: while the batch waited. ``before`` and ``after`` are its neighbours among the partition's that
#: wait, ``rival`` begins the chain of batches that may have been appended before or after it.
#: ``is_doubtful``: bytes that followers were sent do not agree with the order taken for granted;
#: ``is_followed_blind``: an acks=0 batch came before the next known base offset.
BATCH = _record(
    "appended_us base_offset floor ceiling log_end next_base_offset record_bytes error_code lost_us"
    " isr leader level_set leads before after rival",
    "is_waiting is_doubtful is_followed_blind lost_when_unknown",
)
#: One partition on this leader. ``isr``, ``requested`` (in ALTER_PARTITION) and ``previous_isr``
#: are positions in ``sets``. ``log_end`` is the
#: least that the log end offset can be, ``logged_end`` the last that a PRODUCE logged. The fields
#: from ``places_from`` on are those of ``places``: the number of the first batch remembered, the
#: batch from which sizes are trusted again, and the edge that is furthest behind.
LEADER = _record(
    "isr requested previous_isr replicas leader_id leader_epoch lost_epoch lost_us leads"
    " changed_us log_end logged_end first_open last_open level_set owners"
    " places_from trusted_from edge_offset edge_number",
    "is_touched has_markers has_unlogged is_trusted",
)
#: What the leader knows of a follower (``kafka.cluster.Replica``), and what it sent it last.
#: Who is in the ISR, or requested, has a seat before it fetches: then it is not known.
FOLLOWER = _record(
    "broker_id offset sent_bytes epoch session caught_up_us", "is_known is_in_sync is_member"
)
#: A level passed ``offset``: when. ``late_...``: when producers who waited are responded to, if
#: consumers are responded to first, else NULL.
PASSING = _record("offset at_us earliest_us latest_us late_at_us late_earliest_us late_latest_us")
#: ``Span`` as a record.
ALONE = _record("at_us earliest_us latest_us")
#: A stretch of a shared array. ``is_alone``, of a level: the leader's own copy is enough now.
HEAD = _record("start length capacity", "is_alone")
#: The batch numbered ``number`` begins at ``offset``.
EDGE = _record("offset number")
#: ``batch`` may have been appended before or after ``owner``.
RIVAL = _record("owner batch next")
#: A consumer's session, or a single FETCH without one: until when it is parked.
FETCHER = _record("parked_until_us last_turn memberships", "is_session is_kept")
#: A partition of a fetcher, as long as ``is_member``; chained by partition and by fetcher.
MEMBERSHIP = _record("fetcher leader next_owner next_partition turn", "is_member")
#: A broker as this node knows it: ``epoch`` NULL without a heartbeat.
BROKER = _record("broker_id epoch", "is_unfenced is_active")


class State(NamedTuple):
    """The arrays. ``min_isrs`` has a column per variant.

    ``alone`` has a row per batch and a column per level of its level set: when the leader's own
    copy was enough, NULL if it was not.
    ``followers`` has a row per leader and a column per seat; ``stands`` goes with ``passings``: the
    offsets of the seats then. ``heads`` are the levels': a level set has two for each variant, the
    high watermark's and the copied offset's. ``sets`` are sets of brokers, ascending, one a row.
    """

    used: Array
    requests: Array
    batches: Array
    batch_min_isrs: Array
    alone: Array
    leaders: Array
    min_isrs: Array
    followers: Array
    heads: Array
    passings: Array
    stands: Array
    place_heads: Array
    remembered: Array
    edge_heads: Array
    edges: Array
    rivals: Array
    fetchers: Array
    memberships: Array
    sets: Array
    set_sizes: Array
    last_fetch_us: Array
    brokers: Array
    ranked: Array


@compiled
def is_in(s: State, members: int, broker_id: int) -> bool:
    """Whether a broker is in a set (a position, or NOWHERE)."""
    if members < 0:
        return False
    i = 0
    while i < s.set_sizes[members] and s.sets[members, i] != broker_id:
        i += 1
    return bool(i < s.set_sizes[members])


@compiled
def moved_if_full(head: Any, end: int, array: Array) -> int:
    """Room for one more in a stretch, at the array's end if need be; returns the new end."""
    if head.length < head.capacity:
        return end
    capacity = max(4, 2 * head.capacity)
    for i in range(head.length):
        array[end + i] = array[head.start + i]
    head.start, head.capacity = end, capacity
    return end + int(capacity)
