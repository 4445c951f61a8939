"""Joins advances of the high watermark with the first answer that tells each replica. Kernels."""

from __future__ import annotations

from .compiled import kernel
from .evidence import is_away
from .state import NEVER, TOLD_KEPT, State


@kernel
def advanced(state: State, run: int, at: int, previous: int) -> None:
    """The high watermark moved: from now on each replica that FETCHes here is to learn it.

    ``at`` is when the voter's FETCH was dequeued.
    """
    high_watermark = state.leaders[run].high_watermark
    for number in range(len(state.seen)):
        seen, replica = state.seen[number], state.replicas[run][number]
        if not seen.is_seen or seen.first_dequeued_us > at:
            continue
        known = 0
        while known < replica.told and replica.told_high_watermark[known] < high_watermark:
            known += 1
        if is_away(state, number, at):
            # It may be away for good, so nothing waits for its return.
            _write(state, run, number, at, previous, high_watermark, NEVER, 1)
        elif known < replica.told:
            learned = max(at, replica.told_us[known])
            _write(state, run, number, at, previous, high_watermark, learned, 0)
        else:
            _wait(state, run, number, at, previous, high_watermark)


@kernel
def told(state: State, run: int, number: int, built: int, high_watermark: int) -> None:
    """An answer told a replica a high watermark. Called in order of built_us per replica."""
    replica, waiting = state.replicas[run][number], state.waiting[run][number]
    count = replica.told
    if count > 0 and high_watermark <= replica.told_high_watermark[count - 1]:
        return
    if count == TOLD_KEPT:
        for place in range(1, TOLD_KEPT):
            replica.told_high_watermark[place - 1] = replica.told_high_watermark[place]
            replica.told_us[place - 1] = replica.told_us[place]
        count -= 1
    replica.told_high_watermark[count] = high_watermark
    replica.told_us[count] = built
    replica.told = count + 1
    begin = replica.waiting_begin
    while begin < replica.waiting_end and waiting[3 * begin + 2] <= high_watermark:
        at, previous = waiting[3 * begin], waiting[3 * begin + 1]
        # Stamps are cut to milliseconds: an answer can't really be built before the advance.
        learned = max(at, built)
        _write(state, run, number, at, previous, waiting[3 * begin + 2], learned, 0)
        begin += 1
    _waits_from(state, run, number, begin)


@kernel
def never_learned(state: State, run: int) -> None:
    """The leader stopped, or the log did: what is not learned by now never is."""
    for number in range(len(state.seen)):
        replica, waiting = state.replicas[run][number], state.waiting[run][number]
        for place in range(replica.waiting_begin, replica.waiting_end):
            at, previous, new = waiting[3 * place], waiting[3 * place + 1], waiting[3 * place + 2]
            _write(state, run, number, at, previous, new, NEVER, 0)
        _waits_from(state, run, number, replica.waiting_end)


@kernel
def _wait(state: State, run: int, number: int, at: int, previous: int, new: int) -> None:
    leader = state.leaders[run]
    replica, waiting = state.replicas[run][number], state.waiting[run][number]
    place = replica.waiting_end
    waiting[3 * place] = at
    waiting[3 * place + 1] = previous
    waiting[3 * place + 2] = new
    replica.waiting_end += 1
    leader.waiting += 1
    leader.widest = max(leader.widest, replica.waiting_end)


@kernel
def _waits_from(state: State, run: int, number: int, begin: int) -> None:
    """What stands before a place of the queue was learned; it moves down once half is."""
    replica, waiting = state.replicas[run][number], state.waiting[run][number]
    state.leaders[run].waiting -= begin - replica.waiting_begin
    end = replica.waiting_end
    if 2 * begin >= end:
        for place in range(3 * begin, 3 * end):
            waiting[place - 3 * begin] = waiting[place]
        end -= begin
        begin = 0
    replica.waiting_begin = begin
    replica.waiting_end = end


@kernel
def measure_widest(state: State, run: int) -> None:
    """The longest queue of any replica, after some grew shorter."""
    leader = state.leaders[run]
    leader.widest = 0
    for number in range(len(state.seen)):
        leader.widest = max(leader.widest, state.replicas[run][number].waiting_end)


@kernel
def _write(
    state: State, run: int, number: int, at: int, previous: int, new: int, learned: int, away: int
) -> None:
    lags, place = state.lags, state.epoch[0].lags
    lags[0][place] = run
    lags[1][place] = number
    lags[2][place] = at
    lags[3][place] = previous
    lags[4][place] = new
    lags[5][place] = learned
    lags[6][place] = away
    state.epoch[0].lags += 1
