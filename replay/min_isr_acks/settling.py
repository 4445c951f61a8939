"""Requests that nothing still to come can change: when, and the rows that are written of them."""

from __future__ import annotations

from typing import NamedTuple

from kip_replay.replay.min_isr_acks.compiled import compiled
from kip_replay.replay.min_isr_acks.levels import COMMITTED, COPIED, completed, level_of, passed
from kip_replay.replay.min_isr_acks.ordering import most_of
from kip_replay.replay.min_isr_acks.partition_log import close, forget_closed
from kip_replay.replay.min_isr_acks.reasons import NONE
from kip_replay.replay.min_isr_acks.responses import (
    Response,
    acks_all,
    acks_min_isr,
    certain,
    is_refused,
    refused,
    visible_us,
)
from kip_replay.replay.min_isr_acks.state import NOWHERE, NULL, UNKNOWN_MIN_ISR, Array, Span, State

#: A batch is left alone this long: lines a few milliseconds apart may be out of order.
SETTLE_US = 5_000_000
#: How long after its timeout a batch may still be followed, for its exposure and last offset.
FOLLOWED_US_MAX = 60_000_000


class Written(NamedTuple):
    """Columns of outcomes, each in its own array; an entry per variant and batch.

    ``request`` and ``leader`` are positions, ``variant`` a number; the others are integers or
    NULL. ``every_...`` is acks=all, ``few_...`` acks=-2; ``request_...`` is
    their slowest partition.
    """

    request: Array
    leader: Array
    variant: Array
    acks: Array
    is_transactional: Array
    is_idempotent: Array
    received_us: Array
    built_us: Array
    partitions: Array
    record_bytes: Array
    error_code: Array
    base_offset: Array
    last_offset: Array
    appended_us: Array
    min_isr: Array
    isr: Array
    all_us: Array
    all_error: Array
    all_passed_us: Array
    min_isr_us: Array
    min_isr_error: Array
    min_isr_passed_us: Array
    visible_us: Array
    replicas: Array
    reason: Array
    request_all_us: Array
    request_all_earliest_us: Array
    request_all_latest_us: Array
    request_min_isr_us: Array
    request_min_isr_earliest_us: Array
    request_min_isr_latest_us: Array


@compiled
def settle(s: State, doubts: Array, out: Written, front_us: int, over: bool) -> None:
    """Write the requests that nothing still to come can change; all of them if it is over."""
    used = s.used[0]
    settled, last_settled = NOWHERE, NOWHERE
    i, before = used.first_request, NOWHERE
    while i != NOWHERE:
        following = s.requests[i].next
        if over or _is_settled(s, i, front_us):
            _write(s, i, doubts, out, front_us)
            _unchain(s, i, before)
            if settled == NOWHERE:
                settled = i
            else:
                s.requests[last_settled].next = i
            last_settled = i
        else:
            before = i
        i = following
    _close(s, settled)


@compiled
def _unchain(s: State, i: int, before: int) -> None:
    used, request = s.used[0], s.requests[i]
    if before == NOWHERE:
        used.first_request = request.next
    else:
        s.requests[before].next = request.next
    if used.last_request == i:
        used.last_request = before
    request.next, request.is_waiting = NOWHERE, False


@compiled
def _close(s: State, settled: int) -> None:
    """Close the batches of a chain of requests, then forget what only they needed."""
    i = settled
    while i != NOWHERE:
        request = s.requests[i]
        for b in range(request.first_batch, request.first_batch + request.batches):
            close(s, b)
        i = request.next
    i = settled
    while i != NOWHERE:
        request = s.requests[i]
        for b in range(request.first_batch, request.first_batch + request.batches):
            if s.leaders[s.batches[b].leader].is_touched:
                forget_closed(s, s.batches[b].leader)
        i = request.next


@compiled
def _is_settled(s: State, i: int, front_us: int) -> bool:
    request = s.requests[i]
    since_us = front_us - request.handled_us
    if since_us < SETTLE_US:
        return False
    if since_us > request.timeout_us + FOLLOWED_US_MAX:
        return True
    # What is decided stays so: the next look goes on where this one ended.
    while request.decided < request.batches:
        if not _is_decided(s, request.first_batch + request.decided, front_us):
            return False
        request.decided += 1
    return True


@compiled
def _is_decided(s: State, b: int, front_us: int) -> bool:
    batch = s.batches[b]
    if batch.lost_us != NULL or batch.isr < 0:
        return True
    if batch.base_offset != NULL and batch.base_offset < 0:
        return True
    known = batch.ceiling if batch.base_offset == NULL else batch.next_base_offset
    if known == NULL:
        return False
    last = known if batch.base_offset == NULL else batch.floor
    for variant in range(s.min_isrs.shape[1]):
        k = s.batch_min_isrs[b, variant]
        if k == UNKNOWN_MIN_ISR or s.set_sizes[batch.isr] < k:
            continue
        if not completed(s, level_of(s, batch.level_set, variant, COMMITTED), last, front_us):
            return False
        if passed(s, level_of(s, batch.level_set, variant, COPIED), last) == NOWHERE:
            return False
    return True


@compiled
def _write(s: State, i: int, doubts: Array, out: Written, front_us: int) -> None:
    """The rows of a request: for each variant, one of each of its batches."""
    request, used = s.requests[i], s.used[0]
    for variant in range(s.min_isrs.shape[1]):
        first = used.rows
        all_, min_isr = _none_yet(), _none_yet()
        for b in range(request.first_batch, request.first_batch + request.batches):
            if is_refused(s, b, variant):
                one = refused(s, b, variant)
                other = one
            else:
                since_us = s.batches[b].appended_us
                one = acks_all(s, b, variant, request.timeout_us)
                one = certain(one, since_us, doubts, front_us)
                other = acks_min_isr(s, b, variant, request.timeout_us)
                other = certain(other, since_us, doubts, front_us)
            all_, min_isr = _slower(all_, one), _slower(min_isr, other)
            row = used.rows
            used.rows += 1
            out.request[row], out.variant[row] = i, variant
            _write_batch(s, b, variant, out, row)
            _write_responses(s, b, variant, out, row, one, other)
        for row in range(first, used.rows):
            _write_request(s, i, out, row, all_, min_isr)


@compiled
def _none_yet() -> Span:
    return Span(0, 0, 0)


@compiled
def _slower(slowest: Span, response: Response) -> Span:
    """When a request would be completed: with its last partition; NULL if one is unknown."""
    if slowest.at_us == NULL or response.at_us == NULL:
        return Span(NULL, NULL, NULL)
    return Span(
        max(slowest.at_us, response.at_us),
        max(slowest.earliest_us, response.earliest_us),
        max(slowest.latest_us, response.latest_us),
    )


@compiled
def _write_batch(s: State, b: int, variant: int, out: Written, row: int) -> None:
    batch = s.batches[b]
    base = batch.base_offset
    was_appended = base == NULL or base >= 0
    if base == NULL and batch.ceiling == batch.floor:
        base = batch.floor
    following = batch.next_base_offset
    # Transaction markers and acks=0 lie between batches without a trace of their own.
    is_certain = not s.leaders[batch.leader].has_markers and not batch.is_followed_blind
    out.leader[row] = batch.leader
    out.record_bytes[row], out.error_code[row] = batch.record_bytes, batch.error_code
    out.base_offset[row] = NULL if base < 0 else base
    out.last_offset[row] = following - 1 if following != NULL and is_certain else NULL
    out.appended_us[row] = batch.appended_us if was_appended else NULL
    min_isr = s.batch_min_isrs[b, variant]
    out.min_isr[row] = NULL if min_isr == UNKNOWN_MIN_ISR else min_isr
    out.isr[row] = batch.isr


@compiled
def _write_responses(
    s: State, b: int, variant: int, out: Written, row: int, all_: Response, min_isr: Response
) -> None:
    out.all_us[row], out.all_error[row] = all_.at_us, all_.error
    out.all_passed_us[row] = all_.passed_us
    out.min_isr_us[row], out.min_isr_error[row] = min_isr.at_us, min_isr.error
    out.min_isr_passed_us[row] = min_isr.passed_us
    out.visible_us[row] = visible_us(s, b, variant)
    out.reason[row] = all_.reason if all_.reason else min_isr.reason
    replicas = NULL
    if min_isr.error == NONE and min_isr.passing != NOWHERE:
        replicas = 1
        if min_isr.passing >= 0:
            most = most_of(s, b)
            for seat in range(s.stands.shape[1]):
                replicas += s.stands[min_isr.passing, seat] > most
    out.replicas[row] = replicas


@compiled
def _write_request(s: State, i: int, out: Written, row: int, all_: Span, min_isr: Span) -> None:
    request = s.requests[i]
    out.acks[row], out.partitions[row] = request.acks, request.batches
    out.is_transactional[row] = request.is_transactional
    out.is_idempotent[row] = request.is_idempotent
    out.received_us[row], out.built_us[row] = request.received_us, request.built_us
    out.request_all_us[row] = all_.at_us
    out.request_all_earliest_us[row] = all_.earliest_us
    out.request_all_latest_us[row] = all_.latest_us
    out.request_min_isr_us[row] = min_isr.at_us
    out.request_min_isr_earliest_us[row] = min_isr.earliest_us
    out.request_min_isr_latest_us[row] = min_isr.latest_us
