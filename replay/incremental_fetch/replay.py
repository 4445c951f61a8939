"""The whole replay of incremental_fetch: one broker's FETCHes in, outcomes out."""

import heapq
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from ..kafka.messages.fetch_pieces import FETCH_VERSIONS
from ..outcomes import Rows, Verdict
from .cache import FetchSessionCache, Occurrence
from .draft import Draft, with_draft_uuid
from .lists import Lists, Requested
from .partitions import Partitions
from .recorded import INPUT_SCHEMA, Batch, RecordedFetch
from .rows import EVICTION_SCHEMA, RULE, ClientKind, OutcomeRows, variants
from .sizes import counted_version, sent_as_listed
from .state import Carried, decoded, encoded
from .step import Replayed, close_session, replay_fetch
from .streams import NO_HOLES, SESSION_IDLE_US, Holes, Stream, Streams, Unknown

#: How often streams that have just stopped are looked for, in log time.
IDLE_STEP_US = 60_000_000

REFUSED = "answered with an error for the whole FETCH; the full one that follows stands for it"

_NO_FETCHES = pa.RecordBatch.from_pylist([], schema=INPUT_SCHEMA)


class Outcomes(NamedTuple):
    """Batches of fetch_session_outcomes and fetch_session_evictions, less ``recording``."""

    outcomes: pa.RecordBatch
    evictions: pa.RecordBatch


class IncrementalFetch:
    """The replay of one broker's log: feed it recorded FETCHes of topic partitions.

    ``session_slots`` are the values of the sweep. Batches of ``INPUT_SCHEMA`` come in order of
    (dequeued_us, request_id); anything else raises ``ValueError``. A row that has ``topic_names``
    and nothing else may come anywhere and holds for what follows. ``saved`` is the state of a
    replay of the same settings after the increment of the log before.
    """

    def __init__(
        self,
        node_id: int,
        session_slots: Iterable[int] = (),
        *,
        draft_partition_id_is_string: bool = False,
        saved: bytes | None = None,
        holes: Holes = NO_HOLES,
    ) -> None:
        self._holes = holes
        slots = sorted(set(session_slots))
        self._outcomes = OutcomeRows(node_id, variants(slots))
        self._incremental = [variant.what_if(RULE) for variant in variants(slots)]
        self._evictions = Rows(EVICTION_SCHEMA)
        self._node_id = node_id
        caches = [FetchSessionCache(number) for number in (None, *slots)]
        new = Carried((0, ""), Partitions(), Streams(node_id, len(caches)), caches, [])
        self._state = state = new if saved is None else decoded(saved)
        self._streams, self._caches, self._pending = state.streams, state.caches, state.pending
        self._draft = Draft(draft_partition_id_is_string, state.numbering)

    def saved(self) -> bytes:
        return encoded(self._state)

    def feed(self, batch: pa.RecordBatch) -> Outcomes:
        """Take an increment and return the outcomes that nothing still to come can change."""
        state, fed = self._state, Batch(batch, self._state.numbering)
        for row in fed.fetches:
            if row.number in fed.topic_names:
                names = fed.topic_names[row.number]
                state.numbering.add_names({each["topic_id"]: each["topic"] for each in names})
                continue
            if (row.dequeued_us, row.request_id) < state.front:
                raise ValueError("FETCHes must come in order of dequeued_us, request_id")
            while self._pending and self._pending[0].built_us <= row.dequeued_us:
                self._decide_next()
            self._forget_idle(row.dequeued_us)
            state.front = (row.dequeued_us, row.request_id)
            if row.is_older_session:
                self._take_over(row, fed.lists.requested)
            else:
                self._take(row, fed.lists)
        return Outcomes(self._outcomes.take(batch), self._evictions.take())

    def finish(self) -> Outcomes:
        while self._pending:
            self._decide_next()
        return Outcomes(self._outcomes.take(_NO_FETCHES), self._evictions.take())

    def _take(self, row: RecordedFetch, lists: Lists) -> None:
        stream = self._streams.of(row, self._state.numbering, self._holes)
        if stream is None:
            self._take_without_sessions(row, lists)
            return
        # Stamps are cut to milliseconds: a client's next FETCH may seem to come before the response
        # to the last one.
        while any(pending.stream == stream.number for pending in self._pending):
            self._decide_next()
        kind = ClientKind.FOLLOWER if stream.replica_id >= 0 else ClientKind.CONSUMER
        rows = self._outcomes
        rows.begin(row, stream.session_key, kind)
        if stream.is_older and row.is_logged_whole and stream.is_refuted(row, lists):
            stream.lose(Unknown.BEGAN_BEFORE_LOG)
        why_not = _why_not(row, stream)
        if why_not is not None:
            rows.not_replayed(*why_not)
            known = stream.unknown is None and row.error_code is not None
            rows.recorded(len(stream.followed) if known else None)
            if why_not[1] in (Unknown.NOT_IN_LOG, Unknown.VERSION):
                stream.lose()
            self._streams.respond(stream, row)
            return
        if row.closes_session:
            replayed = close_session(stream, row, lists, self._caches)
            self._streams.forget(stream)
        else:
            replayed = replay_fetch(stream, row, lists, self._caches, self._draft)
            self._streams.respond(stream, row)
        if replayed.pending is not None:
            heapq.heappush(self._pending, replayed.pending)
        rows.recorded(replayed.session_partitions, replayed.added_partitions)
        rows.replayed(replayed, knows_slots=not self._holes.begun(row.dequeued_us))
        for cache, event in replayed.events:
            self._add_event(cache, row.dequeued_us, row.request_id, event)

    def _take_over(self, row: RecordedFetch, requested: Requested) -> None:
        """A session that is older than the log has a slot of every cache that has one."""
        stream = self._streams.of(row, self._state.numbering, NO_HOLES)
        assert stream is not None
        of = (
            stream.session_key,
            row.is_follower,
            row.request_partitions or 0,
            row.dequeued_us // 1000,
        )
        cache_ids = {}
        for number, cache in enumerate(self._caches):
            cache_id, events = cache.maybe_create(*of)
            if cache_id is not None:
                cache_ids[number] = cache_id
            for event in events:
                self._add_event(number, row.dequeued_us, row.request_id, event)
        stream.take_over(row, requested, cache_ids)

    def _take_without_sessions(self, row: RecordedFetch, lists: Lists) -> None:
        """A client that never requests a session: every protocol leaves it as it is."""
        key = self._streams.key_without_session(row)
        rows = self._outcomes
        rows.begin(row, key, ClientKind.CONSUMER_WITHOUT_SESSIONS)
        why_not = _why_not(row)
        if why_not is not None:
            rows.not_replayed(*why_not)
            rows.recorded(None)
            return
        sent = sent_as_listed(row, lists)
        listed = sent.request_partitions
        rows.recorded(listed)
        attempts = [[sent]] * len(self._caches)
        rows.replayed(Replayed(sent, with_draft_uuid(sent), attempts, listed, None))

    def _decide_next(self) -> None:
        """The response to a full FETCH is built: which caches have a session for it?"""
        pending = heapq.heappop(self._pending)
        created = {}
        for number in pending.caches:
            cache_id, events = self._caches[number].maybe_create(
                pending.session_key,
                pending.privileged,
                pending.partitions,
                pending.built_us // 1000,
            )
            if cache_id is not None:
                created[number] = cache_id
            if self._streams.by_number[pending.stream].counts_epochs:
                for event in events:
                    self._add_event(number, pending.built_us, pending.request_id, event)
        if created:
            self._streams.by_number[pending.stream].create_session(created, pending)

    def _add_event(self, cache: int, at_us: int, request_id: str, event: Occurrence) -> None:
        if self._holes.begun(at_us):
            if cache > 0:
                return
            # How many sessions were requested before is not known.
            event = event._replace(shard=None)
        self._evictions.add(
            **self._incremental[cache],
            node_id=self._node_id,
            event_at=at_us,
            request_id=request_id,
            **event._asdict(),
        )

    def _forget_idle(self, now_us: int) -> None:
        """In steps of the log's time, whatever the batches: rows follow from the log alone."""
        if now_us // IDLE_STEP_US == self._state.front[0] // IDLE_STEP_US:
            return
        self._streams.forget_idle(now_us)
        for cache in self._caches:
            cache.forget_unused((now_us - SESSION_IDLE_US) // 1000)


def _why_not(row: RecordedFetch, stream: Stream | None = None) -> tuple[Verdict, str] | None:
    """Why a FETCH can't be replayed; without a ``stream`` it is one without sessions."""
    if not row.is_logged_whole:
        return Verdict.UNKNOWN, Unknown.NOT_IN_LOG
    if counted_version(row.api_version) not in FETCH_VERSIONS:
        return Verdict.UNKNOWN, Unknown.VERSION
    if row.error_code:
        return Verdict.NOT_APPLICABLE, REFUSED
    if stream is not None and stream.unknown is not None and not row.is_full:
        return Verdict.UNKNOWN, stream.unknown
    return None
