"""Searches in what is ordered by time or by offset: as-of joins, one at a time."""

from __future__ import annotations

from .compiled import kernel
from .state import NONE, Column, Samples, Timeline


@kernel
def bisect_left(values: Column, value: int, begin: int, end: int) -> int:
    """The first place from ``begin`` on that is not below a value."""
    while begin < end:
        middle = (begin + end) // 2
        if values[middle] < value:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def bisect_right(values: Column, value: int, begin: int, end: int) -> int:
    """The first place from ``begin`` on that is above a value."""
    while begin < end:
        middle = (begin + end) // 2
        if value < values[middle]:
            end = middle
        else:
            begin = middle + 1
    return begin


@kernel
def nearest(samples: Samples, owner: int, at: int) -> int:
    """The place of the sample nearest in time, the earlier of two as near; NONE without any."""
    times = samples.at[owner]
    begin = samples.begin[owner]
    end = samples.end[owner]
    if begin == end:
        return NONE
    after = bisect_left(times, at, begin, end)
    if after == end or (after > begin and at - times[after - 1] <= times[after] - at):
        after -= 1
    return after


@kernel
def add_sample(samples: Samples, owner: int, at: int, value: int, other: int) -> None:
    """Add a sample behind those of its time; times may come slightly out of order."""
    times = samples.at[owner]
    values = samples.value[owner]
    others = samples.other[owner]
    place = samples.end[owner]
    while place > samples.begin[owner] and times[place - 1] > at:
        times[place] = times[place - 1]
        values[place] = values[place - 1]
        others[place] = others[place - 1]
        place -= 1
    times[place] = at
    values[place] = value
    others[place] = other
    samples.end[owner] += 1


@kernel
def forget_samples(samples: Samples, owner: int, before: int) -> None:
    """Drop what lies before a time, all but the last."""
    times = samples.at[owner]
    begin = samples.begin[owner]
    end = samples.end[owner]
    begin = max(begin, bisect_left(times, before, begin, end) - 1)
    # Moved down only when half is unused: each sample is moved about once.
    if 2 * begin > end:
        values = samples.value[owner]
        others = samples.other[owner]
        for place in range(begin, end):
            times[place - begin] = times[place]
            values[place - begin] = values[place]
            others[place - begin] = others[place]
        end -= begin
        begin = 0
    samples.begin[owner] = begin
    samples.end[owner] = end


@kernel
def value_at(timeline: Timeline, count: int, at: int, default: int) -> int:
    """The value that holds at a time."""
    place = bisect_right(timeline.at, at, 0, count)
    return timeline.value[place - 1] if place > 0 else default


@kernel
def forget_values(timeline: Timeline, count: int, before: int) -> int:
    """Drop what was over before a time, all but the value that holds then; how many are left."""
    keep = max(0, bisect_left(timeline.at, before, 0, count) - 1)
    if keep > 0:
        for place in range(keep, count):
            timeline.at[place - keep] = timeline.at[place]
            timeline.value[place - keep] = timeline.value[place]
    return count - keep
