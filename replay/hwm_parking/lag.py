"""Joins advances of the high watermark with the first response that carries each to a replica."""

from bisect import bisect_left
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from .evidence import ReplicaEvidence

#: High watermarks last carried to a replica that are kept to join advances with.
_CARRIED_MAX = 16


class Advance(NamedTuple):
    """The leader's high watermark moved; ``at`` is when the voter's FETCH was dequeued."""

    at: int
    previous: int
    high_watermark: int


class Lag(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """When a replica learned of an advance; ``learned_us`` is None if it never did."""

    replica_id: int
    advance: Advance
    learned_us: int | None = None
    away: bool = False
    is_settled: bool = True


class LagTracker(msgspec.Struct, array_like=True):
    """``carried``: (high watermark, built_us) by replica; ``lags`` are those not taken yet."""

    carried: dict[int, list[tuple[int, int]]] = {}
    waiting: dict[int, list[Advance]] = {}
    lags: list[Lag] = []

    def advanced(
        self,
        advance: Advance,
        replicas: Mapping[int, ReplicaEvidence],
        unsettled: Collection[int] = (),
    ) -> None:
        """The high watermark moved: each replica that FETCHes here is to learn of it."""
        for replica_id, replica in replicas.items():
            if replica.first.dequeued_us > advance.at:
                continue
            carried = self.carried.get(replica_id, [])
            known = bisect_left(carried, (advance.high_watermark, -1))
            if replica_id in unsettled:
                self.lags.append(Lag(replica_id, advance, is_settled=False))
            elif replica.is_away(advance.at):
                # It may be away for good, so nothing waits for its return.
                self.lags.append(Lag(replica_id, advance, away=True))
            elif known < len(carried):
                self._learned(replica_id, advance, carried[known][1])
            else:
                self.waiting.setdefault(replica_id, []).append(advance)

    def learned(self, replica_id: int, built_us: int, high_watermark: int) -> None:
        """A response carried a high watermark. Called in order of built_us per replica."""
        carried = self.carried.get(replica_id)
        if carried is None:
            carried = self.carried[replica_id] = []
        elif high_watermark <= carried[-1][0]:
            return
        carried.append((high_watermark, built_us))
        del carried[:-_CARRIED_MAX]
        waiting = self.waiting.get(replica_id)
        while waiting and waiting[0].high_watermark <= high_watermark:
            self._learned(replica_id, waiting.pop(0), built_us)

    def close(self) -> None:
        """The leader resigned, or the log ended: what is not learned by now never is."""
        for replica_id, waiting in self.waiting.items():
            self.lags += [Lag(replica_id, advance) for advance in waiting]
        self.waiting.clear()

    def take(self) -> list[Lag]:
        lags, self.lags = self.lags, []
        return lags

    def _learned(self, replica_id: int, advance: Advance, built_us: int) -> None:
        # Stamps are cut to milliseconds: no response is really built before the advance.
        self.lags.append(Lag(replica_id, advance, max(built_us, advance.at)))
