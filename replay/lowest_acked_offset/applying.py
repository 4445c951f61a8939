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
it is unfenced. METADATA corrects when it shows a commit (``Topics``): by the first response that
does, and not before the last that does not. Heartbeats correct the rest: what one has was applied
by then, what one lacks at its arrival at the soonest. Not counted are replicas that move. The
deletion of a topic that the log does not have (it begins later, or has a gap) shows at once. When
it is applied is unknown, and so is what follows until as much is done as for the largest topic, or
a heartbeat has it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

import msgspec

from ..model import STAMP_US
from ..model.brokers import BrokerHeartbeatManager
from ..simulation import forget
from .events import HEARTBEAT, NOT_SENT, Event
from .evidence import BrokerEvidence, Replicas
from .reasons import LOG_GAP, NO_NEXT_FETCH, NO_RESPONSE, SLOW, STARTING, UNKNOWN_WORK
from .simulation import SLOW_US
from .writes import Front

#: What one replica takes, unless configured: measured on brokers of Kafka 4.0 on a shared disk.
REPLICA_APPLY_MS = 20


class Estimate(NamedTuple):
    """When a broker shows everything up to an offset, and has applied it; else a reason.

    The offset is inclusive; until it is estimated it is shown when the next FETCH arrives.
    """

    offset: int
    learned_us: int
    shown_us: int | None = None
    applied_us: int | None = None
    reason: str | None = None
    #: The FETCH had a high watermark (KIP-1166).
    hwm_aware: bool = False

    def unknown(self, reason: str) -> "Estimate":
        return self._replace(shown_us=None, applied_us=None, reason=reason)

    def no_later(self, has_us: int | None) -> "Estimate":
        """Bounds it by a heartbeat that has it; if that is before the response, it was another."""
        if has_us is None or self.shown_us is None:
            return self
        if has_us < self.learned_us - STAMP_US:
            return self.unknown(NO_RESPONSE)
        latest = max(has_us, self.learned_us)
        applied = None if self.applied_us is None else min(self.applied_us, latest)
        return self._replace(shown_us=min(self.shown_us, latest), applied_us=applied)


class Broker(msgspec.Struct):
    """One broker: what the log shows of it, its FETCHes in order of dequeue, what it applied when.

    ``is_cut``: lines are missing, and it may still apply what it learned in them: everything up to
    ``cut_offset``, once that is known.
    """

    evidence: BrokerEvidence = msgspec.field(default_factory=BrokerEvidence)
    is_running: bool = False
    is_cut: bool = False
    cut_offset: int | None = None
    #: The last FETCH, whose response the broker handles before it sends the next.
    last: Event | None = None
    #: What it has learned and is not estimated yet; the last offset that is.
    waiting: list[Estimate] = []
    estimated: int = -1
    free_us: int = 0
    #: It works on something up to this offset, at most until then.
    busy_offset: int | None = None
    busy_us: int = 0
    #: In order of offsets.
    estimates: list[Estimate] = []

    def heartbeat(self, row: Event) -> None:
        """Takes a heartbeat without error: what is applied, and whether the broker is fenced."""
        self.is_running = self.is_running or not row.is_fenced
        if self.cut_offset is not None and row.offset >= self.cut_offset:
            self.is_cut, self.cut_offset = False, None

    def fetch(self, row: Event) -> None:
        """Takes a Raft FETCH, also an error's: its sender has handled the response before."""
        last = self.last
        if last is not None and row.correlation_id < last.correlation_id:
            # Another process, which never got that response.
            last, self.is_running = None, False
        if last is not None and last.at_us <= row.received_us + STAMP_US:
            high_watermark = min(last.response_high_watermark, row.offset)
            self._learn(high_watermark, last.at_us, max(last.at_us, row.received_us))
        self.last = row if row.error_code == 0 and not row.is_diverging else None

    def commit(self, at: int, high_watermark: int) -> None:
        """Takes what the active controller commits: its own broker knows it, and sends no FETCH."""
        self.last = None
        self._learn(high_watermark, at, at)

    def close(self) -> None:
        if self.last is not None:
            self._learn(self.last.response_high_watermark, self.last.at_us, None)

    def _learn(self, high_watermark: int, at: int, handled_us: int | None) -> None:
        offset = high_watermark - 1
        if self.is_cut and self.cut_offset is None:
            self.cut_offset = offset
        if offset > self._learned_offset():
            hidden = LOG_GAP if self.is_cut else None if self.is_running else STARTING
            reason = NO_NEXT_FETCH if handled_us is None else hidden
            aware = self.last is not None and self.last.high_watermark != NOT_SENT
            self.waiting.append(Estimate(offset, at, handled_us, None, reason, aware))

    def _learned_offset(self) -> int:
        return self.waiting[-1].offset if self.waiting else self.estimated

    def estimate(
        self, front: Front, replicas: Replicas, certain: tuple[BrokerHeartbeatManager, str]
    ) -> Iterator[Estimate]:
        """Estimates what was handled where all is final; heartbeats are known well beyond it.

        ``certain``: from when on it is which brokers count, and why not before. Before a gap an
        estimate counts only if a heartbeat has it.
        """
        while self.waiting and (self.waiting[0].shown_us or 0) <= front.final_us:
            learned = self.waiting.pop(0)
            reported = self.evidence.bounds[HEARTBEAT].applied.reached(learned.offset)
            estimate = self._estimate(learned, replicas, reported and reported[0])
            self.estimated = learned.offset
            if estimate.shown_us is not None and not certain[0].is_warm(learned.learned_us):
                estimate = learned.unknown(certain[1])
            if front.is_gap and reported is None:
                estimate = learned.unknown(LOG_GAP)
            self.estimates.append(estimate)
            yield estimate

    def _estimate(self, learned: Estimate, works: Replicas, has_us: int | None) -> Estimate:
        handled_us = learned.shown_us
        if handled_us is None:
            return learned
        work_us, unknown = works.between(self.estimated, learned.offset)
        hidden = learned.reason or self._busy(handled_us)
        if hidden is not None:
            if work_us:
                self.busy_offset = learned.offset
                self.busy_us = max(self.busy_us, handled_us) + work_us
            return learned.unknown(hidden)
        shown, has = max(handled_us, self.free_us), self.evidence.shown
        first, _ = has.applied.reached(self.estimated + 1) or (shown, -1)
        shown = max(learned.learned_us, min(shown, first))
        shown = max(shown, has.not_applied.until_us(learned.offset))
        applied = shown + work_us
        not_applied_us = self.evidence.reported.until_us(learned.offset)
        if not_applied_us > applied + SLOW_US:
            if has_us is None:
                return learned.unknown(SLOW)
            applied = not_applied_us
        estimate = learned._replace(shown_us=shown, applied_us=applied)
        if unknown is not None:
            # It shows the deletion before it works on it.
            self.busy_offset, self.busy_us = unknown, max(applied, not_applied_us)
            estimate = estimate._replace(applied_us=None, reason=UNKNOWN_WORK)
        estimate = estimate.no_later(has_us)
        self.free_us = max(self.free_us, estimate.applied_us or 0)
        return estimate

    def _busy(self, at: int) -> str | None:
        if self.busy_offset is None:
            return None
        reported = self.evidence.bounds[HEARTBEAT].applied.reached(self.busy_offset)
        if at < self.busy_us and (reported is None or reported[0] > at):
            return UNKNOWN_WORK
        self.busy_offset = None
        return None

    def estimate_of(self, offset: int, has_us: int | None) -> Estimate | None:
        """Returns that of the response that carried an offset first, which a heartbeat has."""
        index = bisect_left(self.estimates, offset, key=attrgetter("offset"))
        return self.estimates[index].no_later(has_us) if index < len(self.estimates) else None

    def after_gap(self) -> "Broker":
        is_cut = self.is_cut or self.evidence.is_seen
        return Broker(is_cut=is_cut, estimated=self._learned_offset())

    def forget(self, before: int) -> None:
        forget(self.evidence, before)
        while self.estimates and self.estimates[0].learned_us < before:
            del self.estimates[0]
