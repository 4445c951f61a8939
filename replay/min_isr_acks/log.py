"""A leader's log as one table: a row per partition of an event, by partition and then in order.

What a machine would keep in variables stands in columns: what is known at a row is the last row
that had it (``last_of``), how far an offset has risen is a running maximum within the term.
Times are microseconds, ``NULL`` is an integer that is not known.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

#: An array of integers or flags.
Array: TypeAlias = np.ndarray[Any, Any]
#: An integer that is not known.
NULL = int(np.iinfo(np.int64).min)
#: No position, no offset yet.
NOWHERE = -1
#: A segment's number and an offset, or microseconds of half a year, share an integer.
_BITS = 44
#: Kinds of rows besides those of ``events.Kind``: an event that is about all partitions, and a
#: follower's last FETCH of those that are folded.
ALL, FOLDED = 100, 101


def no_longs() -> Array:
    return np.empty(0, np.int64)


class Log(NamedTuple):
    """Columns of the table. ``order`` is the number of the event.

    ``late_us`` is when producers are responded to if the row moves the high watermark and consumers
    come first, else NULL. ``caught_up_us`` is a folded FETCH's. ``condition`` is a position in what
    is known of leaderships, ``log_end`` the least that the log end offset can be after the row.
    ``loss``: this node does not lead any more (``leadership``). ``request`` is a position among
    the open PRODUCEs.
    """

    partition: Array
    order: Array
    kind: Array
    at_us: Array
    earliest_us: Array
    latest_us: Array
    late_us: Array
    seat: Array
    offset: Array
    epoch: Array
    session: Array
    caught_up_us: Array
    condition: Array
    log_end: Array
    loss: Array
    request: Array
    base_offset: Array
    record_bytes: Array
    error_code: Array

    def at(self, places: Array) -> "Log":
        return Log(*(column[places] for column in self))


def by_partition(*logs: Log) -> Log:
    """The rows of logs that are by partition, the earlier log first."""
    some = [one for one in logs if len(one.order)]
    if len(some) == 1:
        return some[0]
    columns = [np.concatenate(parts) for parts in zip(*logs, strict=True)]
    return Log(*columns).at(np.argsort(columns[0], kind="stable"))


def segments(*columns: Array) -> tuple[Array, Array]:
    """Numbers of the stretches in which columns do not change, and where each row's begins."""
    begins = np.zeros(len(columns[0]), bool)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    places = np.arange(len(begins))
    return np.cumsum(begins) - 1, np.maximum.accumulate(np.where(begins, places, 0))


def keyed(segment: Array, values: Array | int) -> Array:
    """Integers that order by segment, then by value (from -1 on)."""
    keys: Array = (segment << _BITS) + (values + 1)
    return keys


def running_max(segment: Array, values: Array) -> Array:
    """The largest value so far within each segment."""
    largest: Array = np.maximum.accumulate(keyed(segment, values)) - keyed(segment, 0)
    return largest


def last_of(is_one: Array) -> Array:
    """Position of the last row so far for which something holds, NOWHERE before the first."""
    positions: Array = np.maximum.accumulate(np.where(is_one, np.arange(len(is_one)), NOWHERE))
    return positions
