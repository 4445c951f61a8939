"""An increment of log as flat arrays: Arrow's columns, and positions instead of names.

``Events`` has an entry per event, ``Rows`` one per partition of an event. Integers that are null
are ``NULL``, flags are 1, 0 or NULL. Names of topics, sets of brokers, sessions and brokers become
positions: ``Interned`` gives each a number when it first comes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.min_isr_acks.events import KIND_ORDER, Event, Kind, Partition
from kip_replay.replay.min_isr_acks.state import NOWHERE, NULL, Array

TOPIC, CONSUMER_FETCH = KIND_ORDER[Kind.TOPIC], KIND_ORDER[Kind.CONSUMER_FETCH]
FETCH, PRODUCE = KIND_ORDER[Kind.FETCH], KIND_ORDER[Kind.PRODUCE]
METADATA, ISR_ASKED = KIND_ORDER[Kind.METADATA], KIND_ORDER[Kind.ISR_ASKED]
ISR_ANSWERED = KIND_ORDER[Kind.ISR_ANSWERED]
#: Kinds of events that the replay takes one by one: they are few, and are about brokers.
SINGLE = tuple(
    KIND_ORDER[kind] for kind in (Kind.CONFIG, Kind.HEARTBEAT, Kind.METADATA_FETCH, Kind.TOPIC)
)
#: Kinds that carry a partition's ISR.
FACTS = (METADATA, ISR_ASKED, ISR_ANSWERED)


class Events(NamedTuple):
    """Columns of an increment.

    ``party``: of a follower's FETCH the position of its session in ``last_fetch_us``, of a
    consumer's that of its fetcher. Event e has the rows from ``first_row[e]`` to
    ``first_row[e + 1]``.
    """

    at_us: Array
    kind: Array
    received_us: Array
    dequeued_us: Array
    handled_us: Array
    built_us: Array
    timeout_us: Array
    replica_id: Array
    replica_epoch: Array
    session_id: Array
    acks: Array
    min_bytes: Array
    is_full: Array
    is_transactional: Array
    is_idempotent: Array
    party: Array
    first_row: Array


class Rows(NamedTuple):
    """Partitions of the events: ``leader`` is a position in ``leaders``, ``seat`` a follower's.

    ``isr`` is a position in ``sets``, ``replicas`` a number (0: not known).
    """

    leader: Array
    seat: Array
    record_bytes: Array
    base_offset: Array
    error_code: Array
    fetch_offset: Array
    leader_epoch: Array
    leader_id: Array
    is_refused: Array
    is_forgotten: Array
    isr: Array
    replicas: Array


class Interned:
    """Values and their positions, in the order in which they came."""

    def __init__(self, values: Iterable[Hashable] = ()) -> None:
        self.values: list[Any] = list(values)
        self._positions = {value: at for at, value in enumerate(self.values)}

    def __len__(self) -> int:
        return len(self.values)

    def of(self, value: Hashable) -> int:
        """A value's position, a new one if it is new."""
        position = self._positions.setdefault(value, len(self.values))
        if position == len(self.values):
            self.values.append(value)
        return position


def longs(column: pa.Array) -> Array:
    """A column of integers or flags, nulls as ``NULL``."""
    whole = column.cast(pa.int64())
    if whole.null_count:
        whole = pc.fill_null(whole, NULL)
    array: Array = whole.to_numpy(zero_copy_only=False)
    # As Arrow's memory is: compiled functions want the same type every time.
    array.flags.writeable = False
    return array


def columns_of(batch: pa.RecordBatch, lengths: Array) -> Events:
    """Columns of the events but ``party``, which is for the replay to fill."""
    n = batch.num_rows
    first_row = np.zeros(n + 1, np.int64)
    np.cumsum(lengths, out=first_row[1:])
    given = {"kind": longs(batch.column("kind_order")), "first_row": first_row}
    given["party"] = np.full(n, NOWHERE, np.int64)
    return Events(
        *(given[name] if name in given else longs(batch.column(name)) for name in Events._fields)
    )


def lengths_of(batch: pa.RecordBatch) -> Array:
    """How many partitions each event names."""
    return np.maximum(longs(pc.list_value_length(batch.column("partitions"))), 0)


def partitions_of(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Columns of all events' partitions, one after the other."""
    flat = batch.column("partitions").flatten()
    return dict(zip(Partition._fields, flat.flatten(), strict=True))


def rows_of(columns: dict[str, pa.Array], leader: Array, sets: Interned) -> Rows:
    """Columns of the partitions; ``seat`` is for the replay to fill."""
    n = len(leader)
    given = {
        "leader": leader,
        "seat": np.full(n, NOWHERE, np.int64),
        "isr": _of_lists(columns["isr"], NOWHERE, lambda members: sets.of(_ascending(members))),
        "replicas": _of_lists(columns["replicas"], 0, lambda members: len(set(members))),
    }
    return Rows(*(given[name] if name in given else longs(columns[name]) for name in Rows._fields))


def _of_lists(column: pa.Array, default: int, value_of: Any) -> Array:
    """A value for each list that is not null: only METADATA and ALTER_PARTITION have them."""
    values = np.full(len(column), default, np.int64)
    if column.null_count < len(column):
        for at in np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)):
            values[at] = value_of(column[int(at)].as_py())
    return values


def _ascending(members: list[int]) -> tuple[int, ...]:
    return tuple(sorted(set(members)))


def single_events(batch: pa.RecordBatch, kinds: Array) -> list[tuple[int, Event]]:
    """The events that are taken one by one, each with its place in the batch."""
    places = np.flatnonzero(np.isin(kinds, SINGLE))
    few = batch.take(pa.array(places))
    columns = [few.column(name).to_pylist() for name in Event._fields[:-1]]
    events = (Event(*row) for row in zip(*columns, strict=True))
    return list(zip(places.tolist(), events, strict=True))


def is_in_order(batch: pa.RecordBatch, events: Events) -> bool:
    """By (at_us, kind_order, request_id), names of topics left out: they are true at all times."""
    places = np.flatnonzero(events.kind != TOPIC)
    at, kind = events.at_us[places], events.kind[places]
    before, after = slice(None, -1), slice(1, None)
    same = (at[before] == at[after]) & (kind[before] == kind[after])
    falls = (at[before] > at[after]) | ((at[before] == at[after]) & (kind[before] > kind[after]))
    if falls.any():
        return False
    ties = np.flatnonzero(same)
    ids = batch.column("request_id")
    earlier, later = ids.take(pa.array(places[ties])), ids.take(pa.array(places[ties + 1]))
    return not pc.any(pc.greater(earlier, later)).as_py()
