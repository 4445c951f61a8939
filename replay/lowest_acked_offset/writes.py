"""Metadata writes: which offsets the log leaves them, and who forwarded them.

No response of CREATE_TOPICS and the like tells an offset. But the controller answers once the last
record of a write is committed, and appends it after it took the request, so that the FETCHes of
the metadata log close it in:

* its first record is at or behind every fetch offset that was seen before (the leader's log cannot
  be shorter than a replica's), and it has at least ``least_records`` of them;
* its last record is below the high watermark at the moment when the answer was built.

The high watermark is recomputed from the voters' fetch offsets (``LeaderState
.maybeUpdateHighWatermark``), never read from an answer. A voter that has a record of the leader's
epoch says so by ``lastFetchedEpoch``; only such offsets commit, which is Kafka's condition that the
high watermark passes the epoch's first record. The recomputed one is at or above the leader's, as a
FETCH counts when its handler takes it, so the upper end is never too low.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.lowest_acked_offset.events import (
    HEARTBEAT,
    NO_ANSWER,
    STAMP_SLACK_US,
    WRITE,
    Event,
)
from kip_replay.replay.lowest_acked_offset.lines import Lines, by_node, stretches
from kip_replay.replay.lowest_acked_offset.reasons import (
    NO_HIGH_WATERMARK,
    NOTHING_WRITTEN,
    SINGLE_VOTER,
)
from kip_replay.replay.lowest_acked_offset.timelines import HIGHEST, Bools, Ints, Rising

#: A voter that is silent for this long in the log is away: a parked FETCH waits half of it.
VOTER_SILENCE_US = 1_000_000
#: Clocks of brokers and controllers may differ, and derived arrivals are off, by up to this.
JOIN_SLACK_US = 100_000

#: The fetch offset of a voter that has not fetched in an epoch.
_UNSEEN = -HIGHEST


class Offsets(NamedTuple):
    """Where the last record of a write lies; ``committed_us`` is the soonest that it can be."""

    low: int
    high: int
    committed_us: int


class Led(NamedTuple):
    """How long a leader's log was in one epoch, by the offsets that were fetched from it."""

    epoch: int
    since_us: int
    ends: Rising


@dataclass
class CommittedOffsets:
    """The metadata log as its FETCHes show it: its length, its high watermark, its beginning."""

    voters: frozenset[int]
    high_watermark: Rising = field(default_factory=Rising)
    led: dict[int, list[Led]] = field(default_factory=dict)
    #: The turn of the FETCH that showed that the metadata log began empty.
    began_empty: int | None = None
    first_offsets: dict[int, int] = field(default_factory=dict)
    epoch: int = -1
    voter_offsets: dict[int, int] = field(default_factory=dict)
    known_from_us: int | None = None

    def take(self, fetches: Lines) -> None:
        """Take FETCHes, in order of dequeue."""
        replica = fetches["broker_id"]
        is_voter = np.isin(replica, list(self.voters))
        self._first_seen(fetches, is_voter)
        answered = (fetches["error_code"] == 0) & ~fetches.flags("is_diverging")
        self._lead(fetches.take(answered))
        self._commit(fetches.take(answered & is_voter & (replica != fetches["node_id"])))

    def _first_seen(self, fetches: Lines, is_voter: Bools) -> None:
        """Committed records are on a majority: if too many voters begin empty, none were."""
        if len(self.first_offsets) == len(self.voters):
            return
        voters = fetches.take(is_voter)
        ids, first = np.unique(voters["broker_id"], return_index=True)
        for place in sorted(first[~np.isin(ids, list(self.first_offsets))].tolist()):
            self.first_offsets[int(voters["broker_id"][place])] = int(voters["offset"][place])
            empty = sum(offset == 0 for offset in self.first_offsets.values())
            if empty >= len(self.voters) - len(self.voters) // 2 and self.began_empty is None:
                self.began_empty = int(voters.turn[place])

    def _lead(self, fetches: Lines) -> None:
        """The leader's log cannot be shorter than what is fetched of it."""
        for node, mine in by_node(fetches["node_id"]):
            at, offset = fetches["dequeued_us"][mine], fetches["offset"][mine]
            led = self.led.setdefault(node, [])
            epochs = np.maximum.accumulate(fetches["leader_epoch"][mine])
            for begin, end in stretches(np.maximum(epochs, led[-1].epoch if led else -1)):
                epoch = int(epochs[begin])
                if epoch > (led[-1].epoch if led else -1):
                    led.append(Led(epoch, int(at[begin]), Rising()))
                if led:
                    led[-1].ends.add_all(at[begin:end], offset[begin:end])

    def _commit(self, fetches: Lines) -> None:
        """``LeaderState.maybeUpdateHighWatermark``, at each FETCH of a voter."""
        at = fetches["dequeued_us"]
        if not len(at):
            return
        if self.known_from_us is None:
            # Who has not fetched yet may be ahead: it was parked when the log began, or is away.
            empty = self.began_empty is not None and self.began_empty <= fetches.turn[0]
            self.known_from_us = int(at[0]) + (0 if empty else VOTER_SILENCE_US)
        epochs = np.maximum(np.maximum.accumulate(fetches["leader_epoch"]), self.epoch)
        is_of_it = (fetches["leader_epoch"] == epochs) & (fetches["last_fetched_epoch"] == epochs)
        for begin, end in stretches(epochs):
            if epochs[begin] > self.epoch:
                self.epoch, self.voter_offsets = int(epochs[begin]), {}
            self._commit_in_epoch(fetches.take(begin + np.flatnonzero(is_of_it[begin:end])))

    def _commit_in_epoch(self, fetches: Lines) -> None:
        replica, offset = fetches["broker_id"], fetches["offset"]
        if not len(replica):
            return
        voters = sorted(self.voters)
        offsets = np.empty((len(voters), len(replica)), np.int64)
        for row, voter in zip(offsets, voters, strict=True):
            last = np.maximum.accumulate(np.where(replica == voter, np.arange(len(replica)), -1))
            row[:] = np.where(last < 0, self.voter_offsets.get(voter, _UNSEEN), offset[last])
        for row, voter in zip(offsets, voters, strict=True):
            if row[-1] != _UNSEEN:
                self.voter_offsets[voter] = int(row[-1])
        offsets.sort(axis=0)
        # A leader that votes stands first: its own offset is at or above all others.
        leads = np.isin(fetches["node_id"], voters)
        rank = len(voters) // 2 - leads
        committed = offsets[len(voters) - 1 - rank, np.arange(len(replica))]
        known = (rank >= 0) & (committed != _UNSEEN)
        self.high_watermark.add_all(fetches["dequeued_us"][known], committed[known])

    def offsets(self, row: Event) -> Offsets | str:
        """Where a write's last record lies, or why the log can't tell."""
        taken, answered = row.dequeued_us - STAMP_SLACK_US, row.at_us + STAMP_SLACK_US
        if len(self.voters) == 1:
            return SINGLE_VOTER
        committed = self.high_watermark.value(answered)
        if committed is None or self.known_from_us is None or answered < self.known_from_us:
            return NO_HIGH_WATERMARK
        led = [led for led in self.led.get(row.node_id, ()) if led.since_us <= answered]
        fetched = led[-1].ends.value(taken) if led else None
        end = max(fetched or 0, self.high_watermark.value(taken) or 0)
        low, high = end + least_records(row) - 1, committed - 1
        if low > high:
            # Its own records would be above all that was there, and committed by now.
            return NOTHING_WRITTEN
        reached = self.high_watermark.reached(low + 1)
        return Offsets(low, high, max(row.dequeued_us, reached[0] if reached else row.dequeued_us))

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        self.high_watermark.forget(before)
        for led in self.led.values():
            while len(led) > 1 and led[1].since_us < before:
                del led[0]
            led[-1].ends.forget(before)


def is_write(row: Event) -> bool:
    """The request wrote, or may have: it was no rehearsal, and not all of it was refused."""
    if row.validate_only or row.error_code not in (0, NO_ANSWER):
        return False
    return row.error_code != 0 or row.written > 0


def least_records(row: Event) -> int:
    """The fewest records that a write can be (``ReplicationControlManager``).

    A topic is one record and one for each partition and config; a deletion one a topic. What may
    have been so already (a config set to its value) is counted once for all: a write that really
    changed nothing is found out by the high watermark.
    """
    if row.api_name == "CREATE_TOPICS":
        return row.written + max(row.partitions, row.written) + row.configs
    if row.api_name in ("DELETE_TOPICS", "CREATE_PARTITIONS"):
        return row.written
    return 1


#: local host:port-remote host:port-processor-index, in newer versions with a second index.
_CONNECTION = re.compile(r".*?:\d+-(.*):\d+(?:-\d+)+")


def remote_host(connection: str | None) -> str | None:
    """Who connected, of a line's ``connection``; None if it cannot be read."""
    match = _CONNECTION.fullmatch(connection or "")
    return match[1] if match else None


class BrokersLine(NamedTuple):
    """A broker's own line of a write that it forwards."""

    client_id: str | None
    api_name: str
    received_us: int
    answered_us: int
    broker_id: int


@dataclass
class Forwarding:
    """Joins a forwarded write with the line of the broker that forwarded it.

    Client id and correlation id can match two requests. So the broker must be one that connects to
    the controllers from the same host (its heartbeats tell), and must have had the request from
    before the controller did until after. Of several, the one that had it the shortest.
    """

    hosts: dict[str, set[int]] = field(default_factory=dict)
    #: By correlation id.
    lines: dict[int, list[BrokersLine]] = field(default_factory=dict)

    def take(self, batch: pa.RecordBatch, voters: Iterable[int]) -> None:
        """A piece of log: heartbeats, and lines of writes."""
        beats, writes = (
            np.flatnonzero(pc.equal(batch.column("kind"), kind).to_numpy(zero_copy_only=False))
            for kind in (HEARTBEAT, WRITE)
        )
        connections = batch.column("connection").take(pa.array(beats))
        self.heartbeats(connections, batch.column("broker_id").to_numpy()[beats])
        for row in Lines(pa.Table.from_batches([batch]), writes, writes).events():
            if is_forwarders_line(row, voters):
                self.line(row)

    def heartbeats(self, connections: pa.Array, brokers: Ints) -> None:
        """Heartbeats tell from which hosts their brokers connect."""
        texts = connections.dictionary_encode()
        codes = texts.indices.fill_null(-1).to_numpy()
        for code, broker in set(zip(codes.tolist(), brokers.tolist(), strict=True)):
            host = remote_host(texts.dictionary[code].as_py()) if code >= 0 else None
            if host is not None:
                self.hosts.setdefault(host, set()).add(broker)

    def line(self, row: Event) -> None:
        """A broker's own line of a write that it forwards."""
        line = BrokersLine(row.client_id, row.api_name, row.received_us, row.at_us, row.node_id)
        self.lines.setdefault(row.correlation_id, []).append(line)

    def via(self, row: Event) -> tuple[int | None, int]:
        """(the broker that forwarded a write if any, when it or else the controller got it)."""
        if not row.is_forwarded:
            return None, row.received_us
        host = remote_host(row.connection)
        brokers = self.hosts.get(host, set()) if host is not None else set()
        around = [
            (line.answered_us - line.received_us, line.received_us, line.broker_id)
            for line in self.lines.get(row.correlation_id, ())
            if (line.client_id, line.api_name) == (row.client_id, row.api_name)
            and line.broker_id in brokers
            and line.received_us <= row.received_us + JOIN_SLACK_US
            and row.at_us <= line.answered_us + JOIN_SLACK_US
        ]
        if around:
            _, received, broker = min(around)
            return broker, min(received, row.received_us)
        return (next(iter(brokers)) if len(brokers) == 1 else None), row.received_us

    def forget(self, before: int) -> None:
        """Drop lines answered before a time."""
        kept = {
            number: [line for line in lines if line.answered_us >= before]
            for number, lines in self.lines.items()
        }
        self.lines = {number: lines for number, lines in kept.items() if lines}


def is_forwarders_line(row: Event, voters: Iterable[int]) -> bool:
    """A line of a broker about a request that a controller answers.

    A node that is both has lines of both kinds; those that came directly to a voter are writes.
    """
    return not row.is_forwarded and row.node_id not in voters
