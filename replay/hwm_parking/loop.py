"""Replays a leader as both loops do: its warm-up, and when replicas learn a high watermark."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

import msgspec

from ..log_gaps import ALWAYS_SINCE_US, LOG_GAP
from ..model.raft import METADATA_MAX_IDLE_INTERVAL_US, UNKNOWN_OFFSET, Leader
from ..records import Variant, Verdict
from .evidence import Evidence, ReplicaEvidence
from .outcomes import (
    AWAY,
    MIDDLE_OF_EPOCH,
    NEVER_LEARNED,
    WITH_KIP,
    Epoch,
    HighWatermarkLag,
    ParkedFetch,
    ParkingRows,
)

#: How far two NoOpRecords may be off their interval.
_IDLE_SLACK_US = 30_000
#: High watermarks last carried to a replica that are kept to join advances with.
_CARRIED_MAX = 16


class WarmUp(msgspec.Struct, array_like=True):
    """Tells from when on a replay that begins within an epoch is the one of the whole epoch.

    The log end before the first lines (``log_end_offset``) is known, but not when it was appended,
    nor the high watermark by then. Of later appends all is known, so the recorded leader is warm
    once its high watermark has passed that log end.

    In a closed loop the replicas' FETCHes at first come at the wrong times. An append completes all
    who are parked. So a replica that was parked at ``appends_min`` of them, its delays measured by
    then, sends what it does in the replay of the whole epoch, and the leader's high watermark is
    right once all voters do. An epoch that begins in the log is warm from its beginning.
    """

    log_end_offset: int = -1
    reason: str = MIDDLE_OF_EPOCH
    appends_min: int = 0
    warm_us: int | None = ALWAYS_SINCE_US
    appends: dict[int, int] = {}

    @classmethod
    def begin(cls, evidence: Evidence, appends_min: int) -> Self:
        before = evidence.log_end_offset_before()
        if before is None:
            return cls()
        is_cut = evidence.begins_us == ALWAYS_SINCE_US
        return cls(before, MIDDLE_OF_EPOCH if is_cut else LOG_GAP, appends_min, None)

    def append(self, log_end_offset: int, parked: Iterable[int]) -> None:
        """Notes that the leader appends up to an offset while replicas are parked."""
        if log_end_offset > self.log_end_offset >= 0:
            for replica_id in parked:
                self.appends[replica_id] = self.appends.get(replica_id, 0) + 1

    def is_warm(self, replica_id: int) -> bool:
        """Checks that a replica now sends what it does in the replay of the whole epoch."""
        return self.warm_us is not None and self.has_appends(replica_id)

    def has_appends(self, replica_id: int) -> bool:
        return self.appends_min == 0 or self.appends.get(replica_id, 0) >= self.appends_min


class NoOps(msgspec.Struct, array_like=True):
    """Tells NoOpRecords from changes: ``last_us`` was one, ``recent_us`` may have been."""

    last_us: int | None = None
    recent_us: list[int] = []

    def is_change(self, at: int, records: int) -> bool | None:
        """Checks that an advance is of changes; None: it may be of either. In order of time."""
        interval_us = METADATA_MAX_IDLE_INTERVAL_US
        if self.last_us is not None and at - self.last_us > interval_us + _IDLE_SLACK_US:
            self.last_us = None
        times = self.recent_us if self.last_us is None else [self.last_us]
        if any(abs(at - before - interval_us) <= _IDLE_SLACK_US for before in times):
            self.last_us = at
        elif self.last_us is None and records == 1:
            self.recent_us = [before for before in times if at - before <= 2 * interval_us] + [at]
            return None
        return records > 1 or self.last_us != at


class Loop(msgspec.Struct, array_like=True):
    """Replays the leader of an epoch, and finds when its replicas learn what it commits.

    An advance is joined with the first response that carries it to a replica. ``sequences`` number
    each replica's FETCHes; ``high_watermark``: the leader's that was last noted. By replica:
    ``carried``: the last (high watermark, built_us, did the FETCH carry one); ``waiting``: what it
    is yet to learn; ``since_us``: when it learned of the advance before, or was away at it.
    ``fetches`` and ``lags`` are outcomes that were not emitted yet.
    """

    WARM_UP_APPENDS: ClassVar[int] = 0

    epoch: Epoch
    variant: Variant
    leader: Leader
    warm_up: WarmUp = msgspec.field(default_factory=WarmUp)
    sequences: dict[int, int] = {}
    high_watermark: int = UNKNOWN_OFFSET
    carried: dict[int, list[tuple[int, int, bool]]] = {}
    since_us: dict[int, int] = {}
    no_ops: NoOps = msgspec.field(default_factory=NoOps)
    waiting: dict[int, list[HighWatermarkLag]] = {}
    fetches: list[ParkedFetch] = []
    lags: list[HighWatermarkLag] = []

    @classmethod
    def begin(cls, epoch: Epoch, variant: Variant) -> Self:
        others = epoch.voters - {epoch.leader_id}
        hwm_aware = variant.name == WITH_KIP
        return cls(epoch, variant, Leader(hwm_aware, epoch.leader_epoch, others, len(epoch.voters)))

    def follow(self, at: int, replicas: Mapping[int, ReplicaEvidence]) -> None:
        """Notes an advance of the leader, if any, for each replica that FETCHes to learn."""
        previous, high_watermark = self.high_watermark, self.leader.high_watermark
        self.high_watermark = high_watermark
        if high_watermark == previous or high_watermark <= self.warm_up.log_end_offset:
            return
        is_change = self.no_ops.is_change(at, high_watermark - previous)
        voters = []
        for replica_id, replica in replicas.items():
            if replica.first.dequeued_us > at:
                continue
            is_away, is_voter = replica.is_away(at), replica_id in self.epoch.voters
            if is_voter and not is_away:
                voters.append(replica_id)
            lag = HighWatermarkLag(
                variant=self.variant,
                leader_id=self.epoch.leader_id,
                leader_epoch=self.epoch.leader_epoch,
                replica_id=replica_id,
                high_watermark=high_watermark,
                previous_high_watermark=previous,
                is_change=is_change,
                is_voter=is_voter,
                leader_at=at,
            )
            carried = self.carried.get(replica_id)
            if not self.warm_up.is_warm(replica_id):
                lag.make_unknown(self.warm_up.reason)
                self.lags.append(lag)
            elif is_away:
                # It may be away for good, so nothing waits for its return.
                lag.verdict, lag.reason = Verdict.NOT_APPLICABLE, AWAY
                self._add(lag)
            elif carried and carried[-1][0] >= high_watermark:
                _, built_us, aware = carried[bisect_left(carried, (high_watermark, -1))]
                self._add(lag, built_us, aware)
            else:
                self.waiting.setdefault(replica_id, []).append(lag)
        if self.warm_up.warm_us is None and all(map(self.warm_up.has_appends, voters)):
            self.warm_up.warm_us = at

    def learn(self, replica_id: int, high_watermark: int, built_us: int, hwm_aware: bool) -> None:
        """Notes what a response carried. Called in order of built_us per replica."""
        carried = self.carried.get(replica_id)
        if carried is None:
            carried = self.carried[replica_id] = []
        elif high_watermark <= carried[-1][0]:
            return
        carried.append((high_watermark, built_us, hwm_aware))
        del carried[:-_CARRIED_MAX]
        waiting = self.waiting.get(replica_id)
        while waiting and waiting[0].high_watermark <= high_watermark:
            self._add(waiting.pop(0), built_us, hwm_aware)

    def next_sequence(self, replica_id: int) -> int:
        self.sequences[replica_id] = self.sequences.get(replica_id, -1) + 1
        return self.sequences[replica_id]

    def close(self) -> None:
        """Ends the lags: the leader resigned, or the log ended, so what waits is never learned."""
        for waiting in self.waiting.values():
            for lag in waiting:
                lag.make_unknown(NEVER_LEARNED)
                self._add(lag)
        self.waiting.clear()

    def emit(self, rows: ParkingRows) -> None:
        """Emits what became of FETCHes and advances since."""
        rows.add(self.variant, self.epoch, self.fetches, self.lags)
        self.fetches, self.lags = [], []

    def _add(
        self,
        lag: HighWatermarkLag,
        built_us: int | None = None,
        hwm_aware: bool | None = None,
    ) -> None:
        if built_us is not None:
            # Stamps are cut to milliseconds: no response is really built before the advance.
            lag.learned_at = max(built_us, lag.leader_at)
        lag.is_hwm_aware = hwm_aware
        lag.previous_learned_at = self.since_us.get(lag.replica_id)
        since_us = lag.previous_learned_at or 0
        self.since_us[lag.replica_id] = max(since_us, lag.learned_at or lag.leader_at)
        self.lags.append(lag)
