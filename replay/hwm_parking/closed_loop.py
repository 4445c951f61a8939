"""Leader and replicas, started anew: which FETCHes would exist, when, and what they would learn.

One run is one leader epoch replayed under one rule: the leader's appends and the replicas' gaps
are given, every FETCH and every answer follows from the rule. Kernels, around a heap of events.
"""

from __future__ import annotations

from .compiled import kernel
from .evidence import record_bytes, service_us
from .lag import advanced, told
from .leader import append, expire, fetch, resign, take_answer
from .metadata_log import NOT_SENT, UNKNOWN_OFFSET
from .samples import nearest
from .state import NEVER, NONE, State

# Kinds of event. The number decides which of two at one time comes first; among those of a kind
# the smaller log end offset, token or replica id does. Both are one number, kind first.
_APPEND, _EXPIRE, _ARRIVE, _PROCESS = 0, 1 << 60, 2 << 60, 3 << 60
_KIND = 60
#: Added to replica ids there, which may be negative (-1: a reader that is no node).
_ID = 1 << 32


@kernel
def will_append(state: State, run: int, at: int, log_end_offset: int) -> None:
    """The leader will append up to an offset at a time (from the log)."""
    _push(state, run, at, _APPEND + log_end_offset, NONE)


@kernel
def advance(state: State, run: int, until: int) -> bool:
    """Run up to a time; False if there is no room for what may come of the next event."""
    for number in range(len(state.seen)):
        seen, replica = state.seen[number], state.replicas[run][number]
        if not replica.is_joined:
            if seen.is_seen and seen.first_dequeued_us <= until:
                _join(state, run, number)
        elif replica.waits_since_us != NEVER:
            _schedule(state, run, number, replica.waits_since_us)
    leader, events = state.leaders[run], state.events
    while leader.events > 0 and events.at[run][0] <= until:
        if is_crowded(state, run):
            return False
        at, what, number = events.at[run][0], events.what[run][0], events.replica[run][0]
        _pop(state, run)
        kind = what >> _KIND << _KIND
        if kind == _APPEND:
            before = leader.high_watermark
            append(state, run, what)
            _answer_all(state, run, at, before, True)
        elif kind == _ARRIVE:
            _arrive(state, run, number, at)
        elif kind == _PROCESS:
            _process(state, run, number, at)
        else:
            expire(state, run, number, what - _EXPIRE)
            if leader.due > 0:
                later = at + service_us(state, at)
                _answer_all(state, run, later, leader.high_watermark, True)
    return True


@kernel
def stop(state: State, run: int, at: int) -> None:
    """The leader stops leading: turn away who is parked and who waits for the Raft thread."""
    leader = state.leaders[run]
    resign(state, run)
    _answer_all(state, run, at, leader.high_watermark, False)
    leader.events = 0


@kernel
def is_crowded(state: State, run: int) -> bool:
    """There may be too little room for all that one event causes: an answer to each replica."""
    epoch, leader, replicas = state.epoch[0], state.leaders[run], len(state.seen)
    need = 2 * replicas + 2
    epoch.need = need + leader.waiting
    return (  # type: ignore[no-any-return]
        leader.events + need > len(state.events.at[run])
        or epoch.fetches + need > len(state.fetches[0])
        or epoch.lags + need + leader.waiting > len(state.lags[0])
        or 3 * (leader.widest + 1) > len(state.waiting[run][0])
    )


@kernel
def _join(state: State, run: int, number: int) -> None:
    seen, replica = state.seen[number], state.replicas[run][number]
    known = seen.first_high_watermark
    replica.is_joined = 1
    replica.fetch_offset = seen.first_fetch_offset
    replica.last_fetched_epoch = seen.first_last_fetched_epoch
    replica.high_watermark = UNKNOWN_OFFSET if known == NOT_SENT else known
    _push(state, run, seen.first_dequeued_us, _ARRIVE + _ID + seen.replica_id, number)


@kernel
def _arrive(state: State, run: int, number: int, at: int) -> None:
    """A FETCH is dequeued and waits for the Raft thread."""
    leader, replica = state.leaders[run], state.replicas[run][number]
    wait = leader.max_wait_us
    leader.tokens += 1
    replica.token = leader.tokens
    replica.asked_us = at
    replica.asked_offset = replica.fetch_offset
    replica.asked_epoch = replica.last_fetched_epoch
    replica.asked_high_watermark = replica.high_watermark if leader.hwm_aware else NOT_SENT
    replica.asked_max_wait_us = state.seen[number].first_max_wait_us if wait == NONE else wait
    replica.is_parked = 0
    processed = max(at, leader.free_us) + service_us(state, at)
    leader.free_us = processed
    _push(state, run, processed, _PROCESS + _ID + state.seen[number].replica_id, number)


@kernel
def _process(state: State, run: int, number: int, at: int) -> None:
    leader, replica = state.leaders[run], state.replicas[run][number]
    before, dequeued = leader.high_watermark, replica.asked_us
    expires = at + replica.asked_max_wait_us
    fetch(state, run, number)
    if replica.is_parked:
        _push(state, run, expires, _EXPIRE + replica.token, number)
    if leader.high_watermark != before:
        advanced(state, run, dequeued, before)
    _answer_all(state, run, at, leader.high_watermark, True)


@kernel
def _answer_all(state: State, run: int, at: int, high_watermark: int, goes_on: bool) -> None:
    """The Raft thread builds answers one after the other, the first at ``at``.

    If the high watermark is another than ``high_watermark``, it moved then.
    """
    leader, due = state.leaders[run], state.due[run]
    if leader.high_watermark != high_watermark:
        advanced(state, run, at, high_watermark)
    service = service_us(state, at) if leader.due > 1 else 0
    for position in range(leader.due):
        number = due[position]
        built = at + position * service
        replica = state.replicas[run][number]
        leader.free_us = max(leader.free_us, built)
        _write(state, run, number, built)
        replica.sequence += 1
        replica.token = 0
        told(state, run, number, built, replica.answer_high_watermark)
        take_answer(state, run, number)
        if goes_on:
            _schedule(state, run, number, built)


@kernel
def _schedule(state: State, run: int, number: int, built: int) -> None:
    """The next FETCH of a replica after an answer, if the log is known that far."""
    seen, absences, replica = state.seen[number], state.absences, state.replicas[run][number]
    gap = nearest(state.gaps, number, built)
    at = built if gap == NONE else built + state.gaps.value[number][gap]
    replica.waits_since_us = NEVER
    if seen.absences > 0:
        for place in range(state.epoch[0].absences):
            absence = absences[place]
            is_own = absence.replica == number
            if is_own and absence.since_us < at and built < absence.until_us:
                _return(state, run, number, place)
                later = max(at, absence.until_us)
                _push(state, run, later, _ARRIVE + _ID + seen.replica_id, number)
                return
    if at > seen.heard_until_us:
        replica.waits_since_us = built
    else:
        _push(state, run, at, _ARRIVE + _ID + seen.replica_id, number)


@kernel
def _return(state: State, run: int, number: int, absence: int) -> None:
    """Come back from an absence: a restart forgets the high watermark and maybe log."""
    absences, replica = state.absences, state.replicas[run][number]
    if absences[absence].is_restart:
        replica.high_watermark = UNKNOWN_OFFSET
        replica.fetch_offset = min(replica.fetch_offset, absences[absence].fetch_offset)
        replica.last_fetched_epoch = absences[absence].last_fetched_epoch


@kernel
def _write(state: State, run: int, number: int, built: int) -> None:
    """A FETCH and its answer, in the lines of ``FETCH_FIELDS``."""
    fetches, place, replica = state.fetches, state.epoch[0].fetches, state.replicas[run][number]
    envelope = nearest(state.envelopes, number, built)
    fetches[0][place] = run
    fetches[1][place] = number
    fetches[2][place] = replica.sequence
    fetches[3][place] = replica.asked_us
    fetches[4][place] = built
    fetches[5][place] = replica.asked_offset
    fetches[6][place] = replica.asked_high_watermark
    fetches[7][place] = replica.answer_high_watermark
    fetches[8][place] = replica.was_parked
    fetches[9][place] = replica.completion
    fetches[10][place] = record_bytes(state, replica.asked_offset, replica.answer_log_end_offset)
    fetches[11][place] = NONE if envelope == NONE else state.envelopes.value[number][envelope]
    fetches[12][place] = NONE if envelope == NONE else state.envelopes.other[number][envelope]
    state.epoch[0].fetches += 1


# --- the heap of events --------------------------------------------------------------------------


@kernel
def _push(state: State, run: int, at: int, what: int, number: int) -> None:
    leader = state.leaders[run]
    ats, whats, numbers = state.events.at[run], state.events.what[run], state.events.replica[run]
    place = leader.events
    leader.events += 1
    while place > 0:
        above = (place - 1) // 2
        if ats[above] < at or (ats[above] == at and whats[above] <= what):
            break
        ats[place], whats[place], numbers[place] = ats[above], whats[above], numbers[above]
        place = above
    ats[place], whats[place], numbers[place] = at, what, number


@kernel
def _pop(state: State, run: int) -> None:
    """Drop the first event: the last takes its place and sinks."""
    leader = state.leaders[run]
    ats, whats, numbers = state.events.at[run], state.events.what[run], state.events.replica[run]
    leader.events -= 1
    count = leader.events
    at, what, number = ats[count], whats[count], numbers[count]
    place = 0
    while 2 * place + 1 < count:
        below = 2 * place + 1
        if below + 1 < count and (
            ats[below + 1] < ats[below]
            or (ats[below + 1] == ats[below] and whats[below + 1] < whats[below])
        ):
            below += 1
        if at < ats[below] or (at == ats[below] and what <= whats[below]):
            break
        ats[place], whats[place], numbers[place] = ats[below], whats[below], numbers[below]
        place = below
    ats[place], whats[place], numbers[place] = at, what, number
