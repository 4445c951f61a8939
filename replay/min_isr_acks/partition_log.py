"""A partition's leader: who has what, who is in sync, and which batches that acknowledges.

The rule of ``kafka.cluster.Partition`` for one partition on one leader, without a clock: every
function takes the time at which its event takes effect. ``s`` is the state, ``p`` the partition's
position among ``State.leaders``.

A follower's FETCH at offset X shows that it has everything below X, and it always stands on the
edge of a batch. So a batch with base offset b is on a follower once that has fetched an offset
above b: the last offset is not needed. Two offsets follow from the followers':

* the *high watermark*: the smallest of all replicas that must have a batch before acks=all is
  complete (``maybeIncrementLeaderHW``): the maximal ISR, and whoever is caught up and may join it.
  It stands still while the committed ISR is smaller than min.insync.replicas;
* the *copied offset*: the min.insync.replicas-th largest of the leader's and the in-sync
  followers' (KIP-926): that many replicas have everything below it.

Each is kept as a level (``levels``). Who waits for an offset is responded to when it is passed,
but where the high watermark wakes consumers first, later in the same handler (``consumers``).
"""

from __future__ import annotations

from kip_replay.replay.min_isr_acks.compiled import compiled
from kip_replay.replay.min_isr_acks.levels import (
    COMMITTED,
    COPIED,
    complete,
    forget,
    level_of,
    rise,
    rises,
)
from kip_replay.replay.min_isr_acks.ordering import least_of, order, rival
from kip_replay.replay.min_isr_acks.places import begin_places, fetched, forget_places, place
from kip_replay.replay.min_isr_acks.state import (
    LAG_US_MAX,
    MAYBE,
    NOWHERE,
    NULL,
    UNKNOWN_MIN_ISR,
    Span,
    State,
    is_in,
)

#: From learning of a commit until partitions follow it: applying takes longest on a cold broker.
APPLY_US_MAX = 200_000
#: acks of a PRODUCE that waits for the whole ISR (acks=all).
ALL_REPLICAS = -1
#: No follower holds the high watermark.
_NOBODY = NULL


@compiled
def moment(at_us: int) -> Span:
    """Something that took effect at a known time."""
    return Span(at_us, at_us, at_us)


# --- what happens --------------------------------------------------------------------------------


@compiled
def produce(
    s: State, p: int, at_us: int, begun_us: int, base_offset: int, record_bytes: int, acks: int
) -> int:
    """A PRODUCE's batch is appended; ``base_offset`` -1: it was not, NULL: not logged.

    The handler took it at ``begun_us``; somewhere between that and ``at_us`` is the append. With
    acks=all the leader looked at the ISR before. Returns the batch's position.
    """
    leader = s.leaders[p]
    appended = leader.leads != 0 if base_offset == NULL else base_offset >= 0
    # It has learned that it does not lead any more, but has not applied it everywhere yet.
    late = leader.leads == 0 and at_us - leader.lost_us <= APPLY_US_MAX
    if appended and base_offset != NULL and leader.leads != 1 and not late:
        _lead(s, p)
    b = s.used[0].batches
    s.used[0].batches += 1
    batch = s.batches[b]
    for variant in range(s.min_isrs.shape[1]):
        s.batch_min_isrs[b, variant] = effective(s, p, variant)
        for which in (COMMITTED, COPIED):
            s.alone[b, 2 * variant + which].at_us = NULL
    batch.appended_us, batch.base_offset, batch.record_bytes = at_us, base_offset, record_bytes
    batch.floor = leader.log_end if base_offset == NULL else base_offset
    batch.ceiling, batch.next_base_offset, batch.log_end = NULL, NULL, leader.log_end
    batch.isr = leader.isr
    was_checked = acks == ALL_REPLICAS and base_offset != NULL and base_offset >= 0
    is_too_small = leader.isr >= 0 and s.set_sizes[leader.isr] < s.batch_min_isrs[b, 0]
    if was_checked and is_too_small:
        # The leader took it, so it had not yet applied what made the ISR too small.
        batch.isr = leader.previous_isr
    batch.leader, batch.level_set, batch.leads = p, leader.level_set, leader.leads
    batch.lost_us = at_us if appended and late else NULL
    batch.before, batch.after, batch.rival = NOWHERE, NOWHERE, NOWHERE
    batch.is_waiting, batch.is_doubtful = True, False
    batch.is_followed_blind, batch.lost_when_unknown = False, False
    if appended:
        _append(s, p, b, begun_us)
    return int(b)


@compiled
def _append(s: State, p: int, b: int, begun_us: int) -> None:
    leader, batch = s.leaders[p], s.batches[b]
    base_offset = batch.base_offset
    for seat in range(s.followers.shape[1]):
        follower = s.followers[p, seat]
        if follower.is_known and follower.offset >= leader.log_end:
            seen = s.last_fetch_us[follower.session]
            follower.caught_up_us = max(follower.caught_up_us, seen)
    alone = _held_at(s, p, batch.appended_us) == _NOBODY
    for variant in range(s.min_isrs.shape[1]):
        k = s.batch_min_isrs[b, variant]
        enough = k != UNKNOWN_MIN_ISR and leader.isr >= 0 and s.set_sizes[leader.isr] >= k
        if alone and enough:
            _has_alone(s, b, 2 * variant + COMMITTED, moment(batch.appended_us))
        if k == 1:
            _has_alone(s, b, 2 * variant + COPIED, moment(batch.appended_us))
    order(s, p, b)
    rival(s, p, b, begun_us)
    place(s, p, b)
    if base_offset == NULL:
        leader.log_end += 1
    elif base_offset >= leader.logged_end:
        # What was counted for batches without an offset may have been too much: they may
        # have been appended behind this one.
        leader.logged_end = leader.log_end = base_offset + 1
    batch.before = leader.last_open
    if leader.last_open == NOWHERE:
        leader.first_open = b
    else:
        s.batches[leader.last_open].after = b
    leader.last_open = b


@compiled
def follower_fetch(
    s: State, p: int, seat: int, offset: int, epoch: int, session: int, span: Span, late: Span
) -> None:
    """A follower fetches at an offset: it has everything below.

    ``late``: when producers are responded to if that moves the high watermark, because consumers
    are parked that are responded to first.
    """
    follower = s.followers[p, seat]
    fetched(s, p, follower.offset, offset, follower.sent_bytes)
    follower.is_known, follower.sent_bytes = True, 0
    follower.offset, follower.epoch, follower.session = offset, epoch, session
    if offset >= s.leaders[p].log_end:
        follower.caught_up_us = max(follower.caught_up_us, span.at_us)
    evaluate(s, p, span, late)


@compiled
def in_epoch(s: State, p: int, leader_epoch: int) -> None:
    """A follower's FETCH was taken, in a leader epoch: this node leads."""
    leader = s.leaders[p]
    epoch = -1 if leader_epoch == NULL else leader_epoch
    if leader.leads != 1 and epoch > leader.lost_epoch:
        _lead(s, p)
    leader.leader_epoch = max(leader.leader_epoch, epoch)


@compiled
def request_isr(s: State, p: int, isr: int) -> None:
    """The leader requested an ISR: who is new in it counts from now on."""
    if isr >= 0 and s.leaders[p].isr >= 0:
        s.leaders[p].requested = isr
        count_members(s, p)


@compiled
def commit_isr(s: State, p: int, span: Span, isr: int) -> None:
    """An ISR was committed; NOWHERE: the leader's request was refused."""
    leader = s.leaders[p]
    leader.requested = NOWHERE
    if isr >= 0 and isr != leader.isr:
        leader.previous_isr, leader.isr = leader.isr, isr
        leader.changed_us = span.at_us
    count_members(s, p)
    evaluate(s, p, span, moment(NULL))


@compiled
def remove(s: State, p: int, span: Span, broker_id: int, without: int) -> None:
    """A controller took a broker out of the ISR, which is ``without`` now; the last one stays."""
    leader = s.leaders[p]
    if leader.leader_id == broker_id and broker_id != s.used[0].node_id:
        # Somebody else of the ISR leads now, maybe this node.
        leader.leader_id = NULL
        leader.leads = MAYBE if leader.leads == 0 else leader.leads
    if is_in(s, leader.isr, broker_id) and s.set_sizes[leader.isr] > 1:
        commit_isr(s, p, span, without)
    else:
        evaluate(s, p, span, moment(NULL))


@compiled
def name_leader(s: State, p: int, at_us: int, leader_id: int, leader_epoch: int) -> None:
    """METADATA names the leader."""
    leader = s.leaders[p]
    newer = leader_epoch > leader.leader_epoch
    leader.leader_id = leader_id
    if leader_id == s.used[0].node_id:
        if leader.leads != 1 and leader_epoch > leader.lost_epoch:
            _lead(s, p)
    elif leader.leads == 1 and newer and leader.leader_epoch >= 0:
        lose(s, p, at_us, True)
    elif leader.leads == MAYBE:
        leader.leads = 0
    leader.leader_epoch = max(leader.leader_epoch, leader_epoch)


@compiled
def lose(s: State, p: int, at_us: int, when_unknown: bool) -> None:
    """This node does not lead any more: what waits gets NOT_LEADER_OR_FOLLOWER."""
    leader = s.leaders[p]
    leader.leads = 0
    leader.lost_epoch, leader.lost_us = leader.leader_epoch, at_us
    b = leader.first_open
    while b != NOWHERE:
        if s.batches[b].lost_us == NULL:
            s.batches[b].lost_us, s.batches[b].lost_when_unknown = at_us, when_unknown
        b = s.batches[b].after


@compiled
def _lead(s: State, p: int) -> None:
    """A new term: followers have to show anew what they have."""
    leader, used = s.leaders[p], s.used[0]
    leader.leads = 1
    for seat in range(s.followers.shape[1]):
        empty_seat(s, p, seat)
    begin_places(s, p)
    if leader.first_open != NOWHERE:
        # Who waits looks at the levels of the old term.
        leader.level_set = used.level_sets
        used.level_sets += 1
    first = level_of(s, leader.level_set, 0, COMMITTED)
    for level in range(first, first + 2 * s.min_isrs.shape[1]):
        s.heads[level].length = 0


@compiled
def empty_seat(s: State, p: int, seat: int) -> None:
    """Nothing is known of a follower yet."""
    follower = s.followers[p, seat]
    follower.is_known, follower.offset, follower.sent_bytes = False, NOWHERE, 0
    follower.epoch, follower.session, follower.caught_up_us = -1, NOWHERE, -LAG_US_MAX - 1


@compiled
def count_members(s: State, p: int) -> None:
    """Who of the followers is in the ISR, and who in the maximal ISR."""
    leader = s.leaders[p]
    for seat in range(s.followers.shape[1]):
        follower = s.followers[p, seat]
        follower.is_in_sync = is_in(s, leader.isr, follower.broker_id)
        follower.is_member = follower.is_in_sync or is_in(s, leader.requested, follower.broker_id)


# --- what follows --------------------------------------------------------------------------------


@compiled
def effective(s: State, p: int, variant: int) -> int:
    """``effectiveMinIsr``: min.insync.replicas, but no more than there are replicas."""
    min_isr, replicas = s.min_isrs[p, variant], s.leaders[p].replicas
    return int(min_isr if replicas == 0 else min(min_isr, replicas))


@compiled
def evaluate(s: State, p: int, span: Span, late: Span) -> None:
    """Note where the high watermark and the copied offset are now."""
    leader = s.leaders[p]
    if leader.isr < 0 or leader.leads == 0:
        return
    high_watermark = _held_at(s, p, span.at_us)
    nobody = high_watermark == _NOBODY
    if nobody:
        high_watermark = leader.log_end
    _rank(s, p)
    isr_size = s.set_sizes[leader.isr]
    for variant in range(s.min_isrs.shape[1]):
        k = effective(s, p, variant)
        if k == UNKNOWN_MIN_ISR or isr_size < k:
            continue
        committed = level_of(s, leader.level_set, variant, COMMITTED)
        copied = level_of(s, leader.level_set, variant, COPIED)
        after = late
        if rises(s, committed, high_watermark):
            at_us = span.at_us if late.at_us == NULL else late.at_us
            complete(s, copied, at_us, span.latest_us)
            rise(s, committed, p, high_watermark, span, late)
        else:
            # Consumers are woken by the high watermark alone.
            after = moment(NULL)
        offset = s.ranked[max(k, 1) - 1]
        if rises(s, copied, offset):
            rise(s, copied, p, offset, span, after)
        _alone(s, p, 2 * variant + COMMITTED, span, nobody)
        _alone(s, p, 2 * variant + COPIED, span, k <= 1)


@compiled
def _alone(s: State, p: int, which: int, span: Span, is_enough: bool) -> None:
    """Whether the leader's own copy is enough now: then it is for whatever waits.

    The log end offset says so of batches that logged theirs, but is a lower bound of the others'.
    """
    head = s.heads[level_of(s, s.leaders[p].level_set, 0, which)]
    if is_enough and not head.is_alone:
        b = s.leaders[p].first_open
        while b != NOWHERE:
            if s.batches[b].base_offset == NULL and s.alone[b, which].at_us == NULL:
                _has_alone(s, b, which, span)
            b = s.batches[b].after
    head.is_alone = is_enough


@compiled
def _has_alone(s: State, b: int, which: int, span: Span) -> None:
    one = s.alone[b, which]
    one.at_us, one.earliest_us, one.latest_us = span.at_us, span.earliest_us, span.latest_us


@compiled
def _rank(s: State, p: int) -> None:
    """Offsets of the leader, then of the followers in sync, the largest first, in ``ranked``."""
    s.ranked[0] = s.leaders[p].log_end
    count = 1
    for seat in range(s.followers.shape[1]):
        follower = s.followers[p, seat]
        if follower.is_in_sync:
            i = count
            while i > 1 and s.ranked[i - 1] < follower.offset:
                s.ranked[i] = s.ranked[i - 1]
                i -= 1
            s.ranked[i] = follower.offset
            count += 1


@compiled
def _held_at(s: State, p: int, at_us: int) -> int:
    """The least offset of the followers that hold the high watermark, NULL without any."""
    least = _NOBODY
    for seat in range(s.followers.shape[1]):
        follower = s.followers[p, seat]
        holds = follower.is_member or (follower.is_known and _holds(s, p, seat, at_us))
        if holds and (least == _NOBODY or follower.offset < least):
            least = follower.offset
    return least


@compiled
def _holds(s: State, p: int, seat: int, at_us: int) -> bool:
    """``shouldWaitForReplicaToJoinIsr``: caught up, and it may join."""
    follower = s.followers[p, seat]
    recent = at_us - follower.caught_up_us <= LAG_US_MAX
    caught_up = recent or follower.offset >= s.leaders[p].log_end
    return caught_up and may_join(s, follower.broker_id, follower.epoch)


@compiled
def may_join(s: State, broker_id: int, epoch: int) -> bool:
    """``isReplicaIsrEligible``: unfenced, not stopping, and the epoch it fetches with is its.

    A broker of which no heartbeat is in the log fetches, so it is taken for unfenced.
    """
    for i in range(len(s.brokers)):
        broker = s.brokers[i]
        if broker.broker_id == broker_id:
            same = epoch < 0 or broker.epoch == NULL or broker.epoch == epoch
            return broker.is_unfenced and same
    return True


@compiled
def close(s: State, b: int) -> None:
    """Forget a batch whose outcome is emitted."""
    batch = s.batches[b]
    leader = s.leaders[batch.leader]
    batch.is_waiting, leader.is_touched = False, True
    if batch.before != NOWHERE:
        s.batches[batch.before].after = batch.after
    elif leader.first_open == b:
        leader.first_open = batch.after
    if batch.after != NOWHERE:
        s.batches[batch.after].before = batch.before
    elif leader.last_open == b:
        leader.last_open = batch.before


@compiled
def forget_closed(s: State, p: int) -> None:
    """Forget what only the batches needed that were closed."""
    leader = s.leaders[p]
    leader.is_touched = False
    below, b = NULL, leader.first_open
    while b != NOWHERE:
        least = least_of(s, b)
        below = least if below == NULL else min(below, least)
        b = s.batches[b].after
    if below == NULL:
        below = leader.logged_end
    first = level_of(s, leader.level_set, 0, COMMITTED)
    for level in range(first, first + 2 * s.min_isrs.shape[1]):
        forget(s, level, below - 1)
    forget_places(s, p)
