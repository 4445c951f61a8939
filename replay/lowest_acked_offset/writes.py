"""Metadata writes: which offsets the log leaves them, and who forwarded them.

No response of CREATE_TOPICS and the like carries an offset. But the controller responds once the
last record of a write is committed, and appends it after it took the request, so that the FETCHes
of the metadata log close it in:

* its first record is at or behind every fetch offset that was seen before (the leader's log cannot
  be shorter than a replica's), and it has at least ``least_records`` of them;
* its last record is below the high watermark at the moment when the response was built.

The high watermark is recomputed from the voters' fetch offsets (``model.raft.Leader``), never read
from a response. A voter that has a record of the leader's
epoch shows it by ``lastFetchedEpoch``; only such offsets commit, which is Kafka's condition that
the high watermark passes the epoch's first record. The recomputed one is at or above the leader's,
as a FETCH counts when its handler takes it, so the upper end is never too low.
"""

import re
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ..model import STAMP_US
from ..model.raft import NO_RESPONSE, UNKNOWN_OFFSET, Leader
from ..simulation import Rising
from .events import HEARTBEAT_WAIT_US, HORIZON_US, VOTER_SILENCE_US, ClusterEvent, Undecided


class Offsets(NamedTuple):
    """Where the last record of a write lies; ``committed_us`` is the soonest that it can be."""

    low: int
    high: int
    committed_us: int


class Write(NamedTuple):
    """A metadata write, and where its last record lies, or why the log leaves that open."""

    row: ClusterEvent
    offsets: Offsets | str

    @property
    def until_us(self) -> int:
        return self.row.at_us + HORIZON_US

    def reached(self, timeline: Rising | None) -> tuple[int | None, int | None]:
        """Returns when, and by which node, a timeline reached the write, while it is followed."""
        if timeline is not None and isinstance(self.offsets, Offsets):
            reached = timeline.reached(self.offsets.high)
            if reached is not None and reached[0] <= self.until_us:
                return reached
        return None, None


class Front(NamedTuple):
    """How far a log is replayed; ``ended``: why no line follows, at the log's end or a gap."""

    until_us: int
    ended: str | None = None

    @property
    def final_us(self) -> int:
        """Returns up to where no later line changes anything.

        Whether a broker was slow, only its next heartbeat shows.
        """
        return self.until_us - (0 if self.ended else HEARTBEAT_WAIT_US)

    @property
    def is_gap(self) -> bool:
        return self.ended == Undecided.LOG_GAP

    def too_late(self, write: Write) -> str:
        """Returns why the log does not show when a write was applied, or known."""
        ended = self.ended or Undecided.LOG_ENDS
        return Undecided.HORIZON if write.until_us <= self.until_us else ended

    def hides(self, times: Iterable[int | None], rests_us: int) -> bool:
        """Says whether a gap may hide one of these times (None: not seen), or what it rests on."""
        return self.is_gap and any(at is None or at + rests_us > self.until_us for at in times)


class CommittedOffsets(msgspec.Struct):
    """The metadata log as its FETCHes show it: its length, its high watermark, its beginning."""

    voters: frozenset[int]
    high_watermark: Rising = msgspec.field(default_factory=Rising)
    #: By leader its last epoch, and what was fetched from it in that.
    led: dict[int, int] = {}
    log_ends: dict[int, Rising] = {}
    first_offsets: dict[int, int] = {}
    #: The leader of the last epoch, as far as voters show that they have a record of it.
    leader: Leader | None = None
    #: From then on no voter can be further than its FETCHes show; None: none has fetched yet.
    known_from_us: int | None = None

    def fetch(self, row: ClusterEvent) -> None:
        """Moves log ends and the high watermark on by a FETCH; they come in order of dequeue."""
        at, replica, leader, epoch = row.dequeued_us, row.broker_id, row.node_id, row.leader_epoch
        if replica in self.voters:
            self.first_offsets.setdefault(replica, row.offset)
        if row.error_code != 0 or row.is_diverging:
            return
        if epoch > self.led.get(leader, -1):
            self.led[leader], self.log_ends[leader] = epoch, Rising()
        if leader in self.log_ends:
            self.log_ends[leader].add(at, row.offset)
        if replica not in self.voters or replica == leader:
            return
        if self.known_from_us is None:
            # Who has not fetched yet may be ahead: it was parked when the log began, or is away.
            self.known_from_us = at if self.began_empty else at + VOTER_SILENCE_US
        if self.leader is None or epoch > self.leader.leader_epoch:
            self.leader = Leader(False, epoch, self.voters - {leader}, len(self.voters))
        if epoch == self.leader.leader_epoch == row.last_fetched_epoch:
            # A leader has what any voter has.
            self.leader.append(row.offset)
            self.leader.update_voter(replica, row.offset)
            if self.leader.high_watermark != UNKNOWN_OFFSET:
                self.high_watermark.add(at, self.leader.high_watermark)

    @property
    def began_empty(self) -> bool:
        """Says whether nothing was committed: too many voters begin empty for a majority."""
        empty = sum(first == 0 for first in self.first_offsets.values())
        return empty >= len(self.voters) - len(self.voters) // 2

    def offsets(self, row: ClusterEvent) -> Offsets | str:
        """Returns where a write's last record lies, or why the log leaves it open."""
        taken, built = row.dequeued_us - STAMP_US, row.at_us + STAMP_US
        if len(self.voters) == 1:
            return Undecided.SINGLE_VOTER
        committed = self.high_watermark.value(built)
        if committed is None or self.known_from_us is None or row.dequeued_us < self.known_from_us:
            return Undecided.NO_HIGH_WATERMARK
        fetched = self.log_ends.get(row.node_id, Rising()).value(taken)
        end = max(fetched or 0, self.high_watermark.value(taken) or 0)
        low, high = end + least_records(row) - 1, committed - 1
        if low > high:
            # Records of its own would be above all that was there, and committed by now.
            return Undecided.NOTHING_WRITTEN
        reached = self.high_watermark.reached(low + 1)
        return Offsets(low, high, max(row.dequeued_us, reached[0] if reached else row.dequeued_us))

    @property
    def last_offset_before(self) -> int:
        """Returns the last offset that may have been committed before the log."""
        if self.known_from_us is None:
            return 0
        return (self.high_watermark.value(self.known_from_us) or 0) - 1


def is_write(row: ClusterEvent) -> bool:
    """Says whether a request wrote, or may have: no ``validateOnly``, and not all refused."""
    if row.validate_only or row.error_code not in (0, NO_RESPONSE):
        return False
    return row.error_code != 0 or row.written > 0


def least_records(row: ClusterEvent) -> int:
    """Returns the fewest records that a write can be (``ReplicationControlManager``).

    A topic is one record and one for each partition and config; a deletion one a topic. Other
    writes count as one record, since most of what they set may have been so already. The high
    watermark shows which of them changed nothing at all (``Undecided.NOTHING_WRITTEN``).
    """
    if row.api_name == "CREATE_TOPICS":
        return row.written + max(row.partitions, row.written) + row.configs
    if row.api_name in ("DELETE_TOPICS", "CREATE_PARTITIONS"):
        return row.written
    return 1


#: Clocks of brokers and controllers may differ, and derived arrivals are off, by up to this. It is
#: an assumption: NTP keeps hosts within tens of milliseconds.
JOIN_SLACK_US = 100_000
#: local host:port-remote host:port-processor-index, in newer versions with a second index.
_CONNECTION = re.compile(r".*?:(\d+)-(.*):\d+(?:-\d+)+")


def _endpoints(connection: str | None) -> tuple[str | None, str | None]:
    """Returns the local port and the remote host of a line's ``connection``, if it can be read."""
    match = _CONNECTION.fullmatch(connection or "")
    return (match[1], match[2]) if match else (None, None)


#: What a request has in common at the broker that forwards it and at the controller.
_correlation = attrgetter("client_id", "correlation_id", "api_name")
Key = tuple[str | None, int, str]


class Arrival(NamedTuple):
    """Where a write came from a client: the broker that forwarded it, or None, and when.

    The time is None where the log does not have that broker's line of it.
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
    lines: dict[Key, list[ClusterEvent]] = {}

    def heartbeat(self, row: ClusterEvent) -> None:
        """Learns by a heartbeat from which host its broker connects, and to which listener."""
        self.brokers.add(row.broker_id)
        port, host = _endpoints(row.connection)
        self.controller_ports.add((row.node_id, port))
        if host is not None:
            self.hosts.setdefault(host, set()).add(row.broker_id)

    def is_of_broker(self, row: ClusterEvent) -> bool:
        """Says whether a write to a combined node came to its broker's listener."""
        port, _ = _endpoints(row.connection)
        is_own = not row.is_forwarded and row.node_id in self.brokers
        return is_own and (row.node_id, port) not in self.controller_ports

    def line(self, row: ClusterEvent) -> None:
        """Keeps a broker's own line of a write, to be joined with the controller's."""
        self.lines.setdefault(_correlation(row), []).append(row)

    def arrival(self, row: ClusterEvent) -> Arrival:
        """Joins a controller's line of a write with the one of the broker that forwarded it."""
        if not row.is_forwarded:
            return Arrival(None, row.received_us)
        _, host = _endpoints(row.connection)
        brokers = set() if host is None else self.hosts.get(host, set())
        around = [
            (line.at_us - line.received_us, line.received_us, line.node_id)
            for line in self.lines.get(_correlation(row), ())
            if line.node_id in brokers
            and line.received_us <= row.received_us + JOIN_SLACK_US
            and row.at_us <= line.at_us + JOIN_SLACK_US
        ]
        if around:
            _, received, broker = min(around)
            return Arrival(broker, min(received, row.received_us))
        return Arrival(next(iter(brokers)) if len(brokers) == 1 else None, None)

    def forget(self, before: int) -> None:
        for key, lines in list(self.lines.items()):
            self.lines[key] = [line for line in lines if line.at_us >= before]
            if not self.lines[key]:
                del self.lines[key]
