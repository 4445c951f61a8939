"""One leader's log, event by event: the loop that all the volume goes through, compiled."""

from __future__ import annotations

from kip_replay.replay.min_isr_acks.compiled import compiled, entry
from kip_replay.replay.min_isr_acks.consumers import AFTER_RESPONSE_US, consumer_fetch, is_parked
from kip_replay.replay.min_isr_acks.inputs import (
    CONSUMER_FETCH,
    FACTS,
    FETCH,
    ISR_ANSWERED,
    ISR_ASKED,
    PRODUCE,
    TOPIC,
    Events,
    Rows,
)
from kip_replay.replay.min_isr_acks.partition_log import (
    APPLY_US_MAX,
    commit_isr,
    empty_seat,
    evaluate,
    follower_fetch,
    in_epoch,
    lose,
    moment,
    name_leader,
    produce,
    remove,
    request_isr,
)
from kip_replay.replay.min_isr_acks.settling import Written, settle
from kip_replay.replay.min_isr_acks.state import NOWHERE, NULL, Array, Span, State, is_in

#: Outcomes settle in steps of the log's time, so that they depend on the log alone.
STEP_US = 1_000_000
#: METADATA that contradicts what is known is believed if that is older.
STALE_US = 2_000_000


@entry
def follow(
    s: State, events: Events, rows: Rows, doubts: Array, out: Written, first: int, end: int
) -> None:
    """Take the events from ``first`` to ``end``; of those taken one by one, note the time only."""
    used = s.used[0]
    for e in range(first, end):
        kind, at_us = events.kind[e], events.at_us[e]
        if kind == TOPIC:
            continue
        if at_us // STEP_US != used.front_us // STEP_US:
            settle(s, doubts, out, at_us, False)
        used.front_us = at_us
        if kind == PRODUCE:
            _produce(s, events, e, rows)
        elif kind == FETCH:
            _fetch(s, events, e, rows)
        elif kind == CONSUMER_FETCH:
            consumer_fetch(s, events, e, rows)
        elif kind in FACTS:
            _facts(s, events, e, rows)


@entry
def settle_all(s: State, doubts: Array, out: Written) -> None:
    """The log is over: settle whatever waits."""
    settle(s, doubts, out, s.used[0].front_us, True)


@compiled
def _or_zero(value: int) -> int:
    return 0 if value == NULL else value


@compiled
def _handled_us(events: Events, e: int) -> int:
    handled_us = events.handled_us[e]
    return int(events.at_us[e] if handled_us in (NULL, 0) else handled_us)


@compiled
def _produce(s: State, events: Events, e: int, rows: Rows) -> None:
    used = s.used[0]
    i = used.requests
    used.requests += 1
    request = s.requests[i]
    request.handled_us = _handled_us(events, e)
    request.received_us, request.built_us = events.received_us[e], events.built_us[e]
    request.timeout_us = _or_zero(events.timeout_us[e])
    request.acks, request.is_transactional = events.acks[e], events.is_transactional[e]
    request.is_idempotent = events.is_idempotent[e]
    request.first_batch, request.decided = used.batches, 0
    request.batches = events.first_row[e + 1] - events.first_row[e]
    request.next, request.is_waiting = NOWHERE, True
    if used.last_request == NOWHERE:
        used.first_request = i
    else:
        s.requests[used.last_request].next = i
    used.last_request = i
    at_us, begun_us = request.handled_us, events.dequeued_us[e]
    begun_us = at_us if begun_us == NULL else begun_us
    for r in range(events.first_row[e], events.first_row[e + 1]):
        p = rows.leader[r]
        if events.is_transactional[e] == 1:
            s.leaders[p].has_markers = True
        b = produce(s, p, at_us, begun_us, rows.base_offset[r], rows.record_bytes[r], request.acks)
        s.batches[b].error_code = rows.error_code[r]
        evaluate(s, p, moment(at_us), moment(NULL))


@compiled
def _fetch(s: State, events: Events, e: int, rows: Rows) -> None:
    session, epoch = events.party[e], events.replica_epoch[e]
    epoch = -1 if epoch == NULL else epoch
    span = Span(events.at_us[e], events.dequeued_us[e], _handled_us(events, e))
    last_us = max(span.at_us, span.latest_us - AFTER_RESPONSE_US)
    s.last_fetch_us[session] = span.at_us
    for r in range(events.first_row[e], events.first_row[e + 1]):
        if rows.is_refused[r] == 1:
            continue
        p, seat, offset = rows.leader[r], rows.seat[r], rows.fetch_offset[r]
        if offset != NULL:
            in_epoch(s, p, rows.leader_epoch[r])
            late = moment(NULL)
            if is_parked(s, p, span.earliest_us):
                late = Span(last_us, span.earliest_us, span.latest_us)
            follower_fetch(s, p, seat, offset, epoch, session, span, late)
        follower = s.followers[p, seat]
        if follower.is_known:
            follower.sent_bytes = _or_zero(rows.record_bytes[r])


@compiled
def _facts(s: State, events: Events, e: int, rows: Rows) -> None:
    """What ALTER_PARTITION requested and its response committed, and what METADATA has."""
    kind, at_us = events.kind[e], events.at_us[e]
    is_active = _is_active(s, events.replica_id[e])
    for r in range(events.first_row[e], events.first_row[e + 1]):
        p, isr = rows.leader[r], rows.isr[r]
        if rows.replicas[r]:
            s.leaders[p].replicas = rows.replicas[r]
        if kind == ISR_ASKED:
            request_isr(s, p, isr)
        elif kind == ISR_ANSWERED:
            commit_isr(s, p, moment(at_us), isr)
        elif _believes(s, p, at_us, isr, rows.leader_epoch[r], is_active):
            commit_isr(s, p, moment(at_us), isr)
            if rows.leader_id[r] != NULL:
                leader_epoch = _or_zero(rows.leader_epoch[r])
                name_leader(s, p, at_us, rows.leader_id[r], leader_epoch)


@compiled
def _is_active(s: State, teller: int) -> bool:
    for i in range(len(s.brokers)):
        if s.brokers[i].broker_id == teller:
            return bool(s.brokers[i].is_active)
    return True


@compiled
def _believes(s: State, p: int, at_us: int, isr: int, leader_epoch: int, is_active: bool) -> bool:
    """METADATA may be old: an ISR or a leader in it is not always today's."""
    leader = s.leaders[p]
    if isr < 0 or s.set_sizes[isr] == 0:
        return False
    if leader.isr < 0:
        return True
    if not is_active:
        return False
    old = leader_epoch != NULL and leader_epoch < leader.leader_epoch
    return not old and at_us - leader.changed_us > STALE_US


@entry
def take_out(s: State, at_us: int, broker_id: int, without: Array, has_heir: Array) -> None:
    """A broker was fenced or stops: every ISR may be another one.

    By position of a set: which it is without the broker, and whether others than this node may
    lead.
    """
    span = Span(at_us, at_us, at_us + APPLY_US_MAX)
    for p in range(s.used[0].leaders):
        isr = s.leaders[p].isr
        stops_leading = broker_id == s.used[0].node_id and s.leaders[p].leads == 1
        if stops_leading and isr >= 0 and has_heir[isr]:
            lose(s, p, at_us, False)
        remove(s, p, span, broker_id, without[isr] if isr >= 0 else NOWHERE)


@entry
def configure(s: State, at_us: int, first: int, end: int, min_isrs: Array) -> None:
    """min.insync.replicas of partitions is another one, a column per variant."""
    for p in range(first, end):
        for variant in range(s.min_isrs.shape[1]):
            s.min_isrs[p, variant] = min_isrs[variant]
        evaluate(s, p, moment(at_us), moment(NULL))


@entry
def are_seated(s: State, events: Events, rows: Rows) -> bool:
    """Give every follower that is named a seat; False if there are not enough of them."""
    for e in range(len(events.kind)):
        if events.kind[e] == FETCH:
            for r in range(events.first_row[e], events.first_row[e + 1]):
                rows.seat[r] = _seat(s, rows.leader[r], events.replica_id[e])
                if rows.seat[r] == NOWHERE:
                    return False
        elif events.kind[e] in FACTS:
            for r in range(events.first_row[e], events.first_row[e + 1]):
                if rows.isr[r] >= 0 and not _all_seated(s, rows.leader[r], rows.isr[r]):
                    return False
    return True


@compiled
def _all_seated(s: State, p: int, isr: int) -> bool:
    for i in range(s.set_sizes[isr]):
        broker_id = s.sets[isr, i]
        if broker_id != s.used[0].node_id and _seat(s, p, broker_id) == NOWHERE:
            return False
    return True


@compiled
def _seat(s: State, p: int, broker_id: int) -> int:
    """A follower's seat, a new one if it has none; NOWHERE if all are taken."""
    for seat in range(s.followers.shape[1]):
        follower = s.followers[p, seat]
        if follower.broker_id == broker_id:
            return seat
        if follower.broker_id == NOWHERE:
            empty_seat(s, p, seat)
            follower.broker_id = broker_id
            follower.is_in_sync = is_in(s, s.leaders[p].isr, broker_id)
            asked = is_in(s, s.leaders[p].requested, broker_id)
            follower.is_member = follower.is_in_sync or asked
            return seat
    return NOWHERE
