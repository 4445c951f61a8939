"""A partition as its leader has it, what a PRODUCE to it gets, and who is read from.

In the order of ``kafka.cluster.Partition``, with what it uses before it (``Replica``) and after it
(``DelayedProduce``), and without a clock: the caller says what happens and in which order. KIP-926
is ``Acks.MIN_ISR``, with its sentences in quotes. A batch goes by a number. One log is followed
under several acks and min.insync.replicas at once: each pair is a ``Requirement``, and batches are
acknowledged for each apart.

Last is the replica that a consumer reads from (KIP-392), as its leader and it decide, in the order
of Kafka's ``ReplicaView``, ``RackAwareReplicaSelector`` with what
``ReplicaManager.findPreferredReadReplica`` gives it, and the consumer's ``SubscriptionState``.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from enum import IntEnum, StrEnum
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import NamedTuple, Self

import msgspec

#: ``replica.lag.time.max.ms``: who was caught up within it may hold the high watermark back.
REPLICA_LAG_TIME_MAX_US = 30_000_000
#: ``replica.fetch.wait.max.ms``: how long a follower's FETCH is parked at most.
REPLICA_FETCH_WAIT_MAX_US = 500_000
#: What a leader takes for the end of a log that it has not heard of.
UNKNOWN_OFFSET = -1
#: ``metadata.max.age.ms``: how long a consumer reads from the replica that its leader preferred.
METADATA_MAX_AGE_US = 300_000_000
#: FETCH requests have a rack id from this version on.
RACK_ID_VERSION = 11

Isr = tuple[int, ...]
#: Whether, as far as the leader knows, a broker with an epoch (None: not sent) may join an ISR.
MayJoin = Callable[[int, int | None], bool]


class Acks(StrEnum):
    """Names the acks of a PRODUCE that wait for replicas ("Public Interfaces").

    ``ALL`` (-1): "the leader will wait for the full set of in-sync replicas to acknowledge the
    record". ``MIN_ISR`` (-2): "the leader will wait for the min.insync.replicas number of replicas
    to acknowledge the record". acks=1 gets its response at the append, acks=0 none.
    """

    ALL = "acks_all"
    MIN_ISR = "min_isr"


class Errors(IntEnum):
    """Error codes of a PRODUCE's response (``org.apache.kafka.common.protocol.Errors``)."""

    NONE = 0
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21


class Replica(msgspec.Struct, array_like=True, gc=False):
    """A follower as the leader knows it: it has all below an offset.

    ``epoch`` (None: not sent) and ``session`` are those of its last FETCH, at ``fetched_us``, when
    the leader's log ended at ``leader_log_end``.
    """

    log_end_offset: int = UNKNOWN_OFFSET
    fetched_us: int = 0
    caught_up_us: int = 0
    epoch: int | None = None
    session: int = -1
    leader_log_end: int = UNKNOWN_OFFSET

    @classmethod
    def reset(cls, at_us: int, *, is_in_sync: bool) -> Self:
        """Returns a follower of which a new leader knows nothing yet (``resetReplicaState``)."""
        return cls(caught_up_us=at_us if is_in_sync else 0)

    def fetch(self, offset: int, at_us: int, leader_log_end: int) -> None:
        """Notes a FETCH (``updateFetchStateOrThrow``).

        Who comes to where the leader's log ended at its previous FETCH was caught up at that FETCH.
        """
        if offset >= leader_log_end:
            self.caught_up_us = max(self.caught_up_us, at_us)
        elif offset >= self.leader_log_end:
            self.caught_up_us = max(self.caught_up_us, self.fetched_us)
        self.log_end_offset, self.fetched_us = offset, at_us
        self.leader_log_end = max(self.leader_log_end, leader_log_end)

    def is_caught_up(self, at_us: int, leader_log_end: int) -> bool:
        """Tells whether it may hold the high watermark (``isCaughtUp``)."""
        is_recent = at_us - self.caught_up_us <= REPLICA_LAG_TIME_MAX_US
        return is_recent or self.log_end_offset >= leader_log_end


class Requirement(msgspec.Struct, array_like=True, gc=False):
    """One kind of acks under one min.insync.replicas, and the batches that wait for it.

    Kafka's ``DelayedOperationPurgatory``. ``min_isr`` (``effectiveMinIsr``) None: it is not known.
    ``variant`` tells several min.insync.replicas apart. Below ``offset``, which only rises, enough
    replicas have all. ``waiting`` is a heap of (base offset, number).
    """

    acks: Acks
    min_isr: int | None = None
    variant: int = 0
    offset: int = -1
    waiting: list[tuple[int, int]] = []


class Partition(msgspec.Struct, array_like=True, gc=False):
    """A partition at its leader.

    ``isr`` is the committed one, None if it is not known, and ``in_sync`` its followers;
    ``maximal_isr`` are these and the followers that the leader has requested the controller to add;
    ``outside`` are all others that fetch. ``min_isrs``: min.insync.replicas by variant, the first
    of which is in force; ``replicas``: how many there are, None if that is not known. ``led_us``:
    when the leader's term began, with the followers ``led_with`` in sync.
    """

    leader_id: int
    requirements: list[Requirement]
    min_isrs: list[int | None] = []
    replicas: int | None = None
    isr: Isr | None = None
    in_sync: Isr = ()
    maximal_isr: Isr = ()
    log_end_offset: int = 0
    followers: dict[int, Replica] = {}
    outside: list[int] = []
    led_us: int = 0
    led_with: Isr = ()

    def configure(self, min_isrs: Sequence[int | None], replicas: int | None) -> None:
        """Sets min.insync.replicas of each variant, which counts up to the number of replicas."""
        self.min_isrs, self.replicas = [*min_isrs], replicas
        for requirement in self.requirements:
            min_isr = min_isrs[requirement.variant]
            is_fewer = min_isr and replicas and replicas < min_isr
            requirement.min_isr = replicas if is_fewer else min_isr

    def lead(self, at_us: int) -> None:
        """Begins a term: followers have to show anew what they have (``makeLeader``)."""
        self.followers, self.outside = {}, []
        self.led_us, self.led_with = at_us, self.in_sync
        self.count_anew()

    def fetch(
        self, broker_id: int, offset: int, at_us: int, epoch: int | None = None, session: int = -1
    ) -> bool:
        """Notes that a follower has all below an offset (``updateFollowerFetchState``).

        Returns whether the offset differs from the one before: only then does the leader check
        whether its high watermark may rise.
        """
        follower = self.followers.get(broker_id)
        if follower is None:
            follower = Replica.reset(self.led_us, is_in_sync=broker_id in self.led_with)
            self.followers[broker_id] = follower
            if broker_id not in self.maximal_isr:
                self.outside.append(broker_id)
        before = follower.log_end_offset
        follower.fetch(offset, at_us, self.log_end_offset)
        follower.epoch, follower.session = epoch, session
        return offset != before

    def append(self, number: int, base_offset: int, isr_size: int) -> list[Requirement]:
        """Appends a batch; returns what it waits for, be it met by the leader alone.

        With acks=1 a leader also appends a batch for which acks=all has too few in-sync replicas.
        Such a batch waits for the high watermark, under the min.insync.replicas in force only.
        """
        if base_offset >= self.log_end_offset:
            self.log_end_offset = base_offset + 1
        in_force, entry = self.requirements[0].min_isr, (base_offset, number)
        waits: list[Requirement] = []
        for requirement in self.requirements:
            min_isr, is_all = requirement.min_isr, requirement.acks is Acks.ALL
            if min_isr is None:
                continue
            is_taken = has_enough_in_sync(isr_size, min_isr)
            if is_taken or (is_all and min_isr == in_force):
                heappush(requirement.waiting, entry)
                waits.append(requirement)
        return waits

    def acknowledge(self, at_us: int, may_join: MayJoin) -> list[tuple[int, Requirement]]:
        """Completes what enough replicas have (``checkEnoughReplicasReachOffset``).

        acks=all by the high watermark, and "we wait for the number of min.insync.replicas
        acknowledge, and then respond to the producers" ("Proposed Changes"). Neither rises while
        the ISR is smaller than min.insync.replicas. Returns numbers of batches.
        """
        if self.isr is None:
            return []
        high_watermark, log_ends = None, None
        size, acknowledged = len(self.isr), []
        for requirement in self.requirements:
            if not (waiting := requirement.waiting):
                continue
            min_isr = requirement.min_isr
            if min_isr is None or not has_enough_in_sync(size, min_isr):
                continue
            offset = self.log_end_offset
            if requirement.acks is Acks.ALL:
                if high_watermark is None:
                    high_watermark = self._high_watermark(at_us, may_join)
                offset = high_watermark
            elif min_isr > 1:
                if log_ends is None:
                    log_ends = self._log_ends(self.in_sync)
                # The leader is one of them and has everything.
                offset = offset_of_enough(log_ends, min_isr - 1)
            if offset > requirement.offset:
                requirement.offset = offset
            else:
                offset = requirement.offset
            while waiting and waiting[0][0] < offset:
                acknowledged.append((heappop(waiting)[1], requirement))
        return acknowledged

    def _high_watermark(self, at_us: int, may_join: MayJoin) -> int:
        """Returns the lowest log end offset of all that must have a batch
        (``maybeIncrementLeaderHW``): the maximal ISR, and followers that are caught up and may join
        it (``shouldWaitForReplicaToJoinIsr``).
        """
        log_ends = self._log_ends(self.maximal_isr)
        for broker_id in self.outside:
            follower = self.followers[broker_id]
            is_caught_up = follower.is_caught_up(at_us, self.log_end_offset)
            if is_caught_up and may_join(broker_id, follower.epoch):
                log_ends.append(follower.log_end_offset)
        return min(log_ends, default=self.log_end_offset)

    def _log_ends(self, broker_ids: Iterable[int]) -> list[int]:
        followers = [self.followers.get(broker_id) for broker_id in broker_ids]
        return [-1 if follower is None else follower.log_end_offset for follower in followers]

    def is_waited_for(self) -> bool:
        """Tells whether a batch waits, so that a FETCH may complete one."""
        return any(requirement.waiting for requirement in self.requirements)

    def holders(self, offset: int) -> list[int]:
        """Returns the replicas that have a batch, the leader first."""
        followers = self.followers.items()
        return [self.leader_id, *[b for b, known in followers if known.log_end_offset > offset]]

    def change_isr(self, isr: Isr | None, requested: Isr = ()) -> None:
        """Sets the committed ISR, and the one that the leader has requested since, if any.

        ``CommittedPartitionState`` and ``PendingPartitionChange``: until the controller responds,
        the leader waits for the members of both.
        """
        self.isr = isr
        self.in_sync = tuple(broker_id for broker_id in isr or () if broker_id != self.leader_id)
        added = {*requested} - {self.leader_id, *self.in_sync}
        self.maximal_isr = (*self.in_sync, *sorted(added))
        self.outside = [follower for follower in self.followers if follower not in self.maximal_isr]

    def count_anew(self) -> None:
        """Forgets the offsets that were reached, where a FETCH that they rest on was wrong."""
        for requirement in self.requirements:
            requirement.offset = -1

    def forget(self, numbers: Container[int]) -> None:
        """Stops waiting for batches that are over, whatever became of them."""
        for requirement in self.requirements:
            waiting = requirement.waiting
            requirement.waiting = [entry for entry in waiting if entry[1] not in numbers]
            heapify(requirement.waiting)


def offset_of_enough(log_ends: Sequence[int], followers: int) -> int:
    """Returns below which offset this number of followers, the fastest ones, have all."""
    return sorted(log_ends)[-followers] if followers <= len(log_ends) else UNKNOWN_OFFSET


def has_enough_in_sync(isr_size: int, min_isr: int) -> bool:
    """Tells whether a leader appends what waits for replicas (``appendRecordsToLeader``).

    "firstly check if current number of in-sync replicas is greater or equal to min.insync.replicas
    value, if not, throw NotEnoughReplicasException" ("Proposed Changes"), "the same thing as
    acks=all did".
    """
    return isr_size >= min_isr


def delayed_produce(
    enough_us: int | None, lost_us: int | None, deadline_us: int
) -> tuple[int, Errors]:
    """Returns when a batch that was appended gets its response, and with which error.

    By what comes first: enough replicas, the loss of the leader, the timeout.

    ``DelayedProduce.tryComplete`` and ``onExpiration``, without NOT_ENOUGH_REPLICAS_AFTER_APPEND
    (20): while the ISR is too small the high watermark does not move, so that a producer times out.
    Kafka has 20 where the ISR shrinks, or the config rises, between that move and this look.
    """
    at_us, error = deadline_us, Errors.REQUEST_TIMED_OUT
    if lost_us is not None and lost_us < deadline_us:
        at_us, error = lost_us, Errors.NOT_LEADER_OR_FOLLOWER
    if enough_us is not None and enough_us <= at_us:
        at_us, error = enough_us, Errors.NONE
    return at_us, error


class ReplicaView(NamedTuple):
    """An in-sync follower as the leader knows it; ``caught_up_us``: when it last was caught up."""

    replica_id: int
    rack: str | None
    log_end_offset: int
    caught_up_us: int
    log_start_offset: int = -1


#: Of several with the client's rack, the greatest (``RackAwareReplicaSelector``).
_PREFERENCE = attrgetter("log_end_offset", "caught_up_us", "replica_id")


def select(
    leader_id: int,
    leader_rack: str | None,
    followers: Iterable[ReplicaView],
    fetch_offset: int,
    rack_id: str | None,
) -> int:
    """Returns the id of the replica that ``RackAwareReplicaSelector`` chooses.

    Of the replicas with the client's rack that have the fetch offset: the leader, else the one with
    the largest log end offset, then the one that was caught up last, then the larger id; the leader
    if there is none.
    """
    if not is_same_rack(rack_id, leader_rack):
        near = [
            replica
            for replica in followers
            if is_same_rack(rack_id, replica.rack)
            and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
        ]
        if near:
            return max(near, key=_PREFERENCE).replica_id
    return leader_id


def is_same_rack(client_rack: str | None, rack: str | None) -> bool:
    """Compares ``client.rack`` with ``broker.rack``, case included; not set is no rack."""
    return bool(client_rack) and client_rack == rack


class PreferredReadReplica(NamedTuple):
    """A redirect that a consumer remembers (``SubscriptionState.preferredReadReplica``).

    It expires with the metadata, ``METADATA_MAX_AGE_US`` after the response.
    """

    replica_id: int
    expires_us: int
