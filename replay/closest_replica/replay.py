"""KIP-392 driven by a recorded log: what consumers read of one leader's partitions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from ..log_gaps import LogGap, gaps_of, last_begun
from ..model.read_replica import RACK_ID_VERSION, PreferredReadReplica, is_same_rack, select
from ..other_clocks import CLOCKS_DIFFER
from ..outcomes import NOT_SWEPT, Variant
from ..records import Records, events_of
from . import outcomes
from .events import Event, Kind
from .moments import Given, Moments, Read
from .outcomes import (
    CLOSEST_REPLICA_OUTCOMES,
    LEADER,
    ClosestReplicaOutcome,
    RecordedRead,
    Unknown,
)
from .partition import ReadPartition, Response
from .zones import Zones

#: A read is decided so long after its response: by then its followers have got a response.
DECIDED_AFTER_US = 10_000_000
#: What is so much older than the log's front is forgotten, in steps of half of it.
FORGET_US = 60_000_000
#: A partition that a session's FETCH listed longer ago is forgotten.
LISTED_US = 24 * 3_600_000_000
TopicPartition = tuple[str, int]


class State(msgspec.Struct):
    """All that a replay carries; ``listed``: when a session last listed an offset of a partition,
    and that before.
    """

    node_id: int
    variants: list[Variant]
    zones: Zones
    front: tuple[Any, ...] = (-1, 0, "", "", 0)
    forgotten_us: int = -1
    partitions: dict[TopicPartition, ReadPartition] = {}
    listed: dict[tuple[int, int, str, int], tuple[int, int | None, int | None]] = {}
    preferred: dict[tuple[str | None, str | None, str, int], PreferredReadReplica] = {}
    ways: dict[int, int] = {}
    reads: list[Read] = []


class ClosestReplica:
    """The replay of the partitions that one node leads: events of ``INPUT_SCHEMA`` in order.

    Anything else raises ``ValueError``. ``stated``: zones by client id, address or range.
    ``saved``: what a replay of the same settings returned after the increment before. ``gaps``: of
    all logs; ``apart``: nodes whose clock is not the others'.
    """

    def __init__(
        self,
        node_id: int,
        variants: Sequence[Variant],
        stated: Mapping[str, str] | None = None,
        saved: bytes | None = None,
        *,
        gaps: Sequence[LogGap] = (),
        apart: Sequence[int] = (),
    ) -> None:
        new = State(node_id, [*variants], Zones(stated or {}))
        self._state = new if saved is None else msgspec.msgpack.decode(saved, type=State)
        self._gaps = {node: gaps_of(node, gaps) for node in {gap.node_id for gap in gaps}}
        self._own_gaps, self._apart = self._gaps.get(node_id, []), {*apart}
        self._rows = Records[ClosestReplicaOutcome](CLOSEST_REPLICA_OUTCOMES, outcomes.RULE)

    def saved(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    def feed(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Takes an increment and returns rows that nothing still to come can change."""
        state, decided = self._state, 0
        for event in events_of(batch, Event):
            if event.at_us > 0:
                if event[:2] < state.front[:2]:
                    raise ValueError("events must come in order of at_us, kind_order")
                state.front = event[:2]
                until = event.at_us - DECIDED_AFTER_US
                while decided < len(state.reads) and state.reads[decided].built_us <= until:
                    self._decide(state.reads[decided])
                    decided += 1
                if event.at_us - state.forgotten_us > FORGET_US // 2:
                    self._forget(event.at_us)
            self._take(event)
        del state.reads[:decided]
        return [self._rows.take()]

    def finish(self) -> Sequence[pa.RecordBatch]:
        for read in self._state.reads:
            self._decide(read)
        self._state.reads = []
        return [self._rows.take()]

    # --- what the log shows

    def _take(self, event: Event) -> None:
        state, kind, broker_id = self._state, event.kind, event.broker_id
        if kind == Kind.RACK:
            state.zones.of_brokers[broker_id] = str(event.rack)
            return
        key = event.topic, event.partition
        if kind == Kind.LISTED:
            at = broker_id, event.session_id or 0, *key
            before = state.listed.get(at, (0, None, None))[1]
            state.listed[at] = event.at_us, event.fetch_offset, before
            return
        partition = state.partitions.get(key)
        if partition is None:
            partition = state.partitions[key] = ReadPartition()
        if kind == Kind.PROGRESS:
            partition.follower(broker_id).fetch(event.at_us, event.fetch_offset or 0)
        elif kind == Kind.RETURNED:
            self._note(partition, event)
        elif kind == Kind.READ:
            self._read(partition, event)
        elif kind == Kind.TERM:
            partition.lead(event.leader_epoch or 0, event.at_us, broker_id)
        else:
            partition.isr.add(event.at_us, tuple(event.isr or ()))

    def _note(self, partition: ReadPartition, event: Event) -> None:
        high_watermark, received_us = event.high_watermark or 0, event.received_us or 0
        partition.shown.add(event.at_us, high_watermark)
        learned = partition.follower(event.broker_id).learned
        if not learned or learned[-1].high_watermark < high_watermark:
            # Half of the way there and back, which the FETCH behind the last response took.
            ways, sent_us, node_id = self._state.ways, event.previous_us, self._state.node_id
            if sent_us and not self._is_behind_gap(node_id, sent_us, received_us):
                ways[event.broker_id] = max(0, received_us - sent_us) // 2
            way_us = ways.get(event.broker_id, 0)
            learned.append(Response(high_watermark, event.at_us, received_us, way_us))

    def _is_behind_gap(self, node_id: int, since_us: int, at: int) -> bool:
        gap = last_begun(self._gaps.get(node_id, ()), at)
        return gap is not None and gap.before_us > since_us

    def _read(self, partition: ReadPartition, event: Event) -> None:
        if event.broker_id == self._state.node_id:
            partition.shown.add(event.at_us, event.high_watermark or 0)
        fetch_offset = event.fetch_offset
        if fetch_offset is None:
            at = event.broker_id, event.session_id or 0, event.topic, event.partition
            listed_us, offset, before = self._state.listed.get(at, (0, None, None))
            # The next FETCH may seem to come before this response: times are rounded.
            fetch_offset = offset if listed_us <= (event.dequeued_us or 0) else before
            if self._is_behind_gap(event.broker_id, listed_us, event.at_us):
                fetch_offset = None
        read = Read(
            event.request_id,
            event.broker_id,
            event.topic,
            event.partition,
            event.rack or None,
            fetch_offset,
            event.last_stable_offset,
            event.dequeued_us or event.at_us,
            event.handled_us or event.at_us,
            event.at_us,
            event.api_version or 0,
            event.isolation_level,
            event.client_id,
            event.client_host,
            event.record_bytes or 0,
            event.request_bytes,
            event.response_bytes,
            event.preferred_read_replica,
        )
        self._state.reads.append(read)

    def _forget(self, front_us: int) -> None:
        state = self._state
        state.forgotten_us = front_us
        for partition in state.partitions.values():
            partition.forget(front_us - FORGET_US)
        live = state.preferred.items()
        state.preferred = {key: of for key, of in live if of.expires_us > front_us - FORGET_US}
        oldest_us, listed = front_us - LISTED_US, state.listed.items()
        state.listed = {key: of for key, of in listed if of[0] >= oldest_us}

    # --- what follows

    def _decide(self, read: Read) -> None:
        """Emits a read's outcomes, unless another node leads the partition by then."""
        state, partition = self._state, self._state.partitions[read.topic, read.partition]
        leader_id = partition.leader(read.built_us)
        if leader_id is not None and leader_id != state.node_id:
            return
        zone = state.zones.of_client(read.rack_id, read.client_id, read.client_host)
        recorded = RecordedRead(
            request_id=read.request_id,
            node_id=read.broker_id,
            topic=read.topic,
            partition=read.partition,
            leader_id=leader_id,
            client_id=read.client_id,
            client_zone=zone,
            has_rack_id=read.rack_id is not None,
            fetch_offset=read.fetch_offset,
            record_bytes=read.record_bytes,
            request_bytes=read.request_bytes,
            response_bytes=read.response_bytes,
            preferred_read_replica=read.preferred,
            dequeued_at=read.dequeued_us,
            built_at=read.built_us,
            is_awaited=read.is_awaited,
        )
        if leader_id is None:
            found = [ClosestReplicaOutcome(variant=of) for of in state.variants]
            for outcome in found:
                outcome.make_unknown(Unknown.LEADER)
        else:
            found = [*self._outcomes(read, partition, leader_id, zone)]
        self._rows.add(*found, shared=recorded)

    def _outcomes(
        self, read: Read, partition: ReadPartition, leader_id: int, zone: str | None
    ) -> Iterator[ClosestReplicaOutcome]:
        chosen, is_redirected = self._choose(read, partition, leader_id, zone)
        moments = Moments(partition, read) if read.record_bytes else None
        near = 0 if zone else self._zones_of(partition, leader_id, read.dequeued_us)
        at_leader = self._place(leader_id, zone, near and 1)
        is_there = chosen == leader_id and not near
        at_chosen = at_leader if is_there else self._place(chosen, zone, near)
        for variant in self._state.variants:
            is_leader = variant.name == LEADER
            replica_id = leader_id if is_leader else chosen
            if variant.parameter_value != NOT_SWEPT and replica_id in (leader_id, None):
                continue  # there is nothing that a follower waits for
            replica_zone, is_cross_zone, even_share = at_leader if is_leader else at_chosen
            outcome = ClosestReplicaOutcome(
                variant=variant,
                replica_id=replica_id,
                replica_zone=replica_zone,
                is_cross_zone=is_cross_zone,
                even_share=even_share,
                is_redirected=is_redirected and not is_leader,
            )
            if replica_id is None:
                outcome.make_unknown(Unknown.FOLLOWERS)
            elif moments is not None:
                self._time(outcome, read, moments, leader_id)
            yield outcome

    def _zones_of(self, partition: ReadPartition, leader_id: int, at: int) -> int:
        """Counts the zones with a replica in sync."""
        of_brokers = self._state.zones.of_brokers
        ids = {leader_id, *(of.replica_id for of in partition.in_sync(at, self._state.zones))}
        return len({of_brokers[each].casefold() for each in ids if each in of_brokers})

    def _place(
        self, replica_id: int | None, zone: str | None, near: int
    ) -> tuple[str | None, bool | None, float | None]:
        """Returns a replica's zone, whether the client is in another, and where that is not known
        what share of clients in all zones would be; ``near``: how many zones need not cross.
        """
        zones = self._state.zones
        replica_zone = None if replica_id is None else zones.of_brokers.get(replica_id)
        if zone or not near:
            is_known = bool(zone and replica_zone)
            return replica_zone, not is_same_rack(zone, replica_zone) if is_known else None, None
        return replica_zone, None, 1 - near / zones.count

    def _time(
        self, outcome: ClosestReplicaOutcome, read: Read, moments: Moments, leader_id: int
    ) -> None:
        """Says when the replica would have given the records."""
        replica_id, of_leader = outcome.replica_id, moments.of_leader
        given: Given | None = of_leader
        if replica_id is not None and replica_id != leader_id:
            given = moments.of_follower(replica_id, outcome.variant)
        is_elsewhere = read.broker_id != leader_id
        if read.fetch_offset is None:
            return outcome.make_unknown(Unknown.OFFSET)
        if is_elsewhere and not self._apart.isdisjoint((read.broker_id, leader_id)):
            return outcome.make_unknown(CLOCKS_DIFFER)
        if given is None:
            return outcome.make_unknown(Unknown.HIGH_WATERMARK)
        outcome.given_at_earliest, outcome.given_at = given
        outcome.added_ms = (given.at_us - of_leader.at_us) / 1000
        if self._own_gaps:
            since_us = min(of_leader.at_us, read.dequeued_us)
            until_us = max(given.at_us, read.built_us)
            clears = ("given_at_earliest", "given_at", "added_ms")
            outcome.rest_on_lines(self._own_gaps, since_us, until_us, *clears)
        return None

    def _choose(
        self, read: Read, partition: ReadPartition, leader_id: int, zone: str | None
    ) -> tuple[int | None, bool]:
        """Returns the replica that the consumer would read from, None if that is not known, and
        whether its leader names it only now.
        """
        preferred, zones, at = self._state.preferred, self._state.zones, read.dequeued_us
        leader_zone = zones.of_brokers.get(leader_id)
        if read.api_version < RACK_ID_VERSION or not zone or is_same_rack(zone, leader_zone):
            return leader_id, False
        key = read.client_id, read.client_host, read.topic, read.partition
        before = preferred.get(key)
        is_kept = before and before.expires_us > at and read.preferred is None
        # From one that has stopped the consumer comes back to the leader.
        if before and is_kept and not partition.has_stopped(before.replica_id, at):
            return before.replica_id, False
        if not partition.followers and not partition.isr.values:
            return None, False
        followers = partition.in_sync(at, zones)
        chosen = select(leader_id, leader_zone, followers, read.fetch_offset or 0, zone)
        if chosen == leader_id:
            preferred.pop(key, None)
            return leader_id, False
        preferred[key] = PreferredReadReplica.of(chosen, at)
        return chosen, True
