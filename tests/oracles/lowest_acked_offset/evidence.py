"""How far each broker had applied the metadata log, by three kinds of evidence.

``heartbeat``
    BROKER_HEARTBEAT's ``currentMetadataOffset`` is ``MetadataLoader.lastAppliedOffset``: the last
    offset that all of the broker's publishers have run on. It is read when the request is built:
    after the answer to the one before, and (on busy machines by hundreds of milliseconds) before
    the request arrives. So what it has holds at the arrival, what it lacks only at that answer.
``api_versions``
    API_VERSIONS's ``finalizedFeaturesEpoch`` is the offset of the broker's metadata image: what
    its answers to METADATA and others show. It is read between dequeue and answer.
``fetch_high_watermark``
    A Raft FETCH v18 says which high watermark h its broker knows: that everything below h is
    committed. Before, the broker cannot have applied it. After, it does so as fast as its queue
    allows, which no line tells, so it is taken for applied ``APPLY_GRACE_US`` later and only if no
    heartbeat denies it. This is the one kind of evidence that is an assumption. An older FETCH says
    as much of the one before it: whatever the leader's high watermark was when that one was
    dequeued, its answer told at least that, up to the sender's own log end.

A broker can be slow: a topic of 192 partitions takes seconds to apply. So a FETCH's word is taken
back where the next heartbeat denies it (``Claims``), and is not taken at all while a heartbeat has
shown the broker to be later than the grace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kip_replay.replay.lowest_acked_offset.events import NOT_SENT, Event
from oracles.lowest_acked_offset.timelines import Rising, Signs
from oracles.lowest_acked_offset.writes import STAMP_SLACK_US

HEARTBEAT = "heartbeat"
API_VERSIONS = "api_versions"
FETCH_HIGH_WATERMARK = "fetch_high_watermark"
EVIDENCE = (HEARTBEAT, API_VERSIONS, FETCH_HIGH_WATERMARK)

#: A broker has this long to apply what it knows: over three times what METADATA answers showed.
APPLY_GRACE_US = 500_000
#: A FETCH's word stands if no heartbeat says anything for this long: longer than any interval.
CLAIM_WAIT_US = 15_000_000


class Claim(NamedTuple):
    """By all evidence a broker had applied an offset at a time (microseconds)."""

    at_us: int
    broker_id: int
    offset: int


@dataclass
class Claims:
    """What heartbeats say, and FETCHes as far as the next heartbeat does not deny it."""

    broker_id: int
    is_slow: bool = False
    waiting: list[tuple[int, int]] = field(default_factory=list)
    due: Rising = field(default_factory=Rising)
    last_due_us: int = 0

    def fetch(self, at: int, offset: int) -> None:
        """A FETCH says that the broker knows everything up to an offset to be committed."""
        self.last_due_us = max(at + APPLY_GRACE_US, self.last_due_us)
        self.due.add(self.last_due_us, offset)
        self.waiting.append((self.last_due_us, offset))

    def heartbeat(self, at: int, offset: int) -> Iterator[Claim]:
        """A heartbeat settles what has become due since the one before."""
        for due, word in self._settled(at):
            yield Claim(due, self.broker_id, min(word, offset))
        yield Claim(at, self.broker_id, offset)
        overdue = self.due.value(at)
        self.is_slow = overdue is not None and overdue > offset
        self.due.forget(at)

    def expire(self, until: int) -> Iterator[Claim]:
        """No heartbeat came in ``CLAIM_WAIT_US``: what was due before a time stands."""
        for due, word in self._settled(until - CLAIM_WAIT_US):
            yield Claim(due, self.broker_id, word)

    def _settled(self, until: int) -> list[tuple[int, int]]:
        settled = [word for word in self.waiting if word[0] <= until]
        self.waiting = self.waiting[len(settled) :]
        return [] if self.is_slow else settled


@dataclass
class BrokerEvidence:
    """All signs of one broker."""

    broker_id: int
    signs: dict[str, Signs] = field(default_factory=lambda: {kind: Signs() for kind in EVIDENCE})
    claims: Claims = field(init=False)
    reports: Signs = field(default_factory=Signs)
    first_heard_us: int | None = None
    last_heard_us: int = 0
    _last_fetch_us: int | None = None
    _last_answer_us: int = 0

    def __post_init__(self) -> None:
        self.claims = Claims(self.broker_id)

    def heartbeat(self, row: Event) -> Iterator[Claim]:
        """Take a heartbeat that was answered without error."""
        self._heard(row.received_us)
        read_after = min(self._last_answer_us, row.received_us)
        self.signs[HEARTBEAT].add(row.received_us, row.offset, row.offset + 1, read_after)
        self.reports.add(row.received_us, row.offset, row.offset + 1, row.received_us)
        self._last_answer_us = row.at_us
        return self.claims.heartbeat(row.received_us, row.offset)

    def api_versions(self, row: Event) -> None:
        """Take an API_VERSIONS that the broker answered."""
        self.signs[API_VERSIONS].add(row.at_us, row.offset, row.offset + 1, row.dequeued_us)

    def fetch(self, row: Event, high_watermark: Rising) -> None:
        """Take a Raft FETCH that the leader answered, in order of dequeue."""
        at, taken, end = row.received_us, row.dequeued_us, row.offset
        self._heard(at)
        if row.high_watermark == NOT_SENT:
            before = self._last_fetch_us
            told = None if before is None else high_watermark.value(before - STAMP_SLACK_US)
            known, lacks_from = min(end, told or 0), end
        else:
            known = lacks_from = min(end, row.high_watermark)
        # It learns more with the answer at the earliest.
        lacks_from, due = max(0, lacks_from), at + APPLY_GRACE_US
        self.signs[FETCH_HIGH_WATERMARK].add(due, max(-1, known - 1), lacks_from, row.at_us)
        if known > 0:
            self.claims.fetch(at, known - 1)
        self._last_fetch_us = taken

    def denied(self, offset: int, at: int) -> bool:
        """A heartbeat that arrives after a time shows that the broker lacked an offset."""
        lacked = self.reports.lacked_until(offset)
        return lacked is not None and lacked > at

    def heard_between(self, since: int, until: int) -> bool:
        """The broker was there in a span: it sent something before its end and after its begin."""
        return (
            self.first_heard_us is not None
            and self.first_heard_us <= until
            and self.last_heard_us >= since
        )

    def _heard(self, at: int) -> None:
        if self.first_heard_us is None:
            self.first_heard_us = at
        self.last_heard_us = max(self.last_heard_us, at)

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        for signs in (self.reports, *self.signs.values()):
            signs.forget(before)


@dataclass
class Evidence:
    """The signs of all brokers."""

    brokers: dict[int, BrokerEvidence] = field(default_factory=dict)

    def of(self, broker_id: int) -> BrokerEvidence:
        """The signs of one broker."""
        if broker_id not in self.brokers:
            self.brokers[broker_id] = BrokerEvidence(broker_id)
        return self.brokers[broker_id]

    def expire(self, until: int) -> Iterator[Claim]:
        """What FETCHes said and no heartbeat settled."""
        for evidence in self.brokers.values():
            yield from evidence.claims.expire(until)

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        for evidence in self.brokers.values():
            evidence.forget(before)
