"""One FETCH under every protocol: what each would list, both ways, and what that takes.

A recorded FETCH, full or incremental, first becomes what it changes (``followed``). From there on
it no longer matters how it was recorded: a full FETCH lists everything, an incremental one the
changes, in the order of its session. Which of the two it is depends on whether a cache gives one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kip_replay.replay.kafka.messages.encoding import Ints

from .cache import FetchSessionCache, Occurrence, Reason
from .followed import NO_NEWS, News
from .lists import Listed, Lists
from .partitions import Partitions
from .recorded import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INITIAL_EPOCH,
    NO_SESSION,
    RecordedFetch,
)
from .sent import Sent, sent_as_listed, with_draft_uuid
from .session import Asking, RequestLists
from .sizes import DraftSizes, FetchSizes, sizes_of
from .stream import Held, SessionWish, Stream, Unknown
from .topics import TopicTotals


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
    """An incremental FETCH of one session: what is sent, and which partitions, in order.

    ``told`` and ``told_slots`` are positions and slots of those answered. ``is_as_listed``: the
    lists are those of the recorded FETCH.
    """

    sent: Sent
    lists: RequestLists
    told: Ints
    told_slots: Ints
    is_as_listed: bool


def say_goodbye(
    stream: Stream, row: RecordedFetch, lists: Lists, caches: Sequence[FetchSessionCache]
) -> Replayed:
    """A client's last FETCH, (id, -1): its session is closed, and what it lists is answered."""
    sent = sent_as_listed(row, lists)
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
        lists: Lists,
        caches: Sequence[FetchSessionCache],
        numbering: Partitions,
        draft: DraftSizes,
    ) -> None:
        self._stream = stream
        self._row = row
        self._asked, self._told = lists.asked, lists.told
        self._forgotten = lists.forgotten
        self._asked_row = lists.asked.row(row.number)
        self._told_row = lists.told.row(row.number)
        self._caches = caches
        self._numbering = numbering
        self._draft_sizes = draft
        self._sizes: FetchSizes = sizes_of(row)
        self._news = NO_NEWS
        self._happened: list[tuple[int, Occurrence]] = []
        self._wishes: list[SessionWish] = []

    def replay(self) -> Replayed:
        """Replay it; the stream and the caches are then as after it."""
        stream, row, followed = self._stream, self._row, self._stream.followed
        doubt = Unknown.LOST if stream.would_have_gone_on(row) else None
        if row.is_full and stream.starts_anew(row):
            self._end_sessions()
        stream.make_room()
        asking = self._ask_for_all() if row.is_full else self._ask_for_changes()
        self._news = self._hear()

        full = self._full()
        incremental = {number: self._incremental(number, asking) for number in stream.sessions}
        draft = self._draft(full, asking, incremental)
        equals = self._equals_recorded(incremental)
        current = stream.held[0].session
        taken, slots = self._news.at, self._news.slots
        for number, session in stream.sessions.items():
            _, _, told, told_slots, _ = incremental[number]
            session.rotate(self._told, told, told_slots)
            if number == current:
                taken, slots = told, told_slots
        attempts = [
            self._attempts(index, held, full, incremental) for index, held in enumerate(stream.held)
        ]
        followed.order.take(slots, self._told.has_records[taken], row.is_follower)
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
            len(asking.changes.added) + len(asking.changes.replaced),
            doubt,
        )

    # --- what the FETCH and its answer change

    def _ask_for_all(self) -> Asking:
        """A full FETCH also shows the order of all partitions."""
        followed, asked, row = self._stream.followed, self._asked, self._asked_row
        slots = followed.slots_as_listed(asked.partitions[row])
        changes = followed.changes_of_full(asked, row, slots, self._row.uses_topic_ids)
        added = followed.ask(changes, asked)
        if not changes.keeps_the_set:
            slots = followed.slots_as_listed(asked.partitions[row])
        followed.order.list_anew(slots, asked.totals(self._row.number))
        return Asking(changes, *added)

    def _ask_for_changes(self) -> Asking:
        followed, asked = self._stream.followed, self._asked
        followed.order.settle()
        forgotten = self._forgotten.partitions[self._forgotten.row(self._row.number)]
        by_id = self._row.uses_topic_ids
        changes = followed.changes_of_incremental(asked, self._asked_row, forgotten, by_id)
        added, replaced = followed.ask(changes, asked)
        if not changes.keeps_the_set:
            old = np.array([old for _, old in changes.replaced], np.int64)
            followed.order.change(
                np.concatenate([changes.removed, old]), np.concatenate([added, replaced])
            )
        return Asking(changes, added, replaced)

    def _hear(self) -> News:
        followed, told, row = self._stream.followed, self._told, self._told_row
        if row.start == row.stop:
            return NO_NEWS
        partitions = told.partitions[row]
        slots = (
            followed.slots_as_listed(partitions)
            if self._row.is_full
            else followed.slots.of(partitions)
        )
        return followed.news(told, row, slots, told.errors[self._row.number] > 0)

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
        followed, row = self._stream.followed, self._row
        n = len(followed)
        if not n:
            return None
        answers = not row.is_throttled
        topics = followed.order.totals
        return Sent(
            session_id=NO_SESSION,
            session_epoch=INITIAL_EPOCH,
            is_full=True,
            request_partitions=n,
            forgotten_partitions=0,
            response_partitions=n if answers else 0,
            record_bytes=row.record_bytes,
            request_bytes=self._sizes.request(topics, n, followed.tagged()),
            response_bytes=(
                self._sizes.response(
                    topics if self._news.not_read is None else self._topics_not_read_last(),
                    n,
                    self._more_bytes(self._news.at),
                )
                if answers
                else self._sizes.response(TopicTotals(), 0, 0)
            ),
        )

    def _topics_not_read_last(self) -> TopicTotals:
        followed, slots = self._stream.followed, self._stream.followed.order.keys()
        last = np.isin(slots, self._news.slots[self._news.not_read])
        in_order = np.concatenate([slots[~last], slots[last]])
        return self._numbering.totals(followed.topics_of(in_order))

    def _more_bytes(self, told: Ints) -> int:
        """What answered partitions take beyond those that bring nothing."""
        row = self._told_row
        if len(told) == row.stop - row.start:
            return self._told.more_bytes_sum[self._row.number]
        return int(np.add.reduce(self._told.more_bytes[told]))

    # --- incremental FETCHes

    def _incremental(self, number: int, asking: Asking) -> _Incremental:
        """What goes over the wire in a session that is there."""
        session, partitions = self._stream.sessions[number], self._stream.followed.slots.partitions
        epoch = session.next_epoch
        lists = session.request(asking, self._numbering, partitions)
        if session.uses_topic_ids != self._row.uses_topic_ids:
            lists = self._as_recorded(asking)
        asked_as_listed = _is_whole(lists.partitions, self._asked_row)
        told, slots = session.in_order(self._news, self._news.for_session)
        told_as_listed = _is_whole(told, self._told_row)
        sent = Sent(
            session_id=session.recorded_id,
            session_epoch=epoch,
            is_full=False,
            request_partitions=len(lists.partitions),
            forgotten_partitions=len(lists.forgotten),
            response_partitions=len(told),
            record_bytes=self._row.record_bytes,
            request_bytes=self._sizes.request(
                self._topics(self._asked, lists.partitions, asked_as_listed),
                len(lists.partitions),
                self._asked.tagged_of(lists.partitions),
                self._sizes.forgotten(self._numbering, lists.forgotten)
                if lists.forgotten
                else None,
            ),
            response_bytes=self._sizes.response(
                self._topics(self._told, told, told_as_listed), len(told), self._more_bytes(told)
            ),
        )
        return _Incremental(sent, lists, told, slots, asked_as_listed and told_as_listed)

    def _as_recorded(self, asking: Asking) -> RequestLists:
        """To the client each partition is the one it was, with another topic id."""
        at = np.arange(self._asked_row.start, self._asked_row.stop)
        for_draft = asking.changes.updated[asking.changes.updated_for_draft]
        return RequestLists(at, [], np.isin(at, for_draft))

    def _topics(self, listed: Listed, at: Ints, is_as_listed: bool) -> TopicTotals:
        if is_as_listed:
            return listed.totals(self._row.number)
        return self._numbering.totals(listed.topics[at])

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
        if session.uses_topic_ids != self._row.uses_topic_ids:
            self._happened += _close(index, cache, held, Reason.VERSION)
            refused = self._refused(sent, FETCH_SESSION_TOPIC_ID_ERROR)
            again = self._ask_for_session(index, full)
            return [refused, *(retry._replace(session_id=sent.session_id) for retry in again)]
        partitions = len(self._stream.followed)
        if partitions:
            cache.touch(held.cache_id, partitions, self._row.dequeued_us // 1000)
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
                uses_topic_ids=row.uses_topic_ids,
                recorded_id=(row.response_session_id or None) if row.is_full else None,
                not_read=self._partitions_not_read(),
            )
            self._wishes.append(wish)
        return [full._replace(session_id=row.session_id if row.is_full else NO_SESSION)]

    def _partitions_not_read(self) -> tuple[int, ...]:
        news = self._news
        if news.not_read is None:
            return ()
        return tuple(self._told.partitions[news.at[news.not_read]].tolist())

    def _refused(self, sent: Sent, session_error: int) -> Sent:
        return sent._replace(
            response_partitions=0,
            record_bytes=0,
            response_bytes=self._sizes.error_response,
            session_error=session_error,
        )

    def _equals_recorded(self, incremental: Mapping[int, _Incremental]) -> bool | None:
        """Whether lists and bytes are those of the recorded session, both ways."""
        row, number = self._row, self._stream.held[0].session
        if row.is_full or number is None:
            return None
        if self._stream.sessions[number].recorded_id != row.session_id:
            return None
        sent, lists, _, _, is_as_listed = incremental[number]
        return (
            is_as_listed
            and (sent.request_bytes, sent.response_bytes) == (row.request_bytes, row.response_bytes)
            and lists.forgotten
            == self._forgotten.partitions[self._forgotten.row(row.number)].tolist()
        )

    # --- the draft

    def _draft(
        self, full: Sent | None, asking: Asking, incremental: Mapping[int, _Incremental]
    ) -> Sent | None:
        """Followers only; a full FETCH first, and whenever a partition comes or goes."""
        stream, row, number = self._stream, self._row, self._stream.held[0].session
        has_uuid, stream.draft_has_uuid = stream.draft_has_uuid, False
        if full is None:
            return None
        stream.draft_has_uuid = row.is_follower and not row.is_throttled
        if not has_uuid or number is None or not asking.changes.keeps_the_set:
            return with_draft_uuid(full)
        _, lists, told, _, _ = incremental[number]
        sizes, by_id, news = self._draft_sizes, row.uses_topic_ids, self._news
        asked = lists.partitions[lists.for_draft]
        if np.count_nonzero(news.for_draft != news.for_session):
            told, _ = stream.sessions[number].in_order(news, news.for_draft)
        more_bytes = int(np.add.reduce(self._told.more_bytes_of_draft[told]))
        return Sent(
            session_id=None,
            session_epoch=None,
            is_full=False,
            request_partitions=len(asked),
            forgotten_partitions=0,
            response_partitions=len(told),
            record_bytes=row.record_bytes,
            request_bytes=sizes.request(row.client_id, self._asked.partitions[asked], by_id),
            response_bytes=sizes.response(self._told.topics[told], more_bytes, by_id),
        )


def _is_whole(at: Ints, row: slice) -> bool:
    """Positions are all of a row's, in order."""
    n = len(at)
    return n == row.stop - row.start and (n < 2 or not np.count_nonzero(at[1:] < at[:-1]))
