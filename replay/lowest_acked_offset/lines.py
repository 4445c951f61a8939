"""Rows of the input as columns, in the order in which they happened.

A line of the log stands where its answer was built; what the rule follows happened before, when
the request was worked off. ``Pending`` keeps the lines that may still have others before them, and
hands out the rest in that order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kip_replay.replay.lowest_acked_offset.events import (
    FETCH,
    HEARTBEAT,
    INPUT_SCHEMA,
    KINDS,
    ORDER,
    STAMP_SLACK_US,
    WRITE,
    Event,
)
from kip_replay.replay.lowest_acked_offset.timelines import Bools, Ints


def by_node(nodes: Ints) -> Iterator[tuple[int, Ints]]:
    """(node, its places in order) for each node."""
    if not len(nodes):
        return
    order = np.argsort(nodes, kind="stable")
    mine = nodes[order]
    begins = np.flatnonzero(np.diff(mine, prepend=mine[0] - 1))
    for begin, places in zip(begins, np.split(order, begins[1:]), strict=True):
        yield int(mine[begin]), places


def stretches(values: Ints) -> Iterator[tuple[int, int]]:
    """(begin, end) of each stretch of equal values."""
    if len(values):
        changes = np.flatnonzero(np.diff(values)) + 1
        yield from zip([0, *changes.tolist()], [*changes.tolist(), len(values)], strict=True)


class Lines:
    """Some rows of a table of ``INPUT_SCHEMA``, in some order.

    ``turn`` says when each had its turn among all lines. A column is an array of int64 (of bool:
    ``flags``); ``arrow`` gives it with its nulls.
    """

    def __init__(
        self,
        table: pa.Table,
        rows: Ints,
        turn: Ints,
        columns: dict[str, NDArray[Any]] | None = None,
    ) -> None:
        self._table = table
        self.rows = rows
        self.turn = turn
        self._columns = {} if columns is None else columns

    @classmethod
    def of(cls, events: Sequence[Event]) -> Lines:
        """Events that have their turns in this order."""
        columns = list(zip(*events, strict=True)) or [()] * len(INPUT_SCHEMA)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, INPUT_SCHEMA, strict=True)]
        turn = np.arange(len(events))
        return cls(pa.Table.from_arrays(arrays, schema=INPUT_SCHEMA), turn, turn)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Ints:
        values: Ints = self._column(name)[self.rows]
        return values

    def flags(self, name: str) -> Bools:
        """A column of type bool."""
        values: Bools = self._column(name)[self.rows]
        return values

    def _column(self, name: str) -> NDArray[Any]:
        if name not in self._columns:
            self._columns[name] = self._table.column(name).to_numpy()
        return self._columns[name]

    def take(self, index: Ints | Bools) -> Lines:
        """Some of them."""
        return Lines(self._table, self.rows[index], self.turn[index], self._columns)

    def arrow(self, name: str) -> pa.Array:
        """A column as Arrow has it."""
        return self._table.column(name).combine_chunks().take(pa.array(self.rows))

    def events(self) -> list[Event]:
        """Each as an ``Event``: for the few that are looked at one by one."""
        columns = self._table.take(pa.array(self.rows)).to_pydict()
        return [Event._make(row) for row in zip(*columns.values(), strict=True)]


#: Lines of these kinds happened when the request was worked off, before its answer was built.
_HAPPENED = {HEARTBEAT: "handled_us", FETCH: "dequeued_us"}


def refuse_disorder(batch: pa.RecordBatch, front: tuple[int, str, str]) -> None:
    """Raise ``ValueError`` unless the rows are in ``ORDER``, from ``front`` on."""
    steps = np.diff(batch.column("at_us").to_numpy())
    same = np.flatnonzero(steps == 0)
    falls = front > _place(batch, 0) or (steps < 0).any()
    if len(same) and not falls:
        (kind, request), (next_kind, next_request) = (
            [batch.column(name).take(pa.array(rows)) for name in ORDER[1:]]
            for rows in (same, same + 1)
        )
        tied = pc.and_(pc.equal(kind, next_kind), pc.greater(request, next_request))
        falls = pc.any(pc.or_(pc.greater(kind, next_kind), tied)).as_py()
    if falls:
        raise ValueError("events must come in order of at_us, kind, request_id")


def front_of(batch: pa.RecordBatch) -> tuple[int, str, str]:
    """The place of the last row in ``ORDER``."""
    return _place(batch, batch.num_rows - 1)


def _place(batch: pa.RecordBatch, row: int) -> tuple[int, str, str]:
    at, kind, request_id = (batch.column(name)[row].as_py() for name in ORDER)
    return at, kind, request_id


class Pending:
    """Lines that wait for their turn; ``turns`` counts those that have had it."""

    def __init__(self, lines: pa.Table | None = None, turns: int = 0) -> None:
        self._batches: list[pa.RecordBatch] = [] if lines is None else lines.to_batches()
        self.turns = turns

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep a piece of log."""
        self._batches.append(batch)

    def table(self) -> pa.Table:
        """All lines that wait, as they came."""
        return pa.Table.from_batches(self._batches, INPUT_SCHEMA)

    def take(self, until: int | None = None) -> dict[str, Lines]:
        """By kind the lines that happened up to a time (all: None), in order."""
        table = self.table()
        kinds = pc.index_in(table.column("kind"), pa.array(KINDS)).to_numpy()
        happened = table.column("at_us").to_numpy().copy()
        for name, column in _HAPPENED.items():
            mine = np.flatnonzero(kinds == KINDS.index(name))
            happened[mine] = table.column(column).to_numpy()[mine]
        # So that every FETCH is in that may have been worked off before the answer.
        happened[kinds == KINDS.index(WRITE)] += STAMP_SLACK_US
        ready = np.ones(len(happened), np.bool_) if until is None else happened <= until
        order = _in_order(table, np.flatnonzero(ready), happened)
        self._batches = table.take(pa.array(np.flatnonzero(~ready))).to_batches()
        turn = self.turns + np.arange(len(order))
        self.turns += len(order)
        lines, kinds = Lines(table, order, turn), kinds[order]
        return {name: lines.take(kinds == code) for code, name in enumerate(KINDS)}


def _in_order(table: pa.Table, rows: Ints, happened: Ints) -> Ints:
    """Rows by when they happened, then kind and request id."""
    order = rows[np.argsort(happened[rows], kind="stable")]
    same = np.diff(happened[order]) == 0
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):
        ties = order[tied]
        names = table.select(ORDER[1:]).take(pa.array(ties))
        names = names.append_column("happened", pa.array(happened[ties]))
        by = [(name, "ascending") for name in ("happened", *ORDER[1:])]
        order[tied] = ties[pc.sort_indices(names, sort_keys=by).to_numpy()]
    return order
