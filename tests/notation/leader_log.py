"""Histories of one leader in milliseconds: what brokers log of it, and the rows of the replay.

Node 11 leads partition 0 of topic "t", replicas 11, 12 and 13. A FETCH is noted half a millisecond
after the handler took it, so that it takes effect at the millisecond that a history names; its
handler is done half a millisecond later, unless the history has another time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from kip_replay.replay.log_gaps import Gaps, LogGap
from kip_replay.replay.min_isr_acks.events import (
    INPUT_SCHEMA,
    KIND_ORDER,
    SILENCE,
    EventKind,
    LeaderEvent,
    ListedPartition,
)
from kip_replay.replay.min_isr_acks.outcomes import variants
from kip_replay.replay.min_isr_acks.replay import MinIsrAcks

LEADER = 11
REPLICAS = (11, 12, 13)
#: Beginning of the clock: stamps are never near zero.
EPOCH_US = 1_000_000_000_000
Row = dict[str, Any]


def batch_of(events: list[LeaderEvent]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([event._asdict() for event in events], schema=INPUT_SCHEMA)


def at(ms: float) -> int:
    return EPOCH_US + round(ms * 1000)


def ms(value: Any) -> float | None:
    """A history's millisecond of a time in a row."""
    return None if value is None else (value.timestamp() * 1e6 - EPOCH_US) / 1000


@dataclass
class History:
    """Events in any order; ``rows`` replays them. ``isr`` and ``min_isr`` are known at once."""

    isr: Sequence[int] | None = REPLICAS
    min_isr: int | None = 2
    replicas: Sequence[int] = REPLICAS
    events: list[LeaderEvent] = field(default_factory=list)

    #: Ids of the PRODUCEs, in the order of writing.
    produced: list[str] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if self.isr is not None:
            self.metadata(-1000, self.isr)
        if self.min_isr is not None:
            self.config(-1000, self.min_isr, operation="describe")

    def then(self, text: str) -> Self:
        """Events as text: ``p0@5`` PRODUCE with base offset 0 at 5 ms (``p-`` refused with 19,
        ``p?`` acks=0, ``p0/acks=1``, ``p0/30ms`` its timeout), ``12:1@7`` follower 12 fetches at
        offset 1, ``isr=11,12@20-25`` the ISR is requested and committed, ``min=3@2``
        min.insync.replicas is set, ``12=silence@0`` a heartbeat of 12 (``stops``, ``fenced``, or
        ``beats``).
        """
        for token in text.split():
            what, _, when = token.partition("@")
            if what == "p?":
                self.produce(float(when), None, acks=0, error=None)
            elif what == "p-":
                self.produce(float(when), -1, error=19)
            elif what.startswith("p"):
                base, _, option = what[1:].partition("/")
                name, value = ("acks", option[5:]) if "acks" in option else ("timeout_ms", option)
                more = {name: int(value.removesuffix("ms"))} if option else {}
                self.produce(float(when), int(base), **more)
            elif what.startswith("isr="):
                requested, committed = map(float, when.split("-"))
                isr = tuple(map(int, what.removeprefix("isr=").split(",")))
                self.alter_partition(requested, isr, committed)
            elif what.startswith("min="):
                self.config(float(when), int(what.removeprefix("min=")))
            elif "=" in what:
                broker, state = what.split("=")
                self.heartbeat(
                    float(when), int(broker), **({} if state == "beats" else {state: True})
                )
            else:
                replica, offset = map(int, what.split(":"))
                self.fetch(float(when), replica, offset)
        return self

    def produce(self, ms: float, base: int | None, error: int | None = 0, **more: Any) -> str:
        """A PRODUCE that is appended at a time; returns its request id."""
        return self.request(ms, [ListedPartition("t", None, 0, 100, base, error)], **more)

    def request(
        self,
        ms: float,
        partitions: list[ListedPartition],
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
        recorded_ms: float | None = None,
        transactional: bool = False,
    ) -> str:
        """A PRODUCE of several partitions; it arrived a millisecond before the append."""
        request_id = f"p{len(self.events):05}"
        self.produced.append(request_id)
        times = {"received_us": at(ms - 1), "dequeued_us": at(ms - 0.5), "handled_us": at(ms)}
        times["built_us"] = at(ms if recorded_ms is None else recorded_ms)
        sent = {"client_id": "producer", "acks": acks, "timeout_us": timeout_ms * 1000}
        sent |= {"is_transactional": transactional, "partitions": partitions}
        self._add(ms - 0.5, EventKind.PRODUCE, request_id, **times, **sent)
        return request_id

    def fetch(
        self,
        ms: float,
        replica: int,
        offset: int | None,
        *,
        refused: bool = False,
        epoch: int = 1,
        session: int = 1,
        until_ms: float | None = None,
    ) -> None:
        """A follower's FETCH; ``offset`` None: the session has the partition, unchanged.

        ``until_ms``: when its handler is done.
        """
        listed = ListedPartition(
            "t", None, 0, fetch_offset=offset, leader_epoch=0, is_refused=refused
        )
        handled = at(ms + 0.5 if until_ms is None else until_ms)
        sent = {"replica_id": replica, "replica_epoch": epoch, "session_id": session}
        sent["partitions"] = [] if offset is None else [listed]
        self._add(ms, EventKind.FETCH, dequeued_us=at(ms - 0.5), handled_us=handled, **sent)

    def consumer_fetch(
        self,
        ms: float,
        *partitions: int,
        until_ms: float,
        forgets: Sequence[int] = (),
        session: int = 0,
        full: bool = True,
        min_bytes: int = 1,
        topic: str = "t",
    ) -> None:
        """A consumer's FETCH whose handler is done at a time, parked until ``until_ms``."""
        listed = [ListedPartition(topic, None, number) for number in partitions]
        listed += [ListedPartition(topic, None, number, is_forgotten=True) for number in forgets]
        sent = {"session_id": session, "is_full": full, "min_bytes": min_bytes}
        self._add(ms, EventKind.CONSUMER_FETCH, built_us=at(until_ms), partitions=listed, **sent)

    def metadata(
        self, ms: float, isr: Sequence[int], *, leader: int = LEADER, epoch: int = 0, node: int = 11
    ) -> None:
        """METADATA of a node: ISR, leader and its epoch."""
        of_leader = {"leader_epoch": epoch, "leader_id": leader, "replicas": [*self.replicas]}
        one = ListedPartition("t", None, 0, isr=[*isr], **of_leader)
        self._add(ms, EventKind.METADATA, replica_id=node, partitions=[one])

    def alter_partition(
        self, ms: float, requested: Sequence[int], committed_ms: float | None
    ) -> None:
        """The leader requests an ISR; ``committed_ms`` None: it is refused a millisecond later."""
        one = ListedPartition("t", None, 0, leader_epoch=0, isr=list(requested))
        self._add(ms, EventKind.ISR_REQUESTED, partitions=[one])
        refused = committed_ms is None
        response = one._replace(isr=None) if refused else one
        self._add(
            ms + 1 if refused else committed_ms, EventKind.ISR_COMMITTED, partitions=[response]
        )

    def config(
        self,
        ms: float,
        value: int | None,
        *,
        operation: str = "set",
        topic: str = "t",
        applies: bool = False,
    ) -> None:
        """min.insync.replicas; ``applies``: the leader has to learn of it first."""
        text, built_us = None if value is None else str(value), at(ms) if applies else None
        of = {"name": topic, "operation": operation, "value": text}
        self._add(ms, EventKind.CONFIG, built_us=built_us, **of)

    def heartbeat(
        self,
        ms: float,
        broker: int,
        *,
        epoch: int = 1,
        stops: bool = False,
        fenced: bool = False,
        silence: bool = False,
    ) -> None:
        """A heartbeat; its response is built a millisecond later."""
        state = {"replica_id": broker, "replica_epoch": epoch}
        state |= {"want_shut_down": stops, "is_fenced": fenced}
        state["operation"] = SILENCE if silence else None
        self._add(ms, EventKind.HEARTBEAT, dequeued_us=at(ms), built_us=at(ms + 1), **state)

    def metadata_fetch(
        self, ms: float, offset: int, high_watermark: int, *, built_ms: float, node: int = 1
    ) -> None:
        """The leader's own FETCH of the metadata log and the response of a controller."""
        of = {"replica_id": node, "fetch_offset": offset, "high_watermark": high_watermark}
        self._add(ms, EventKind.METADATA_FETCH, received_us=at(ms), built_us=at(built_ms), **of)

    def uncertain(
        self,
        ms: float,
        what: str,
        follower: int | None = None,
        *,
        since_ms: float | None = None,
        until_ms: float = 0,
    ) -> None:
        """What a gap leaves open, as the table ``uncertainties`` has it."""
        since_us = at(ms if since_ms is None else since_ms)
        of = {"name": what, "replica_id": follower, "built_us": at(until_ms)}
        self._add(ms, EventKind.UNCERTAIN, received_us=since_us, **of)

    def in_order(self) -> list[LeaderEvent]:
        return sorted(self.events, key=lambda event: event[:3])

    def rows(
        self, sweep: Sequence[int] = (), until_ms: float | None = None, gaps: Sequence[LogGap] = ()
    ) -> list[Row]:
        """The replay's rows, the log until ``until_ms``; ``gaps`` are of the leader's own."""
        if until_ms is not None:
            self._add(until_ms, EventKind.METADATA, partitions=[])
        replay = MinIsrAcks(LEADER, variants(sweep), gaps=Gaps(gaps))
        emitted = [replay.feed(batch_of(self.in_order())), replay.finish()]
        rows: list[Row] = pa.Table.from_batches(emitted).to_pylist()
        return rows

    def row(self, request_id: str | None = None, **options: Any) -> Row:
        """The one row of a request, or the only row there is."""
        rows = [r for r in self.rows(**options) if request_id in (None, r["request_id"])]
        assert len(rows) == 1
        return rows[0]

    def _add(
        self, ms: float, kind: EventKind, request_id: str | None = None, **columns: Any
    ) -> None:
        request_id = request_id or f"e{len(self.events):05}"
        self.events.append(LeaderEvent(at(ms), KIND_ORDER[kind], request_id, kind.value, **columns))
