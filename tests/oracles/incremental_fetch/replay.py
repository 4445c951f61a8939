"""The whole replay of incremental_fetch: one broker's FETCHes in, outcomes out."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from kip_replay.replay.incremental_fetch.cache import FetchSessionCache, Occurrence
from kip_replay.replay.incremental_fetch.tables import (
    FETCH_SESSION_EVICTIONS,
    FETCH_SESSION_OUTCOMES,
)
from kip_replay.replay.outcomes import Rows, Variant, Verdict
from kip_replay.replay.wire_size.fetch import FETCH_VERSIONS
from kip_replay.replay.wire_size.incremental_fetch_draft import IncrementalFetchPieces

from .recorded import (
    FINAL_EPOCH,
    INPUT_SCHEMA,
    TOPIC_ID_VERSION,
    RecordedFetch,
    recorded_fetches,
)
from .rows import RULE, ClientKind, OutcomeWriter, write_event
from .sizes import counted_version
from .step import (
    Replayed,
    Sent,
    Step,
    say_goodbye,
    sent_as_listed,
    with_draft_uuid,
)
from .stream import SessionWish, Stream, Unknown
from .streams import SESSION_IDLE_US, Streams

__all__ = ["INPUT_SCHEMA", "RULE", "IncrementalFetch", "Outcomes", "replayed", "variants"]

FULL = "full"
INCREMENTAL = "incremental"
INCREMENTAL_DRAFT = "incremental_draft"
SESSION_SLOTS = "session_slots"

#: How often streams that have ended without a word are looked for, in log time.
IDLE_STEP_US = 60_000_000

REFUSED = "answered with an error for the whole FETCH; the full one that follows stands for it"
NOTHING_TO_FETCH = "without a session, who fetches nothing sends nothing"

OUTCOME_SCHEMA = FETCH_SESSION_OUTCOMES.without("recording")
EVICTION_SCHEMA = FETCH_SESSION_EVICTIONS.without("recording")


class Outcomes(NamedTuple):
    """Batches of fetch_session_outcomes and fetch_session_evictions, less ``recording``."""

    outcomes: pa.RecordBatch
    evictions: pa.RecordBatch


def variants(session_slots: Iterable[int] = ()) -> list[Variant]:
    """Variant ``incremental``: with enough slots, then with each number of slots of a sweep."""
    sweep = [Variant(INCREMENTAL, SESSION_SLOTS, str(slots)) for slots in session_slots]
    return [Variant(INCREMENTAL), *sweep]


class IncrementalFetch:
    """The replay of one broker's log: feed it recorded FETCHes of topic partitions.

    ``session_slots`` are the values of the sweep. Batches of ``INPUT_SCHEMA`` come in order of
    (dequeued_us, request_id); anything else raises ``ValueError``. A row that has ``topic_names``
    and nothing else may come anywhere and holds for what follows.
    """

    def __init__(
        self,
        node_id: int,
        session_slots: Iterable[int] = (),
        *,
        draft_partition_id_is_string: bool = False,
    ) -> None:
        slots = sorted(set(session_slots))
        self._node_id = node_id
        self._incremental = variants(slots)
        self._caches = [FetchSessionCache(None), *map(FetchSessionCache, slots)]
        self._streams = Streams(node_id, len(self._caches))
        self._draft = IncrementalFetchPieces(draft_partition_id_is_string)
        self._names: dict[str, str] = {}
        self._wishes: list[SessionWish] = []
        self._front: tuple[int, str] = (0, "")
        self._outcomes = Rows(OUTCOME_SCHEMA)
        self._evictions = Rows(EVICTION_SCHEMA)

    def feed(self, batch: pa.RecordBatch) -> Outcomes:
        """Take a piece of log and return the outcomes that nothing still to come can change."""
        for row in recorded_fetches(batch):
            if row.topic_names is not None:
                self._names.update(row.topic_names)
                continue
            if (row.dequeued_us, row.request_id) < self._front:
                raise ValueError("FETCHes must come in order of dequeued_us, request_id")
            self._decide_until(row.dequeued_us)
            self._forget_idle(row.dequeued_us)
            self._front = (row.dequeued_us, row.request_id)
            self._take(row)
        return self._hand_out()

    def finish(self) -> Outcomes:
        """The log is over: return what is left."""
        while self._wishes:
            self._decide_next()
        return self._hand_out()

    def _hand_out(self) -> Outcomes:
        return Outcomes(self._outcomes.take(), self._evictions.take())

    # --- one FETCH

    def _take(self, row: RecordedFetch) -> None:
        stream = self._streams.of(row)
        if stream is None:
            self._take_without_sessions(row)
            return
        # Stamps are cut to milliseconds: a client's next FETCH may seem to come before its answer.
        while any(wish.stream == stream.number for wish in self._wishes):
            self._decide_next()
        kind = ClientKind.FOLLOWER if stream.replica_id >= 0 else ClientKind.CONSUMER
        write = OutcomeWriter(self._outcomes, self._node_id, row, stream.session_key, kind)
        untold = _why_untold(row) or _why_not_known(row, stream)
        if untold is not None:
            self._write_untold(write, *untold)
            write.recorded(
                None if stream.unknown or row.error_code is None else len(stream.followed)
            )
            if untold[1] in (Unknown.NOT_IN_LOG, Unknown.VERSION):
                stream.lose(Unknown.LOST)
            self._streams.answered(stream, row)
            return
        if row.has_sessions and row.session_epoch == FINAL_EPOCH:
            replayed = say_goodbye(stream, row, self._caches)
            self._streams.forget(stream)
        else:
            replayed = self._step(stream, row)
        write.recorded(replayed.session_partitions, replayed.added_partitions)
        self._write(write, row, replayed)

    def _take_without_sessions(self, row: RecordedFetch) -> None:
        """A client that never asks for a session: every protocol leaves it as it is."""
        kind = ClientKind.CONSUMER_WITHOUT_SESSIONS
        key = self._streams.key_without_session(row)
        write = OutcomeWriter(self._outcomes, self._node_id, row, key, kind)
        untold = _why_untold(row)
        if untold is not None:
            self._write_untold(write, *untold)
            write.recorded(None)
            return
        sent = sent_as_listed(row)
        listed = sent.request_partitions
        write.recorded(listed)
        write.derived(Variant(FULL), [sent], listed, None)
        write.derived(Variant(INCREMENTAL_DRAFT), [with_draft_uuid(sent)], listed, None)
        for variant in self._incremental:
            write.derived(variant, [sent], listed, None)

    def _step(self, stream: Stream, row: RecordedFetch) -> Replayed:
        names = self._names.get
        name_of: Callable[[str], str | None] = (
            names if row.api_version >= TOPIC_ID_VERSION else lambda name: name
        )
        replayed = Step(stream, row, self._caches, name_of, self._draft).replay()
        self._streams.answered(stream, row)
        for wish in replayed.wishes:
            heapq.heappush(self._wishes, wish)
        return replayed

    # --- caches

    def _decide_until(self, now_us: int) -> None:
        while self._wishes and self._wishes[0].built_us <= now_us:
            self._decide_next()

    def _decide_next(self) -> None:
        """The answer to a full FETCH is built: is there a session for it?"""
        wish = heapq.heappop(self._wishes)
        cache_id, happened = self._caches[wish.cache].maybe_create(
            wish.session_key, wish.privileged, wish.partitions, wish.built_us // 1000
        )
        if cache_id is not None:
            self._streams[wish.stream].give_session(wish.cache, cache_id, wish)
        variant = self._incremental[wish.cache]
        for occurrence in happened:
            self._write_event(variant, wish.built_us, wish.request_id, occurrence)

    def _forget_idle(self, now_us: int) -> None:
        """In steps of the log's time, whatever the batches: rows follow from the log alone."""
        if now_us // IDLE_STEP_US == self._front[0] // IDLE_STEP_US:
            return
        for stream in self._streams.idle(now_us):
            self._streams.forget(stream)
        for cache in self._caches:
            cache.forget_unused((now_us - SESSION_IDLE_US) // 1000)

    # --- rows

    def _write(self, write: OutcomeWriter, row: RecordedFetch, replayed: Replayed) -> None:
        listed = replayed.session_partitions
        full, draft = ([] if sent is None else [sent] for sent in (replayed.full, replayed.draft))
        sent_by: list[tuple[Variant, Sequence[Sent]]] = [
            (Variant(FULL), full),
            (Variant(INCREMENTAL_DRAFT), draft),
            *zip(self._incremental, replayed.incremental, strict=True),
        ]
        for variant, attempts in sent_by:
            if replayed.doubt is not None and variant.name != FULL:
                write.untold(variant, Verdict.UNKNOWN, replayed.doubt)
            elif not attempts:
                write.untold(variant, Verdict.NOT_APPLICABLE, NOTHING_TO_FETCH)
            else:
                equals = replayed.equals_recorded if variant == self._incremental[0] else None
                write.derived(variant, attempts, listed, replayed.added_partitions, equals)
        for cache, occurrence in replayed.happened:
            variant = self._incremental[cache]
            self._write_event(variant, row.dequeued_us, row.request_id, occurrence)

    def _write_untold(self, write: OutcomeWriter, verdict: Verdict, reason: str) -> None:
        for variant in (Variant(FULL), Variant(INCREMENTAL_DRAFT), *self._incremental):
            write.untold(variant, verdict, reason)

    def _write_event(
        self, variant: Variant, at: int, request_id: str, occurrence: Occurrence
    ) -> None:
        write_event(self._evictions, self._node_id, variant, at, request_id, occurrence)


def _why_untold(row: RecordedFetch) -> tuple[Verdict, str] | None:
    """Why a FETCH can't be told under another protocol, whatever is known of its client."""
    if not row.is_logged_whole:
        return Verdict.UNKNOWN, Unknown.NOT_IN_LOG
    if counted_version(row.api_version) not in FETCH_VERSIONS:
        return Verdict.UNKNOWN, Unknown.VERSION
    return (Verdict.NOT_APPLICABLE, REFUSED) if row.error_code else None


def _why_not_known(row: RecordedFetch, stream: Stream) -> tuple[Verdict, str] | None:
    """Why the changes that a FETCH tells are not enough."""
    if stream.unknown is None or row.is_full:
        return None
    return Verdict.UNKNOWN, stream.unknown


def replayed(replay: IncrementalFetch, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcomes]:
    """Feed all batches, then finish: the outcomes as they come."""
    for batch in batches:
        yield replay.feed(batch)
    yield replay.finish()
