"""When an offset that only rises first passed which value: the high watermark, the copied offset.

A level is a stretch of ``State.passings``, offsets ascending; each passing has when, and who stood
where. A batch is looked up afterwards, when its base offset is known, or its bounds.
"""

from __future__ import annotations

from kip_replay.replay.min_isr_acks.compiled import compiled
from kip_replay.replay.min_isr_acks.state import NOWHERE, NULL, Span, State

#: Passings that a level remembers below the oldest batch that may be looked up.
PASSINGS_KEPT = 1
#: The two levels of a value of min.insync.replicas.
COMMITTED, COPIED = 0, 1


@compiled
def level_of(s: State, level_set: int, variant: int, which: int) -> int:
    """Position of a level's head."""
    return int((level_set * s.min_isrs.shape[1] + variant) * 2 + which)


@compiled
def rises(s: State, level: int, offset: int) -> bool:
    """Whether ``offset`` is above where a level is."""
    head = s.heads[level]
    return bool(head.length == 0 or offset > s.passings[head.start + head.length - 1].offset)


@compiled
def responded_at(s: State, passing: int) -> Span:
    """When producers who waited for a passing are responded to."""
    one = s.passings[passing]
    if one.late_at_us == NULL:
        return Span(one.at_us, one.earliest_us, one.latest_us)
    return Span(one.late_at_us, one.late_earliest_us, one.late_latest_us)


@compiled
def complete(s: State, level: int, at_us: int, latest_us: int) -> None:
    """A handler completes all who wait for what was passed, also for another that is not done."""
    head = s.heads[level]
    for i in range(head.start + head.length - 1, head.start - 1, -1):
        before = s.passings[i]
        if before.late_at_us == NULL or before.late_at_us <= at_us:
            return
        before.late_at_us = at_us
        before.late_latest_us = min(before.late_latest_us, latest_us)


@compiled
def rise(s: State, level: int, leader: int, offset: int, span: Span, late: Span) -> None:
    """A level is at ``offset`` now, which is above where it was.

    ``late``: when producers are responded to, if consumers are first; its time is NULL if not.
    """
    if late.at_us == NULL:
        complete(s, level, span.at_us, span.latest_us)
    else:
        complete(s, level, late.at_us, late.latest_us)
    head = s.heads[level]
    if head.length == head.capacity:
        _move(s, level)
    position = head.start + head.length
    head.length += 1
    one = s.passings[position]
    one.offset = offset
    one.at_us, one.earliest_us, one.latest_us = span.at_us, span.earliest_us, span.latest_us
    one.late_at_us, one.late_earliest_us = late.at_us, late.earliest_us
    one.late_latest_us = late.latest_us
    for seat in range(s.followers.shape[1]):
        s.stands[position, seat] = s.followers[leader, seat].offset


@compiled
def _move(s: State, level: int) -> None:
    """A level's passings, and who stood where, go to the end of the array."""
    head, used = s.heads[level], s.used[0]
    capacity = max(4, 2 * head.capacity)
    for i in range(head.length):
        s.passings[used.passings + i] = s.passings[head.start + i]
        for seat in range(s.stands.shape[1]):
            s.stands[used.passings + i, seat] = s.stands[head.start + i, seat]
    head.start, head.capacity = used.passings, capacity
    used.passings += capacity


@compiled
def first_above(s: State, level: int, offset: int) -> int:
    """Position of a level's first passing of more than an offset; the end if there is none."""
    head = s.heads[level]
    low, high = head.start, head.start + head.length
    while low < high:
        middle = (low + high) // 2
        if s.passings[middle].offset > offset:
            high = middle
        else:
            low = middle + 1
    return int(low)


@compiled
def passed(s: State, level: int, base_offset: int) -> int:
    """The passing by which a level first was above a base offset, NOWHERE if it is not yet."""
    head = s.heads[level]
    position = first_above(s, level, base_offset)
    return position if position < head.start + head.length else NOWHERE


@compiled
def completed(s: State, level: int, base_offset: int, front_us: int) -> bool:
    """Whether it passed a base offset, and no FETCH still to come can complete it sooner."""
    passing = passed(s, level, base_offset)
    return passing != NOWHERE and responded_at(s, passing).at_us <= front_us


@compiled
def forget(s: State, level: int, below: int) -> None:
    """No base offset below ``below`` is looked up any more."""
    head = s.heads[level]
    gone = first_above(s, level, below) - head.start - PASSINGS_KEPT
    if gone > 0:
        head.start += gone
        head.length -= gone
        head.capacity -= gone
