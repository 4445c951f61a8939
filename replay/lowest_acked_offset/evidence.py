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
taken back where the next heartbeat denies it (``Claims``), and is not taken at all while a
heartbeat has shown the broker to be later than the grace.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from .events import NOT_SENT, STAMP_SLACK_US, Event
from .timelines import Lacks, Rising

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


class Replicas(msgspec.Struct):
    """What brokers have to do for topics that are created and deleted, by metadata offset."""

    #: By topic, of those whose creation the log has.
    of_topic: dict[str, int] = {}
    #: (offset, when the controller responded, a broker's share in microseconds), in order.
    shares: list[tuple[int, int, int]] = []
    #: The log may lack topics, so it does not show what their deletion is.
    is_partial: bool = False
    #: (offset, when the controller responded) of such deletions, in order.
    unknown: list[tuple[int, int]] = []

    def write(self, row: Event, offset: int | None, replica_us: int, brokers: int) -> None:
        """A write whose last record has this offset; each broker has an equal share of it."""
        count = 0
        if row.api_name == "CREATE_TOPICS":
            self.of_topic.update(zip(row.topics, row.replicas, strict=True))
            count = sum(row.replicas)
        elif row.api_name == "DELETE_TOPICS":
            counts = [self.of_topic.pop(topic, None) for topic in row.topics]
            count = sum(each or 0 for each in counts)
            if self.is_partial and None in counts and offset is not None:
                insort(self.unknown, (offset, row.at_us))
        if count and offset is not None:
            insort(self.shares, (offset, row.at_us, replica_us * count // max(1, brokers)))

    def work_us(self, after: int, upto: int) -> int:
        """How long a broker works on what lies behind an offset, up to another."""
        begin, end = (bisect_left(self.shares, (offset + 1,)) for offset in (after, upto))
        return sum(us for _, _, us in self.shares[begin:end])

    def unknown_upto(self, after: int, upto: int) -> int | None:
        """The last offset behind one, up to another, whose work is not known, if there is one."""
        index = bisect_left(self.unknown, (upto + 1,)) - 1
        offset = self.unknown[index][0] if index >= 0 else -1
        return offset if offset > after else None

    def forget(self, before: int) -> None:
        self.shares = [share for share in self.shares if share[1] >= before]
        self.unknown = [each for each in self.unknown if each[1] >= before]


class Claim(NamedTuple):
    """By all evidence a broker had applied an offset at a time (microseconds)."""

    at_us: int
    broker_id: int
    offset: int


class Claims(msgspec.Struct):
    """What heartbeats claim, and FETCHes as far as the next heartbeat does not deny it."""

    broker_id: int
    is_slow: bool = False
    #: (arrival, offset) of FETCHes whose time to apply has not begun to run out.
    known: list[tuple[int, int]] = []
    #: (when it counts as applied, offset) of FETCHes that wait for a heartbeat.
    waiting: list[tuple[int, int]] = []
    due: Rising = msgspec.field(default_factory=Rising)
    last_due_us: int = 0
    last_offset: int = -1
    #: It works on something up to this offset, and the log does not show how much that is.
    busy_offset: int | None = None
    #: (behind this offset, up to this one, known when) of what was known meanwhile: no claim.
    unclaimed: list[tuple[int, int, int]] = []

    def fetch(self, at: int, offset: int) -> None:
        """A FETCH shows that the broker knows everything up to an offset to be committed."""
        self.known.append((at, offset))

    def fall_due(self, until: int, replicas: Replicas) -> Iterator[tuple[int, int]]:
        """(when it counts as applied, offset) of what was known long enough before a time.

        Not sooner: only by then it is sure to be known what the controller has responded to.
        """
        while self.known and self.known[0][0] + APPLY_GRACE_US <= until:
            at, offset = self.known.pop(0)
            self.busy_offset = replicas.unknown_upto(self.last_offset, offset) or self.busy_offset
            if self.busy_offset is not None:
                self.unclaimed.append((self.last_offset, offset, at))
                self.last_offset = max(offset, self.last_offset)
                continue
            work_us = COLD_FACTOR * replicas.work_us(self.last_offset, offset)
            grace_us = APPLY_GRACE_US + min(work_us, CLAIM_WAIT_US)
            self.last_due_us = max(at + grace_us, self.last_due_us)
            self.last_offset = max(offset, self.last_offset)
            self.due.add(self.last_due_us, offset)
            self.waiting.append((self.last_due_us, offset))
            yield self.last_due_us, offset

    def heartbeat(self, at: int, offset: int) -> Iterator[Claim]:
        """A heartbeat settles what has become due since the one before."""
        for due, claimed in self._settled(at):
            yield Claim(due, self.broker_id, min(claimed, offset))
        yield Claim(at, self.broker_id, offset)
        if self.busy_offset is not None and offset >= self.busy_offset:
            self.busy_offset = None
        overdue = self.due.value(at)
        self.is_slow = overdue is not None and overdue > offset
        self.due.forget(at)

    def is_unclaimed(self, offset: int | None) -> bool:
        """What FETCHes show of an offset depends on work that the log does not show."""
        high = -1 if offset is None else offset
        return any(after < high <= upto for after, upto, _ in self.unclaimed)

    def expire(self, until: int) -> Iterator[Claim]:
        """No heartbeat came in ``CLAIM_WAIT_US``: what was due up to a time stands."""
        for due, claimed in self._settled(until):
            yield Claim(due, self.broker_id, claimed)

    def _settled(self, until: int) -> list[tuple[int, int]]:
        settled = [claim for claim in self.waiting if claim[0] <= until]
        self.waiting = self.waiting[len(settled) :]
        return [] if self.is_slow else settled


class Signs(msgspec.Struct):
    """What one kind of evidence shows of one broker: from when on it has, until when it lacks."""

    has: Rising = msgspec.field(default_factory=Rising)
    lacks: Lacks = msgspec.field(default_factory=Lacks)


class BrokerEvidence(msgspec.Struct):
    claims: Claims
    signs: dict[str, Signs] = msgspec.field(
        default_factory=lambda: {kind: Signs() for kind in EVIDENCE}
    )
    #: What its heartbeats lacked when they arrived.
    reports: Lacks = msgspec.field(default_factory=Lacks)
    first_seen_us: int | None = None
    last_seen_us: int = 0
    last_fetch_us: int | None = None
    last_response_us: int = 0

    def heartbeat(self, row: Event, replicas: Replicas) -> Iterator[Claim]:
        at, offset = row.received_us, row.offset
        self._see(at)
        self.fall_due(at, replicas)
        signs = self.signs[HEARTBEAT]
        signs.has.add(at, offset)
        signs.lacks.add(offset + 1, min(self.last_response_us, at))
        self.reports.add(offset + 1, at)
        self.last_response_us = row.at_us
        return self.claims.heartbeat(at, offset)

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
        if known > 0:
            self.claims.fetch(at, known - 1)
        self.last_fetch_us = row.dequeued_us

    def behind_hole(self) -> "BrokerEvidence":
        claims = self.claims
        return BrokerEvidence(
            Claims(claims.broker_id, last_due_us=claims.last_due_us, last_offset=claims.last_offset)
        )

    def fall_due(self, until: int, replicas: Replicas) -> None:
        """Take what FETCHes long enough before a time show to be applied."""
        for due, offset in self.claims.fall_due(until, replicas):
            self.signs[FETCH_HIGH_WATERMARK].has.add(due, offset)

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
        self.claims.unclaimed = [each for each in self.claims.unclaimed if each[2] >= before]
        for signs in self.signs.values():
            signs.has.forget(before)
            signs.lacks.forget(before)


class Evidence(msgspec.Struct):
    brokers: dict[int, BrokerEvidence] = {}

    def of(self, broker_id: int) -> BrokerEvidence:
        if broker_id not in self.brokers:
            self.brokers[broker_id] = BrokerEvidence(Claims(broker_id))
        return self.brokers[broker_id]

    def expire(self, until: int, replicas: Replicas) -> Iterator[Claim]:
        """What FETCHes claimed and no heartbeat settled, in order of brokers."""
        for broker_id in sorted(self.brokers):
            self.brokers[broker_id].fall_due(until, replicas)
            yield from self.brokers[broker_id].claims.expire(until)

    def forget(self, before: int) -> None:
        for evidence in self.brokers.values():
            evidence.forget(before)
