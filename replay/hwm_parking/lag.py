"""Joins advances of the high watermark with the first response that carries each to a replica."""

from bisect import bisect_left
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from .evidence import ReplicaEvidence

#: ``metadata.max.idle.interval.ms``: so often the active controller writes a NoOpRecord (KIP-835),
#: and how far two of them may be off.
_IDLE_US, _IDLE_SLACK_US = 500_000, 30_000
#: High watermarks last carried to a replica that are kept to join advances with.
_CARRIED_MAX = 16


class Advance(NamedTuple):
    """The leader's high watermark moved; ``at`` is when the voter's FETCH was dequeued."""

    at: int
    previous: int
    high_watermark: int
    #: It has more than the NoOpRecord that was due; None where it is not known when one was.
    is_change: bool | None = None


class NoOps(msgspec.Struct, array_like=True):
    """When NoOpRecords are due: ``last_us`` was one, ``recent_us`` may have been."""

    last_us: int | None = None
    recent_us: list[int] = []

    def told_apart(self, advance: Advance) -> Advance:
        """Says of an advance whether it is a change. Called in order of time."""
        at, records = advance.at, advance.high_watermark - advance.previous
        if self.last_us is not None and at - self.last_us > _IDLE_US + _IDLE_SLACK_US:
            self.last_us = None
        times = self.recent_us if self.last_us is None else [self.last_us]
        if any(abs(at - before - _IDLE_US) <= _IDLE_SLACK_US for before in times):
            self.last_us = at
        elif self.last_us is None and records == 1:
            self.recent_us = [before for before in times if at - before <= 2 * _IDLE_US] + [at]
            return advance
        return advance._replace(is_change=records > 1 or self.last_us != at)


class Lag(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """When a replica learned of an advance (None: never), and of the one before: ``since_us``."""

    replica_id: int
    advance: Advance
    learned_us: int | None = None
    away: bool = False
    is_settled: bool = True
    since_us: int | None = None
    hwm_aware: bool | None = None


class LagTracker(msgspec.Struct, array_like=True):
    """``carried``: (high watermark, built_us, did the FETCH carry one) by replica; ``since``: when
    each learned of the advance before, or was away; ``lags`` are those not taken yet."""

    carried: dict[int, list[tuple[int, int, bool]]] = {}
    since: dict[int, int] = {}
    no_ops: NoOps = msgspec.field(default_factory=NoOps)
    waiting: dict[int, list[Advance]] = {}
    lags: list[Lag] = []

    def advanced(
        self,
        advance: Advance,
        replicas: Mapping[int, ReplicaEvidence],
        unsettled: Collection[int] = (),
    ) -> None:
        """The high watermark moved: each replica that FETCHes here is to learn of it."""
        advance = self.no_ops.told_apart(advance)
        for replica_id, replica in replicas.items():
            if replica.first.dequeued_us > advance.at:
                continue
            carried = self.carried.get(replica_id, [])
            known = bisect_left(carried, (advance.high_watermark, -1))
            if replica_id in unsettled:
                self._add(replica_id, advance, is_settled=False)
            elif replica.is_away(advance.at):
                # It may be away for good, so nothing waits for its return.
                self._add(replica_id, advance, away=True)
            elif known < len(carried):
                _, at, aware = carried[known]
                self._add(replica_id, advance, at, hwm_aware=aware)
            else:
                self.waiting.setdefault(replica_id, []).append(advance)

    def learned(self, replica_id: int, at: int, high_watermark: int, aware: bool = False) -> None:
        """A response carried a high watermark. Called in order of built_us (``at``) per replica."""
        carried = self.carried.get(replica_id)
        if carried is None:
            carried = self.carried[replica_id] = []
        elif high_watermark <= carried[-1][0]:
            return
        carried.append((high_watermark, at, aware))
        del carried[:-_CARRIED_MAX]
        waiting = self.waiting.get(replica_id)
        while waiting and waiting[0].high_watermark <= high_watermark:
            self._add(replica_id, waiting.pop(0), at, hwm_aware=aware)

    def close(self) -> None:
        """The leader resigned, or the log ended: what is not learned by now never is."""
        for replica_id, waiting in self.waiting.items():
            for advance in waiting:
                self._add(replica_id, advance)
        self.waiting.clear()

    def take(self) -> list[Lag]:
        lags, self.lags = self.lags, []
        return lags

    def _add(self, replica_id: int, advance: Advance, at: int | None = None, **more: bool) -> None:
        # Stamps are cut to milliseconds: no response is really built before the advance.
        learned_us = None if at is None else max(at, advance.at)
        since_us = self.since.pop(replica_id, None)
        lag = Lag(replica_id, advance, learned_us, since_us=since_us, **more)
        self.lags.append(lag)
        if lag.is_settled:
            self.since[replica_id] = max(since_us or 0, learned_us or advance.at)
