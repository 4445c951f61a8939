"""At which pace a log is replayed: rows are taken, and every step of the log's time all follows.

``replay`` is what is called from outside, with rows and the steps between them. It runs a fixed
span behind the log (``lookahead_us``): by then nothing still to come can change it. Where it lacks
room it says so, and goes on from there when called again. Kernels.
"""

from __future__ import annotations

from typing import NamedTuple

from .closed_loop import advance, is_crowded, stop, will_append
from .compiled import kernel
from .completion import ERROR, UNEXPLAINED
from .evidence import close_evidence, forget_evidence, learn, learn_from_refusal, take_appends
from .explain import explain
from .lag import advanced, measure_widest, never_learned, told
from .leader import append, voter_progress
from .records import (
    BECAUSE_NOT_IN_LOG,
    BECAUSE_NOT_LEADER,
    MISSING,
    REFUSED,
    TOLD,
    Rows,
)
from .state import NEVER, NONE, PIECES_KEPT, Column, State

#: What ``replay`` returns: all is done, it lacks room, or the epoch is over.
DONE, LACKS_ROOM, IS_OVER = range(3)

# Phases of a step; from _LOOPS on a run each.
_FOLLOW, _EXPLAIN, _LOOPS = 0, 1, 2


class Steps(NamedTuple):
    """Moments to move on at: before a row, with the log known up to ``front_us``."""

    row: Column
    front_us: Column


@kernel
def replay(state: State, rows: Rows, steps: Steps) -> int:
    """Take rows and step on between them; an epoch that ``is_closing`` is replayed to its end."""
    if state.epoch[0].is_closing:
        return _close(state, rows)
    return _take_all(state, rows, steps)


@kernel
def _take_all(state: State, rows: Rows, steps: Steps) -> int:
    """Take rows, and replay at every step what nothing still to come can change."""
    epoch = state.epoch[0]
    while True:
        within = epoch.steps < len(steps.row)
        until = steps.row[epoch.steps] if within else len(rows.of)
        while epoch.taken < until:
            if not _has_room(state, rows, epoch.taken):
                return LACKS_ROOM
            _take(state, rows, epoch.taken)
            epoch.taken += 1
        if not within:
            return DONE
        front = steps.front_us[epoch.steps]
        if epoch.resigned_us != NEVER and front - epoch.resigned_us > epoch.lookahead_us:
            return IS_OVER
        if not _step(state, rows, front):
            return LACKS_ROOM
        epoch.phase = _FOLLOW
        epoch.steps += 1


@kernel
def _close(state: State, rows: Rows) -> int:
    """The epoch is over, or the log is: replay to the end."""
    epoch, last = state.epoch[0], state.epoch[0].last_us
    if epoch.phase == _FOLLOW:
        if epoch.seen > 0:
            if not _has_room(state, rows, NONE) or not _can_follow(state, rows, last):
                return LACKS_ROOM
            close_evidence(state)
            _follow_leader(state, rows, last)
        epoch.phase = _EXPLAIN
    if epoch.phase == _EXPLAIN:
        if not _explain_until(state, rows, -NEVER):
            return LACKS_ROOM
        never_learned(state, 0)
        epoch.phase = _LOOPS
    while epoch.seen > 0 and epoch.phase < _LOOPS + len(state.leaders) - 1:
        run = epoch.phase - _LOOPS + 1
        has_resigned = epoch.resigned_us != NEVER
        if not advance(state, run, epoch.resigned_us if has_resigned else last):
            return LACKS_ROOM
        if is_crowded(state, run):
            return LACKS_ROOM
        if has_resigned:
            stop(state, run, epoch.resigned_us)
        never_learned(state, run)
        epoch.phase += 1
    return DONE


@kernel
def _step(state: State, rows: Rows, front: int) -> bool:
    """The log is known up to ``front``: replay what nothing still to come can change."""
    epoch = state.epoch[0]
    until = front - epoch.lookahead_us
    if epoch.phase == _FOLLOW:
        follows = front - epoch.lookahead_us // 2
        if not _can_follow(state, rows, follows):
            return False
        _follow_leader(state, rows, follows)
        epoch.phase = _EXPLAIN
    if epoch.phase == _EXPLAIN:
        if not _explain_until(state, rows, until):
            return False
        epoch.phase = _LOOPS
    while epoch.is_followed and epoch.phase < _LOOPS + len(state.leaders) - 1:
        if not advance(state, epoch.phase - _LOOPS + 1, until):
            return False
        epoch.phase += 1
    forget_evidence(state, until - epoch.lookahead_us)
    for run in range(len(state.leaders)):
        measure_widest(state, run)
    return True


@kernel
def _take(state: State, rows: Rows, row: int) -> None:
    """Take a recorded FETCH; what the log does not tell of it, or tells at once, is decided."""
    epoch, kind = state.epoch[0], rows.of[row].kind
    if kind == MISSING:
        _decide(rows, row, UNEXPLAINED, BECAUSE_NOT_IN_LOG)
        return
    if kind == REFUSED and not learn_from_refusal(state, rows, row):
        _decide(rows, row, ERROR, BECAUSE_NOT_LEADER)
        return
    epoch.last_us = max(epoch.last_us, rows.of[row].built_us)
    if kind == TOLD:
        learn(state, rows, row)
        epoch.first_dequeued_us = min(epoch.first_dequeued_us, rows.of[row].dequeued_us)


@kernel
def _decide(rows: Rows, row: int, completion: int, reason: int) -> None:
    rows.of[row].completion = completion
    rows.of[row].is_parked = 0
    rows.of[row].reason = reason
    rows.of[row].is_decided = 1


# --- the recorded leader -------------------------------------------------------------------------


@kernel
def _follow_leader(state: State, rows: Rows, until: int) -> None:
    """Bring the leader's log end offset and high watermark up to a time."""
    epoch = state.epoch[0]
    if not epoch.is_followed:
        if epoch.first_dequeued_us > until:
            return
        _begin(state)
    begin, taken = epoch.log_end_offsets, take_appends(state, until)
    for place in range(begin, begin + taken):
        at, end = state.log_end_offset.at[place], state.log_end_offset.value[place]
        before = state.leaders[0].high_watermark
        append(state, 0, end)
        _followed(state, at, before)
        for run in range(1, len(state.leaders)):
            will_append(state, run, at, end)
    place = epoch.followed
    while place < len(rows.voters_rows):
        row = rows.voters_rows[place]
        if rows.of[row].dequeued_us > until:
            break
        # A row that is parked for long may not be taken yet: it follows later.
        if not rows.of[row].is_followed and row < epoch.taken:
            rows.of[row].is_followed = 1
            before = state.leaders[0].high_watermark
            voter_progress(state, 0, rows.of[row].replica, rows.of[row].fetch_offset)
            _followed(state, rows.of[row].dequeued_us, before)
        if place == epoch.followed and rows.of[row].is_followed:
            epoch.followed += 1
        place += 1


@kernel
def _begin(state: State) -> None:
    """Where all leaders of the epoch begin, the recorded one and those of the closed loops."""
    epoch, first = state.epoch[0], -NEVER
    epoch.is_followed = 1
    for number in range(len(state.seen)):
        if state.seen[number].is_seen:
            first = min(first, state.seen[number].first_fetch_offset)
    for run in range(len(state.leaders)):
        leader = state.leaders[run]
        leader.epoch_start_offset = epoch.epoch_start_offset
        leader.log_end_offset = max(epoch.epoch_start_offset, first)
        leader.high_watermark = NONE


@kernel
def _followed(state: State, at: int, before: int) -> None:
    """Note whether a step of the recorded leader moved its high watermark."""
    epoch, after = state.epoch[0], state.leaders[0].high_watermark
    if after != before:
        state.high_watermark.at[epoch.high_watermarks] = at
        state.high_watermark.value[epoch.high_watermarks] = after
        epoch.high_watermarks += 1
        advanced(state, 0, at, before)


@kernel
def _explain_until(state: State, rows: Rows, until: int) -> bool:
    """Explain recorded answers up to a time; False if there is no room for what they tell."""
    epoch = state.epoch[0]
    while epoch.explained < epoch.taken and rows.of[epoch.explained].built_us <= until:
        if is_crowded(state, 0):
            return False
        row = epoch.explained
        if rows.of[row].kind == TOLD:
            high_watermark = rows.of[row].response_high_watermark
            told(state, 0, rows.of[row].replica, rows.of[row].built_us, high_watermark)
            explain(state, rows, row)
        elif not rows.of[row].is_decided:
            rows.of[row].completion = ERROR
            rows.of[row].is_parked = 1 if rows.of[row].kind == REFUSED else 0
        epoch.explained += 1
    return not is_crowded(state, 0)


# --- room ----------------------------------------------------------------------------------------


@kernel
def _has_room(state: State, rows: Rows, row: int) -> bool:
    """There is room for what a row tells (NONE: for what the end of the log does)."""
    epoch = state.epoch[0]
    need = PIECES_KEPT + 4 if row != NONE else 3 * len(state.seen) + PIECES_KEPT
    epoch.need = need + epoch.wakes
    number = NONE if row == NONE else rows.of[row].replica
    if number != NONE:
        gaps, envelopes = state.gaps, state.envelopes
        if gaps.end[number] == len(gaps.at[number]):
            return False
        if envelopes.end[number] == len(envelopes.at[number]):
            return False
    return (  # type: ignore[no-any-return]
        epoch.marks + need <= len(state.marks.offset)
        and epoch.reached + need <= len(state.reached.end)
        and epoch.wakes < len(state.wakes.offset)
        and epoch.absences < len(state.absences)
        and epoch.epoch_ends < len(state.epoch_ends.epoch)
        and state.service.end[0] + epoch.wakes < len(state.service.at[0])
    )


@kernel
def _can_follow(state: State, rows: Rows, until: int) -> bool:
    """There is room for all appends and moves of the high watermark that are known by a time."""
    epoch = state.epoch[0]
    following = epoch.followed
    while following < len(rows.voters_rows):
        if rows.of[rows.voters_rows[following]].dequeued_us > until:
            break
        following += 1
    moves = epoch.reached + following - epoch.followed + len(state.seen)
    waiting, events = 0, 0
    for run in range(len(state.leaders)):
        events = max(events, state.leaders[run].events)
        waiting = max(waiting, state.leaders[run].widest)
    epoch.need = moves * (len(state.seen) + 1)
    return (  # type: ignore[no-any-return]
        epoch.log_end_offsets + moves <= len(state.log_end_offset.at)
        and epoch.high_watermarks + moves <= len(state.high_watermark.at)
        and epoch.lags + epoch.need <= len(state.lags[0])
        and events + moves <= len(state.events.at[0])
        and 3 * (waiting + moves) <= len(state.waiting[0][0])
    )
