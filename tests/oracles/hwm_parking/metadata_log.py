"""What a log of metadata FETCHes says that no rule explains.

When the leader appended, how long each replica takes from an answer to its next FETCH, when it
was away, how fast the leader's Raft thread answers, and how large the envelopes are.
``oracles.hwm_parking`` replays rules on this; its docstring states what is read of a response.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from kip_replay.replay.kafka.messages import HIGH_WATERMARK_TAG_BYTES, records_field_bytes

#: HighWatermark of a replica or a leader that knows none (KIP-1166, "Fetch").
UNKNOWN_OFFSET = -1
#: HighWatermark of a FETCH without the field (below v18): never below the leader's.
NOT_SENT = 2**63 - 1
#: First FETCH version with the field.
HWM_AWARE_VERSION = 18
#: error_code of a FETCH whose answer is not in the log: "response":"".
NO_ANSWER = -2
#: A replica silent for longer than this between an answer and its next FETCH is away.
ABSENCE_US = 1_000_000
#: Answers that one append wakes are built within this.
WAKE_SPREAD_US = 25_000
#: Answers (or one per replica, if fewer) that one append must wake to tell the time for one.
WAKE_MEMBERS_MIN = 4


class RecordedFetch(NamedTuple):
    """A FETCH of the metadata log as logged. Times are microseconds since the epoch."""

    request_id: str
    replica_id: int
    leader_epoch: int
    correlation_id: int
    api_version: int
    received_us: int
    dequeued_us: int
    built_us: int
    completed_us: int
    max_wait_us: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    error_code: int
    response_high_watermark: int
    record_bytes: int
    is_diverging: bool
    is_snapshot: bool
    request_bytes: int | None
    response_bytes: int | None

    @property
    def hwm_aware(self) -> bool:
        """The FETCH carries a high watermark that the leader compares."""
        return self.api_version >= HWM_AWARE_VERSION and self.high_watermark != NOT_SENT

    @property
    def told(self) -> bool:
        """The answer is the leader's own (not an error)."""
        return self.error_code == 0


_NOT_LONG = {"request_id": pa.string(), "is_diverging": pa.bool_(), "is_snapshot": pa.bool_()}
#: Input of the replay: ``RecordedFetch``, a column per field.
INPUT_SCHEMA = pa.schema(
    [(name, _NOT_LONG.get(name, pa.int64())) for name in RecordedFetch._fields]
)


class Samples:
    """Values measured at points in time; the one nearest in time is asked for."""

    def __init__(self) -> None:
        self._at: list[int] = []
        self._values: list[int] = []

    def add(self, at: int, value: int) -> None:
        """Add a value; times may come slightly out of order."""
        index = bisect_right(self._at, at)
        self._at.insert(index, at)
        self._values.insert(index, value)

    def nearest(self, at: int) -> int | None:
        """The value nearest in time, the earlier of two as near; None if there is none."""
        if not self._at:
            return None
        after = bisect_left(self._at, at)
        if after == len(self._at) or (
            after > 0 and at - self._at[after - 1] <= self._at[after] - at
        ):
            after -= 1
        return self._values[after]

    def forget(self, before: int) -> None:
        """Drop what lies before a time, all but the last."""
        keep = max(0, bisect_left(self._at, before) - 1)
        del self._at[:keep], self._values[:keep]


class Absence(NamedTuple):
    """A replica sent nothing between two times, and came back at an offset."""

    since_us: int
    until_us: int
    fetch_offset: int
    restarted: bool
    last_fetched_epoch: int


@dataclass
class ReplicaEvidence:
    """What the log says of one replica: its first FETCH, its gaps, its absences, its envelope."""

    first: RecordedFetch
    last: RecordedFetch
    heard_until_us: int = 0
    gaps: Samples = field(default_factory=Samples)
    absences: list[Absence] = field(default_factory=list)
    request_envelopes: Samples = field(default_factory=Samples)
    response_envelopes: Samples = field(default_factory=Samples)

    def next_fetch(self, built_us: int) -> tuple[int, Absence | None] | None:
        """When the next FETCH arrives after an answer; None while the log doesn't say."""
        at = built_us + (self.gaps.nearest(built_us) or 0)
        for absence in self.absences:
            if absence.since_us < at and built_us < absence.until_us:
                return max(at, absence.until_us), absence
        return None if at > self.heard_until_us else (at, None)

    def is_away(self, at: int) -> bool:
        """The replica is frozen, restarting or cut off at a time."""
        if at - self.heard_until_us > ABSENCE_US:
            return True
        return any(
            a.since_us < at < a.until_us and a.until_us - a.since_us > ABSENCE_US
            for a in self.absences
        )


class Evidence:
    """What the answers of one leader epoch say that no rule explains. Fed in order of built_us."""

    def __init__(self) -> None:
        self.replicas: dict[int, ReplicaEvidence] = {}
        self.epoch_start_offset = -1
        self.epoch_ends: dict[int, int] = {}
        self.log_start_offset = 0
        self.snapshot: int | None = None
        self._reached_us: dict[int, int] = {}
        self._appended = -1
        self._bytes_below: dict[int, int] = {}
        self._seen_us: dict[int, int] = {}
        self._unplaced: list[tuple[int, int, int]] = []
        self._wakes: dict[int, list[RecordedFetch]] = defaultdict(list)
        self._service = Samples()

    def add(self, row: RecordedFetch) -> None:
        """Learn from one answered FETCH and from how it follows the replica's previous one."""
        replica = self.replicas.get(row.replica_id)
        if replica is None:
            self.replicas[row.replica_id] = replica = ReplicaEvidence(row, row)
        else:
            self._follow(replica, replica.last, row)
            replica.last = row
        replica.heard_until_us = row.built_us
        if row.request_bytes is not None and row.response_bytes is not None:
            tag = HIGH_WATERMARK_TAG_BYTES if row.hwm_aware else 0
            replica.request_envelopes.add(row.built_us, row.request_bytes - tag)
            carried = records_field_bytes(row.record_bytes)
            replica.response_envelopes.add(row.built_us, row.response_bytes - carried)
        if row.last_fetched_epoch < row.leader_epoch and row.record_bytes > 0:
            # A replica that continues the previous epoch asks at most for the first record of
            # this one, so the largest such offset is where the epoch starts.
            self.epoch_start_offset = max(self.epoch_start_offset, row.fetch_offset)
        if row.record_bytes > 0:
            self._wakes[row.fetch_offset].append(row)
        self._measure_service(row.built_us)

    def turned_away(self, row: RecordedFetch) -> None:
        """A FETCH after the leader stopped leading still says how far the replica had got."""
        replica = self.replicas.get(row.replica_id)
        if replica is None or replica.heard_until_us > replica.last.built_us:
            return
        self._follow(replica, replica.last, row)
        replica.heard_until_us = row.dequeued_us

    def close(self) -> None:
        """No FETCH follows: the last records an answer carried end somewhere behind its offset.

        At the next end that is known, else, for all the log says, after one record.
        """
        for replica in self.replicas.values():
            last = replica.last
            if last.record_bytes <= 0 or self._appended > last.fetch_offset:
                continue
            ends = [end for end in self._reached_us if end > last.fetch_offset]
            if ends:
                end = min(ends)
                self._reached_us[end] = min(self._reached_us[end], last.built_us)
            else:
                self._carried(last, last.fetch_offset + 1)

    def _follow(self, replica: ReplicaEvidence, row: RecordedFetch, after: RecordedFetch) -> None:
        gap = after.dequeued_us - row.built_us
        restarted = after.correlation_id < row.correlation_id
        truncated = after.fetch_offset < row.fetch_offset
        if truncated and not restarted:
            self.epoch_ends[row.last_fetched_epoch] = after.fetch_offset
        if gap > ABSENCE_US or restarted:
            replica.absences.append(
                Absence(
                    row.built_us,
                    after.dequeued_us,
                    after.fetch_offset,
                    restarted,
                    after.last_fetched_epoch,
                )
            )
        elif gap >= 0:
            replica.gaps.add(row.built_us, gap)
        if after.fetch_offset <= row.fetch_offset or restarted:
            return
        if row.record_bytes > 0:
            self._carried(row, after.fetch_offset)
        else:
            # It went on without records: it was sent to a snapshot (FETCH_SNAPSHOT).
            self.log_start_offset = max(self.log_start_offset, row.fetch_offset + 1)
            self.snapshot = after.fetch_offset

    def _carried(self, row: RecordedFetch, end: int) -> None:
        """An answer carried the records from its FETCH's offset to ``end``."""
        if end > self._appended:
            self._reached_us[end] = min(self._reached_us.get(end, row.built_us), row.built_us)
        for offset in (row.fetch_offset, end):
            self._seen_us[offset] = max(self._seen_us.get(offset, 0), row.built_us)
        self._unplaced.append((row.fetch_offset, end, row.record_bytes))
        if not self._bytes_below:
            self._bytes_below[row.fetch_offset] = 0
        open_pieces = len(self._unplaced) + 1
        while len(self._unplaced) < open_pieces:
            open_pieces = len(self._unplaced)
            self._unplaced = [piece for piece in self._unplaced if not self._placed(*piece)][-64:]

    def _placed(self, start: int, end: int, size: int) -> bool:
        below = self._bytes_below
        if start in below:
            below.setdefault(end, below[start] + size)
        elif end in below:
            below.setdefault(start, below[end] - size)
        return start in below

    def record_bytes(self, start: int, end: int) -> int | None:
        """Bytes of the records from one offset to another; None if no answer tells."""
        if end <= start:
            return 0
        if start in self._bytes_below and end in self._bytes_below:
            return self._bytes_below[end] - self._bytes_below[start]
        return None

    def appends(self, until: int) -> list[tuple[int, int]]:
        """Appends not asked for yet: (time, log end offset after it) up to a time, in order.

        An end that was reached no earlier than a later one is no append of its own: somebody
        caught up in pieces.
        """
        taken: list[tuple[int, int]] = []
        earliest = None
        for end in sorted(self._reached_us, reverse=True):
            reached = self._reached_us[end]
            if reached <= until:
                del self._reached_us[end]
            if earliest is None or reached < earliest:
                earliest = reached
                if reached <= until:
                    taken.append((reached, end))
        if taken:
            self._appended = taken[0][1]
            self._reached_us = {o: t for o, t in self._reached_us.items() if o > self._appended}
        return taken[::-1]

    def service_us(self, at: int) -> int:
        """How long the Raft thread takes for one answer around a time."""
        return self._service.nearest(at) or 0

    def _measure_service(self, now: int) -> None:
        settled = [
            offset
            for offset, rows in self._wakes.items()
            if now - rows[0].built_us > 2 * WAKE_SPREAD_US
        ]
        for offset in settled:
            rows = self._wakes.pop(offset)
            first = rows[0].built_us
            together = [
                r.built_us
                for r in rows
                if r.dequeued_us <= first and r.built_us <= first + WAKE_SPREAD_US
            ]
            # Over few gaps one stall looks like a slow thread.
            if len(together) >= max(2, min(WAKE_MEMBERS_MIN, len(self.replicas))):
                self._service.add(first, (together[-1] - first) // (len(together) - 1))

    def forget(self, before: int, stand: Collection[int] = ()) -> None:
        """Drop what no replay that has passed ``before`` will ask for again.

        ``stand`` are the offsets at which replicas stand, some maybe for long.
        """
        self._service.forget(before)
        for replica in self.replicas.values():
            for samples in (replica.gaps, replica.request_envelopes, replica.response_envelopes):
                samples.forget(before)
            replica.absences = [a for a in replica.absences if a.until_us >= before]
        kept = {replica.last.fetch_offset for replica in self.replicas.values()}.union(stand)
        ends = sorted(self._seen_us)
        for offset, after in pairwise(ends):
            # The log ended at an offset until the next one was seen.
            if self._seen_us[after] < before and offset not in kept:
                del self._seen_us[offset]
                self._bytes_below.pop(offset, None)


@dataclass
class Timeline:
    """Values that the leader took on over time, e.g. its log end offset."""

    at: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def add(self, at: int, value: int) -> None:
        """From a time on the value holds; times are in order."""
        self.at.append(at)
        self.values.append(value)

    def value(self, at: int, default: int = UNKNOWN_OFFSET) -> int:
        """The value at a time."""
        index = bisect_right(self.at, at)
        return self.values[index - 1] if index else default

    def first_above(self, value: int, since: int) -> int | None:
        """When, from a time on, the value is first above another; values never fall."""
        index = bisect_right(self.values, value)
        return max(self.at[index], since) if index < len(self.at) else None

    def next_change(self, since: int) -> int | None:
        """The first change after a time."""
        index = bisect_right(self.at, since)
        return self.at[index] if index < len(self.at) else None

    def forget(self, before: int) -> None:
        """Drop what was over before a time, all but the value that holds then."""
        keep = max(0, bisect_left(self.at, before) - 1)
        del self.at[:keep], self.values[:keep]
