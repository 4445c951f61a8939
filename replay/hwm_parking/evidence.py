"""What the responses of one leader epoch show that no rule explains.

When the leader appended, how long each replica takes from a response to its next FETCH, when it
was away, how fast the leader's Raft thread responds, and how large the envelopes are.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from ..kafka.messages import HIGH_WATERMARK_TAG_BYTES, records_field_bytes
from ..log_gaps import ALWAYS_SINCE_US
from ..model.raft import Completion
from .metadata_log import ABSENCE_US, WAKE_SPREAD_US, RecordedFetch
from .timelines import Samples

#: Responses (or one per replica, if fewer) that one append must cause to measure the time for one.
WAKE_RESPONSES_MIN = 4


class Absence(NamedTuple):
    """A replica sent nothing between two times, and came back at an offset."""

    since_us: int
    until_us: int
    fetch_offset: int
    restarted: bool
    last_fetched_epoch: int


class Envelope(NamedTuple):
    """Bytes of a FETCH without its high watermark, and of its response without the records."""

    request_bytes: int
    response_bytes: int


class LogBytes(msgspec.Struct, array_like=True):
    """Sizes of ranges of the log as responses carried them, by their start and their end."""

    ranges: dict[int, dict[int, int]] = {}
    seen_us: dict[int, int] = {}

    def carried(self, start: int, end: int, size: int, at: int) -> None:
        self.ranges.setdefault(start, {})[end] = size
        self.seen_us[start] = max(self.seen_us.get(start, 0), at)

    def between(self, start: int, end: int) -> int | None:
        """Bytes of records between two offsets; None if no responses show it."""
        size = 0
        while start < end:
            known = {until: of for until, of in self.ranges.get(start, {}).items() if until <= end}
            if not known:
                return None
            start = max(known)
            size += known[start]
        return size

    def forget(self, before: int, kept: Collection[int]) -> None:
        """Drop what was last carried before a time, but sums from the offsets to be ``kept``."""
        old = {start for start, at in self.seen_us.items() if at < before}
        for start in old.intersection(kept):
            end = start
            while end in old:
                end = max(self.ranges[end])
            self.ranges[start] = {end: self.between(start, end) or 0}
        for start in old.difference(kept):
            del self.ranges[start], self.seen_us[start]


class ReplicaEvidence(msgspec.Struct, array_like=True):
    """What the log shows of one replica; its FETCHes are known up to ``heard_until_us``.

    ``carried_us`` is when a response first carried the records of the ``last`` one: who lost a
    response FETCHes them again.
    """

    first: RecordedFetch
    last: RecordedFetch
    carried_us: int
    heard_until_us: int
    gaps: Samples[int] = msgspec.field(default_factory=Samples)
    handling: dict[Completion, Samples[int]] = {}
    absences: list[Absence] = []
    envelopes: Samples[Envelope] = msgspec.field(default_factory=Samples)

    def next_fetch(self, built_us: int) -> tuple[int, Absence | None] | None:
        """When the FETCH after a response arrives; None while the log doesn't show it."""
        at = built_us + (self.gaps.nearest(built_us) or 0)
        for absence in self.absences:
            if absence.since_us < at and built_us < absence.until_us:
                return max(at, absence.until_us), absence
        return None if at > self.heard_until_us else (at, None)

    def handled(self, completion: Completion, cause_us: int, built_us: int) -> None:
        """The Raft thread built a response after an append or a move of the high watermark."""
        samples = self.handling.setdefault(completion, Samples())
        samples.add(cause_us, max(0, built_us - cause_us))

    def handling_us(self, completion: Completion, at: int) -> int | None:
        """How long it took from such a cause to the response, nearest in time; None if unknown."""
        samples = self.handling.get(completion)
        return None if samples is None else samples.nearest(at)

    def is_away(self, at: int) -> bool:
        """The replica is frozen, restarting or cut off at a time."""
        if at - self.heard_until_us > ABSENCE_US:
            return True
        return any(
            a.since_us < at < a.until_us and a.until_us - a.since_us > ABSENCE_US
            for a in self.absences
        )


class Wake(msgspec.Struct, array_like=True):
    """Responses with records from one offset: when one append's first and last were built."""

    first_us: int
    last_us: int
    responses: int = 0


class Evidence(msgspec.Struct, array_like=True):
    """What the responses of one leader epoch show. Fed in order of built_us.

    ``epoch_start_offset`` is -1 where the log begins later; ``reached_us`` has the ends of appends
    that were not taken yet, and when a response first carried them. ``since_us``: a hole ends
    there, before which there were so many replicas.
    """

    leader_epoch: int
    replicas: dict[int, ReplicaEvidence] = {}
    epoch_start_offset: int = -1
    epoch_ends: dict[int, int] = {}
    log_start_offset: int = 0
    snapshot: int | None = None
    reached_us: dict[int, int] = {}
    appended_offset: int = -1
    log_bytes: LogBytes = msgspec.field(default_factory=LogBytes)
    wakes: dict[int, Wake] = {}
    service: Samples[int] = msgspec.field(default_factory=Samples)
    since_us: int = ALWAYS_SINCE_US
    replicas_before: int = 0

    def behind_hole(self, since_us: int) -> "Evidence":
        """What stays of it behind a hole: how fast the Raft thread is, where no append shows it."""
        before = max(len(self.replicas), self.replicas_before)
        return Evidence(
            self.leader_epoch, service=self.service, since_us=since_us, replicas_before=before
        )

    def add(self, row: RecordedFetch) -> None:
        """Take a FETCH that the leader completed, and how it follows the replica's previous one."""
        built = row.built_us
        replica = self.replicas.get(row.replica_id)
        if replica is None:
            self.replicas[row.replica_id] = replica = ReplicaEvidence(row, row, built, built)
        else:
            self._follow(replica, row)
            last = replica.last
            again = row.fetch_offset, row.record_bytes
            if again != (last.fetch_offset, last.record_bytes):
                if row.fetch_offset == last.fetch_offset and last.record_bytes > 0:
                    # It lost a response, which carried less than the next one does.
                    self._reaches_next_end(replica)
                replica.carried_us = built
            replica.last, replica.heard_until_us = row, built
        if row.request_bytes is not None and row.response_bytes is not None:
            request = row.request_bytes - (HIGH_WATERMARK_TAG_BYTES if row.hwm_aware else 0)
            response = row.response_bytes - records_field_bytes(row.record_bytes)
            replica.envelopes.add(built, Envelope(request, response))
        if row.record_bytes > 0:
            if row.last_fetched_epoch < self.leader_epoch:
                # A replica that continues the previous epoch fetches at most the first record of
                # this one, so the largest such offset is where the epoch starts.
                self.epoch_start_offset = max(self.epoch_start_offset, row.fetch_offset)
            wake = self.wakes.setdefault(row.fetch_offset, Wake(built, built))
            if row.dequeued_us <= wake.first_us and built <= wake.first_us + WAKE_SPREAD_US:
                wake.last_us = built
                wake.responses += 1
        self._measure_service(built)

    def add_rejected(self, row: RecordedFetch) -> None:
        """The first FETCH after the leader resigned still shows how far the replica had got."""
        replica = self.replicas.get(row.replica_id)
        if replica is not None and replica.heard_until_us <= replica.last.built_us:
            self._follow(replica, row)
            replica.heard_until_us = row.dequeued_us

    def close(self) -> None:
        """No FETCH follows: what was last carried reaches to the next end known, or is one."""
        for replica in self.replicas.values():
            last = replica.last
            if last.record_bytes <= 0 or self.appended_offset > last.fetch_offset:
                continue
            if not self._reaches_next_end(replica):
                self._carried(replica, last.fetch_offset + 1)

    def _reaches_next_end(self, replica: ReplicaEvidence) -> bool:
        """Records whose end no FETCH shows reach to the next end known, if there is one."""
        last = replica.last
        end = min((e for e in self.reached_us if e > last.fetch_offset), default=None)
        if end is not None:
            self.reached_us[end] = min(self.reached_us[end], replica.carried_us)
        return end is not None

    def _follow(self, replica: ReplicaEvidence, row: RecordedFetch) -> None:
        last = replica.last
        gap = row.dequeued_us - last.built_us
        restarted = row.correlation_id < last.correlation_id
        if row.fetch_offset < last.fetch_offset and not restarted:
            self.epoch_ends[last.last_fetched_epoch] = row.fetch_offset
        if gap > ABSENCE_US or restarted:
            returned = row.dequeued_us, row.fetch_offset, restarted, row.last_fetched_epoch
            replica.absences.append(Absence(last.built_us, *returned))
        elif gap >= 0:
            replica.gaps.add(last.built_us, gap)
        if row.fetch_offset <= last.fetch_offset or restarted:
            return
        if last.record_bytes > 0:
            self._carried(replica, row.fetch_offset)
        else:
            # It advanced without records: by a snapshot (FETCH_SNAPSHOT).
            self.log_start_offset = max(self.log_start_offset, last.fetch_offset + 1)
            self.snapshot = max(self.snapshot or 0, row.fetch_offset)

    def _carried(self, replica: ReplicaEvidence, end: int) -> None:
        last, at = replica.last, replica.carried_us
        if end > self.appended_offset:
            self.reached_us[end] = min(self.reached_us.get(end, at), at)
        self.log_bytes.carried(last.fetch_offset, end, last.record_bytes, last.built_us)

    def take_appends(self, until: int) -> list[tuple[int, int]]:
        """Appends up to a time that were not taken yet, in order: (time, log end offset after it).

        An end that was reached no earlier than a later one is no append of its own: some replica
        caught up in several FETCHes.
        """
        appends: list[tuple[int, int]] = []
        earliest: int | None = None
        for end in sorted(self.reached_us, reverse=True):
            reached = self.reached_us[end]
            if earliest is None or reached < earliest:
                earliest = reached
                if reached <= until:
                    appends.append((reached, end))
        if appends:
            self.appended_offset = appends[0][1]
        self.reached_us = {
            end: at
            for end, at in self.reached_us.items()
            if at > until and end > self.appended_offset
        }
        return appends[::-1]

    def service_us(self, at: int) -> int:
        return self.service.nearest(at) or 0

    def has_measured(self, replica_id: int, at: int) -> bool:
        """By a time the log shows what it shows of a replica's gaps and of the Raft thread."""
        gaps, service = self.replicas[replica_id].gaps.at, self.service.at
        since = bisect_right(service, self.since_us)
        return all(not times or times[0] <= at for times in (gaps, service[since : since + 1]))

    def _measure_service(self, now: int) -> None:
        while self.wakes:
            offset, wake = next(iter(self.wakes.items()))
            if now - wake.first_us <= 2 * WAKE_SPREAD_US:
                break
            # Over few gaps one stall looks like a slow thread.
            replicas = max(len(self.replicas), self.replicas_before)
            if wake.responses >= max(2, min(WAKE_RESPONSES_MIN, replicas)):
                spread = wake.last_us - wake.first_us
                self.service.add(wake.first_us, spread // (wake.responses - 1))
            del self.wakes[offset]

    def forget(self, before: int, offsets: Iterable[int]) -> None:
        """Drop what no replay that has passed ``before`` reads again.

        ``offsets`` are those at which simulated replicas stand, some maybe for long.
        """
        self.service.forget(before)
        for replica in self.replicas.values():
            for samples in (replica.gaps, *replica.handling.values()):
                samples.forget(before)
            replica.envelopes.forget(before)
            replica.absences = [a for a in replica.absences if a.until_us >= before]
        last = {replica.last.fetch_offset for replica in self.replicas.values()}
        self.log_bytes.forget(before, last.union(offsets))
