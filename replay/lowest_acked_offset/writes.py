"""Metadata writes: which offsets the log leaves them, and who forwarded them.

No response of CREATE_TOPICS and the like carries an offset. But the controller responds once the
last record of a write is committed, and appends it after it took the request, so that the FETCHes
of the metadata log close it in:

* its first record is at or behind every fetch offset that was seen before (the leader's log cannot
  be shorter than a replica's), and it has at least ``least_records`` of them;
* its last record is below the high watermark at the moment when the response was built.

The high watermark is recomputed from the voters' fetch offsets (``LeaderState
.maybeUpdateHighWatermark``), never read from a response. A voter that has a record of the leader's
epoch shows it by ``lastFetchedEpoch``; only such offsets commit, which is Kafka's condition that
the high watermark passes the epoch's first record. The recomputed one is at or above the leader's,
as a FETCH counts when its handler takes it, so the upper end is never too low.
"""

import re
from typing import NamedTuple

import msgspec

from ..model.raft import majority_offset
from ..simulation import Rising
from .events import NO_ANSWER, STAMP_SLACK_US, Event
from .reasons import NO_HIGH_WATERMARK, NOTHING_WRITTEN, SINGLE_VOTER

#: A voter that is silent for this long in the log is away: a parked FETCH waits half of it.
VOTER_SILENCE_US = 1_000_000
#: Clocks of brokers and controllers may differ, and derived arrivals are off, by up to this.
JOIN_SLACK_US = 100_000


class Offsets(NamedTuple):
    """Where the last record of a write lies; ``committed_us`` is the soonest that it can be."""

    low: int
    high: int
    committed_us: int


class CommittedOffsets(msgspec.Struct):
    """The metadata log as its FETCHes show it: its length, its high watermark, its beginning."""

    voters: frozenset[int]
    high_watermark: Rising = msgspec.field(default_factory=Rising)
    #: By leader its last epoch, and what was fetched from it in that.
    led: dict[int, int] = {}
    log_ends: dict[int, Rising] = {}
    first_offsets: dict[int, int] = {}
    epoch: int = -1
    voter_offsets: dict[int, int] = {}
    known_from_us: int | None = None

    def fetch(self, row: Event) -> None:
        at, replica, epoch, offset = row.dequeued_us, row.broker_id, row.leader_epoch, row.offset
        if replica in self.voters:
            self.first_offsets.setdefault(replica, offset)
        if row.error_code != 0 or row.is_diverging:
            return
        if epoch > self.led.get(row.node_id, -1):
            self.led[row.node_id], self.log_ends[row.node_id] = epoch, Rising()
        if row.node_id in self.log_ends:
            self.log_ends[row.node_id].add(at, offset)
        if replica in self.voters and replica != row.node_id:
            self._voter_fetch(at, row)

    @property
    def began_empty(self) -> bool:
        """Committed records are on a majority: if too many voters begin empty, none were."""
        empty = sum(first == 0 for first in self.first_offsets.values())
        return empty >= len(self.voters) - len(self.voters) // 2

    def _voter_fetch(self, at: int, row: Event) -> None:
        if self.known_from_us is None:
            # Who has not fetched yet may be ahead: it was parked when the log began, or is away.
            self.known_from_us = at if self.began_empty else at + VOTER_SILENCE_US
        if row.leader_epoch > self.epoch:
            self.epoch = row.leader_epoch
            self.voter_offsets = {}
        if row.leader_epoch < self.epoch or row.last_fetched_epoch != row.leader_epoch:
            return
        self.voter_offsets[row.broker_id] = row.offset
        offsets = self.voter_offsets.values()
        # A leader that votes has what any voter has.
        own_offset = max(offsets) if row.node_id in self.voters else None
        committed = majority_offset(offsets, len(self.voters), own_offset)
        if committed is not None:
            self.high_watermark.add(at, committed)

    def offsets(self, row: Event) -> Offsets | str:
        """Where a write's last record lies, or why the log leaves it open."""
        taken, built = row.dequeued_us - STAMP_SLACK_US, row.at_us + STAMP_SLACK_US
        if len(self.voters) == 1:
            return SINGLE_VOTER
        committed = self.high_watermark.value(built)
        if committed is None or self.known_from_us is None or row.dequeued_us < self.known_from_us:
            return NO_HIGH_WATERMARK
        fetched = self.log_ends.get(row.node_id, Rising()).value(taken)
        end = max(fetched or 0, self.high_watermark.value(taken) or 0)
        low, high = end + least_records(row) - 1, committed - 1
        if low > high:
            # Its own records would be above all that was there, and committed by now.
            return NOTHING_WRITTEN
        reached = self.high_watermark.reached(low + 1)
        return Offsets(low, high, max(row.dequeued_us, reached[0] if reached else row.dequeued_us))

    @property
    def first_offset(self) -> int:
        """Nothing above this was committed before the lines of which it is known."""
        if self.known_from_us is None:
            return 0
        return (self.high_watermark.value(self.known_from_us) or 0) - 1

    def forget(self, before: int) -> None:
        self.high_watermark.forget(before)
        for ends in self.log_ends.values():
            ends.forget(before)


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
_CONNECTION = re.compile(r".*?:(\d+)-(.*):\d+(?:-\d+)+")


def remote_host(connection: str | None) -> str | None:
    """Who connected, of a line's ``connection``; None if it cannot be read."""
    match = _CONNECTION.fullmatch(connection or "")
    return match[2] if match else None


def _local_port(connection: str | None) -> str | None:
    match = _CONNECTION.fullmatch(connection or "")
    return match[1] if match else None


Key = tuple[str | None, int, str]


def _key(row: Event) -> Key:
    return row.client_id, row.correlation_id, row.api_name


class Sender(NamedTuple):
    """The broker that forwarded a write, or None, and when it, or else the controller, received it.

    That is None where the log does not have the broker's line of it.
    """

    via: int | None
    received_us: int | None


class Forwarding(msgspec.Struct):
    """Joins a forwarded write with the line of the broker that forwarded it.

    Client id and correlation id can match two requests. So the broker must be one that connects to
    the controllers from the same host (its heartbeats show it), and must have had the request from
    before the controller did until after. Of several, the one that had it the shortest.
    """

    hosts: dict[str, set[int]] = {}
    #: Who sends heartbeats, and the (node, local port) at which controllers get them.
    brokers: set[int] = set()
    controller_ports: set[tuple[int, str | None]] = set()
    #: By (client id, correlation id, API).
    lines: dict[Key, list[Event]] = {}

    def heartbeat(self, row: Event) -> None:
        """A heartbeat shows from which host its broker connects, and to which listener."""
        self.brokers.add(row.broker_id)
        self.controller_ports.add((row.node_id, _local_port(row.connection)))
        host = remote_host(row.connection)
        if host is not None:
            self.hosts.setdefault(host, set()).add(row.broker_id)

    def is_of_broker(self, row: Event) -> bool:
        """A write to a combined node (broker and controller) came to its broker's listener."""
        port = row.node_id, _local_port(row.connection)
        return (
            not row.is_forwarded
            and row.node_id in self.brokers
            and port not in self.controller_ports
        )

    def line(self, row: Event) -> None:
        """A broker's own line of a write that it forwards."""
        self.lines.setdefault(_key(row), []).append(row)

    def via(self, row: Event) -> Sender:
        if not row.is_forwarded:
            return Sender(None, row.received_us)
        host = remote_host(row.connection)
        brokers = self.hosts.get(host, set()) if host is not None else set()
        around = [
            (line.at_us - line.received_us, line.received_us, line.node_id)
            for line in self.lines.get(_key(row), ())
            if line.node_id in brokers
            and line.received_us <= row.received_us + JOIN_SLACK_US
            and row.at_us <= line.at_us + JOIN_SLACK_US
        ]
        if around:
            _, received, broker = min(around)
            return Sender(broker, min(received, row.received_us))
        return Sender(next(iter(brokers)) if len(brokers) == 1 else None, None)

    def forget(self, before: int) -> None:
        for key, lines in list(self.lines.items()):
            self.lines[key] = [line for line in lines if line.at_us >= before]
            if not self.lines[key]:
                del self.lines[key]
