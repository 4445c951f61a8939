"""An increment of log as lists: Arrow's columns, and positions of partitions instead of names."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .events import NULL, Event, Kind, Partition
from .leadership import Fact
from .topics import Array, Topics, longs

#: Partitions of events that are taken at once, if one event has no more.
_ROWS_AT_ONCE = 65_536
_TEXTS = ("request_id", "kind", "client_id")
_WHOLE = (Kind.UNCERTAIN, Kind.CONFIG, Kind.HEARTBEAT, Kind.METADATA_FETCH)
_FLAGS = ("is_transactional", "is_idempotent")


class Events(NamedTuple):
    """Columns of an increment. Event e has the rows from ``first_row[e]`` to ``first_row[e + 1]``.

    Integers that are null are ``NULL``. ``handled_us`` is ``at_us`` where the log does not have it.
    """

    at_us: list[int]
    kind: list[str]
    kind_order: list[int]
    request_id: list[str]
    received_us: list[int]
    dequeued_us: list[int]
    handled_us: list[int]
    built_us: list[int]
    replica_id: list[int]
    replica_epoch: list[int]
    session_id: list[int]
    acks: list[int]
    min_bytes: list[int]
    timeout_us: list[int]
    is_full: list[int]
    client_id: list[str | None]
    is_transactional: list[bool | None]
    is_idempotent: list[bool | None]
    first_row: list[int]


class Rows(NamedTuple):
    """Partitions of the events: ``partition`` is a position among the node's."""

    partition: list[int]
    record_bytes: list[int]
    base_offset: list[int]
    error_code: list[int]
    fetch_offset: list[int]
    leader_epoch: list[int]
    is_refused: list[int]
    is_forgotten: list[int]


class Increment:
    """A batch of ``INPUT_SCHEMA`` as lists; ``partitions``: what is at their positions."""

    def __init__(self, batch: pa.RecordBatch, topics: Topics) -> None:
        first_row = np.zeros(batch.num_rows + 1, np.int64)
        np.cumsum(_lengths(batch), out=first_row[1:])
        flat = batch.column("partitions").flatten()
        self._columns = dict(zip(Partition._fields, flat.flatten(), strict=True))
        positions, self.partitions = topics.partitions_of(self._columns)
        given: dict[str, list[Any]] = {
            "first_row": first_row.tolist(),
            "partition": positions.tolist(),
            **{name: batch.column(name).to_pylist() for name in (*_TEXTS, *_FLAGS)},
        }
        at_us, handled_us = longs(batch.column("at_us")), longs(batch.column("handled_us"))
        handled_us = np.where((handled_us == NULL) | (handled_us == 0), at_us, handled_us)
        given["handled_us"] = handled_us.tolist()
        #: Those that name no partitions, by place.
        places = pc.indices_nonzero(pc.is_in(batch.column("kind"), pa.array(_WHOLE)))
        whole = batch.select(Event._fields[:-1]).take(places).to_pylist()
        self.whole = {e: Event(**each) for e, each in zip(places.to_pylist(), whole, strict=True)}
        self.events = Events._make(
            given.get(name) or longs(batch.column(name)).tolist() for name in Events._fields
        )
        self.rows = Rows._make(
            given.get(name) or longs(self._columns[name]).tolist() for name in Rows._fields
        )

    def facts(self, e: int, *, is_active: bool) -> Iterator[tuple[int, Fact]]:
        """What METADATA and ALTER_PARTITION have: positions of partitions, and facts."""
        for row in range(self.events.first_row[e], self.events.first_row[e + 1]):
            isr, replicas, leader_id, leader_epoch = (
                self._columns[name][row].as_py()
                for name in ("isr", "replicas", "leader_id", "leader_epoch")
            )
            members = None if isr is None else tuple(sorted(set(isr)))
            fact = Fact(members, leader_id, leader_epoch, len(set(replicas or ())), is_active)
            yield self.rows.partition[row], fact


def _lengths(batch: pa.RecordBatch) -> Array:
    lengths: Array = np.maximum(longs(pc.list_value_length(batch.column("partitions"))), 0)
    return lengths


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of an increment: what a slice takes is a multiple of its partitions."""
    part = np.cumsum(np.maximum(_lengths(batch), 1)) // _ROWS_AT_ONCE
    begins = np.flatnonzero(np.append(True, part[1:] != part[:-1])[: len(part)])
    for begin, end in zip(begins, [*begins[1:], len(part)], strict=True):
        yield batch.slice(begin, end - begin)
