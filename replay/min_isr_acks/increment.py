"""An increment of log as rows by partition: what each PRODUCE, FETCH and fact says of it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from . import inputs
from .consumers import Consumers
from .inputs import Events, events_of, partitions_of, rows_of
from .leadership import Change, Fact, Isr, Leaderships
from .levels import Fetches
from .log import ALL, NOWHERE, NULL, Array, Log
from .topics import Topics

#: A follower's session: its broker, and the session's id.
_SESSION_BITS = 32


class Sweeping(NamedTuple):
    """A change of many partitions: after which event, until when it took effect at the latest."""

    place: int
    partitions: Array
    at_us: int
    latest_us: int
    change: Change


class Part(NamedTuple):
    """Rows by partition; ``epochs`` to ``is_transactional`` have an entry per row.

    ``epochs``: of FETCHes that are noted, else -1. ``details``: positions in ``facts``, NOWHERE for
    FETCHes and PRODUCEs. ``begun_us``: when the handler took the request.
    """

    log: Log
    epochs: Array
    details: Array
    begun_us: Array
    is_transactional: Array
    facts: list[Fact | Change]


class Increment:
    """Events as arrays. ``order`` is the number of the first, ``requests`` are open before it."""

    def __init__(self, batch: pa.RecordBatch, topics: Topics, order: int, requests: int) -> None:
        self.events = events_of(batch)
        self._columns = partitions_of(batch)
        partition = topics.partitions_of(self._columns)
        self.rows = rows_of(self._columns, partition, self.events.first_row)
        self.sweeping: list[Sweeping] = []
        self.is_active = np.ones(len(self.events.kind), bool)
        self._order, self._done = order, 0
        self._request = requests + np.cumsum(self.events.kind == inputs.PRODUCE) - 1
        of_fetches = self.events.kind[self.rows.event] == inputs.FETCH
        self._fetches = np.flatnonzero(of_fetches & (self.rows.is_refused != 1))
        self._late_us = np.full(len(partition), NULL)

    def note_consumers(self, consumers: Consumers, partitions: int) -> None:
        """Which followers' FETCHes found consumers parked."""
        some = self._fetches
        self._late_us[some] = consumers.late_us(self.events, self.rows, partitions, some)

    def fetches(self) -> Fetches:
        """FETCHes of followers, listing a partition or not."""
        e = np.flatnonzero(self.events.kind == inputs.FETCH)
        return Fetches(_sessions(self.events, e), self._order + e, self.events.at_us[e])

    def part(self, end: int, leaderships: Leaderships) -> Part | None:
        """The rows of the events before ``end`` that were not taken yet, and of all changes."""
        events, rows = self.events, self.rows
        begin, self._done = self._done, end
        if begin == end and not self.sweeping:
            return None
        first, last = events.first_row[begin], events.first_row[end]
        some = np.arange(first, last)
        event = rows.event[some]
        kind = events.kind[event]
        is_fetch, is_fact = (
            kind == inputs.FETCH,
            np.isin(kind, (inputs.METADATA, inputs.ISR_ASKED, inputs.ISR_ANSWERED)),
        )
        kept = (is_fetch & (rows.is_refused[some] != 1)) | (kind == inputs.PRODUCE) | is_fact
        some, event, kind, is_fetch = some[kept], event[kept], kind[kept], is_fetch[kept]
        is_produce, partition = kind == inputs.PRODUCE, rows.partition[some]
        at_us = np.where(is_produce, events.handled_us[event], events.at_us[event])
        offset = np.where(is_fetch, rows.fetch_offset[some], NULL)
        seat = np.full(len(some), NOWHERE)
        brokers = events.replica_id[event[is_fetch]]
        seat[is_fetch] = leaderships.seats_of(partition[is_fetch], brokers)
        zeros = np.zeros(len(some), np.int64)
        log = Log(
            partition,
            self._order + event,
            kind,
            at_us,
            np.where(is_fetch, events.dequeued_us[event], at_us),
            np.where(is_fetch, events.handled_us[event], at_us),
            self._late_us[some],
            seat,
            offset,
            np.maximum(events.replica_epoch[event], NOWHERE),
            np.where(is_fetch, _sessions(events, event), NOWHERE),
            caught_up_us=zeros,
            condition=zeros.copy(),
            log_end=zeros.copy(),
            loss=zeros.copy(),
            request=np.where(is_produce, self._request[event], NOWHERE),
            base_offset=np.where(is_produce, rows.base_offset[some], NULL),
            record_bytes=rows.record_bytes[some],
            error_code=rows.error_code[some],
        )
        is_noted = is_fetch & (offset != NULL)
        epochs = np.where(is_noted, np.maximum(rows.leader_epoch[some], NOWHERE), NOWHERE)
        begun_us = events.dequeued_us[event]
        begun_us = np.where(begun_us == NULL, at_us, begun_us)
        details, facts = self._facts(some, event, is_fetch | is_produce)
        columns = [*log, epochs, details, begun_us, events.is_transactional[event]]
        more = list(self._changes(facts))
        if more:
            columns = list(np.concatenate([np.stack(columns), *more], axis=1))
        if not len(columns[0]):
            return None
        places = np.lexsort((columns[1], columns[0]))
        columns = [column[places] for column in columns]
        return Part(*[Log(*columns[:-4]), *columns[-4:], facts])

    def _facts(
        self, some: Array, event: Array, is_none: Array
    ) -> tuple[Array, list[Fact | Change]]:
        """What inputs.METADATA and ALTER_PARTITION have, and positions of rows in it."""
        details = np.where(is_none, NOWHERE, np.cumsum(~is_none) - 1)
        facts = some[~is_none]
        lists = [
            self._columns[name].take(pa.array(facts)).to_pylist() for name in ("isr", "replicas")
        ]
        numbers = (self.rows.leader_id[facts], self.rows.leader_epoch[facts])
        leaders = [[None if one == NULL else one for one in column.tolist()] for column in numbers]
        is_active = self.is_active[event[~is_none]].tolist()
        return details, [
            Fact(_set(isr), leader_id, leader_epoch, len(set(replicas or ())), active)
            for isr, replicas, leader_id, leader_epoch, active in zip(
                *lists, *leaders, is_active, strict=True
            )
        ]

    def _changes(self, facts: list[Fact | Change]) -> Iterator[Array]:
        """Rows of the changes of many partitions, one for each; they are added to the facts."""
        names = (*Log._fields, *Part._fields[1:-1])
        for one in self.sweeping:
            given: dict[str, Any] = {
                "partition": one.partitions,
                "order": self._order + one.place,
                "kind": ALL,
                "at_us": one.at_us,
                "earliest_us": one.at_us,
                "latest_us": one.latest_us,
                "details": len(facts),
                **dict.fromkeys(("late_us", "offset", "base_offset"), NULL),
                **dict.fromkeys(("seat", "session", "request", "epochs"), NOWHERE),
            }
            facts.append(one.change)
            rows = np.zeros((len(names), len(one.partitions)), np.int64)
            for name, value in given.items():
                rows[names.index(name)] = value
            yield rows
        self.sweeping = []


def _sessions(events: Events, e: Array) -> Array:
    """Sessions of followers' FETCHes, by broker and id."""
    sessions: Array = (events.replica_id[e] << _SESSION_BITS) | np.maximum(events.session_id[e], 0)
    return sessions


def _set(members: list[int] | None) -> Isr | None:
    return None if members is None else tuple(sorted(set(members)))
