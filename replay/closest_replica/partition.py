"""A partition as its leader's log shows it: who leads, who is in sync, who has what since when.

And zones: those of brokers by ``broker.rack``, those of clients by rack id or as the manifest has.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

import msgspec

from ..model import PROGRESS_US_MAX, STAMP_US
from ..model.partition import REPLICA_FETCH_WAIT_MAX_US, ReplicaView
from ..simulation import Rising, Timeline

# Times, limits and shares: Kafka's settings, measurements, and choices, each with its reason.
#: Clients that are remembered.
CLIENTS_MAX = 10_000
#: Responses to followers wait at most half of this. So a high watermark that none carries for
#: longer did not move when followers had the records, but later.
MOVED_US_MAX = 2 * REPLICA_FETCH_WAIT_MAX_US
#: A follower behind the high watermark that has not fetched for this long has stopped.
STOPPED_US = 10_000_000
#: What stamps, and the place within a handler, leave open of when a follower has records.
NOTED_US = STAMP_US + PROGRESS_US_MAX


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
