"""An increment of the log as objects: events, and lists of the partitions that they name."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records import events_of, values_of
from .events import Event, Partition
from .isr import PartitionState

#: Partitions of events that are taken at once, if one event has no more.
_ROWS_AT_ONCE = 65_536


#: Topic (its id where the log has no name) and index.
TopicPartition = tuple[str, int]


class Rows(NamedTuple):
    """Partitions of the events, by column."""

    partition: list[TopicPartition]
    record_bytes: list[int | None]
    base_offset: list[int | None]
    error_code: list[int | None]
    fetch_offset: list[int | None]
    leader_epoch: list[int | None]
    is_refused: list[bool | None]
    is_forgotten: list[bool | None]


class Increment:
    """A batch of ``INPUT_SCHEMA``; ``names``: those of topic ids."""

    def __init__(self, batch: pa.RecordBatch, names: Mapping[str, str]) -> None:
        self._batch = batch
        flat = batch.column("partitions").flatten()
        self._columns = columns = dict(zip(Partition._fields, flat.flatten(), strict=True))
        topics = pc.coalesce(columns["topic"], columns["topic_id"], "").dictionary_encode()
        keys = topics.dictionary.to_pylist()
        # An event may name a topic by its id where the name is meant.
        resolved = [names.get(name, name) for name in (names.get(key, key) for key in keys)]
        codes, indexes = values_of(topics.indices), values_of(columns["partition"])
        partitions = [(resolved[c], index) for c, index in zip(codes, indexes, strict=True)]
        rest = (values_of(columns[name]) for name in Rows._fields[1:])
        self.rows = Rows._make([partitions, *rest])

    def events(self) -> Iterator[tuple[Event, range]]:
        """Yields each event without its partitions, and their places in ``rows``."""
        end, batch, lengths = 0, self._batch, _lengths(self._batch).tolist()
        place = batch.schema.get_field_index("partitions")
        batch = batch.set_column(place, "partitions", pa.nulls(batch.num_rows))
        for event, length in zip(events_of(batch, Event), lengths, strict=True):
            begin, end = end, end + length
            yield event, range(begin, end)

    def states(
        self, rows: range, *, is_active: bool
    ) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """Yields what METADATA and ALTER_PARTITION have of each partition."""
        for row in rows:
            isr, replicas, leader_id, leader_epoch = (
                self._columns[name][row].as_py()
                for name in ("isr", "replicas", "leader_id", "leader_epoch")
            )
            members = None if isr is None else tuple(sorted(set(isr)))
            count = len(set(replicas or ()))
            state = PartitionState(members, leader_id, leader_epoch, count, is_active)
            yield self.rows.partition[row], state


def _lengths(batch: pa.RecordBatch) -> "np.ndarray[Any, Any]":
    lengths = pc.list_value_length(batch.column("partitions")).fill_null(0)
    array: np.ndarray[Any, Any] = lengths.to_numpy(zero_copy_only=False)
    return array


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields slices of an increment: what a slice takes is a multiple of its partitions."""
    part = np.cumsum(np.maximum(_lengths(batch), 1)) // _ROWS_AT_ONCE
    begins = np.flatnonzero(np.append(True, part[1:] != part[:-1])[: len(part)])
    for begin, end in zip(begins, [*begins[1:], len(part)], strict=True):
        yield batch.slice(begin, end - begin)
