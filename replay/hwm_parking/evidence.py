"""Gathers what the responses of one leader epoch show that no rule explains.

When the leader appended, how long each replica takes from a response to its next FETCH, when it
was away, how fast the leader's Raft thread responds, and how large the envelopes are.
"""

from bisect import bisect_right
from typing import NamedTuple, Self

import msgspec

from ..kafka.messages import HIGH_WATERMARK_TAG_BYTES, records_field_bytes
from ..log_gaps import ALWAYS_SINCE_US
from ..model.raft import HWM_AWARE_VERSION, NOT_SENT, Completion
from ..records import event_schema
from ..simulation import Samples

#: NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
NOT_LEADING = frozenset({6, 8, 74, 75})
#: A replica silent for longer than this between a response and its next FETCH is away.
ABSENCE_US = 1_000_000
#: Responses to FETCHes that one append completes are built within this.
WAKE_SPREAD_US = 25_000
#: Responses (or one per replica, if fewer) that one append must cause to measure the time for one.
WAKE_RESPONSES_MIN = 4
#: The longest that the Raft thread takes from a cause to a response that is due, unless it stalls.
STALL_US = 100_000


class RecordedMetadataFetch(NamedTuple):
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
        """Checks that the FETCH carries a high watermark, which the leader compares."""
        return self.api_version >= HWM_AWARE_VERSION and self.high_watermark != NOT_SENT


INPUT_SCHEMA = event_schema(RecordedMetadataFetch)


class Absence(NamedTuple):
    """A replica sent nothing since its last response, and returned with a FETCH."""

    since_us: int
    returns: RecordedMetadataFetch
    restarted: bool


class FetchEnvelope(NamedTuple):
    """Bytes of a FETCH without its high watermark, and of its response without the records."""

    request_bytes: int
    response_bytes: int


class RangeBytes(msgspec.Struct, array_like=True):
    """Sizes of ranges of the log as responses carried them, by their start and their end."""

    ranges: dict[int, dict[int, int]] = {}
    carried_us: dict[int, int] = {}

    def add(self, start: int, end: int, size: int, at: int) -> None:
        self.ranges.setdefault(start, {})[end] = size
        self.carried_us[start] = max(self.carried_us.get(start, 0), at)

    def between(self, start: int, end: int) -> int | None:
        """Returns the bytes of records between two offsets; None if no responses show it."""
        size = 0
        while start < end:
            sizes = {e: bytes_ for e, bytes_ in self.ranges.get(start, {}).items() if e <= end}
            if not sizes:
                return None
            start = max(sizes)
            size += sizes[start]
        return size

    def forget(self, before: int) -> None:
        """Drops what was last carried before a time."""
        for start in [start for start, at in self.carried_us.items() if at < before]:
            del self.ranges[start], self.carried_us[start]


class ReplicaEvidence(msgspec.Struct, array_like=True):
    """Gathers what the log shows of one replica, whose FETCHes are in it up to ``shown_until_us``.

    ``carried_us`` is when a response first carried the records of the ``last`` one: who lost a
    response FETCHes them again. ``stalls``: from a cause to a response that came over ``STALL_US``
    after it.
    """

    first: RecordedMetadataFetch
    last: RecordedMetadataFetch
    carried_us: int
    shown_until_us: int
    delays: Samples[int] = msgspec.field(default_factory=Samples)
    handling: dict[Completion, Samples[int]] = {}
    absences: list[Absence] = []
    envelopes: Samples[FetchEnvelope] = msgspec.field(default_factory=Samples)
    stalls: list[tuple[int, int]] = []

    def next_fetch(self, built_us: int) -> tuple[int, Absence | None] | None:
        """Returns when the FETCH after a response arrives; None while the log doesn't show it."""
        at = built_us + (self.delays.nearest(built_us) or 0)
        for absence in self.absences:
            if absence.since_us < at and built_us < absence.returns.dequeued_us:
                return max(at, absence.returns.dequeued_us), absence
        return None if at > self.shown_until_us else (at, None)

    def handled(self, completion: Completion, cause_us: int, built_us: int) -> None:
        """Notes how long the Raft thread took from an append, or a move, to a response."""
        if built_us - cause_us > STALL_US:
            self.stalls.append((cause_us, built_us))
            return
        samples = self.handling.setdefault(completion, Samples())
        samples.add(cause_us, max(0, built_us - cause_us))

    def handling_us(self, completion: Completion, at: int) -> int | None:
        """Returns how long a response takes after a cause at a time: what is left of a stall, else
        what it took after the cause nearest in time; None if never measured."""
        for since_us, until_us in self.stalls:
            if since_us <= at < until_us:
                return until_us - at
        samples = self.handling.get(completion)
        return None if samples is None else samples.nearest(at)

    def is_away(self, at: int) -> bool:
        """Checks whether the replica is frozen, restarting or cut off at a time."""
        if at - self.shown_until_us > ABSENCE_US:
            return True
        spans = ((absence.since_us, absence.returns.dequeued_us) for absence in self.absences)
        return any(since < at < until and until - since > ABSENCE_US for since, until in spans)


class Wake(msgspec.Struct, array_like=True):
    """Responses with records from one offset: when one append's first and last were built."""

    first_us: int
    last_us: int
    responses: int = 0


class Evidence(msgspec.Struct, array_like=True):
    """Gathers what the responses of one leader epoch show, in order of built_us.

    ``epoch_start_offset`` is -1 where the log begins later; ``reached_us`` has the ends of appends
    that were not taken yet, and when a response first carried them. ``begins_us``: where a gap of
    the log ends, before which the leader's log reached ``offset_before``, fetched by
    ``replicas_before`` replicas.
    """

    leader_epoch: int
    replicas: dict[int, ReplicaEvidence] = {}
    epoch_start_offset: int = -1
    epoch_ends: dict[int, int] = {}
    log_start_offset: int = 0
    snapshot: int | None = None
    reached_us: dict[int, int] = {}
    appended_offset: int = -1
    log_bytes: RangeBytes = msgspec.field(default_factory=RangeBytes)
    wakes: dict[int, Wake] = {}
    service: Samples[int] = msgspec.field(default_factory=Samples)
    begins_us: int = ALWAYS_SINCE_US
    offset_before: int = 0
    replicas_before: int = 0

    def begun_anew(self, begins_us: int) -> Self:
        """Begins in the middle, behind a gap; what stays is how fast the Raft thread is."""
        return type(self)(
            self.leader_epoch,
            service=self.service,
            begins_us=begins_us,
            offset_before=max(self.log_end_offset_before() or 0, self.appended_offset, 0),
            replicas_before=max(len(self.replicas), self.replicas_before),
        )

    def log_end_offset_before(self) -> int | None:
        """Returns what was there before the first lines; None if the epoch begins in them."""
        if self.begins_us == ALWAYS_SINCE_US and self.epoch_start_offset >= 0:
            return None
        # A response that is not in the log shows in the offset of its replica's next FETCH.
        firsts = (replica.first.fetch_offset for replica in self.replicas.values())
        return max((self.offset_before, *firsts))

    def add(self, row: RecordedMetadataFetch) -> None:
        """Learns from a FETCH that the leader completed, and from how it follows the last one."""
        built = row.built_us
        replica = self.replicas.get(row.replica_id)
        if replica is None:
            self.replicas[row.replica_id] = replica = ReplicaEvidence(row, row, built, built)
        else:
            self._follow(replica, row)
            last = replica.last
            is_repeated = row.fetch_offset == last.fetch_offset
            if not is_repeated or row.record_bytes != last.record_bytes:
                if is_repeated and last.record_bytes > 0:
                    # It lost a response, which carried less than the next one does.
                    self._reaches_next_end(replica)
                replica.carried_us = built
            replica.last, replica.shown_until_us = row, built
        if row.request_bytes is not None and row.response_bytes is not None:
            request = row.request_bytes - (HIGH_WATERMARK_TAG_BYTES if row.hwm_aware else 0)
            response = row.response_bytes - records_field_bytes(row.record_bytes)
            replica.envelopes.add(built, FetchEnvelope(request, response))
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

    def add_rejected(self, row: RecordedMetadataFetch) -> None:
        """Learns from the first FETCH after the leader resigned how far the replica had got."""
        replica = self.replicas.get(row.replica_id)
        if replica is not None and replica.shown_until_us <= replica.last.built_us:
            self._follow(replica, row)
            replica.shown_until_us = row.dequeued_us

    def close(self) -> None:
        """Ends it: records whose end no later FETCH shows reach to the next end known, else they
        are one record."""
        for replica in self.replicas.values():
            last = replica.last
            is_open = last.record_bytes > 0 and self.appended_offset <= last.fetch_offset
            if is_open and not self._reaches_next_end(replica):
                self._carried(replica, last.fetch_offset + 1)

    def _reaches_next_end(self, replica: ReplicaEvidence) -> bool:
        """Ends records whose end no FETCH shows at the next end known, if there is one."""
        last = replica.last
        end = min((e for e in self.reached_us if e > last.fetch_offset), default=None)
        if end is not None:
            self.reached_us[end] = min(self.reached_us[end], replica.carried_us)
        return end is not None

    def _follow(self, replica: ReplicaEvidence, row: RecordedMetadataFetch) -> None:
        last = replica.last
        delay = row.dequeued_us - last.built_us
        restarted = row.correlation_id < last.correlation_id
        if row.fetch_offset < last.fetch_offset and not restarted:
            # It cut its log where that diverged: in the leader's log its epoch ends there.
            self.epoch_ends[last.last_fetched_epoch] = row.fetch_offset
        if delay > ABSENCE_US or restarted:
            replica.absences.append(Absence(last.built_us, row, restarted))
        elif delay >= 0:
            replica.delays.add(last.built_us, delay)
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
        self.log_bytes.add(last.fetch_offset, end, last.record_bytes, last.built_us)

    def take_appends(self, until: int) -> list[tuple[int, int]]:
        """Removes the appends up to a time, and returns them in order: (time, log end offset).

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
        """Checks that by a time a replica's delays and the Raft thread's service were measured."""
        delays, service = self.replicas[replica_id].delays.at, self.service.at
        since = bisect_right(service, self.begins_us)
        return all(not times or times[0] <= at for times in (delays, service[since : since + 1]))

    def _measure_service(self, now: int) -> None:
        while self.wakes:
            offset, wake = next(iter(self.wakes.items()))
            if now - wake.first_us <= 2 * WAKE_SPREAD_US:
                break
            # Over few responses one stall looks like a slow thread.
            replicas = max(len(self.replicas), self.replicas_before)
            if wake.responses >= max(2, min(WAKE_RESPONSES_MIN, replicas)):
                spread = wake.last_us - wake.first_us
                self.service.add(wake.first_us, spread // (wake.responses - 1))
            del self.wakes[offset]

    def forget(self, before: int) -> None:
        """Drops what no replay that has passed ``before`` reads again."""
        self.service.forget(before)
        self.log_bytes.forget(before)
        for replica in self.replicas.values():
            for samples in (replica.delays, *replica.handling.values()):
                samples.forget(before)
            replica.envelopes.forget(before)
            replica.stalls = [stall for stall in replica.stalls if stall[1] >= before]
            replica.absences = [a for a in replica.absences if a.returns.dequeued_us >= before]
