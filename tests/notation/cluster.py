"""A small cluster that writes plausible logs: a leader, replicas with habits, and no randomness.

It plays ``Leader`` with a clock of its own, so what it writes follows the rule; how the
replay takes that log (cut, under the other rule, over hours) is what the tests are about.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import NamedTuple

from kip_replay.replay.hwm_parking.evidence import RecordedMetadataFetch
from kip_replay.replay.kafka.messages import HIGH_WATERMARK_TAG_BYTES, records_field_bytes
from kip_replay.replay.model.raft import (
    MAX_FETCH_WAIT_US,
    UNKNOWN_OFFSET,
    Completion,
    Fetch,
    Leader,
    ReplicaState,
    Response,
)

from .recorded import EPOCH, fetched, in_order, micros

#: Where the epoch of the cluster begins.
EPOCH_START = 10
#: Bytes of one record.
RECORD_BYTES = 100
#: A FETCH without a high watermark, and a response without records, on the wire.
REQUEST_BYTES, EMPTY_RESPONSE_BYTES = 120, 80


class Silence(NamedTuple):
    """A replica sends nothing for a while; a restart also forgets the high watermark."""

    since_ms: int
    length_ms: int
    restarts: bool = False


@dataclass(frozen=True)
class Member:
    """A replica: when it starts, its delays between a response and the next FETCH, its silences."""

    replica_id: int
    starts_ms: int = 0
    gaps_ms: tuple[float, ...] = (1.0,)
    silences: tuple[Silence, ...] = ()

    def next_at(self, built_us: int, gap_us: int) -> tuple[int, bool]:
        """When the FETCH after a response arrives, and whether the replica restarted between."""
        at = built_us + gap_us
        for silence in self.silences:
            since, until = micros(silence.since_ms), micros(silence.since_ms + silence.length_ms)
            if since < at < until:
                return until, silence.restarts
        return at, False


@dataclass(frozen=True)
class Cluster:
    """Who is there and when the leader (node 1) appends: (milliseconds since the last, records)."""

    members: tuple[Member, ...]
    voters: tuple[int, ...] = (1, 2, 3)
    appends: tuple[tuple[int, int], ...] = ((100, 1),)
    hwm_aware: bool = False
    service_us: int = 200
    length_ms: int = 10_000
    #: Beginning of the clock: stamps are never near zero.
    epoch_us: int = field(default=1_000_000_000_000)

    def log(self) -> list[RecordedMetadataFetch]:
        """The leader's log, in the order in which the replay wants it."""
        times = ("received_us", "dequeued_us", "built_us", "completed_us")
        return in_order(
            row._replace(**{name: getattr(row, name) + self.epoch_us for name in times})
            for row in _Run(self).rows()
        )


def every(interval_ms: int, length_ms: int, records: int = 1) -> tuple[tuple[int, int], ...]:
    return repeating([(interval_ms, records)], length_ms)


def repeating(pattern: Sequence[tuple[int, int]], length_ms: int) -> tuple[tuple[int, int], ...]:
    """A pattern of appends, again and again until a length is full."""
    cycles = length_ms // sum(wait_ms for wait_ms, _ in pattern)
    return tuple(pattern) * cycles


def cut(
    rows: Sequence[RecordedMetadataFetch], size: int
) -> Iterator[Sequence[RecordedMetadataFetch]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


class _Run:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        of = {"voters": frozenset(cluster.voters) - {1}, "voter_count": len(cluster.voters)}
        of |= {"epoch_start_offset": EPOCH_START, "log_end_offset": EPOCH_START}
        self._leader = Leader(cluster.hwm_aware, EPOCH, **of)
        self._members = {member.replica_id: member for member in cluster.members}
        self._gaps = {member.replica_id: cycle(member.gaps_ms) for member in cluster.members}
        self._replicas = {
            member.replica_id: ReplicaState(EPOCH_START, EPOCH - 1) for member in cluster.members
        }
        self._correlation = dict.fromkeys(self._members, 0)
        self._in_flight: dict[int, tuple[int, Fetch]] = {}
        self._events: list[tuple[int, str, int]] = []
        self._rows: list[RecordedMetadataFetch] = []
        self._tokens = 0
        self._free_us = 0

    def rows(self) -> list[RecordedMetadataFetch]:
        """Run to the end; a FETCH that is parked then is not in the log."""
        for member in self._members.values():
            heapq.heappush(self._events, (micros(member.starts_ms), "fetch", member.replica_id))
        at_ms, end = 0, EPOCH_START
        for wait_ms, records in self._cluster.appends:
            at_ms, end = at_ms + wait_ms, end + records
            heapq.heappush(self._events, (micros(at_ms), "append", end))
        while self._events and self._events[0][0] <= micros(self._cluster.length_ms):
            at, kind, what = heapq.heappop(self._events)
            if kind == "fetch":
                self._fetch(at, what)
            elif kind == "handle":
                self._handle(at, what)
            else:  # append or expire
                self._send(at, getattr(self._leader, kind)(what))
        return self._rows

    def _fetch(self, at: int, replica_id: int) -> None:
        replica = self._replicas[replica_id]
        self._tokens += 1
        self._correlation[replica_id] += 1
        aware = self._cluster.hwm_aware
        fetch = replica.fetch(replica_id, MAX_FETCH_WAIT_US, self._tokens, hwm_aware=aware)
        self._in_flight[fetch.token] = (at, fetch)
        self._free_us = max(at, self._free_us) + self._cluster.service_us
        heapq.heappush(self._events, (self._free_us, "handle", fetch.token))

    def _handle(self, at: int, token: int) -> None:
        self._send(at, self._leader.fetch(self._in_flight[token][1]))
        if token in self._in_flight:
            expires = at + MAX_FETCH_WAIT_US + self._cluster.service_us
            heapq.heappush(self._events, (expires, "expire", token))

    def _send(self, at: int, responses: list[Response]) -> None:
        for position, response in enumerate(responses):
            built = at + position * self._cluster.service_us
            self._free_us = max(self._free_us, built)
            self._respond(built, response)

    def _respond(self, built: int, response: Response) -> None:
        dequeued, fetch = self._in_flight.pop(response.fetch.token)
        replica_id = fetch.replica_id
        has_records = response.completion is Completion.RECORDS
        records = response.log_end_offset - fetch.fetch_offset if has_records else 0
        size = RECORD_BYTES * max(0, records)
        sends = {"high_watermark": fetch.high_watermark} if self._cluster.hwm_aware else {}
        self._rows.append(
            fetched(
                replica_id,
                dequeued / 1000,
                built / 1000,
                fetch.fetch_offset,
                correlation_id=self._correlation[replica_id],
                last_fetched_epoch=fetch.last_fetched_epoch,
                response_high_watermark=response.high_watermark,
                record_bytes=size,
                request_bytes=REQUEST_BYTES + (HIGH_WATERMARK_TAG_BYTES if sends else 0),
                response_bytes=EMPTY_RESPONSE_BYTES
                - records_field_bytes(0)
                + records_field_bytes(size),
                **sends,
            )
        )
        replica = self._replicas[replica_id]
        replica.receive(response, self._leader)
        gap = micros(next(self._gaps[replica_id]))
        following, restarted = self._members[replica_id].next_at(built, gap)
        if restarted:
            replica.high_watermark = UNKNOWN_OFFSET
            self._correlation[replica_id] = 0
        heapq.heappush(self._events, (following, "fetch", replica_id))
