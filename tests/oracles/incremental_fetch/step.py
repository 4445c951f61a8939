"""One FETCH under every protocol: what each would list, both ways, and what that takes.

A recorded FETCH, full or incremental, first becomes what it changes (``followed``). From there on
it no longer matters how it was recorded: a full FETCH lists everything, an incremental one the
changes, in the order of its session. Which of the two it is depends on whether a cache gives one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from kip_replay.replay.incremental_fetch.cache import FetchSessionCache, Occurrence, Reason
from kip_replay.replay.kafka.messages.incremental_fetch_draft import (
    DRAFT_UUID_BYTES,
    IncrementalFetchPieces,
)

from .followed import News, is_altered_for_draft
from .recorded import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    TOPIC_ID_VERSION,
    PartitionKey,
    RecordedFetch,
    ToldPartition,
)
from .session import Changes, RequestLists
from .sizes import FetchSizes, draft_request_bytes, draft_response_bytes
from .stream import Held, SessionWish, Stream, Unknown


class Sent(NamedTuple):
    """A FETCH as a variant sends it, and its answer. Bytes are None where they can't be counted."""

    session_id: int | None
    session_epoch: int | None
    is_full: bool
    request_partitions: int
    forgotten_partitions: int
    response_partitions: int
    record_bytes: int
    request_bytes: int | None
    response_bytes: int | None
    session_error: int = 0


class Replayed(NamedTuple):
    """A FETCH under every protocol. ``full`` and ``draft`` are None where nothing is sent.

    ``incremental`` has the attempts for each cache: none where nothing is sent, two where the first
    is answered with a session error. ``happened``: events, each with the cache it is in.
    ``added_partitions``: those that the client's FETCH before did not ask for. ``doubt``: why all
    but ``full`` can't be told.
    """

    full: Sent | None
    draft: Sent | None
    incremental: Sequence[Sequence[Sent]]
    wishes: Sequence[SessionWish]
    happened: Sequence[tuple[int, Occurrence]]
    equals_recorded: bool | None
    session_partitions: int
    added_partitions: int
    doubt: Unknown | None = None


class _Incremental(NamedTuple):
    """An incremental FETCH of one session."""

    sent: Sent
    lists: RequestLists
    told: list[ToldPartition]


def sent_as_listed(row: RecordedFetch) -> Sent:
    """A FETCH without a session: every protocol sends what is recorded."""
    sizes = FetchSizes(row)
    asked, told = row.request_partitions or [], row.response_partitions or []
    return Sent(
        session_id=NO_SESSION,
        session_epoch=FINAL_EPOCH,
        is_full=True,
        request_partitions=len(asked),
        forgotten_partitions=0,
        response_partitions=len(told),
        record_bytes=row.record_bytes,
        request_bytes=sizes.request(RequestLists(asked, [])),
        response_bytes=sizes.response(told),
    )


def with_draft_uuid(full: Sent) -> Sent:
    """A full FETCH under the draft: its response has a uuid, if only to start a session with."""
    size = None if full.response_bytes is None else full.response_bytes + DRAFT_UUID_BYTES
    return full._replace(session_id=None, session_epoch=None, response_bytes=size)


def say_goodbye(
    stream: Stream, row: RecordedFetch, caches: Sequence[FetchSessionCache]
) -> Replayed:
    """A client's last FETCH, (id, -1): its session is closed, and what it lists is answered."""
    sent = sent_as_listed(row)
    attempts: list[list[Sent]] = []
    happened: list[tuple[int, Occurrence]] = []
    for index, held in enumerate(stream.held):
        session = None if held.session is None else stream.sessions[held.session]
        attempts.append(
            [sent if session is None else sent._replace(session_id=session.recorded_id)]
        )
        happened += _close(index, caches[index], held, Reason.CLIENT)
    stream.sessions.clear()
    listed = sent.request_partitions
    return Replayed(sent, with_draft_uuid(sent), attempts, [], happened, None, listed, 0)


def _close(
    index: int, cache: FetchSessionCache, held: Held, reason: Reason
) -> list[tuple[int, Occurrence]]:
    """A client gives a session up, or has emptied it."""
    happened = [] if held.cache_id is None else cache.close(held.cache_id, reason)
    held.drop()
    return [(index, occurrence) for occurrence in happened]


class Step:
    """The replay of one FETCH of a stream whose partitions are known, or that lists them all.

    The first of ``caches`` gives every session that is asked for: it tells the orders that the
    draft takes over, and what is held against the recorded FETCH.
    """

    def __init__(
        self,
        stream: Stream,
        row: RecordedFetch,
        caches: Sequence[FetchSessionCache],
        name_of: Callable[[str], str | None],
        draft: IncrementalFetchPieces,
    ) -> None:
        self._stream = stream
        self._row = row
        self._caches = caches
        self._name_of = name_of
        self._draft_pieces = draft
        self._sizes = FetchSizes(row)
        self._uses_topic_ids = row.api_version >= TOPIC_ID_VERSION
        self._news: list[News] = []
        self._not_read: frozenset[PartitionKey] = frozenset()
        self._happened: list[tuple[int, Occurrence]] = []
        self._wishes: list[SessionWish] = []

    def replay(self) -> Replayed:
        """Replay it; the stream and the caches are then as after it."""
        stream, row, followed = self._stream, self._row, self._stream.followed
        doubt = Unknown.LOST if stream.would_have_gone_on(row) else None
        if row.is_full and stream.starts_anew(row):
            self._end_sessions()
        followed.order.settle()
        changes = self._changes()
        for_draft = {
            asked.key
            for asked in changes.updated
            if asked.key in followed.partitions
            and is_altered_for_draft(followed.partitions[asked.key].asked, asked)
        }
        followed.ask(changes)
        if row.is_full:
            followed.list_anew(self._sizes.version, row.request_partitions or ())
        told = [t for t in row.response_partitions or () if t.key in followed.partitions]
        self._news = followed.news(told)
        self._not_read = frozenset(n.told.key for n in self._news if not n.is_read)

        full = self._full()
        incremental = {number: self._incremental(number, changes) for number in stream.sessions}
        draft = self._draft(full, changes, for_draft, incremental)
        equals = self._equals_recorded(incremental)
        current = stream.held[0].session
        taken = told if current is None else incremental[current].told
        for number, session in stream.sessions.items():
            session.rotate(incremental[number].told)
        attempts = [
            self._attempts(index, held, full, incremental) for index, held in enumerate(stream.held)
        ]
        followed.taken(taken, row.is_follower)
        stream.unknown, stream.is_broken = None, False
        stream.drop_unheld_sessions()
        return Replayed(
            full,
            draft,
            attempts,
            self._wishes,
            self._happened,
            equals,
            len(followed),
            len(changes.added) + len(changes.replaced),
            doubt,
        )

    def _changes(self) -> Changes:
        followed, listed = self._stream.followed, self._row.request_partitions or []
        if self._row.is_full:
            return followed.changes_of_full(listed, self._name_of)
        forgotten = self._row.forgotten_partitions or ()
        return followed.changes_of_incremental(listed, forgotten, self._name_of)

    def _end_sessions(self) -> None:
        """The client gives up its session; it says so unless it has forgotten it."""
        says_so = self._row.session_id != NO_SESSION or self._stream.is_broken
        for index, held in enumerate(self._stream.held):
            if says_so:
                cache = self._caches[index]
                self._happened += _close(index, cache, held, Reason.NEW_SESSION)
            held.drop()
        self._stream.sessions.clear()
        self._stream.draft_has_uuid = False

    # --- full FETCHes

    def _full(self) -> Sent | None:
        """Without sessions: everything, each time. Who fetches nothing sends nothing."""
        followed, row, sizes = self._stream.followed, self._row, self._sizes
        if not len(followed):
            return None
        answers = not row.is_throttled
        return Sent(
            session_id=NO_SESSION,
            session_epoch=INITIAL_EPOCH,
            is_full=True,
            request_partitions=len(followed),
            forgotten_partitions=0,
            response_partitions=len(followed) if answers else 0,
            record_bytes=row.record_bytes,
            request_bytes=followed.request_bytes(sizes),
            response_bytes=(
                followed.response_bytes(sizes, self._news) if answers else sizes.response([])
            ),
        )

    # --- incremental FETCHes

    def _incremental(self, number: int, changes: Changes) -> _Incremental:
        """What goes over the wire in a session that is there."""
        session = self._stream.sessions[number]
        epoch = session.next_epoch
        lists = session.request(changes)
        if session.uses_topic_ids != self._uses_topic_ids:
            # To the client each partition is the one it was, with another topic id.
            lists = RequestLists(list(self._row.request_partitions or ()), [])
        told = session.in_order((n.told for n in self._news if n.for_session), self._not_read)
        sent = Sent(
            session_id=session.recorded_id,
            session_epoch=epoch,
            is_full=False,
            request_partitions=len(lists.partitions),
            forgotten_partitions=len(lists.forgotten),
            response_partitions=len(told),
            record_bytes=self._row.record_bytes,
            request_bytes=self._sizes.request(lists),
            response_bytes=self._sizes.response(told),
        )
        return _Incremental(sent, lists, told)

    def _attempts(
        self,
        index: int,
        held: Held,
        full: Sent | None,
        incremental: Mapping[int, _Incremental],
    ) -> list[Sent]:
        """What a client sends that has of a cache what ``held`` says."""
        if held.session is None:
            return self._ask_for_session(index, full)
        cache, session = self._caches[index], self._stream.sessions[held.session]
        sent = incremental[held.session].sent
        if held.cache_id is None or held.cache_id not in cache:
            held.drop()
            refused = self._refused(sent, FETCH_SESSION_ID_NOT_FOUND)
            return [refused, *self._ask_for_session(index, full)]
        if session.uses_topic_ids != self._uses_topic_ids:
            self._happened += _close(index, cache, held, Reason.VERSION)
            refused = self._refused(sent, FETCH_SESSION_TOPIC_ID_ERROR)
            again = self._ask_for_session(index, full)
            return [refused, *(retry._replace(session_id=sent.session_id) for retry in again)]
        if len(session):
            cache.touch(held.cache_id, len(session), self._row.dequeued_us // 1000)
        else:
            self._happened += _close(index, cache, held, Reason.FORGOTTEN)
        return [sent]

    def _ask_for_session(self, index: int, full: Sent | None) -> list[Sent]:
        if full is None:
            return []
        row = self._row
        if not row.is_throttled:
            wish = SessionWish(
                built_us=row.built_us,
                request_id=row.request_id,
                cache=index,
                stream=self._stream.number,
                session_key=self._stream.session_key,
                partitions=len(self._stream.followed),
                privileged=row.is_follower,
                uses_topic_ids=self._uses_topic_ids,
                recorded_id=(row.response_session_id or None) if row.is_full else None,
                not_read=self._not_read,
            )
            self._wishes.append(wish)
        return [full._replace(session_id=row.session_id if row.is_full else NO_SESSION)]

    def _refused(self, sent: Sent, session_error: int) -> Sent:
        return sent._replace(
            response_partitions=0,
            record_bytes=0,
            response_bytes=self._sizes.error_response(),
            session_error=session_error,
        )

    def _equals_recorded(self, incremental: Mapping[int, _Incremental]) -> bool | None:
        """Whether lists and bytes are those of the recorded session, both ways."""
        row, number = self._row, self._stream.held[0].session
        if row.is_full or number is None:
            return None
        if self._stream.sessions[number].recorded_id != row.session_id:
            return None
        sent, lists, told = incremental[number]
        forgotten = [partition.key for partition in row.forgotten_partitions or ()]
        return (
            [asked.key for asked in lists.partitions]
            == [asked.key for asked in row.request_partitions or ()]
            and lists.forgotten == forgotten
            and [t.key for t in told] == [t.key for t in row.response_partitions or ()]
            and (sent.request_bytes, sent.response_bytes) == (row.request_bytes, row.response_bytes)
        )

    # --- the draft

    def _draft(
        self,
        full: Sent | None,
        changes: Changes,
        altered: Collection[PartitionKey],
        incremental: Mapping[int, _Incremental],
    ) -> Sent | None:
        """Followers only; a full FETCH first, and whenever a partition comes or goes."""
        stream, row, number = self._stream, self._row, self._stream.held[0].session
        has_uuid, stream.draft_has_uuid = stream.draft_has_uuid, False
        if full is None:
            return None
        stream.draft_has_uuid = row.is_follower and not row.is_throttled
        if not has_uuid or number is None or not changes.keeps_the_set:
            return with_draft_uuid(full)
        asked = [a for a in incremental[number].lists.partitions if a.key in altered]
        told = stream.sessions[number].in_order(
            (n.told for n in self._news if n.for_draft), self._not_read
        )
        return Sent(
            session_id=None,
            session_epoch=None,
            is_full=False,
            request_partitions=len(asked),
            forgotten_partitions=0,
            response_partitions=len(told),
            record_bytes=row.record_bytes,
            request_bytes=draft_request_bytes(self._draft_pieces, row, asked, self._name_of),
            response_bytes=draft_response_bytes(self._draft_pieces, told, self._name_of),
        )
