"""The whole replay of incremental_fetch: one broker's FETCHes in, outcomes out."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from kip_replay.replay.incremental_fetch.cache import FetchSessionCache, Occurrence
from kip_replay.replay.incremental_fetch.lists import Lists
from kip_replay.replay.incremental_fetch.partitions import Partitions
from kip_replay.replay.incremental_fetch.recorded import (
    FINAL_EPOCH,
    INPUT_SCHEMA,
    Batch,
    RecordedFetch,
)
from kip_replay.replay.incremental_fetch.rows import (
    OUTCOME_SCHEMA,
    RECORDED_VARIANT,
    RULE,
    ClientKind,
    OutcomeRows,
    OutcomeWriter,
    write_event,
)
from kip_replay.replay.incremental_fetch.sent import Sent, sent_as_listed, with_draft_uuid
from kip_replay.replay.incremental_fetch.sizes import DraftSizes, counted_version
from kip_replay.replay.incremental_fetch.state import Decoded, encoded
from kip_replay.replay.incremental_fetch.step import (
    Replayed,
    Step,
    say_goodbye,
)
from kip_replay.replay.incremental_fetch.stream import SessionWish, Stream, Unknown
from kip_replay.replay.incremental_fetch.streams import SESSION_IDLE_US, Streams
from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_EVICTIONS
from kip_replay.replay.outcomes import Rows, Variant, Verdict
from kip_replay.replay.wire_size.fetch import FETCH_VERSIONS

__all__ = [
    "INPUT_SCHEMA",
    "OUTCOME_SCHEMA",
    "RULE",
    "IncrementalFetch",
    "Outcomes",
    "replayed",
    "variants",
]

FULL = "full"
INCREMENTAL = "incremental"
INCREMENTAL_DRAFT = "incremental_draft"
SESSION_SLOTS = "session_slots"

#: How often streams that have ended without a word are looked for, in log time.
IDLE_STEP_US = 60_000_000

#: So many partitions are remembered whether anybody follows them or not.
NUMBERS_MIN = 100_000

REFUSED = "answered with an error for the whole FETCH; the full one that follows stands for it"
NOTHING_TO_FETCH = "without a session, who fetches nothing sends nothing"

_FULL, _DRAFT = Variant(FULL), Variant(INCREMENTAL_DRAFT)
_NO_FETCHES = pa.RecordBatch.from_pylist([], schema=INPUT_SCHEMA)

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

    ``saved`` is what a replay of the same settings gave after the piece of log before; a state of
    another version or of other settings raises ``ValueError``.
    """

    def __init__(
        self,
        node_id: int,
        session_slots: Iterable[int] = (),
        *,
        draft_partition_id_is_string: bool = False,
        saved: bytes | None = None,
    ) -> None:
        slots = sorted(set(session_slots))
        self._node_id = node_id
        self._slots: tuple[int | None, ...] = (None, *slots)
        self._draft_partition_id_is_string = draft_partition_id_is_string
        self._incremental = variants(slots)
        derived = (_FULL, _DRAFT, *self._incremental)
        self._outcomes = OutcomeRows(node_id, (RECORDED_VARIANT, *derived))
        self._evictions = Rows(EVICTION_SCHEMA)
        self._start(saved)

    def _start(self, saved: bytes | None) -> None:
        """From nothing, or from a state."""
        self._caches = [FetchSessionCache(slots) for slots in self._slots]
        self._numbering = Partitions()
        self._streams = Streams(self._node_id, len(self._caches), self._numbering)
        self._draft = DraftSizes(self._draft_partition_id_is_string, self._numbering)
        self._wishes: list[SessionWish] = []
        self._front: tuple[int, str] = (0, "")
        if saved is not None:
            state = Decoded(saved, self._numbering, self._streams, self._caches)
            self._front, self._wishes = state.front, state.wishes

    def saved(self) -> bytes:
        """All that it carries after what it was fed (``state``)."""
        return encoded(self._front, self._numbering, self._streams, self._caches, self._wishes)

    def feed(self, batch: pa.RecordBatch) -> Outcomes:
        """Take a piece of log and return the outcomes that nothing still to come can change."""
        fed = Batch(batch, self._numbering)
        for row in fed.fetches:
            if row.number in fed.topic_names:
                names = fed.topic_names[row.number]
                self._numbering.name({named["topic_id"]: named["topic"] for named in names})
                continue
            if (row.dequeued_us, row.request_id) < self._front:
                raise ValueError("FETCHes must come in order of dequeued_us, request_id")
            self._decide_until(row.dequeued_us)
            self._forget_idle(row.dequeued_us)
            self._front = (row.dequeued_us, row.request_id)
            self._take(row, fed.lists)
        self._forget_numbers()
        return Outcomes(self._outcomes.take(batch), self._evictions.take())

    def finish(self) -> Outcomes:
        """The log is over: return what is left."""
        while self._wishes:
            self._decide_next()
        return Outcomes(self._outcomes.take(_NO_FETCHES), self._evictions.take())

    # --- one FETCH

    def _take(self, row: RecordedFetch, lists: Lists) -> None:
        stream = self._streams.of(row)
        if stream is None:
            self._take_without_sessions(row, lists)
            return
        # Stamps are cut to milliseconds: a client's next FETCH may seem to come before its answer.
        while any(wish.stream == stream.number for wish in self._wishes):
            self._decide_next()
        kind = ClientKind.FOLLOWER if stream.replica_id >= 0 else ClientKind.CONSUMER
        write = self._outcomes.of(row, stream.session_key, kind)
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
            replayed = say_goodbye(stream, row, lists, self._caches)
            self._streams.forget(stream)
        else:
            replayed = self._step(stream, row, lists)
        write.recorded(replayed.session_partitions, replayed.added_partitions)
        self._write(write, row, replayed)

    def _take_without_sessions(self, row: RecordedFetch, lists: Lists) -> None:
        """A client that never asks for a session: every protocol leaves it as it is."""
        kind = ClientKind.CONSUMER_WITHOUT_SESSIONS
        key = self._streams.key_without_session(row)
        write = self._outcomes.of(row, key, kind)
        untold = _why_untold(row)
        if untold is not None:
            self._write_untold(write, *untold)
            write.recorded(None)
            return
        sent = sent_as_listed(row, lists)
        listed = sent.request_partitions
        write.recorded(listed)
        write.derived(_FULL, [sent], listed, None)
        write.derived(_DRAFT, [with_draft_uuid(sent)], listed, None)
        for variant in self._incremental:
            write.derived(variant, [sent], listed, None)

    def _step(self, stream: Stream, row: RecordedFetch, lists: Lists) -> Replayed:
        step = Step(stream, row, lists, self._caches, self._numbering, self._draft)
        replayed = step.replay()
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

    def _forget_numbers(self) -> None:
        """Whoever starts from its own state has forgotten the partitions that nobody follows."""
        if len(self._numbering) > NUMBERS_MIN:
            followed = sum(len(stream.followed) for stream in self._streams)
            if len(self._numbering) > 4 * followed + NUMBERS_MIN:
                self._start(self.saved())

    # --- rows

    def _write(self, write: OutcomeWriter, row: RecordedFetch, replayed: Replayed) -> None:
        listed = replayed.session_partitions
        full, draft = ([] if sent is None else [sent] for sent in (replayed.full, replayed.draft))
        sent_by: list[tuple[Variant, Sequence[Sent]]] = [
            (_FULL, full),
            (_DRAFT, draft),
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
        for variant in (_FULL, _DRAFT, *self._incremental):
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
