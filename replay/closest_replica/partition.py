"""A partition as its leader's log shows it: who leads, who is in sync, who has what since when.

And zones: those of brokers by ``broker.rack``, those of clients by rack id or as the manifest has.
Last, when a replica could have given a consumer the first record of a read (``Moments``):

A FETCH that waits is responded to once the high watermark of the replica passes its offset. The
leader's moves when the last follower in sync has the record. A follower's moves when a response of
the leader carries a higher one (``ReplicaFetcherThread``), at most to its own log end offset. A
consumer that reads committed records waits for the last stable offset in the same way.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

import msgspec

from ..model import PROGRESS_US_MAX, STAMP_US
from ..model.partition import REPLICA_FETCH_WAIT_MAX_US, ReplicaView
from ..records import Variant
from ..simulation import Rising, Timeline
from .events import ReplicaEvent
from .outcomes import CLOSEST_HWM_AWARE, FETCH_WAIT_MS

# Times, limits and shares: Kafka's settings, measurements, and choices, each with its reason.
#: A read is decided this long after its response: by then followers got the responses it rests on.
DECIDED_AFTER_US = 10_000_000
#: What is this much older than the log's front is forgotten, in steps of half of it.
FORGET_US = 60_000_000
#: A partition that a session's FETCH listed longer ago is forgotten.
LISTED_US = 24 * 3_600_000_000
#: Clients that are remembered.
CLIENTS_MAX = 10_000
#: Responses to followers wait at most half of this. So a high watermark that none carries for
#: longer did not move when followers had the records, but later.
MOVED_US_MAX = 2 * REPLICA_FETCH_WAIT_MAX_US
#: A follower behind the high watermark that has not fetched for this long has stopped.
STOPPED_US = 10_000_000
#: What stamps, and the place within a handler, leave open of when a follower has records.
NOTED_US = STAMP_US + PROGRESS_US_MAX
#: A consumer that reads committed records, and waited this much longer than for the record, waited
#: for the end of its transaction.
TRANSACTION_US = 10_000
READ_COMMITTED = 1


class Zones:
    """The zones of brokers (``by_broker``: ``broker.rack`` by node id) and of clients.

    ``stated``: the manifest's ``client_zones``, by client id, address or range of addresses.
    """

    def __init__(self, by_broker: Mapping[int, str], stated: Mapping[str, str]) -> None:
        self.by_broker, self._stated = by_broker, stated
        ranges = ((_range(name), zone) for name, zone in stated.items())
        self._ranges = [(network, zone) for network, zone in ranges if network is not None]
        self._find = lru_cache(CLIENTS_MAX)(self._find_stated)

    def zone(self, rack_id: str | None, client_id: str | None, host: str | None) -> str | None:
        """Returns the zone of a client: its rack id, else what is stated of its id or address."""
        return rack_id or (self._find(client_id, host) if self._stated else None)

    def _find_stated(self, client_id: str | None, host: str | None) -> str | None:
        for name in (client_id, host):
            if name and name in self._stated:
                return self._stated[name]
        try:
            address = ip_address(host or "")
        except ValueError:
            return None
        within = [(net.prefixlen, zone) for net, zone in self._ranges if address in net]
        return max(within)[1] if within else None  # the narrowest


def _range(name: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(name, strict=False) if "/" in name else None
    except ValueError:
        return None


#: Log end offset of a follower of which only the ISR is known.
_ALL = 2**63 - 1


class LearnedWatermark(msgspec.Struct, array_like=True, gc=False):
    """A high watermark that a leader's response carried to a follower.

    ``received_us``: arrival of the FETCH; ``way_us``: from leader to follower.
    """

    high_watermark: int
    built_us: int
    received_us: int
    way_us: int


class FollowerHistory(msgspec.Struct, array_like=True):
    """A follower's progress over time.

    ``has``: below which offset it has all, at each FETCH. ``learned``: by rising high watermark.
    """

    has: Rising = msgspec.field(default_factory=Rising)
    learned: list[LearnedWatermark] = []

    def fetch(self, at: int, offset: int) -> None:
        """Notes a FETCH, also at the same offset: ``has_stopped`` reads when the last one was."""
        has = self.has
        if not has.values or offset >= has.values[-1]:
            has.at.append(at)
            has.values.append(offset)
            has.nodes.append(-1)

    def learns(self, high_watermark: int) -> LearnedWatermark | None:
        """Returns the first response with at least this high watermark."""
        at = bisect_left(self.learned, high_watermark, key=lambda learned: learned.high_watermark)
        return self.learned[at] if at < len(self.learned) else None

    def forget(self, before: int) -> None:
        self.has.forget(before)
        keep = bisect_left(self.learned, before, key=lambda learned: learned.built_us) - 1
        del self.learned[: max(0, keep)]


class ReadPartition(msgspec.Struct, array_like=True):
    """A partition that consumers read, over time.

    ``terms``: by leader epoch since when it is seen, and the leader. ``returned``: high watermarks
    that this leader's responses have, since they were built.
    """

    terms: dict[int, tuple[int, int]] = {}
    isr: Timeline[tuple[int, ...]] = msgspec.field(default_factory=Timeline)
    returned: Rising = msgspec.field(default_factory=Rising)
    followers: dict[int, FollowerHistory] = {}

    def lead(self, epoch: int, at: int, leader_id: int) -> None:
        """Begins a term; with a new one followers have to show anew what they have."""
        if epoch > max(self.terms, default=epoch):
            for follower in self.followers.values():
                follower.has = Rising()
        since_us, _ = self.terms.get(epoch, (at, leader_id))
        self.terms[epoch] = (min(at, since_us), leader_id)

    def leader(self, at: int) -> int | None:
        """Returns the leader at a time; the first one that is known led before, too."""
        begun = [epoch for epoch, (since, _) in self.terms.items() if since <= at]
        epoch = max(begun) if begun else min(self.terms, default=None)
        return None if epoch is None else self.terms[epoch][1]

    def follower(self, broker_id: int) -> FollowerHistory:
        if broker_id not in self.followers:
            self.followers[broker_id] = FollowerHistory()
        return self.followers[broker_id]

    def passed(self, high_watermark: int, by_us: int) -> int:
        """Returns when the leader's high watermark was first this; a response shows it ``by_us``.

        It moves when the last follower in sync has the records. A follower that has them only after
        a response shows it was not in sync.
        """
        returned = self.returned.reached(high_watermark)
        until = min(by_us, returned[0]) if returned else by_us
        had = (follower.has.reached(high_watermark) for follower in self.followers.values())
        at = max((has[0] for has in had if has and has[0] <= until + NOTED_US), default=until)
        return until if at > until or until - at > MOVED_US_MAX else at

    def in_sync(self, at: int, zones: Zones) -> Iterator[ReplicaView]:
        """Yields the followers in the ISR at a time.

        No high watermark passes a follower in the ISR, and a follower that has all below it joins.
        A line's ISR counts for followers that have not fetched since: those that it lacks are out.
        """
        high_watermark = self.returned.value(at) or 0
        stated, stated_us = self.isr.valid(at) or ((), -1)
        for broker_id in sorted({*self.followers, *stated}):
            follower, zone = self.followers.get(broker_id), zones.by_broker.get(broker_id)
            has = follower.has.valid(at) if follower else None
            is_stated = broker_id in stated
            if has is None:
                if is_stated:
                    yield ReplicaView(broker_id, zone, _ALL, 0)
            elif has[0] >= high_watermark and (is_stated or not has[1] <= stated_us <= at):
                yield ReplicaView(broker_id, zone, *has)

    def has_stopped(self, broker_id: int, at: int) -> bool:
        """Tells whether a follower has fetched nothing more while the high watermark went on."""
        follower, high_watermark = self.followers.get(broker_id), self.returned.value(at) or 0
        has = follower.has.valid(at) if follower else None
        return bool(has and has[0] < high_watermark and has[1] < at - STOPPED_US)

    def forget(self, before: int) -> None:
        self.isr.forget(before)
        self.returned.forget(before)
        for follower in self.followers.values():
            follower.forget(before)


class Given(NamedTuple):
    """When a replica would have given the record, and at the earliest; microseconds."""

    earliest_us: int | None
    at_us: int


class Moments:
    """When the leader and each follower would have given a consumer the first record of a read."""

    def __init__(self, partition: ReadPartition, read: ReplicaEvent) -> None:
        self._partition, self._read = partition, read
        self._await(read.fetch_offset + 1)
        is_committed = read.isolation_level == READ_COMMITTED and read.is_awaited
        if is_committed and read.at_us - self._own_us > TRANSACTION_US:
            self._await(max(self._offset, read.last_stable_offset))
        self.leader = Given(None, self._at(self._passed_us))

    def _await(self, offset: int) -> None:
        """Lets the FETCH wait for a high watermark, unless the replica had it when it came.

        ``_passed_us``: when the leader had it; ``_own_us``: when the replica it came to had it.
        """
        partition, read, self._offset = self._partition, self._read, offset
        self._passed_us = self._own_us = partition.passed(offset, read.at_us)
        follower = partition.followers.get(read.broker_id)
        if follower and (learned := self._learned(follower)):
            self._own_us = learned.at_us
        self._waits = read.is_awaited and self._own_us >= read.dequeued_us - NOTED_US

    def follower(self, replica_id: int, variant: Variant) -> Given | None:
        """Returns when a follower would have given it; None: no response shows it learning that."""
        follower = self._partition.followers.get(replica_id)
        learned = self._learned(follower, variant) if follower else None
        return learned and Given(learned.earliest_us, self._at(learned.at_us))

    def _at(self, at_us: int) -> int:
        """Returns when the FETCH gets records that are there at a time: not before it comes."""
        return at_us if self._waits else max(at_us, self._read.dequeued_us)

    def _learned(self, follower: FollowerHistory, variant: Variant | None = None) -> Given | None:
        """Returns when a follower has what the FETCH waits for; without a variant, as recorded."""
        response = follower.learns(self._offset)
        is_first = response is not None and response is follower.learned[0]
        if response is None or (is_first and self._partition.returned.values[0] >= self._offset):
            return None  # an earlier response, older than the log, may have had it
        way_us, built_us = response.way_us, response.built_us
        has = follower.has.reached(self._offset)
        arrives_us = has[0] if has else 0
        if variant and variant.parameter == FETCH_WAIT_MS:
            built_us = min(built_us, self._expires(response, 1000 * variant.parameter_value))
        elif variant and variant.name == CLOSEST_HWM_AWARE:
            built_us = min(built_us, max(self._passed_us, arrives_us))
        # Its log has the record half of the way there and back before its next FETCH says so.
        return Given(response.built_us, max(built_us + way_us, arrives_us - way_us))

    def _expires(self, response: LearnedWatermark, wait_us: int) -> int:
        """Returns when the first of a follower's FETCHes, each of which waits ``wait_us``, ends
        after the leader's high watermark moved.
        """
        cycle_us, end_us = wait_us + 2 * response.way_us, response.received_us + wait_us
        behind_us = self._passed_us - end_us
        return end_us + max(0, -(-behind_us // cycle_us)) * cycle_us
