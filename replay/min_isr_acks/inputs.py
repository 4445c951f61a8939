"""An increment of log as flat arrays: Arrow's columns, and positions instead of names.

``Events`` has an entry per event, ``Rows`` one per partition of an event. Integers that are null
are ``NULL``, flags are 1, 0 or NULL.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .events import Event, Kind, Partition
from .log import NULL, Array

#: Kinds by their order (``KIND_ORDER``).
TOPIC, CONFIG, HEARTBEAT, METADATA, ISR_ASKED = range(5)
ISR_ANSWERED, METADATA_FETCH, CONSUMER_FETCH, FETCH, PRODUCE = range(5, len(Kind))
#: Kinds of events that the replay takes one by one: they are few, and are about brokers.
SINGLE = (CONFIG, HEARTBEAT, METADATA_FETCH, TOPIC)

#: Partitions of events that are taken at once, if one event has no more.
_ROWS_AT_ONCE = 65_536


class Events(NamedTuple):
    """Columns of an increment. Event e has the rows from ``first_row[e]`` to ``first_row[e + 1]``.

    ``handled_us`` is ``at_us`` where the log does not have it.
    """

    at_us: Array
    kind: Array
    dequeued_us: Array
    handled_us: Array
    built_us: Array
    replica_id: Array
    replica_epoch: Array
    session_id: Array
    acks: Array
    min_bytes: Array
    is_full: Array
    is_transactional: Array
    first_row: Array


class Rows(NamedTuple):
    """Partitions of the events: ``partition`` is a position among the node's."""

    event: Array
    partition: Array
    record_bytes: Array
    base_offset: Array
    error_code: Array
    fetch_offset: Array
    leader_epoch: Array
    leader_id: Array
    is_refused: Array
    is_forgotten: Array


def longs(column: pa.Array) -> Array:
    """A column of integers or flags, nulls as ``NULL``."""
    whole = column if column.type == pa.int64() else column.cast(pa.int64())
    if whole.null_count:
        whole = pc.fill_null(whole, NULL)
    array: Array = whole.to_numpy(zero_copy_only=False)
    return array


def events_of(batch: pa.RecordBatch) -> Events:
    first_row = np.zeros(batch.num_rows + 1, np.int64)
    lengths = longs(pc.list_value_length(batch.column("partitions")))
    np.cumsum(np.maximum(lengths, 0), out=first_row[1:])
    given = {"kind": longs(batch.column("kind_order")), "first_row": first_row}
    at_us, handled_us = longs(batch.column("at_us")), longs(batch.column("handled_us"))
    given["handled_us"] = np.where((handled_us == NULL) | (handled_us == 0), at_us, handled_us)
    return Events(
        *(given[name] if name in given else longs(batch.column(name)) for name in Events._fields)
    )


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of an increment: what a slice takes is a multiple of its partitions."""
    lengths = longs(pc.list_value_length(batch.column("partitions")))
    part = np.cumsum(np.maximum(lengths, 1)) // _ROWS_AT_ONCE
    begins = np.flatnonzero(np.append(True, part[1:] != part[:-1])[: len(part)])
    for begin, end in zip(begins, [*begins[1:], len(part)], strict=True):
        yield batch.slice(begin, end - begin)


def partitions_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    flat = batch.column("partitions").flatten()
    return dict(zip(Partition._fields, flat.flatten(), strict=True))


def rows_of(columns: dict[str, pa.Array], partition: Array, first_row: Array) -> Rows:
    event = np.repeat(np.arange(len(first_row) - 1), np.diff(first_row))
    return Rows(event, partition, *(longs(columns[name]) for name in Rows._fields[2:]))


def single_events(batch: pa.RecordBatch) -> list[tuple[int, Event]]:
    """The events that are taken one by one, each with its place in the batch."""
    places = np.flatnonzero(np.isin(longs(batch.column("kind_order")), SINGLE))
    few = batch.select(Event._fields[:-1]).take(pa.array(places))
    events = (Event(*row) for row in zip(*(one.to_pylist() for one in few.columns), strict=True))
    return list(zip(places.tolist(), events, strict=True))


def check_order(batch: pa.RecordBatch, events: Events, front: Event) -> Event:
    """The last event, names of topics left out: they are true at all times.

    Raises ``ValueError`` if events do not follow ``front`` and one another in order of (at_us,
    kind_order, request_id).
    """
    places = np.flatnonzero(events.kind != TOPIC)
    if not len(places):
        return front
    at, kind = events.at_us[places], events.kind[places]
    ids = batch.column("request_id")

    def event(i: int) -> Event:
        return Event(int(at[i]), int(kind[i]), ids[int(places[i])].as_py(), "")

    falls = (at[:-1] > at[1:]) | ((at[:-1] == at[1:]) & (kind[:-1] > kind[1:]))
    ties = np.flatnonzero((at[:-1] == at[1:]) & (kind[:-1] == kind[1:]))
    earlier, later = ids.take(pa.array(places[ties])), ids.take(pa.array(places[ties + 1]))
    is_mixed = pc.any(pc.greater(earlier, later)).as_py()
    if event(0)[:3] < front[:3] or falls.any() or is_mixed:
        raise ValueError("events must come in order of at_us, kind_order, request_id")
    return event(-1)
