"""Histories of a partition that consumers read, in milliseconds, and the rows of closest_replica.

Node 11 (zone a) leads partition 0 of topic "t" with epoch 1, followers 12 (b), 13 (c) and 14 (b).
"""

from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa
from constructed import rows_of

from kip_replay.replay.closest_replica.events import INPUT_SCHEMA, LineKind, ReplicaEvent
from kip_replay.replay.closest_replica.replay import ClosestReplica, variants

ZONES = {11: "a", 12: "b", 13: "c", 14: "b"}
EPOCH_US = 1_000_000_000_000
Row = dict[str, Any]


def at(ms: float) -> int:
    return EPOCH_US + round(1000 * ms)


@dataclass
class Reads:
    """Events in any order; ``rows`` replays them as node 11."""

    zones: dict[int, str] = field(default_factory=lambda: dict(ZONES))
    events: list[Row] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        for broker, zone in self.zones.items():
            self.add(-1, LineKind.RACK, str(broker), broker_id=broker, rack=zone, topic="")
        self.add(-1, LineKind.TERM, "1", broker_id=11, leader_epoch=1)

    def add(self, at_us: int, kind: LineKind, request_id: str = "", **values: Any) -> None:
        order = {"at_us": at_us, "kind_order": [*LineKind].index(kind), "kind": kind.value}
        of = {"topic": "t", "partition": 0, "request_id": request_id or f"{len(self.events):05}"}
        self.events.append(dict.fromkeys(ReplicaEvent._fields) | order | of | values)

    def then(self, text: str) -> Self:
        """Events as text: ``12:5@7`` follower 12 has all below 5, ``12<5@9`` a response tells it
        that the high watermark is 5 (its FETCH came 500 ms before, and it is 1 ms away),
        ``isr=11,12@3`` a line has that ISR, ``lead=12/2@50`` node 12 leads with epoch 2.
        """
        for token in text.split():
            what, _, when = token.partition("@")
            us = at(float(when))
            if what.startswith("isr="):
                self.add(us, LineKind.ISR, broker_id=11, isr=[*map(int, what[4:].split(","))])
            elif what.startswith("lead="):
                leader, epoch = map(int, what[5:].split("/"))
                self.add(us, LineKind.TERM, broker_id=leader, leader_epoch=epoch)
            elif "<" in what:
                follower, offset = map(int, what.split("<"))
                came = {"received_us": us - 500_000, "previous_us": us - 502_000}
                self.add(us, LineKind.RETURNED, broker_id=follower, high_watermark=offset, **came)
            else:
                follower, offset = map(int, what.split(":"))
                self.add(us, LineKind.PROGRESS, broker_id=follower, fetch_offset=offset)
        return self

    def read(self, zone: str, offset: int | None, came: float, built: float, **more: Any) -> Self:
        """A consumer's FETCH at an offset that waits; ``more``: other fields of the event."""
        self.count += 1
        sent = {"broker_id": 11, "rack": zone, "fetch_offset": offset, "record_bytes": 100}
        sent |= {"high_watermark": (offset or 0) + 1, "last_stable_offset": (offset or 0) + 1}
        sent |= {"dequeued_us": at(came), "handled_us": at(came), "client_id": "c"}
        sent |= {"api_version": 17, "isolation_level": 0, "session_id": 0, "client_host": "h"}
        sent |= {"request_bytes": 10, "response_bytes": 20, **more}
        self.add(at(built), LineKind.READ, f"r{self.count}", **sent)
        return self

    def batch(self) -> pa.RecordBatch:
        """All events in the rule's order."""
        order = ("at_us", "kind_order", "request_id", "topic", "partition")
        events = sorted(self.events, key=lambda event: [event[name] for name in order])
        return pa.RecordBatch.from_pylist(events, INPUT_SCHEMA)

    def rows(self, every: int | None = None, node_id: int = 11, **how: Any) -> list[Row]:
        """Outcomes, times in milliseconds; ``every``: saved and resumed after so many events."""
        batch, settings = self.batch(), {"variants": variants(how.pop("fetch_wait_ms", ())), **how}
        replay, found = ClosestReplica(node_id, **settings), []
        for begin in range(0, batch.num_rows, every or batch.num_rows):
            found += replay.feed(batch.slice(begin, every))
            if every:
                replay = ClosestReplica(node_id, **settings, saved=replay.saved())
        rows = [row for each in (*found, *replay.finish()) for row in rows_of(each)]
        for row in rows:
            for name in ("given_at", "given_at_earliest"):
                row[name] = None if row[name] is None else (row[name] - EPOCH_US) / 1000
        return rows

    def row(self, variant: str = "closest", number: int = 1, value: int = -1, **how: Any) -> Row:
        """The outcome of one read."""
        key = (f"r{number}", variant, value)
        of = ("request_id", "variant", "parameter_value")
        [row] = [row for row in self.rows(**how) if tuple(row[name] for name in of) == key]
        return row
