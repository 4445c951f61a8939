"""How far each broker had applied the metadata log, by three kinds of evidence.

``heartbeat``
    BROKER_HEARTBEAT's ``currentMetadataOffset`` is ``MetadataLoader.lastAppliedOffset``: the last
    offset that all of the broker's publishers have run on. It is read when the request is built:
    after the response to the one before, and (on busy machines by hundreds of milliseconds) before
    the request arrives. So what it has holds at the arrival, what it lacks only at that response.
``api_versions``
    API_VERSIONS's ``finalizedFeaturesEpoch`` is the offset of the broker's metadata image: what
    its responses to METADATA and others show. It is read between dequeue and response.
``fetch_high_watermark``
    A Raft FETCH v18 carries the high watermark h that its broker knows: everything below h is
    committed. Before, the broker cannot have applied it. After, it does so as fast as its queue
    allows, which no line shows, so it counts as applied ``APPLY_GRACE_US`` later, or more where it
    has replicas to create or delete (``COLD_FACTOR``), and only if no heartbeat denies it. This is
    the one kind of evidence that is an assumption. An older FETCH shows as much of the one before
    it: the response to that one carried at least the leader's high watermark at its dequeue, up to
    the sender's own log end.

A broker can be slow: a topic of 192 partitions takes seconds to apply. So what a FETCH claims is
taken back where the next heartbeat denies it, and is not taken at all while a heartbeat has shown
the broker to be later than the grace.
"""

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ..simulation import Rising
from .events import NOT_SENT, STAMP_SLACK_US, Event

HEARTBEAT = "heartbeat"
API_VERSIONS = "api_versions"
FETCH_HIGH_WATERMARK = "fetch_high_watermark"
EVIDENCE = (HEARTBEAT, API_VERSIONS, FETCH_HIGH_WATERMARK)

#: A broker has this long to apply what it knows: over three times what METADATA responses showed.
APPLY_GRACE_US = 500_000
#: Replicas may take this many times as long as usual: a broker's first ones do.
COLD_FACTOR = 10
#: What a FETCH claims stands if no heartbeat comes for this long: longer than any interval.
CLAIM_WAIT_US = 15_000_000


class Work(NamedTuple):
    """A broker's share of a write: how long it takes, at most if the log does not show it."""

    offset: int
    responded_us: int
    share_us: int
    is_known: bool


_offset = attrgetter("offset")


class Replicas(msgspec.Struct):
    """What brokers have to do for topics that are created and deleted, by metadata offset."""

    #: By topic, of those whose creation the log has, and the most that one had.
    of_topic: dict[str, int] = {}
    most: int = 0
    #: In order of offsets.
    works: list[Work] = []
    #: The log may lack topics, so it does not show what their deletion is.
    is_partial: bool = False

    def hold(self, row: Event) -> None:
        """Takes topics that there are, with their replicas."""
        self.of_topic.update(zip(row.topics, row.replicas, strict=True))
        self.most = max(self.most, *row.replicas, 0)

    def write(self, row: Event, offset: int | None, replica_us: int, brokers: int) -> None:
        """A write whose last record has this offset; each broker has an equal share of it."""
        counts: list[int | None] = []
        if row.api_name == "CREATE_TOPICS":
            self.hold(row)
            counts = [*row.replicas]
        elif row.api_name == "DELETE_TOPICS":
            counts = [self.of_topic.pop(topic, None) for topic in row.topics]
        is_known = None not in counts or not self.is_partial
        # A topic that the log does not have is taken for the largest that it has, or for longest.
        unknown_us = 0 if is_known else replica_us * self.most or CLAIM_WAIT_US * brokers
        every_us = (unknown_us if each is None else replica_us * each for each in counts)
        share_us = sum(every_us) // max(1, brokers)
        if counts and offset is not None:
            insort(self.works, Work(offset, row.at_us, share_us, is_known), key=_offset)

    def work_us(self, after: int, upto: int) -> int:
        """How long the work behind an offset takes, at most, up to another."""
        return sum(work.share_us for work in self._between(after, upto))

    def unknown_upto(self, after: int, upto: int) -> int | None:
        """The last offset behind one, up to another, whose work is not known, if there is one."""
        unknown = [work.offset for work in self._between(after, upto) if not work.is_known]
        return unknown[-1] if unknown else None

    def _between(self, after: int, upto: int) -> list[Work]:
        if not self.works or self.works[-1].offset <= after:
            return []
        begin, end = (bisect_left(self.works, each + 1, key=_offset) for each in (after, upto))
        return self.works[begin:end]

    def forget(self, before: int) -> None:
        self.works = [work for work in self.works if work.responded_us >= before]


class Lacks(msgspec.Struct):
    """Until when a broker surely had nothing from an offset on."""

    offsets: list[int] = []
    until: list[int] = []

    def add(self, offset: int, until: int) -> None:
        """Until a time the broker lacks an offset; one below the highest so far is nothing new."""
        if not self.offsets or offset > self.offsets[-1]:
            self.offsets.append(offset)
            self.until.append(until)
        elif offset == self.offsets[-1]:
            self.until[-1] = max(self.until[-1], until)

    def lacked_until(self, offset: int) -> int:
        """The last time; 0 if none is known."""
        index = bisect_right(self.offsets, offset)
        return self.until[index - 1] if index else 0

    def forget(self, before: int) -> None:
        keep = max(0, bisect_right(self.until, before) - 1)
        del self.offsets[:keep], self.until[:keep]


class Claim(NamedTuple):
    """By all evidence a broker had applied an offset at a time (microseconds)."""

    at_us: int
    broker_id: int
    offset: int


class Signs(msgspec.Struct):
    """What one kind of evidence shows of one broker: from when on it has, until when it lacks."""

    has: Rising = msgspec.field(default_factory=Rising)
    lacks: Lacks = msgspec.field(default_factory=Lacks)


class BrokerEvidence(msgspec.Struct):
    """What the log shows of one broker, and what follows from its FETCHes unless it is denied."""

    broker_id: int
    signs: dict[str, Signs] = msgspec.field(
        default_factory=lambda: {kind: Signs() for kind in EVIDENCE}
    )
    #: What its heartbeats lacked when they arrived.
    reports: Lacks = msgspec.field(default_factory=Lacks)
    first_seen_us: int | None = None
    last_seen_us: int = 0
    last_fetch_us: int | None = None
    last_response_us: int = 0
    is_slow: bool = False
    #: (arrival, offset) of FETCHes that know more, whose time to apply has not begun to run out.
    known: list[tuple[int, int]] = []
    #: By then it has applied what FETCHes knew up to this offset.
    due_us: int = 0
    due_offset: int = -1
    #: Until then heartbeats have confirmed or denied it.
    settled_us: int = 0
    #: It works on something up to this offset, and the log does not show how much that is.
    busy_offset: int | None = None
    #: (behind this offset, up to this one, known when) of what was known meanwhile: no claim.
    unclaimed: list[tuple[int, int, int]] = []

    def heartbeat(self, row: Event, replicas: Replicas) -> list[Claim]:
        """Take a heartbeat, which settles what has become due since the one before."""
        at, offset = row.received_us, row.offset
        self._see(at)
        signs = self.signs[HEARTBEAT]
        signs.has.add(at, offset)
        signs.lacks.add(offset + 1, min(self.last_response_us, at))
        self.reports.add(offset + 1, at)
        self.last_response_us = row.at_us
        due = self.settled(at, replicas)
        if self.busy_offset is not None and offset >= self.busy_offset:
            self.busy_offset = None
        overdue = self.signs[FETCH_HIGH_WATERMARK].has.value(at)
        self.is_slow = overdue is not None and overdue > offset
        claims = (claim._replace(offset=min(claim.offset, offset)) for claim in due)
        return [*claims, Claim(at, self.broker_id, offset)]

    def api_versions(self, row: Event) -> None:
        signs = self.signs[API_VERSIONS]
        signs.has.add(row.at_us, row.offset)
        signs.lacks.add(row.offset + 1, row.dequeued_us)

    def fetch(self, row: Event, high_watermark: Rising) -> None:
        """Take a Raft FETCH without error, in order of dequeue."""
        at, end = row.received_us, row.offset
        self._see(at)
        if row.high_watermark == NOT_SENT:
            before = self.last_fetch_us
            carried = None if before is None else high_watermark.value(before - STAMP_SLACK_US)
            known, lacks_from = min(end, carried or 0), end
        else:
            known = lacks_from = min(end, row.high_watermark)
        # It learns more with the response at the earliest.
        self.signs[FETCH_HIGH_WATERMARK].lacks.add(max(0, lacks_from), row.at_us)
        if known - 1 > max(self.due_offset, *(offset for _, offset in self.known[-1:]), -1):
            self.known.append((at, known - 1))
        self.last_fetch_us = row.dequeued_us

    def settled(self, until: int, replicas: Replicas) -> list[Claim]:
        """What FETCHes claim and no heartbeat has denied up to a time.

        Not sooner than the grace: only by then it is sure to be known what the controller has
        responded to.
        """
        has, since = self.signs[FETCH_HIGH_WATERMARK].has, self.settled_us
        while self.known and self.known[0][0] + APPLY_GRACE_US <= until:
            at, offset = self.known.pop(0)
            # At first it may still work on what it knew before the log.
            first = offset if replicas.is_partial and self.due_offset < 0 else self.busy_offset
            self.busy_offset = replicas.unknown_upto(self.due_offset, offset) or first
            if self.busy_offset is None:
                work_us = COLD_FACTOR * replicas.work_us(self.due_offset, offset)
                grace_us = APPLY_GRACE_US + min(work_us, CLAIM_WAIT_US)
                self.due_us = max(at + grace_us, self.due_us)
                has.add(self.due_us, offset)
            else:
                self.unclaimed.append((self.due_offset, offset, at))
            self.due_offset = offset
        self.settled_us = max(since, until)
        begin, end = (bisect_right(has.at, at) for at in (since, self.settled_us))
        due = zip(has.at[begin:end], has.values[begin:end], strict=True)
        return [] if self.is_slow else [Claim(at, self.broker_id, offset) for at, offset in due]

    def is_unclaimed(self, offset: int | None) -> bool:
        """What FETCHes show of an offset depends on work that the log does not show."""
        high = -1 if offset is None else offset
        return any(after < high <= upto for after, upto, _ in self.unclaimed)

    def behind_hole(self) -> "BrokerEvidence":
        return BrokerEvidence(self.broker_id, due_us=self.due_us, due_offset=self.due_offset)

    def is_seen_between(self, since: int, until: int) -> bool:
        """The broker sent something before the end of a span and after its beginning."""
        first = self.first_seen_us
        return first is not None and first <= until and self.last_seen_us >= since

    def _see(self, at: int) -> None:
        if self.first_seen_us is None:
            self.first_seen_us = at
        self.last_seen_us = max(self.last_seen_us, at)

    def forget(self, before: int) -> None:
        self.reports.forget(before)
        self.unclaimed = [each for each in self.unclaimed if each[2] >= before]
        for signs in self.signs.values():
            signs.has.forget(before)
            signs.lacks.forget(before)
