"""The protocol as released (KIP-227): full FETCHes, and incremental ones in a session of a cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kip_replay.replay.wire_size.encoding import Ints

from .cache import FetchSessionCache, Occurrence, Reason
from .fetch import Fetch
from .partitions import TopicTotals
from .recorded import FETCH_SESSION_ID_NOT_FOUND, FETCH_SESSION_TOPIC_ID_ERROR
from .sent import Sent
from .session import INITIAL_EPOCH, NO_SESSION, FetchSession, is_returned
from .slots import NO_SLOTS
from .stream import Held, PendingSession


class Incremental(NamedTuple):
    """An incremental FETCH of one session: the positions that it lists, both ways, in order.

    ``forgotten`` are partitions by number; ``returned_slots`` the slots of ``returned``.
    """

    sent: Sent
    requested: Ints
    forgotten: Ints
    returned: Ints
    returned_slots: Ints


def full_fetch(fetch: Fetch) -> Sent | None:
    """Without sessions: everything, each time. None: who fetches nothing sends nothing."""
    followed, row = fetch.followed, fetch.row
    n = len(followed)
    if not n:
        return None
    topics, returned = followed.order.totals, n
    if row.is_throttled:
        topics_returned, returned = TopicTotals(), 0
    elif fetch.response.not_read is not None:
        topics_returned = _topics_not_read_last(fetch)
    else:
        topics_returned = topics
    return Sent(
        session_id=NO_SESSION,
        session_epoch=INITIAL_EPOCH,
        is_full=True,
        request_partitions=n,
        forgotten_partitions=0,
        response_partitions=returned,
        record_bytes=row.record_bytes,
        request_bytes=fetch.sizes.request(topics, n, followed.tagged()),
        response_bytes=fetch.sizes.response(
            topics_returned, returned, fetch.more_bytes(fetch.response.at)
        ),
    )


def _topics_not_read_last(fetch: Fetch) -> TopicTotals:
    followed, slots = fetch.followed, fetch.followed.order.keys()
    last = np.isin(slots, fetch.response.slots[fetch.response.not_read])
    in_order = np.concatenate([slots[~last], slots[last]])
    return followed.numbering.totals(followed.topics_of(in_order))


def incremental_fetch(fetch: Fetch, session: FetchSession) -> Incremental:
    """What goes over the wire in a session that is there."""
    epoch, followed, row = session.next_epoch, fetch.followed, fetch.row
    requested, forgotten = session.request(fetch.changes, followed)
    if session.uses_topic_ids != row.uses_topic_ids:
        # To the client each partition is the one it was, with another topic id.
        requested, forgotten = np.arange(fetch.listed.start, fetch.listed.stop), forgotten[:0]
    returned, slots = session.response(fetch.response, is_returned(fetch.returned, fetch.response))
    sent = Sent(
        session_id=session.recorded_id,
        session_epoch=epoch,
        is_full=False,
        request_partitions=len(requested),
        forgotten_partitions=len(forgotten),
        response_partitions=len(returned),
        record_bytes=row.record_bytes,
        request_bytes=fetch.sizes.request(
            fetch.topics(fetch.requested, requested),
            len(requested),
            fetch.requested.tagged(requested),
            fetch.sizes.forgotten(followed.numbering, forgotten),
        ),
        response_bytes=fetch.sizes.response(
            fetch.topics(fetch.returned, returned), len(returned), fetch.more_bytes(returned)
        ),
    )
    return Incremental(sent, requested, forgotten, returned, slots)


def equals_recorded(
    fetch: Fetch, session: FetchSession | None, incremental: Incremental | None
) -> bool | None:
    """Whether lists and bytes are those of the recorded session, both ways; None: it has none."""
    row = fetch.row
    if row.is_full or session is None or incremental is None:
        return None
    if session.recorded_id != row.session_id:
        return None
    sent = incremental.sent
    return (
        fetch.is_as_recorded(fetch.requested, incremental.requested)
        and fetch.is_as_recorded(fetch.returned, incremental.returned)
        and (sent.request_bytes, sent.response_bytes) == (row.request_bytes, row.response_bytes)
        and np.array_equal(incremental.forgotten, fetch.forgotten)
    )


class InCache:
    """A FETCH of a client that believes to have a session of one cache, or none.

    ``number``: the cache's. ``pending``: the session that it requests; ``events`` of the cache.
    """

    def __init__(self, fetch: Fetch, number: int, cache: FetchSessionCache) -> None:
        self._fetch = fetch
        self._number = number
        self._cache = cache
        self._held = fetch.stream.held[number]
        self.pending: PendingSession | None = None
        self.events: Sequence[Occurrence] = ()

    def attempts(self, full: Sent | None, incremental: Mapping[int, Incremental]) -> Sequence[Sent]:
        """What the client sends: nothing, a FETCH, or one that is refused and the full one."""
        held, row, stream = self._held, self._fetch.row, self._fetch.stream
        if held.session is None:
            return self._request_session(full)
        session, sent = stream.sessions[held.session], incremental[held.session].sent
        cached = self._cache.find(held.cache_id)
        # "New Error Codes": the client goes on with a full FETCH.
        if cached is None:
            held.drop()
            return [self._refused(sent, FETCH_SESSION_ID_NOT_FOUND), *self._request_session(full)]
        if session.uses_topic_ids != row.uses_topic_ids:
            self.events = close(self._cache, held, Reason.VERSION)
            again = [s._replace(session_id=sent.session_id) for s in self._request_session(full)]
            return [self._refused(sent, FETCH_SESSION_TOPIC_ID_ERROR), *again]
        if len(stream.followed):
            cached.touch(len(stream.followed), row.dequeued_us // 1000)
        else:
            self.events = close(self._cache, held, Reason.FORGOTTEN)
        return [sent]

    def _request_session(self, full: Sent | None) -> list[Sent]:
        if full is None:
            return []
        fetch, stream, row = self._fetch, self._fetch.stream, self._fetch.row
        if not row.is_throttled:
            response = fetch.response
            not_read = NO_SLOTS if response.not_read is None else response.at[response.not_read]
            self.pending = PendingSession(
                built_us=row.built_us,
                request_id=row.request_id,
                cache=self._number,
                stream=stream.number,
                session_key=stream.session_key,
                partitions=len(stream.followed),
                privileged=row.is_follower,
                uses_topic_ids=row.uses_topic_ids,
                recorded_id=(row.response_session_id or None) if row.is_full else None,
                not_read=tuple(fetch.returned.partitions[not_read].tolist()),
            )
        return [full._replace(session_id=row.session_id if row.is_full else NO_SESSION)]

    def _refused(self, sent: Sent, session_error: int) -> Sent:
        return sent._replace(
            response_partitions=0,
            record_bytes=0,
            response_bytes=self._fetch.sizes.error_response,
            session_error=session_error,
        )


def close(cache: FetchSessionCache, held: Held, reason: Reason) -> Sequence[Occurrence]:
    """A client gives its session up, or has emptied it."""
    events = cache.close(held.cache_id, reason)
    held.drop()
    return events
