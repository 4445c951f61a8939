"""Open batches: partitions of PRODUCEs whose outcomes later lines of the log may still change.

And consumers' FETCHes that are parked on a leader's partitions (``Consumers``): they complete
before PRODUCEs. A follower's FETCH that moves the high watermark completes first the consumers'
FETCHes that wait for the partition, then the PRODUCEs
(``DelayedOperations.checkAndCompleteAll``). The first response wakes a network thread, which on a
busy broker takes the handler's core: a handler that takes longer than an ordinary one pauses after
that response. So with a consumer parked, a producer gets its response when the handler is nearly
done, ``AFTER_RESPONSE_US`` before its end.

Where it can fail: the pause may come before the consumer's response, after the producer's, or after
the consumers' of another partition of the same FETCH. A consumer that reads committed records waits
for transactions too and may stay parked. One that wants more than ``ENOUGH_BYTES`` often stays
parked when it is looked at, and counts as not there. Of a session that began before the log, only
what it has listed since is known.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

import msgspec

from ..model import AT_ONCE_US
from ..model.partition import Acks, Isr, Partition, Requirement
from .events import LeaderEvent, TopicPartition
from .isr import KnownPartition, Loss

#: After all times.
NEVER = 1 << 62
#: Lines so far apart may be out of order.
REORDER_US_MAX = 5_000_000
#: How long after its timeout a batch may still be followed, for its exposure and last offset.
FOLLOWED_US_MAX = 60_000_000
#: A FETCH or PRODUCE whose line is missing may have taken effect so long before it was written.
WRITTEN_US_MAX = 1_000_000
#: From the last response of a handler to its end. Where no consumer is parked, 0.2 to 0.7 ms pass
#: (medians of recordings of Kafka 4.0 to 4.2), half of the time of a handler without a pause.
AFTER_RESPONSE_US = 500
#: fetch.min.bytes that any record satisfies.
ENOUGH_BYTES = 1
#: Sessions remembered, the last used: ten times Kafka's max.incremental.fetch.session.cache.slots.
SESSIONS_KEPT = 10_000


class Append(Enum):
    """Tells apart what the response to a PRODUCE says of a batch's append."""

    #: It has a base offset.
    PLACED = "placed"
    #: Nothing was appended: the base offset is -1.
    REFUSED = "refused"
    #: The log has no response: acks=0, or it ends before, or lacks the line.
    NO_RESPONSE = "no response"

    @classmethod
    def stated(cls, base_offset: int | None) -> "Append":
        if base_offset is None:
            return cls.NO_RESPONSE
        return cls.PLACED if base_offset >= 0 else cls.REFUSED


class Request(NamedTuple):
    """A PRODUCE, and the numbers of its batches, from ``first`` to ``end``."""

    event: LeaderEvent
    first: int
    end: int

    @property
    def gets_response(self) -> bool:
        return self.event.acks != 0


class Acknowledgement(NamedTuple):
    """A moment at which batches were complete, by a follower's FETCH or else by nobody's (None).

    The response is built at ``responded_us``, since consumers may be responded to first, and
    between ``earliest_us`` and ``latest_us``.
    """

    at_us: int
    responded_us: int
    earliest_us: int
    latest_us: int
    follower_id: int | None = None
    fetch_id: str | None = None

    @classmethod
    def at(cls, at_us: int, latest_us: int | None = None) -> "Acknowledgement":
        """Makes that of an append or a change, which takes effect by ``latest_us``."""
        return cls(at_us, at_us, at_us, at_us if latest_us is None else latest_us)


class Consumers(msgspec.Struct):
    """Partitions of consumers' sessions by id, the last used last; until when each is parked on."""

    sessions: dict[int, set[TopicPartition]] = {}
    parked_until_us: dict[TopicPartition, int] = {}

    def is_parked(self, partition: TopicPartition, since_us: int) -> bool:
        """Tells whether a FETCH of a partition was parked at a time."""
        return self.parked_until_us.get(partition, 0) > since_us

    def forget(self, before_us: int) -> None:
        parked = self.parked_until_us.items()
        self.parked_until_us = {key: until_us for key, until_us in parked if until_us >= before_us}

    def fetch(
        self, event: LeaderEvent, listed: set[TopicPartition], forgotten: set[TopicPartition]
    ) -> None:
        """Notes which partitions a FETCH lists and forgets, and until when it is parked."""
        session_id, built_us = event.session_id, event.built_us or 0
        if session_id:
            before = self.sessions.pop(session_id, set())
            if not event.is_full:
                listed = (before - forgotten) | listed
            self.sessions[session_id] = listed
            if len(self.sessions) > SESSIONS_KEPT:
                del self.sessions[next(iter(self.sessions))]
        is_parked = built_us - event.at_us > AT_ONCE_US and event.min_bytes <= ENOUGH_BYTES
        for partition in listed if is_parked else ():
            before_us = self.parked_until_us.get(partition, 0)
            self.parked_until_us[partition] = max(before_us, built_us)


class UnderVariant(msgspec.Struct, array_like=True, gc=False):
    """A batch under one min.insync.replicas, ``min_isr``, and what completed it under each acks.

    ``waits``: acks under which it is not complete. ``copies``: how many replicas had it at the
    early acknowledgement, and how many were ``needed``. ``missing``: followers that did not have it
    when acks=all was complete.
    """

    min_isr: int | None
    acks_all: Acknowledgement | None = None
    acks_min_isr: Acknowledgement | None = None
    waits: list[Acks] = []
    copies: int = 0
    needed: int = 0
    missing: Isr | None = None


class OpenBatch(msgspec.Struct, array_like=True, gc=False):
    """A partition of a PRODUCE, from its append until nothing can change its outcome.

    ``base_offset`` is as recorded, ``append`` what it means; ``leads``: this node may lead.
    ``carried_us``: of a transaction, when a response to a follower first carried it. ``lost_us``:
    since when it is not followed, and ``loss`` why. ``done_us``: when it was last acknowledged.
    ``until_us``: from then on it is final in any case.

    For its last offset: ``next_base_offset`` is that of the batch that follows it, appended at
    ``next_us``. Between the two may lie batches without a base offset (``unplaced``: how many the
    partition had up to this one) and markers (``marked_us``: when its first transaction began).
    """

    partition: TopicPartition
    append: Append
    base_offset: int | None
    record_bytes: int | None
    error_code: int | None
    handled_us: int
    deadline_us: int
    until_us: int
    is_transactional: bool
    leads: bool
    isr: Isr | None
    variants: list[UnderVariant]
    unplaced: int
    marked_us: int
    carried_us: int = NEVER
    loss: Loss | None = None
    lost_us: int = NEVER
    next_base_offset: int | None = None
    next_us: int = NEVER
    is_next_certain: bool = False
    done_us: int = 0

    @property
    def is_appended(self) -> bool:
        """Tells whether the leader's log has it: without a response, if this node may lead."""
        return self.leads if self.append is Append.NO_RESPONSE else self.append is Append.PLACED

    @property
    def appended_us(self) -> int:
        """Returns when the handler was done; of a transaction, when a FETCH first shows it."""
        carried_us = self.carried_us
        return self.handled_us if carried_us == NEVER else max(self.handled_us, carried_us)

    @property
    def waits(self) -> bool:
        return any(variant.waits for variant in self.variants)

    def is_final(self, front_us: int) -> bool:
        """Tells whether nothing changes it that comes after a time."""
        if front_us >= self.until_us:
            return True
        if front_us < max(self.done_us, self.next_us) + REORDER_US_MAX:
            return False
        return not self.waits

    def wait_for(self, requirements: Iterable[Requirement]) -> None:
        for requirement in requirements:
            self.variants[requirement.variant].waits.append(requirement.acks)

    def acknowledge(
        self, requirement: Requirement, by: Acknowledgement, partition: Partition
    ) -> None:
        """Notes what completed it under a requirement, and which replicas had it then."""
        if by.at_us > self.until_us:
            return  # too late to be followed
        under = self.variants[requirement.variant]
        if by.at_us > self.done_us:
            self.done_us = by.at_us
        under.waits.remove(requirement.acks)
        if requirement.acks is Acks.ALL:
            under.acks_all, under.missing = by, self._missing(partition)
        else:
            under.acks_min_isr, under.copies = by, len(partition.holders(self.base_offset or 0))
            under.needed = requirement.min_isr or 0

    def _missing(self, partition: Partition) -> Isr:
        holders = partition.holders(self.base_offset or 0)
        return tuple([member for member in self.isr or () if member not in holders])

    def note_missing(self, partition: Partition) -> None:
        """Notes which followers of the ISR lack it, where acks=all is not complete."""
        missing = self._missing(partition)
        for variant in self.variants:
            if Acks.ALL in variant.waits:
                variant.missing = missing

    def note_carried(self, begin: int, end: int, at_us: int) -> None:
        """Notes that a response at a time carried all between two offsets: it was appended by then.

        A PRODUCE of a transaction is verified first, and appended by another handler (KIP-890).
        """
        is_open = self.is_transactional and self.base_offset is not None and self.waits
        if is_open and begin <= (self.base_offset or 0) < end:
            self.carried_us = min(self.carried_us, at_us)

    def lose(self, at_us: int, loss: Loss) -> None:
        """Stops following it: its leader was lost, or what it waits for is not known any more."""
        if at_us <= self.until_us and self.loss is None:
            self.lost_us, self.loss = at_us, loss
            self.until_us = min(self.until_us, max(at_us, self.handled_us) + REORDER_US_MAX)
            for variant in self.variants:
                variant.waits = []

    def note_next(self, other: "OpenBatch") -> None:
        """Notes a batch with a larger base offset as the one that follows, if none is nearer.

        The order of handlers is not that of appends, but a batch that comes long after the one that
        follows is a retry, and was appended before.
        """
        is_after = other.handled_us > self.handled_us - REORDER_US_MAX
        offset, next_offset = other.base_offset or 0, self.next_base_offset
        is_nearer = next_offset in (None, offset) or (
            offset < (next_offset or 0) and other.handled_us <= self.next_us + REORDER_US_MAX
        )
        if is_after and is_nearer and other.handled_us <= self.until_us:
            self.next_base_offset, self.next_us = offset, other.handled_us
            self.is_next_certain = other.unplaced <= self.unplaced


class LedPartition(KnownPartition, array_like=True):
    """A partition with its open batches: their numbers, and base offsets with numbers in order.

    ``fetchers``: which of a follower's fetchers names it, if not the first. ``seen_us`` is when a
    line named it last. ``unplaced`` and ``marked_us`` are those of its next batch (``OpenBatch``).
    """

    fetchers: dict[int, int] = msgspec.field(default_factory=dict)
    seen_us: int = 0
    batches: list[int] = msgspec.field(default_factory=list)
    base_offsets: list[tuple[int, int]] = msgspec.field(default_factory=list)
    unplaced: int = 0
    marked_us: int = NEVER

    def mark(self, at_us: int, batches: dict[int, OpenBatch]) -> None:
        """Notes that a transaction had begun at a time: the offset of its marker is in no line."""
        if self.marked_us > at_us:
            self.marked_us = at_us
            for number in self.batches:
                batches[number].marked_us = at_us

    def place(self, number: int, batches: dict[int, OpenBatch]) -> None:
        """Puts a batch among those around it by its base offset: each learns what follows it."""
        batch, base_offsets = batches[number], self.base_offsets
        base_offset = batch.base_offset or 0
        index = bisect_left(base_offsets, (base_offset, -1))
        after = bisect_left(base_offsets, (base_offset + 1, -1))
        for _, follower in base_offsets[after : after + 1]:
            batch.note_next(batches[follower])
        # Retries repeat a base offset: of the one before, all batches are followed by this one.
        begin = bisect_left(base_offsets, (base_offsets[index - 1][0], -1)) if index else 0
        for _, before in reversed(base_offsets[begin:index]):
            batches[before].note_next(batch)
        insort(base_offsets, (base_offset, number))

    def forget(self, batches: dict[int, OpenBatch]) -> None:
        """Drops batches that are not open any more."""
        self.batches = [number for number in self.batches if number in batches]
        self.base_offsets = [entry for entry in self.base_offsets if entry[1] in batches]
