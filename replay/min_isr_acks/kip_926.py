"""KIP-926: when a leader responds to acks=all and to acks=min.insync.replicas.

In the KIP's order, with its sentences in quotes. Around what it changes this is
``kafka.cluster.Partition``, without a clock: the caller says what happens and in which order, and
when a PRODUCE times out. A batch is a number; what completes comes back with the position of its
``Requirement``: one log is followed under several acks and min.insync.replicas at once.
"""

from collections.abc import Callable, Container, Iterable
from heapq import heapify, heappop, heappush

import msgspec

#: replica.lag.time.max.ms: a replica that was caught up within it may hold the high watermark.
LAG_US_MAX = 30_000_000
#: No offset yet; a min.insync.replicas that is not known.
UNKNOWN = -1
#: More replicas than any partition has.
NO_LIMIT = 1 << 15

Isr = tuple[int, ...]
#: Batches that are acknowledged: number, and position of the requirement.
Acknowledged = list[tuple[int, int]]


class Follower(msgspec.Struct, array_like=True, gc=False):
    """A replica as its leader knows it (``kafka.cluster.Replica``): it has all below an offset.

    ``epoch`` and ``session`` are those of its last FETCH, at ``fetched_us``.
    """

    log_end_offset: int
    fetched_us: int
    caught_up_us: int
    epoch: int
    session: int


class Requirement(msgspec.Struct, array_like=True, gc=False):
    """Which replicas must have a batch; below ``offset``, which only rises, they have all.

    "acks=all(-1): the leader will wait for the full set of in-sync replicas to acknowledge the
    record"; "acks=min.insync.replicas(-2): the leader will wait for the min.insync.replicas number
    of replicas to acknowledge the record" ("Public Interfaces"). ``waiting`` is a heap of (base
    offset, number).
    """

    waits_for_all: bool
    min_isr: int
    offset: int = UNKNOWN
    waiting: list[tuple[int, int]] = []


class Partition(msgspec.Struct, array_like=True, gc=False):
    """A partition as its leader has it.

    ``isr`` is the committed one, None if it is not known; ``maximal_isr`` has whom the leader has
    asked the controller to add, too, and ``outside`` who fetches besides; all without the leader.
    ``replicas``: how many there are, NO_LIMIT if that is not known.
    """

    leader_id: int
    requirements: list[Requirement]
    replicas: int = NO_LIMIT
    isr: Isr | None = None
    in_sync: Isr = ()
    maximal_isr: Isr = ()
    log_end_offset: int = 0
    followers: dict[int, Follower] = {}
    outside: list[int] = []

    def effective_min_isr(self, requirement: Requirement) -> int:
        """min.insync.replicas, but no more than there are replicas (``effectiveMinIsr``)."""
        min_isr = requirement.min_isr
        return min_isr if min_isr < self.replicas else self.replicas

    def append(self, number: int, base_offset: int, isr_size: int) -> tuple[list[int], list[int]]:
        """Append a batch; returns the requirements that it waits under, and that it meets at once.

        "firstly check if current number of in-sync replicas is greater or equal to
        min.insync.replicas value, if not, throw NotEnoughReplicasException" ("Proposed Changes"),
        "the same thing as acks=all did": under neither. What is appended all the same (acks=1)
        waits for the high watermark of the first of them, the one in force. The leader has it now.
        """
        self.log_end_offset = max(self.log_end_offset, base_offset + 1)
        in_force = self.effective_min_isr(self.requirements[0])
        waits: list[int] = []
        met: list[int] = []
        for position, one in enumerate(self.requirements):
            min_isr = self.effective_min_isr(one)
            if min_isr == UNKNOWN:
                continue
            if isr_size >= min_isr and min_isr <= 1 and not one.waits_for_all:
                met.append(position)
            elif isr_size >= min_isr or (one.waits_for_all and min_isr == in_force):
                heappush(one.waiting, (base_offset, number))
                waits.append(position)
        return waits, met

    def fetch(
        self, broker_id: int, offset: int, at_us: int, epoch: int = UNKNOWN, session: int = UNKNOWN
    ) -> None:
        """Note that a follower has all below an offset (``updateFollowerFetchState``)."""
        known = self.followers.get(broker_id)
        if known is None and broker_id not in self.maximal_isr:
            self.outside.append(broker_id)
        caught_up_us = (
            at_us if offset >= self.log_end_offset else known.caught_up_us if known else 0
        )
        self.followers[broker_id] = Follower(offset, at_us, caught_up_us, epoch, session)

    def acknowledge(self, at_us: int, may_join: Callable[[int, int], bool]) -> Acknowledged:
        """Complete what enough replicas have (``checkEnoughReplicasReachOffset``).

        acks=all by the high watermark, and "we wait for the number of min.insync.replicas
        acknowledge, and then respond to the producers" ("Proposed Changes"). Neither rises while
        the ISR is smaller than min.insync.replicas. ``may_join`` (broker, epoch): whether the
        controller would let a follower into the ISR.
        """
        if self.isr is None:
            return []
        high_watermark, ends = None, None
        size, acknowledged = len(self.isr), []
        for position, one in enumerate(self.requirements):
            min_isr = self.effective_min_isr(one)
            if not one.waiting or min_isr == UNKNOWN or size < min_isr:
                continue
            offset = self.log_end_offset
            if one.waits_for_all:
                if high_watermark is None:
                    high_watermark = self._high_watermark(at_us, may_join)
                offset = high_watermark
            elif min_isr > 1:
                if ends is None:
                    ends = sorted(self._ends(self.in_sync), reverse=True)
                # The fastest of the followers: the leader counts as one and has everything.
                offset = ends[min_isr - 2]
            one.offset = max(one.offset, offset)
            while one.waiting and one.waiting[0][0] < one.offset:
                acknowledged.append((heappop(one.waiting)[1], position))
        return acknowledged

    def copies(self, offset: int) -> int:
        """How many replicas have a batch, the leader among them."""
        return 1 + sum(one.log_end_offset > offset for one in self.followers.values())

    def missing(self, offset: int, isr: Isr) -> Isr:
        """Who of an ISR does not have a batch."""
        ends = zip(isr, self._ends(isr), strict=True)
        return tuple(one for one, end in ends if one != self.leader_id and end <= offset)

    def _ends(self, isr: Isr) -> list[int]:
        return [one.log_end_offset if (one := self.followers.get(of)) else UNKNOWN for of in isr]

    def _high_watermark(self, at_us: int, may_join: Callable[[int, int], bool]) -> int:
        """Return the least offset of all who must have a batch (``maybeIncrementLeaderHW``).

        That is the maximal ISR, and who is caught up and may join it
        (``shouldWaitForReplicaToJoinIsr``).
        """
        ends = self._ends(self.maximal_isr)
        for follower_id in self.outside:
            one = self.followers[follower_id]
            is_recent = at_us - one.caught_up_us <= LAG_US_MAX
            is_caught_up = is_recent or one.log_end_offset >= self.log_end_offset
            if is_caught_up and may_join(follower_id, one.epoch):
                ends.append(one.log_end_offset)
        return min(ends, default=self.log_end_offset)

    def change_isr(self, isr: Isr | None, requested: Isr = ()) -> None:
        """An ISR was committed; ``requested`` is what the leader has asked for since."""
        self.isr = isr
        self.in_sync = tuple(one for one in isr or () if one != self.leader_id)
        added = {*requested} - {self.leader_id, *self.in_sync}
        self.maximal_isr = (*self.in_sync, *sorted(added))
        self.outside = [one for one in self.followers if one not in self.maximal_isr]

    def configure(self, min_isrs: Iterable[int]) -> None:
        """min.insync.replicas is another one, of each requirement."""
        for one, min_isr in zip(self.requirements, min_isrs, strict=True):
            one.min_isr = min_isr

    def lead(self) -> None:
        """Begin a term: followers have to show anew what they have."""
        self.followers, self.outside = {}, []
        self.count_anew()

    def count_anew(self) -> None:
        """Take back what enough replicas have: what it followed from is wrong."""
        for one in self.requirements:
            one.offset = UNKNOWN

    def forget(self, numbers: Container[int]) -> None:
        """Stop waiting for batches: finalized, timed out long ago, or the leader resigned.

        Who waits gets NOT_LEADER_OR_FOLLOWER then; ``lead`` begins the next term.
        """
        for one in self.requirements:
            one.waiting = [entry for entry in one.waiting if entry[1] not in numbers]
            heapify(one.waiting)
