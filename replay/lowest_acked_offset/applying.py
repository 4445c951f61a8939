"""When each broker shows a commit and has applied it: an estimate, where evidence only bounds it.

A broker learns of commits in FETCH responses (released Kafka, read in 4.0). ``KafkaRaftClient``
appends the response's records, raises the high watermark, at most to its own log end, hands over
what that commits (``MetadataLoader.handleCommit``) and sends its next FETCH at once. The loader
runs the publishers on one thread, batch after batch: ``BrokerMetadataPublisher.onMetadataUpdate``
first sets the image that METADATA is served from, then creates and deletes the broker's replicas
(``ReplicaManager.applyDelta``). Only after that does a heartbeat carry the offset. So a broker

* shows a commit when its next FETCH arrives, or once what came before is applied if that is later:
  a frozen broker sends no FETCH;
* has applied it when it has created or deleted its replicas, each in ``replica_apply_ms``. Requests
  or METADATA soon after them show how many replicas a topic has (``Replicas``), and not where: each
  broker that counts is taken to have an equal share.

The loader of a broker that starts waits until it has caught up, so nothing is estimated of it until
it is unfenced. METADATA corrects when it shows a commit (``WrittenTopics``): by the first response
that does, and not before the last that does not. Heartbeats correct when it has applied it: an
offset that one has, before it arrives; one that it lacks, behind that. Replicas that move are not
counted. The deletion of a topic whose creation the log lacks (it begins later, or has a gap) is
shown at once, and takes an unknown time. What follows is unknown too, until the time that the
largest topic would take is over, or a heartbeat has the deletion.
"""

from bisect import bisect_left
from collections.abc import Iterator
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ..model import STAMP_US
from ..model.brokers import BrokerHeartbeatManager
from ..model.raft import NOT_SENT
from ..simulation import forget
from .events import HEARTBEAT, SLOW_US, ClusterEvent, Undecided
from .evidence import BrokerEvidence, Replicas
from .writes import Front


class Estimate(NamedTuple):
    """When a broker shows everything up to an offset, inclusive, and has applied it; or why not.

    It learned that this is committed from a response built at ``learned_us``, and handled that
    before ``handled_us``, when its next FETCH arrived (None: the log ends before it).
    ``hwm_aware``: the FETCH had a high watermark (KIP-1166).
    """

    offset: int
    learned_us: int
    handled_us: int | None = None
    shown_us: int | None = None
    applied_us: int | None = None
    reason: str | None = None
    hwm_aware: bool = False

    def unknown(self, reason: str) -> "Estimate":
        return self._replace(shown_us=None, applied_us=None, reason=reason)

    def no_later(self, has_us: int | None) -> "Estimate":
        """Bounds it by the first heartbeat that has the offset, which arrives at ``has_us``.

        If that is before the response, the broker learned by one that the log does not have.
        """
        if has_us is None or self.shown_us is None:
            return self
        if has_us < self.learned_us - STAMP_US:
            return self.unknown(Undecided.NOT_CARRIED)
        latest = max(has_us, self.learned_us)
        applied = None if self.applied_us is None else min(self.applied_us, latest)
        return self._replace(shown_us=min(self.shown_us, latest), applied_us=applied)


class Backlog(StrEnum):
    """How much a broker may still have to apply of lines that are missing from the log."""

    #: Nothing: the log has all that it learned.
    NONE = "none"
    #: It learned something in a gap, and nothing since that shows up to which offset.
    UNKNOWN = "unknown"
    #: What it learned behind the gap is above all of that: once that is applied nothing is left.
    BOUNDED = "bounded"


class UnknownWork(NamedTuple):
    """Work of unknown length, up to an offset; it is over by ``until_us`` at the latest."""

    offset: int
    until_us: int


class Broker(msgspec.Struct):
    """One broker: its evidence, its FETCHes in order of dequeue, and what it applied when."""

    evidence: BrokerEvidence = msgspec.field(default_factory=BrokerEvidence)
    is_running: bool = False
    backlog: Backlog = Backlog.NONE
    #: Where the backlog is ``BOUNDED``, the offset that bounds it.
    backlog_offset: int = -1
    #: The last FETCH, whose response the broker handles before it sends the next.
    last: ClusterEvent | None = None
    #: What it has learned and is not estimated yet; the last offset that is.
    waiting: list[Estimate] = []
    estimated: int = -1
    #: Its loader is free from then on, but for ``unknown_work``.
    free_us: int = 0
    unknown_work: UnknownWork | None = None
    #: In order of offsets.
    estimates: list[Estimate] = []

    def heartbeat(self, row: ClusterEvent) -> None:
        """Learns by a heartbeat without error whether it runs, and has applied its backlog."""
        self.is_running = self.is_running or not row.is_fenced
        if self.backlog is Backlog.BOUNDED and row.offset >= self.backlog_offset:
            self.backlog = Backlog.NONE

    def fetch(self, row: ClusterEvent) -> None:
        """Learns by a Raft FETCH, also an error's, that the response before it was handled."""
        last = self.last
        if last is not None and row.correlation_id < last.correlation_id:
            # Another process, which never got that response.
            last, self.is_running = None, False
        if last is not None and last.at_us <= row.received_us + STAMP_US:
            high_watermark = min(last.response_high_watermark, row.offset)
            self._learn(high_watermark, last.at_us, max(last.at_us, row.received_us))
        self.last = row if row.error_code == 0 and not row.is_diverging else None

    def commit(self, at: int, high_watermark: int) -> None:
        """Learns as the active controller's own broker, which sends no FETCH: at the commit."""
        self.last = None
        self._learn(high_watermark, at, at)

    def close(self) -> None:
        if self.last is not None:
            self._learn(self.last.response_high_watermark, self.last.at_us, None)

    def _learn(self, high_watermark: int, at: int, handled_us: int | None) -> None:
        offset = high_watermark - 1
        if self.backlog is Backlog.UNKNOWN:
            self.backlog, self.backlog_offset = Backlog.BOUNDED, offset
        if offset > self._learned_offset():
            aware = self.last is not None and self.last.high_watermark != NOT_SENT
            learned = Estimate(offset, at, handled_us, reason=self._unsure(), hwm_aware=aware)
            self.waiting.append(learned)

    def _unsure(self) -> str | None:
        """Returns why it is unknown when the broker shows what it learns now, if it is."""
        if self.backlog is not Backlog.NONE:
            return Undecided.LOG_GAP
        return None if self.is_running else Undecided.STARTING

    def _learned_offset(self) -> int:
        return self.waiting[-1].offset if self.waiting else self.estimated

    def estimate(
        self, front: Front, replicas: Replicas, certain: tuple[BrokerHeartbeatManager, str]
    ) -> Iterator[Estimate]:
        """Estimates what the broker handled by ``front.final_us``: the next heartbeats are known.

        ``certain``: the controller, which knows from when on it is certain which brokers count, and
        why it is not before. Before a gap an estimate counts only if a heartbeat has its offset.
        """
        controller, uncertain = certain
        while self.waiting and (self.waiting[0].handled_us or 0) <= front.final_us:
            learned = self.waiting.pop(0)
            reported = self.evidence.bounds[HEARTBEAT].applied.reached(learned.offset)
            estimate = self._estimate(learned, replicas, reported and reported[0])
            self.estimated = learned.offset
            if estimate.shown_us is not None and not controller.is_warm(learned.learned_us):
                estimate = learned.unknown(uncertain)
            if front.is_gap and reported is None:
                estimate = learned.unknown(Undecided.LOG_GAP)
            self.estimates.append(estimate)
            yield estimate

    def _estimate(self, learned: Estimate, replicas: Replicas, has_us: int | None) -> Estimate:
        handled_us = learned.handled_us
        if handled_us is None:
            return learned.unknown(Undecided.NO_NEXT_FETCH)
        work_us, unknown_offset = replicas.between(self.estimated, learned.offset)
        reason = learned.reason
        if reason is None and self._is_busy(handled_us):
            reason = Undecided.UNKNOWN_WORK
        if reason is not None:
            if work_us:
                busy_us = 0 if self.unknown_work is None else self.unknown_work.until_us
                self.unknown_work = UnknownWork(learned.offset, max(busy_us, handled_us) + work_us)
            return learned.unknown(reason)
        image = self.evidence.image
        shows_us = max(handled_us, self.free_us)
        first, _ = image.applied.reached(self.estimated + 1) or (shows_us, -1)
        shows_us = max(learned.learned_us, min(shows_us, first))
        shows_us = max(shows_us, image.not_applied.until_us(learned.offset))
        applied = shows_us + work_us
        not_applied_us = self.evidence.reported.until_us(learned.offset)
        if not_applied_us > applied + SLOW_US:
            if has_us is None:
                return learned.unknown(Undecided.SLOW)
            applied = not_applied_us
        estimate = learned._replace(shown_us=shows_us, applied_us=applied)
        if unknown_offset is not None:
            # It shows the deletion before it works on it.
            self.unknown_work = UnknownWork(unknown_offset, max(applied, not_applied_us))
            estimate = estimate._replace(applied_us=None, reason=Undecided.UNKNOWN_WORK)
        estimate = estimate.no_later(has_us)
        self.free_us = max(self.free_us, estimate.applied_us or 0)
        return estimate

    def _is_busy(self, at: int) -> bool:
        """Says whether unknown work may go on at a time: neither over nor in a heartbeat yet."""
        if self.unknown_work is None:
            return False
        offset, until_us = self.unknown_work
        reported = self.evidence.bounds[HEARTBEAT].applied.reached(offset)
        return at < until_us and (reported is None or reported[0] > at)

    def estimate_of(self, offset: int, has_us: int | None) -> Estimate | None:
        """Returns the estimate for the response that carried an offset first.

        ``has_us``: when the first heartbeat that has the offset arrived, if it is to bound it.
        """
        index = bisect_left(self.estimates, offset, key=attrgetter("offset"))
        return self.estimates[index].no_later(has_us) if index < len(self.estimates) else None

    def after_gap(self) -> "Broker":
        """Returns it as it begins behind a gap, in which it may have learned something."""
        may_learn = self.backlog is not Backlog.NONE or self.evidence.is_seen
        backlog = Backlog.UNKNOWN if may_learn else Backlog.NONE
        return Broker(backlog=backlog, estimated=self._learned_offset())

    def forget(self, before: int) -> None:
        forget(self.evidence, before)
        while self.estimates and self.estimates[0].learned_us < before:
            del self.estimates[0]
