"""KIP-392 driven by a recorded log: what consumers read of one leader's partitions.

First the rows: what a consumer's FETCH read of a partition, under each variant. Then when a replica
could have given it the first record (``Moments``), then the replay.

A FETCH that waits is responded to once the high watermark of the replica passes its offset. The
leader's moves when the last follower in sync has the record. A follower's moves when a response of
the leader carries a higher one (``ReplicaFetcherThread``), at most to its own log end offset. A
consumer that reads committed records waits for the last stable offset in the same way.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec
import pyarrow as pa

from ..log_gaps import NO_GAPS, Gaps
from ..model.partition import (
    METADATA_MAX_AGE_US,
    RACK_ID_VERSION,
    PreferredReadReplica,
    is_same_rack,
    select,
)
from ..records import NOT_SWEPT, REQUEST_ID, Outcome, Record, Records, Variant, events_of
from ..rule import CLOCKS_DIFFER
from ..simulation import forget
from ..table import At, Bool, Int, Long, Ms, RequiredInt, RequiredText, Text, column, key
from .events import LineKind, ReplicaEvent
from .partition import (
    NOTED_US,
    FollowerHistory,
    LearnedWatermark,
    ReadPartition,
    Zones,
)

NAME = "closest_replica"
LEADER, CLOSEST, CLOSEST_HWM_AWARE = "leader", "closest", "closest_hwm_aware"
#: A sweep of ``replica.fetch.wait.max.ms``.
FETCH_WAIT_MS = "replica_fetch_wait_ms"
#: A read is decided this long after its response: by then followers got the responses it rests on.
DECIDED_AFTER_US = 10_000_000
#: What is this much older than the log's front is forgotten, in steps of half of it.
FORGET_US = 60_000_000
#: A partition that a session's FETCH listed longer ago is forgotten.
LISTED_US = 24 * 3_600_000_000
#: A consumer that reads committed records, and waited this much longer than for the record, waited
#: for the end of its transaction.
TRANSACTION_US = 10_000
READ_COMMITTED = 1


class UnknownReason(StrEnum):
    """Names why the replica is not known, or when it would have given the records."""

    LEADER = "no line shows the partition's leader"
    FOLLOWERS = "no line shows which followers are in sync"
    OFFSET = "the FETCH that lists the offset is not in the log"
    HIGH_WATERMARK = "no response tells the follower that high watermark"


def variants(fetch_wait_ms: Sequence[int] = ()) -> list[Variant]:
    """Returns the variants, then ``closest`` with each ``replica.fetch.wait.max.ms``."""
    swept = [Variant(CLOSEST, FETCH_WAIT_MS, value) for value in fetch_wait_ms]
    return [Variant(LEADER), Variant(CLOSEST), Variant(CLOSEST_HWM_AWARE), *swept]


class RecordedRead(Record):
    """A read as recorded: the same under all variants."""

    request_id: RequiredText = REQUEST_ID
    node_id: RequiredInt = column("broker that was read from")
    topic: RequiredText = key("topic name, else topic id")
    partition: RequiredInt = key("partition index")
    leader_id: Int = column("its leader; null: not known")
    client_id: Text = column("clientId, null if the client sent none")
    client_zone: Text = column("rack id of the FETCH, else by client_zones; null: not known")
    has_rack_id: Bool = column("the FETCH has a rack id: client.rack is set")
    fetch_offset: Long = column("the first offset read; null: of a session older than the log")
    record_bytes: Long = column("records of this partition; 0: a redirect")
    request_bytes: Long = column("of the request, an equal share of each partition with records")
    response_bytes: Long = column("of the response besides records, likewise")
    preferred_read_replica: Int = column("that the recorded response names; null: none")
    dequeued_at: At = column("the request was taken up")
    built_at: At = column("the recorded response was built")
    is_awaited: Bool = column("the FETCH waited for records, else they waited for it")


class ClosestReplicaOutcome(
    Outcome, name="closest_replica_outcomes", rule=NAME, shares=(RecordedRead,)
):
    """Each partition that a consumer's FETCH returned records of, or redirected: who serves it,
    from where, and when.
    """

    replica_id: Int = column("the replica that would be read from; null: not known")
    replica_zone: Text = column("its broker.rack; null: not known")
    is_cross_zone: Bool = column("client and replica are in two zones; null: not known")
    even_share: Ms = column("share of it across zones if such clients were in all zones evenly")
    is_redirected: Bool = column("the leader would name that replica now, in an empty response")
    given_at_earliest: At = column("that replica can't have given the first record sooner")
    given_at: At = column("that replica would have given the first record, estimated")
    added_ms: Ms = column("so much later than the leader")


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


_TIMES = ("given_at_earliest", "given_at", "added_ms")


class LastListed(NamedTuple):
    """When a session's FETCH last listed a partition, its offset there, and that ``before``."""

    at_us: int
    offset: int
    before: int


_NEVER_LISTED = LastListed(0, -1, -1)


class ReadState(msgspec.Struct):
    """All that a replay carries.

    ``racks``: by broker. ``listed``: by node, session and partition. ``preferred``: by client and
    partition. ``ways``: microseconds from the leader to each follower. ``reads``: not decided yet.
    """

    node_id: int
    variants: list[Variant]
    racks: dict[int, str] = {}
    front: tuple[int, int] = (-1, 0)
    forgotten_us: int = -1
    partitions: dict[tuple[str, int], ReadPartition] = {}
    listed: dict[tuple[int, int, str, int], LastListed] = {}
    preferred: dict[tuple[str | None, str | None, str, int], PreferredReadReplica] = {}
    ways: dict[int, int] = {}
    reads: list[ReplicaEvent] = []


class ReplicaPlace(NamedTuple):
    """A replica, and whether its zone is another than a client's; columns of an outcome."""

    replica_id: int | None
    replica_zone: str | None = None
    is_cross_zone: bool | None = None
    even_share: float | None = None


class ClosestReplica:
    """The replay of the partitions that one node leads: events of ``INPUT_SCHEMA`` in order.

    Another order raises ``ValueError``. ``stated``: zones by client id, address or range of these.
    ``saved``: what a replay of the same settings returned after the increment before. ``gaps``: of
    all logs; ``apart``: nodes whose clocks differ from the active controller's.
    """

    def __init__(
        self,
        node_id: int,
        variants: Sequence[Variant],
        stated: Mapping[str, str] | None = None,
        saved: bytes | None = None,
        *,
        gaps: Gaps = NO_GAPS,
        apart: Sequence[int] = (),
    ) -> None:
        new = ReadState(node_id, [*variants])
        self._state = new if saved is None else msgspec.msgpack.decode(saved, type=ReadState)
        self._zones = Zones(self._state.racks, stated or {})
        self._gaps, self._apart = gaps, {*apart}
        self._rows = Records(ClosestReplicaOutcome)

    def saved(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    def feed(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Replays a batch of events; returns the rows that nothing still to come can change."""
        state, decided = self._state, 0
        for event in events_of(batch, ReplicaEvent):
            if event.at_us > 0:
                if event[:2] < state.front:
                    raise ValueError("events must come in order of at_us, kind_order")
                state.front = event[:2]
                until = event.at_us - DECIDED_AFTER_US
                while decided < len(state.reads) and state.reads[decided].at_us <= until:
                    self._decide(state.reads[decided])
                    decided += 1
                if event.at_us - state.forgotten_us > FORGET_US // 2:
                    self._forget(event.at_us)
            self._note(event)
        del state.reads[:decided]
        return [self._rows.take()]

    def finish(self) -> Sequence[pa.RecordBatch]:
        for read in self._state.reads:
            self._decide(read)
        self._state.reads = []
        return [self._rows.take()]

    # --- what the log shows

    def _note(self, event: ReplicaEvent) -> None:
        state, broker_id = self._state, event.broker_id
        session = broker_id, event.session_id, event.topic, event.partition
        if event.kind == LineKind.RACK:
            state.racks[broker_id] = event.rack
            return
        if event.kind == LineKind.LISTED:
            last = state.listed.get(session, _NEVER_LISTED)
            state.listed[session] = LastListed(event.at_us, event.fetch_offset, last.offset)
            return
        partition = state.partitions.get(event.topic_partition)
        if partition is None:
            partition = state.partitions[event.topic_partition] = ReadPartition()
        match event.kind:
            case LineKind.PROGRESS:
                partition.follower(broker_id).fetch(event.at_us, event.fetch_offset)
            case LineKind.RETURNED:
                self._note_returned(partition, event)
            case LineKind.TERM:
                partition.lead(event.leader_epoch, event.at_us, broker_id)
            case LineKind.ISR:
                partition.isr.add(event.at_us, tuple(event.isr))
            case LineKind.READ:
                if broker_id == state.node_id:
                    partition.returned.add(event.at_us, event.high_watermark)
                if event.fetch_offset < 0:
                    last = state.listed.get(session, _NEVER_LISTED)
                    # The next FETCH may seem to come before this response: times are rounded.
                    offset = last.offset if last.at_us <= event.dequeued_us else last.before
                    is_lost = self._gaps.touch(broker_id, last.at_us, event.at_us)
                    event = event._replace(fetch_offset=-1 if is_lost else offset)
                state.reads.append(event)
            case _:
                raise ValueError(f"no such kind of event: {event.kind}")

    def _note_returned(self, partition: ReadPartition, event: ReplicaEvent) -> None:
        """Notes a high watermark that a leader's response carries to a follower."""
        partition.returned.add(event.at_us, event.high_watermark)
        learned = partition.follower(event.broker_id).learned
        if not learned or learned[-1].high_watermark < event.high_watermark:
            # Half of the round trip from the response before to this FETCH.
            ways, node_id = self._state.ways, self._state.node_id
            received_us, sent_us = event.received_us, event.previous_us
            if sent_us and not self._gaps.touch(node_id, sent_us, received_us):
                ways[event.broker_id] = max(0, received_us - sent_us) // 2
            way_us = ways.get(event.broker_id, 0)
            learned.append(LearnedWatermark(event.high_watermark, event.at_us, received_us, way_us))

    def _forget(self, front_us: int) -> None:
        state, before = self._state, front_us - FORGET_US
        state.forgotten_us = front_us
        forget(state, before)
        preferred, listed = state.preferred.items(), state.listed.items()
        state.preferred = {key: named for key, named in preferred if named.expires_us > before}
        since_us = front_us - LISTED_US
        state.listed = {session: last for session, last in listed if last.at_us >= since_us}

    # --- what follows

    def _decide(self, read: ReplicaEvent) -> None:
        """Emits a read's outcomes, unless another node led the partition at the time."""
        state, partition = self._state, self._state.partitions[read.topic_partition]
        leader_id = partition.leader(read.at_us)
        if leader_id is not None and leader_id != state.node_id:
            return
        zone = self._zones.zone(read.rack, read.client_id, read.client_host)
        recorded = RecordedRead(
            request_id=read.request_id,
            node_id=read.broker_id,
            topic=read.topic,
            partition=read.partition,
            leader_id=leader_id,
            client_id=read.client_id,
            client_zone=zone,
            has_rack_id=bool(read.rack),
            fetch_offset=None if read.fetch_offset < 0 else read.fetch_offset,
            record_bytes=read.record_bytes,
            request_bytes=read.request_bytes,
            response_bytes=read.response_bytes,
            preferred_read_replica=None
            if read.preferred_read_replica < 0
            else read.preferred_read_replica,
            dequeued_at=read.dequeued_us,
            built_at=read.at_us,
            is_awaited=read.is_awaited,
        )
        for outcome in self._outcomes(read, partition, leader_id, zone):
            self._rows.add(outcome, shared=recorded)

    def _outcomes(
        self, read: ReplicaEvent, partition: ReadPartition, leader_id: int | None, zone: str | None
    ) -> Iterator[ClosestReplicaOutcome]:
        leader_place = chosen_place = ReplicaPlace(None)
        is_redirected, why_not = False, UnknownReason.LEADER
        if leader_id is not None:
            chosen, is_redirected = self._choose(read, partition, leader_id, zone)
            leader_place = self._place(leader_id, zone, [leader_id])
            chosen_place = self._place(chosen, zone, [leader_id, *partition.followers])
            why_not = UnknownReason.FOLLOWERS
        moments = Moments(partition, read) if read.record_bytes else None
        for variant in self._state.variants:
            is_leader = variant.name == LEADER
            place = leader_place if is_leader else chosen_place
            if variant.parameter_value != NOT_SWEPT and place.replica_id in (leader_id, None):
                continue  # there is nothing that a follower waits for
            outcome = ClosestReplicaOutcome(
                variant=variant,
                replica_id=place.replica_id,
                replica_zone=place.replica_zone,
                is_cross_zone=place.is_cross_zone,
                even_share=place.even_share,
                is_redirected=is_redirected and not is_leader,
            )
            if place.replica_id is None:
                outcome.make_unknown(why_not)
            elif moments is not None:
                self._time(outcome, read, moments, place.replica_id)
            yield outcome

    def _place(
        self, replica_id: int | None, zone: str | None, replicas: Sequence[int]
    ) -> ReplicaPlace:
        """Compares a replica's zone with the client's. If that is not known ``even_share`` says how
        many of such clients, evenly in all zones, have none of the ``replicas`` in theirs.
        """
        racks = self._zones.by_broker
        rack = None if replica_id is None else racks.get(replica_id)
        if rack is None or zone:
            return ReplicaPlace(replica_id, rack, not is_same_rack(zone, rack) if rack else None)
        near_zones = {racks[replica] for replica in replicas if replica in racks}
        even_share = 1 - len(near_zones) / len({*racks.values()})
        return ReplicaPlace(replica_id, rack, None, even_share)

    def _time(
        self, outcome: ClosestReplicaOutcome, read: ReplicaEvent, moments: Moments, replica_id: int
    ) -> None:
        """Says when the replica would have given the records, or why that is not known."""
        leader, own = moments.leader, self._state.node_id
        is_follower = replica_id != own
        moment = moments.follower(replica_id, outcome.variant) if is_follower else leader
        if read.fetch_offset < 0:
            outcome.make_unknown(UnknownReason.OFFSET)
        elif read.broker_id != own and not self._apart.isdisjoint((read.broker_id, own)):
            outcome.make_unknown(CLOCKS_DIFFER)
        elif moment is None:
            outcome.make_unknown(UnknownReason.HIGH_WATERMARK)
        else:
            outcome.given_at_earliest, outcome.given_at = moment
            outcome.added_ms = (moment.at_us - leader.at_us) / 1000
            since_us = min(leader.at_us, read.dequeued_us)
            until_us = max(moment.at_us, read.at_us)
            outcome.rest_on_lines(self._gaps, own, since_us, until_us, *_TIMES)

    def _choose(
        self, read: ReplicaEvent, partition: ReadPartition, leader_id: int, zone: str | None
    ) -> tuple[int | None, bool]:
        """Returns the replica that the consumer would read from, None if that is not known, and
        whether its leader names it only now.
        """
        preferred, zones, at = self._state.preferred, self._zones, read.dequeued_us
        leader_zone = zones.by_broker.get(leader_id)
        if read.api_version < RACK_ID_VERSION or not zone or is_same_rack(zone, leader_zone):
            return leader_id, False
        key = read.client_id, read.client_host, read.topic, read.partition
        before = preferred.get(key)
        is_kept = before and before.expires_us > at and read.preferred_read_replica < 0
        # From one that has stopped the consumer comes back to the leader.
        if before and is_kept and not partition.has_stopped(before.replica_id, at):
            return before.replica_id, False
        if not partition.followers and not partition.isr.values:
            return None, False
        followers = partition.in_sync(at, zones)
        chosen = select(leader_id, leader_zone, followers, read.fetch_offset, zone)
        if chosen == leader_id:
            preferred.pop(key, None)
            return leader_id, False
        preferred[key] = PreferredReadReplica(chosen, at + METADATA_MAX_AGE_US)
        return chosen, True
