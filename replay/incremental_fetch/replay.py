"""The whole replay of incremental_fetch: one broker's FETCHes in, outcomes out."""

import heapq
from collections.abc import Iterable

import pyarrow as pa
from msgspec.structs import replace

from ..kafka.messages.sizes import FETCH_VERSIONS
from ..log_gaps import NO_GAPS, Gaps
from ..model.cached_partitions import Slots
from ..model.fetch_session import (
    FINAL_EPOCH,
    NO_SESSION,
    CachedSession,
    FetchSessionCache,
    Reason,
    next_epoch,
)
from ..records import Records, Verdict
from . import released
from .draft import draft_fetch, with_draft_uuid
from .lists import Lists, Partitions
from .outcomes import (
    ClientKind,
    FetchColumns,
    Replayed,
    Sent,
    SessionCacheEvent,
    counted_version,
    nothing_sent,
    sizes_of,
    variants,
)
from .recorded import SESSION_ERRORS, Batch, RecordedFetch
from .released import ReplayedFetch
from .state import Carried, decoded, encoded
from .streams import (
    SESSION_IDLE_US,
    Events,
    PendingSession,
    Session,
    Stream,
    Streams,
    Unknown,
)

#: How often streams that have just stopped are looked for, in log time.
IDLE_STEP_US = 60_000_000

#: Variants before those of caches: as recorded, full and the draft's.
_FIRST_CACHE = 3
#: The first cache, which creates every session that is requested.
UNLIMITED = 0

REFUSED = "error response to the whole FETCH: the full one that follows replaces it"


class IncrementalFetch:
    """The replay of one broker's log: feed it recorded FETCHes of topic partitions.

    ``session_slots`` are the values of the sweep. Batches of ``INPUT_SCHEMA`` come in order of
    (dequeued_us, request_id); anything else raises ``ValueError``. A row that has ``topic_names``
    and nothing else may come anywhere and holds for what follows. ``saved`` is the state of a
    replay of the same settings after the increment of the log before. ``gaps``: of all logs.
    """

    def __init__(
        self,
        node_id: int,
        session_slots: Iterable[int] = (),
        saved: bytes | None = None,
        gaps: Gaps = NO_GAPS,
    ) -> None:
        self._node_id, self._gaps = node_id, gaps
        slots = sorted(set(session_slots))
        #: Those of caches are at their end, in order.
        self._variants = variants(slots)
        self._rows = Records(Sent)
        self._evictions = Records(SessionCacheEvent)
        # The first creates every session that is requested: the draft takes over its orders, and
        # it is compared with the recorded sessions.
        caches = [FetchSessionCache(number) for number in (None, *slots)]
        new = Carried((0, ""), Partitions(), Streams(node_id), caches, [])
        self._state = state = new if saved is None else decoded(saved)
        self._cache_numbers = frozenset(range(len(caches)))
        self._streams, self._caches, self._pending = state.streams, state.caches, state.pending

    def saved(self) -> bytes:
        return encoded(self._state)

    def feed(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Replays an increment; returns the outcomes that nothing still to come can change."""
        state, fed = self._state, Batch(batch, self._state.numbering)
        for row in fed.fetches:
            if row.number in fed.topic_names:
                names = fed.topic_names[row.number]
                state.numbering.add_names({name["topic_id"]: name["topic"] for name in names})
                continue
            if (row.dequeued_us, row.request_id) < state.front:
                raise ValueError("FETCHes must come in order of dequeued_us, request_id")
            while self._pending and self._pending[0].built_us <= row.dequeued_us:
                self._decide_next()
            self._forget_idle(row.dequeued_us)
            state.front = (row.dequeued_us, row.request_id)
            if row.is_older_session:
                self._take_over(row, fed.lists)
            else:
                self._take(row, fed.lists)
        return self._emitted()

    def finish(self) -> list[pa.RecordBatch]:
        while self._pending:
            self._decide_next()
        return self._emitted()

    def _emitted(self) -> list[pa.RecordBatch]:
        return [self._rows.take(), self._evictions.take()]

    def _take(self, row: RecordedFetch, lists: Lists) -> None:
        stream = self._streams.find(row)
        # Stamps are cut to milliseconds: a client's next FETCH may seem to come before the response
        # to the last one.
        while stream and any(pending.stream == stream.number for pending in self._pending):
            self._decide_next()
        stream = self._streams.take(stream, row, self._state.numbering, self._gaps)
        if stream is None:
            key, kind = self._streams.key_without_session(row), ClientKind.CONSUMER_WITHOUT_SESSIONS
        else:
            key = stream.session_key
            kind = ClientKind.FOLLOWER if stream.replica_id >= 0 else ClientKind.CONSUMER
            if stream.is_older and row.is_logged_whole and stream.is_refuted(row, lists):
                stream.lose(Unknown.BEGAN_BEFORE_LOG)
        why_not = _why_not(row, stream)
        if why_not is not None:
            replayed = self._not_replayed(row, stream, *why_not)
        elif stream is None:
            replayed = self._as_listed(row, lists)
        elif row.closes_session:
            replayed = self._close_session(stream, row, lists)
        else:
            replayed = self._replay(stream, row, lists)
        of_fetch = FetchColumns(
            request_id=row.request_id,
            attempt=0,
            node_id=self._node_id,
            session_key=key,
            client_id=row.client_id,
            client_kind=kind,
            replica_id=row.replica_id,
            received_at=row.received_us,
            dequeued_at=row.dequeued_us,
            built_at=row.built_us,
        )
        self._emit(of_fetch, replayed)

    def _emit(self, of_fetch: FetchColumns, replayed: Replayed) -> None:
        """Adds the rows of a FETCH, and those of the one that repeats it where it is refused."""
        sent = replayed.recorded, replayed.full, replayed.draft, *replayed.incremental
        self._rows.add_rows(sent, self._variants, of_fetch)
        if replayed.retries:
            refusing = [self._variants[_FIRST_CACHE + number] for number in replayed.retries]
            retry = replace(of_fetch, attempt=1)
            self._rows.add_rows([*replayed.retries.values()], refusing, retry)

    def _not_replayed(
        self, row: RecordedFetch, stream: Stream | None, verdict: Verdict, reason: str
    ) -> Replayed:
        """Says of a FETCH why it is not known what the protocols would send."""
        partitions = None
        if stream is not None:
            if stream.unknown is None and row.error_code is not None:
                partitions = stream.followed.size
            if reason in (Unknown.NOT_IN_LOG, Unknown.VERSION, Unknown.TAGGED):
                stream.lose()
            self._streams.respond(stream, row)
        nothing = nothing_sent(counted_version(row.api_version), verdict, reason)
        by_cache = [nothing] * len(self._caches)
        return Replayed(_recorded(row, partitions), nothing, nothing, by_cache)

    def _as_listed(self, row: RecordedFetch, lists: Lists, added: int | None = None) -> Replayed:
        """Counts a FETCH that no protocol changes: without sessions, or the last of a client."""
        sizes, requested, returned = sizes_of(row), lists.requested, lists.returned
        n, m = row.request_partitions or 0, row.response_partitions or 0
        full = Sent(
            api_version=counted_version(row.api_version),
            session_id=NO_SESSION,
            session_epoch=FINAL_EPOCH,
            is_full=True,
            session_partitions=n,
            request_partitions=n,
            response_partitions=m,
            added_partitions=added,
            record_bytes=row.record_bytes,
            request_bytes=sizes.request(requested.totals[row.number], n, sizes.nothing),
            response_bytes=sizes.response(
                returned.totals[row.number], m, returned.more_bytes_sum[row.number]
            ),
        )
        by_cache = [full] * len(self._caches)
        return Replayed(_recorded(row, n, added), full, with_draft_uuid(full), by_cache)

    def _close_session(self, stream: Stream, row: RecordedFetch, lists: Lists) -> Replayed:
        """Replays a client's last FETCH, (id, -1), which closes its session under all protocols."""
        replayed = self._as_listed(row, lists, added=0)
        no_session = NO_SESSION if stream.unknown is None else None
        ids = {n: session.recorded_id for session in stream.sessions for n in session.slots}
        self._add_events(row.dequeued_us, row.request_id, self._close_all(stream, Reason.CLIENT))
        self._streams.forget(stream)
        by_cache = [
            replace(replayed.full, session_id=ids.get(number, no_session))
            for number in range(len(self._caches))
        ]
        return replayed._replace(incremental=by_cache)

    def _replay(self, stream: Stream, row: RecordedFetch, lists: Lists) -> Replayed:
        """Replays a FETCH under all protocols: full, the draft's, and in sessions of each cache."""
        goes_on, is_lost = stream.goes_on(row), stream.goes_on(row, after=Unknown.LOST)
        unknown = stream.unknown if goes_on or is_lost else None
        events = self._start_anew(stream, row) if row.is_full and stream.starts_anew(row) else []
        stream.counts_epochs &= not goes_on
        if stream.followed.end > 2 * stream.followed.size + 64:  # most are gone
            stream.renumber()

        fetch = ReplayedFetch.follow(stream, row, lists)
        full = released.full_fetch(fetch)
        incrementals = [released.incremental_fetch(fetch, session) for session in stream.sessions]
        current = next((i for i in incrementals if UNLIMITED in i.session.slots), None)
        draft = draft_fetch(fetch, full, current)
        equals = released.equals_recorded(fetch, current)

        has_records = fetch.returned.has_records
        for incremental in incrementals:
            returned = incremental.returned
            incremental.session.rotate(Slots(returned.slots[has_records[returned.at]]))
        sent, retries = released.attempts(fetch, self._caches, full, incrementals)
        if equals is not None:
            sent[UNLIMITED] = replace(sent[UNLIMITED], equals_recorded=equals)
            if UNLIMITED in retries:
                retries[UNLIMITED] = replace(retries[UNLIMITED], equals_recorded=equals)
        if row.is_follower:
            returned = fetch.response.entries if current is None else current.returned
            stream.followed.move_returned(returned.slots, has_records[returned.at])
        stream.unknown, stream.is_broken = None, False
        stream.is_older &= not row.is_full
        stream.sessions = [session for session in stream.sessions if session.slots]
        pending = released.pending_session(fetch, self._cache_numbers)
        if pending is not None:
            heapq.heappush(self._pending, pending)
        self._streams.respond(stream, row)
        self._add_events(row.dequeued_us, row.request_id, events + fetch.events)
        recorded = _recorded(row, stream.followed.size, fetch.added)
        return self._known(Replayed(recorded, full, draft, sent, retries), row, unknown)

    def _known(self, replayed: Replayed, row: RecordedFetch, unknown: Unknown | None) -> Replayed:
        """Withholds what is not known behind missing lines; ``unknown``: why, of this client."""
        version, caches = counted_version(row.api_version), len(self._caches)
        if unknown is not None:
            nothing = nothing_sent(version, Verdict.UNKNOWN, unknown)
            return Replayed(replayed.recorded, replayed.full, nothing, [nothing] * caches)
        if not self._gaps.has_begun(self._node_id, row.dequeued_us):
            return replayed
        # Which sessions have the slots is not known any more.
        nothing = nothing_sent(version, Verdict.UNKNOWN, Unknown.GAP)
        return replayed._replace(
            incremental=[replayed.incremental[UNLIMITED], *[nothing] * (caches - 1)],
            retries={n: retry for n, retry in replayed.retries.items() if n == UNLIMITED},
        )

    def _start_anew(self, stream: Stream, row: RecordedFetch) -> Events:
        """Gives up a client's session; the broker closes it unless the client has forgotten it."""
        events: Events = []
        if row.session_id != NO_SESSION or stream.is_broken:
            events = self._close_all(stream, Reason.NEW_SESSION)
        stream.sessions.clear()
        stream.draft_has_uuid, stream.counts_epochs = False, True
        return events

    def _close_all(self, stream: Stream, reason: Reason) -> Events:
        return [
            event
            for session in stream.sessions
            for event in session.close([*session.slots], self._caches, reason)
        ]

    def _take_over(self, row: RecordedFetch, lists: Lists) -> None:
        """Begins a session that is older than the log, in every cache that finds a slot for it."""
        stream = self._streams.take(self._streams.find(row), row, self._state.numbering, NO_GAPS)
        assert stream is not None
        stream.take_over(row, lists.requested)
        requested = PendingSession(
            built_us=row.dequeued_us,
            request_id=row.request_id,
            stream=stream.number,
            caches=tuple(range(len(self._caches))),
            recorded_id=row.session_id,
        )
        session = self._create(stream, requested)
        assert session is not None
        session.epoch, session.is_older = next_epoch(row.session_epoch), True

    def _decide_next(self) -> None:
        """Decides, as the response to a full FETCH is built, which caches have a session for it."""
        pending = heapq.heappop(self._pending)
        stream = self._streams.by_number[pending.stream]
        self._create(stream, pending, is_known=stream.counts_epochs)

    def _create(
        self, stream: Stream, pending: PendingSession, *, is_known: bool = True
    ) -> Session | None:
        """Requests a session of caches; None if none creates it. Emits it only if ``is_known``."""
        is_follower, size = stream.replica_id >= 0, stream.followed.size
        now_ms = pending.built_us // 1000
        cached = CachedSession(stream.session_key, is_follower, size, now_ms, now_ms)
        slots = {}
        for number in pending.caches:
            cache_id, events = self._caches[number].maybe_create(cached)
            if cache_id is not None:
                slots[number] = cache_id
            if is_known:
                happened = [(number, event) for event in events]
                self._add_events(pending.built_us, pending.request_id, happened)
        return stream.create_session(pending, cached, slots) if slots else None

    def _add_events(self, at_us: int, request_id: str, events: Events) -> None:
        behind_gap = bool(events) and self._gaps.has_begun(self._node_id, at_us)
        for number, (event, reason, session, shard) in events:
            if behind_gap and number != UNLIMITED:
                continue
            self._evictions.add(
                SessionCacheEvent(
                    variant=self._variants[_FIRST_CACHE + number],
                    node_id=self._node_id,
                    session_key=session.session_key,
                    event=event,
                    request_id=request_id,
                    event_at=at_us,
                    # How many sessions were requested in a gap is not known.
                    shard=None if behind_gap else shard,
                    partitions=session.size,
                    privileged=session.privileged,
                    reason=reason,
                )
            )

    def _forget_idle(self, now_us: int) -> None:
        """Forgets in steps of the log's time, whatever the batches: rows follow from the log."""
        if now_us // IDLE_STEP_US == self._state.front[0] // IDLE_STEP_US:
            return
        self._streams.forget_idle(now_us)
        for cache in self._caches:
            cache.forget_unused((now_us - SESSION_IDLE_US) // 1000)


def _why_not(row: RecordedFetch, stream: Stream | None) -> tuple[Verdict, str] | None:
    """Says why a FETCH can't be replayed; without a ``stream`` it is one without sessions."""
    if not row.is_logged_whole:
        return Verdict.UNKNOWN, Unknown.NOT_IN_LOG
    if counted_version(row.api_version) not in FETCH_VERSIONS:
        return Verdict.UNKNOWN, Unknown.VERSION
    if row.tagged_partitions:
        return Verdict.UNKNOWN, Unknown.TAGGED
    if row.error_code:
        return Verdict.NOT_APPLICABLE, REFUSED
    if stream is not None and stream.unknown is not None and not row.is_full:
        return Verdict.UNKNOWN, stream.unknown
    return None


def _recorded(row: RecordedFetch, partitions: int | None, added: int | None = None) -> Sent:
    """Makes what variant ``recorded`` has of a FETCH."""
    has_request = row.request_partitions is not None
    return Sent(
        verdict=Verdict.REPLAYED if row.is_logged_whole else Verdict.UNKNOWN,
        reason=None if row.is_logged_whole else Unknown.NOT_IN_LOG,
        api_version=row.api_version,
        session_id=row.session_id if has_request else None,
        session_epoch=row.session_epoch if has_request else None,
        is_full=row.is_full if has_request else None,
        session_partitions=partitions,
        request_partitions=row.request_partitions,
        response_partitions=row.response_partitions,
        forgotten_partitions=row.forgotten_partitions,
        added_partitions=added,
        record_bytes=None if row.error_code is None else row.record_bytes,
        request_bytes=row.request_bytes,
        response_bytes=row.response_bytes,
        session_error=row.error_code if row.error_code in SESSION_ERRORS else 0,
    )
