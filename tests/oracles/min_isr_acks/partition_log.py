"""A partition's leader: who has what, who is in sync, and which batches that acknowledges.

The rule of ``kafka.cluster.Partition`` for one partition on one leader, without a clock: every
method takes the time at which its event takes effect.

A follower's FETCH at offset X says that it has everything below X, and it always stands on the
edge of a batch. So a batch with base offset b is on a follower once that has fetched an offset
above b: the last offset is not needed. Two offsets follow from the followers':

* the *high watermark*: the smallest of all replicas that must have a batch before acks=all is
  answered (``maybeIncrementLeaderHW``): the maximal ISR, and whoever is caught up and may join it.
  It stands still while the committed ISR is smaller than min.insync.replicas;
* the *copied offset*: the min.insync.replicas-th largest of the leader's and the in-sync
  followers' (KIP-926): that many replicas have everything below it.

Each is kept as a ``Level``: when it first passed which offset. A batch is asked about afterwards,
when its base offset is known, or its bounds: a PRODUCE with acks=0 logs none.

Who waits for an offset is answered when it is passed, but where the high watermark wakes consumers
first, later in the same handler (``consumers``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from oracles.min_isr_acks.places import Places

#: replica.lag.time.max.ms: a follower that was caught up within it may hold the high watermark.
LAG_US_MAX = 30_000_000
#: From being told of a commit until partitions follow it: applying takes longest on a cold broker.
APPLY_US_MAX = 200_000
#: Two PRODUCEs whose handlers are no further apart than this may have appended in either order.
ORDER_SLACK_US = 5_000
#: Batches looked at for that.
RIVALS_MAX = 32
#: Passings that a level remembers below the oldest batch that is asked about.
_PASSINGS_KEPT = 1


class Span(NamedTuple):
    """When something took effect, and the bounds that the log leaves (microseconds)."""

    at_us: int
    earliest_us: int
    latest_us: int


class Passing(NamedTuple):
    """A level passed an offset: when, with which maximal ISR and minimum, and who stood where.

    ``after_consumers``: when producers who waited are answered, if consumers are answered first.
    """

    span: Span
    isr_size: int
    min_isr: int
    offsets: tuple[int, ...]
    after_consumers: Span | None = None

    @property
    def answers(self) -> Span:
        """When producers are answered who waited for it."""
        return self.span if self.after_consumers is None else self.after_consumers


def moment(at_us: int) -> Span:
    """Something that took effect at a known time."""
    return Span(at_us, at_us, at_us)


@dataclass
class Level:
    """When an offset that only rises first passed which value."""

    offsets: list[int] = field(default_factory=list)
    passings: list[Passing] = field(default_factory=list)

    def rises(self, offset: int) -> bool:
        """Whether ``offset`` is above where it is."""
        return not self.offsets or offset > self.offsets[-1]

    def rise(self, offset: int, passing: Passing) -> None:
        """It may be at ``offset`` now; a lower one than before changes nothing."""
        if not self.rises(offset):
            return
        self.answer(passing.answers)
        self.offsets.append(offset)
        self.passings.append(passing)

    def answer(self, answers: Span) -> None:
        """A handler answers all who wait for what was passed, also for another that is not done."""
        for index in reversed(range(len(self.passings))):
            before = self.passings[index]
            late = before.after_consumers
            if late is None or late.at_us <= answers.at_us:
                return
            latest_us = min(late.latest_us, answers.latest_us)
            sooner = late._replace(at_us=answers.at_us, latest_us=latest_us)
            self.passings[index] = before._replace(after_consumers=sooner)

    def passed(self, base_offset: int) -> Passing | None:
        """When it first was above a base offset, None if it is not yet."""
        index = bisect_right(self.offsets, base_offset)
        return self.passings[index] if index < len(self.offsets) else None

    def answered(self, base_offset: int, front_us: int) -> bool:
        """Whether it passed a base offset, and no FETCH still to come can answer sooner."""
        passing = self.passed(base_offset)
        return passing is not None and passing.answers.at_us <= front_us

    def forget(self, below: int) -> None:
        """Nobody asks for a base offset below ``below`` any more."""
        keep = max(0, bisect_right(self.offsets, below) - _PASSINGS_KEPT)
        del self.offsets[:keep], self.passings[:keep]


@dataclass
class Follower:
    """What the leader knows of a follower (``kafka.cluster.Replica``), and what it sent it last."""

    offset: int = -1
    sent_bytes: int = 0
    epoch: int = -1
    session_id: int = 0
    caught_up_us: int = -LAG_US_MAX - 1


@dataclass
class Levels:
    """What one value of min.insync.replicas makes of the same log."""

    committed: Level = field(default_factory=Level)
    copied: Level = field(default_factory=Level)

    def rise(self, high_watermark: int, copied: int, passing: Passing) -> None:
        """Where they may be now. Consumers are woken by the high watermark alone."""
        if self.committed.rises(high_watermark):
            self.copied.answer(passing.answers)
        else:
            passing = passing._replace(after_consumers=None)
        self.committed.rise(high_watermark, passing)
        self.copied.rise(copied, passing)


@dataclass
class Batch:
    """A batch that the leader appended, or (``base_offset`` -1) did not.

    ``floor`` is the least that its base offset can be; ``base_offset`` None is not known.
    ``min_isrs`` are the values in force at the append, one per variant, None where not known.
    ``lost_us``: the leader lost its leadership while the batch waited.
    """

    appended_us: int
    base_offset: int | None
    floor: int
    isr: tuple[int, ...] | None
    min_isrs: tuple[int | None, ...]
    #: The log end offset as far as known when it came.
    log_end: int
    all_at_append: tuple[bool, ...]
    leads: bool | None
    record_bytes: int | None = None
    ceiling: int | None = None
    #: The bytes that followers were sent do not agree with the order that was taken for granted.
    is_doubtful: bool = False
    next_base_offset: int | None = None
    #: Batches that may have been appended before or after this one.
    rivals: list[Batch] = field(default_factory=list)
    #: An acks=0 batch came before the next known base offset.
    is_followed_blind: bool = False
    lost_us: int | None = None
    lost_when_unknown: bool = False
    levels: Sequence[Levels] = ()

    @property
    def bounds(self) -> tuple[int, int | None]:
        """Least and largest base offset, whichever of its rivals came first."""
        if self.base_offset is not None:
            return self.base_offset, self.base_offset
        if not self.rivals:
            return self.floor, self.ceiling
        near = (self, *self.rivals)
        least = min(batch.log_end for batch in near)
        ends = [b.ceiling if b.base_offset is None else b.base_offset for b in near]
        known = [end for end in ends if end is not None]
        return least, max(known) if len(known) == len(ends) else None


@dataclass
class PartitionLeader:
    """One partition on one leader, under one or more values of min.insync.replicas.

    ``may_join(follower, epoch)`` says whether a follower outside the ISR counts if it is caught
    up. ``leads``: None as long as the log does not tell.
    """

    node_id: int
    may_join: Callable[[int, int], bool]
    min_isrs: list[int | None]
    isr: frozenset[int] | None = None
    joining: frozenset[int] = frozenset()
    replicas: frozenset[int] | None = None
    previous_isr: frozenset[int] | None = None
    leader_id: int | None = None
    leader_epoch: int = -1
    lost_epoch: int = -2
    lost_us: int = -APPLY_US_MAX - 1
    leads: bool | None = None
    changed_us: int = 0
    places: Places = field(default_factory=Places)
    #: The least that the log end offset can be, and the last that a PRODUCE told.
    log_end: int = 0
    logged_end: int = 0
    followers: dict[int, Follower] = field(default_factory=dict)
    levels: list[Levels] = field(default_factory=list)
    unsettled: list[Batch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._new_levels()

    # --- what happens ----------------------------------------------------------------------------

    def produce(
        self,
        at_us: int,
        base_offset: int | None,
        last_fetch: Callable[[int, int], int],
        *,
        begun_us: int | None = None,
        record_bytes: int | None = None,
        was_checked: bool = False,
    ) -> Batch:
        """A PRODUCE's batch is appended; ``base_offset`` -1: it was not, None: not logged.

        ``begun_us``: when the handler took it; somewhere between that and ``at_us`` is the append.
        ``was_checked``: sent with acks=all, so that the leader looked at the ISR before.

        ``last_fetch(replica, session)`` is when a session fetched last: whoever was at the end of
        the log until now was caught up then.
        """
        appended = self.leads is not False if base_offset is None else base_offset >= 0
        # It was told that it does not lead any more, but has not applied it everywhere yet.
        late = self.leads is False and at_us - self.lost_us <= APPLY_US_MAX
        if appended and base_offset is not None and not self.leads and not late:
            self._lead()
        min_isrs = tuple(map(self.effective, self.min_isrs))
        isr = self.isr
        if was_checked and base_offset is not None and base_offset >= 0:
            # The leader took it, so it had not yet applied what made the ISR too small.
            too_small = isr is not None and len(isr) < (min_isrs[0] or 0)
            isr = self.previous_isr if too_small else isr
        batch = Batch(
            appended_us=at_us,
            base_offset=base_offset,
            floor=self.log_end if base_offset is None else base_offset,
            isr=None if isr is None else tuple(sorted(isr)),
            min_isrs=min_isrs,
            log_end=self.log_end,
            all_at_append=(),
            leads=self.leads,
            record_bytes=record_bytes,
            levels=self.levels,
            lost_us=at_us if appended and late else None,
        )
        if not appended:
            return batch
        for replica_id, follower in self.followers.items():
            if follower.offset >= self.log_end:
                seen = last_fetch(replica_id, follower.session_id)
                follower.caught_up_us = max(follower.caught_up_us, seen)
        alone = self._waits_for(at_us) == []
        batch.all_at_append = tuple(
            alone and k is not None and self.isr is not None and len(self.isr) >= k
            for k in batch.min_isrs
        )
        self._order(batch)
        self._rival(batch, at_us if begun_us is None else begun_us)
        self.places.append(batch)
        if base_offset is None:
            self.log_end += 1
        elif base_offset >= self.logged_end:
            # What was counted for batches without an offset may have been too much: they may
            # have been appended behind this one.
            self.logged_end = self.log_end = base_offset + 1
        self.unsettled.append(batch)
        return batch

    def sent(self, replica_id: int, record_bytes: int) -> None:
        """The answer to a follower's FETCH carries so many bytes of records."""
        if replica_id in self.followers:
            self.followers[replica_id].sent_bytes = record_bytes

    def fetch(
        self,
        span: Span,
        replica_id: int,
        offset: int,
        replica_epoch: int,
        session_id: int,
        after_consumers: Span | None = None,
    ) -> None:
        """A follower fetches at an offset: it has everything below.

        ``after_consumers``: when producers are answered if that moves the high watermark, because
        consumers are parked that are answered first.
        """
        follower = self.followers.setdefault(replica_id, Follower())
        self.places.fetched(follower.offset, offset, follower.sent_bytes)
        follower.sent_bytes = 0
        follower.offset, follower.epoch = offset, replica_epoch
        follower.session_id = session_id
        if offset >= self.log_end:
            follower.caught_up_us = max(follower.caught_up_us, span.at_us)
        self.evaluate(span, after_consumers)

    def in_epoch(self, leader_epoch: int | None) -> None:
        """A follower's FETCH was taken, in a leader epoch: this node leads."""
        epoch = -1 if leader_epoch is None else leader_epoch
        if not self.leads and epoch > self.lost_epoch:
            self._lead()
        self.leader_epoch = max(self.leader_epoch, epoch)

    def join(self, joining: frozenset[int]) -> None:
        """The leader asked for an ISR: who is new in it counts from now on."""
        self.joining = joining

    def commit_isr(self, span: Span, isr: frozenset[int] | None) -> None:
        """An ISR was committed; None: the leader's wish was refused."""
        self.joining = frozenset()
        if isr is not None and isr != self.isr:
            self.previous_isr, self.isr = self.isr, isr
            self.changed_us = span.at_us
        self.evaluate(span)

    def remove(self, span: Span, broker_id: int) -> None:
        """A controller took a broker out of the ISR; the last one stays."""
        if self.leader_id == broker_id != self.node_id:
            # Somebody else of the ISR leads now, maybe this node.
            self.leader_id = None
            self.leads = None if self.leads is False else self.leads
        if self.isr is not None and broker_id in self.isr and len(self.isr) > 1:
            self.commit_isr(span, self.isr - {broker_id})
        else:
            self.evaluate(span)

    def told_leader(self, at_us: int, leader_id: int, leader_epoch: int) -> None:
        """METADATA told who leads."""
        newer = leader_epoch > self.leader_epoch
        self.leader_id = leader_id
        if leader_id == self.node_id:
            if self.leads is not True and leader_epoch > self.lost_epoch:
                self._lead()
        elif self.leads and newer and self.leader_epoch >= 0:
            self.lose(at_us, when_unknown=True)
        elif self.leads is None:
            self.leads = False
        self.leader_epoch = max(self.leader_epoch, leader_epoch)

    def lose(self, at_us: int, *, when_unknown: bool = False) -> None:
        """This node does not lead any more: what waits is answered NOT_LEADER_OR_FOLLOWER."""
        self.leads = False
        self.lost_epoch, self.lost_us = self.leader_epoch, at_us
        for batch in self.unsettled:
            if batch.lost_us is None:
                batch.lost_us, batch.lost_when_unknown = at_us, when_unknown

    def _lead(self) -> None:
        """A new term: followers have to say anew what they have."""
        self.leads = True
        self.followers = {}
        self.places = Places(self.places.has_markers)
        self._new_levels()

    def _new_levels(self) -> None:
        self.levels = [Levels() for _ in self.min_isrs]

    # --- what follows ----------------------------------------------------------------------------

    def effective(self, min_isr: int | None) -> int | None:
        """``effectiveMinIsr``: min.insync.replicas, but no more than there are replicas."""
        if min_isr is None or not self.replicas:
            return min_isr
        return min(min_isr, len(self.replicas))

    def evaluate(self, span: Span, after_consumers: Span | None = None) -> None:
        """Note where the high watermark and the copied offset are now."""
        if self.isr is None or self.leads is False:
            return
        high_watermark = min(self._waits_for(span.at_us), default=self.log_end)
        copies = sorted((self._offset(r) for r in self.isr - {self.node_id}), reverse=True)
        copies.insert(0, self.log_end)
        stand = tuple(f.offset for f in self.followers.values())
        isr_size = len(self.isr | self.joining)
        for min_isr, levels in zip(self.min_isrs, self.levels, strict=True):
            k = self.effective(min_isr)
            if k is None or len(self.isr) < k:
                continue
            passing = Passing(span, isr_size, k, stand, after_consumers)
            levels.rise(high_watermark, copies[max(k, 1) - 1], passing)

    def _waits_for(self, at_us: int) -> list[int]:
        """Offsets of the followers that hold the high watermark."""
        members = (self.isr or frozenset()) | self.joining
        return [
            *(self._offset(r) for r in members if r != self.node_id),
            *(
                f.offset
                for r, f in self.followers.items()
                if r not in members and self._holds(r, f, at_us)
            ),
        ]

    def _holds(self, replica_id: int, follower: Follower, at_us: int) -> bool:
        """``shouldWaitForReplicaToJoinIsr``: caught up, and it may join."""
        recent = at_us - follower.caught_up_us <= LAG_US_MAX
        caught_up = recent or follower.offset >= self.log_end
        return caught_up and self.may_join(replica_id, follower.epoch)

    def _offset(self, replica_id: int) -> int:
        follower = self.followers.get(replica_id)
        return -1 if follower is None else follower.offset

    def _order(self, batch: Batch) -> None:
        """Base offsets tell the order of appends; they bound those that are not logged."""
        base = batch.base_offset
        if base is None:
            return
        behind = 0
        for earlier in reversed(self.unsettled):
            if earlier.base_offset is None:
                behind += 1
                if earlier.ceiling is None:
                    earlier.ceiling = base - behind
            elif earlier.base_offset < base:
                known = earlier.next_base_offset
                if known is None or base < known:
                    earlier.next_base_offset = base
                    earlier.is_followed_blind = behind > 0
                if known is not None and known <= base:
                    break
            elif batch.next_base_offset is None or earlier.base_offset < batch.next_base_offset:
                batch.next_base_offset = (
                    earlier.base_offset if earlier.base_offset > base else batch.next_base_offset
                )

    def _rival(self, batch: Batch, begun_us: int) -> None:
        """Handlers that ran at the same time: the order of their appends is not in the log."""
        for earlier in self.unsettled[-RIVALS_MAX:]:
            logged = earlier.base_offset is not None and batch.base_offset is not None
            if not logged and earlier.appended_us + ORDER_SLACK_US >= begun_us:
                earlier.rivals.append(batch)
                batch.rivals.append(earlier)

    def settle(self, settled: list[Batch]) -> None:
        """Forget batches, and what only they needed."""
        gone = set(map(id, settled))
        self.unsettled = [b for b in self.unsettled if id(b) not in gone]
        for batch in settled:
            batch.rivals = []
        below = min((b.bounds[0] for b in self.unsettled), default=self.logged_end)
        for levels in self.levels:
            levels.committed.forget(below - 1)
            levels.copied.forget(below - 1)
        self.places.forget(min((f.offset for f in self.followers.values()), default=None))
