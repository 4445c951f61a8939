"""The protocol as released (KIP-227): full FETCHes, and incremental ones in sessions of a cache."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..kafka.messages.encoding import Ints
from ..kafka.messages.fetch_pieces import TopicTotals
from .cache import FetchSessionCache, Reason
from .fetch import Events, Fetch
from .recorded import FETCH_SESSION_ID_NOT_FOUND, FETCH_SESSION_TOPIC_ID_ERROR
from .session import INITIAL_EPOCH, NO_SESSION, FetchSession, is_returned
from .sizes import Sent
from .slots import NO_SLOTS
from .streams import Held, PendingSession


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
        response_partitions=returned,
        record_bytes=row.record_bytes,
        request_bytes=fetch.sizes.request(topics, n, followed.tag_bytes(), fetch.sizes.nothing),
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
        session_epoch=epoch if fetch.stream.counts_epochs else None,
        is_full=False,
        request_partitions=len(requested),
        forgotten_partitions=len(forgotten),
        response_partitions=len(returned),
        record_bytes=row.record_bytes,
        request_bytes=fetch.sizes.request(
            fetch.topics(fetch.requested, requested),
            len(requested),
            fetch.requested.tag_bytes(requested),
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
    if session is None or incremental is None:
        return None
    if row.is_full or session.recorded_id != row.session_id:
        return None
    sent = incremental.sent
    return (
        fetch.is_as_recorded(fetch.requested, incremental.requested)
        and fetch.is_as_recorded(fetch.returned, incremental.returned)
        and (sent.request_bytes, sent.response_bytes) == (row.request_bytes, row.response_bytes)
        and np.array_equal(incremental.forgotten, fetch.forgotten)
    )


def attempts(
    fetch: Fetch,
    number: int,
    cache: FetchSessionCache,
    full: Sent | None,
    sessions: Mapping[int, Incremental],
) -> list[Sent]:
    """What a client of a cache sends: nothing, a FETCH, or one that is refused and a full one."""
    held, row, stream = fetch.stream.held[number], fetch.row, fetch.stream
    if held.session is None:
        return _request_session(fetch, number, full)
    session, sent = stream.sessions[held.session], sessions[held.session].sent
    cached = cache.find(held.cache_id)
    # "New Error Codes": the client goes on with a full FETCH.
    if cached is None:
        held.drop()
        refused = _refused(fetch, sent, FETCH_SESSION_ID_NOT_FOUND)
        return [refused, *_request_session(fetch, number, full)]
    if session.uses_topic_ids != row.uses_topic_ids:
        fetch.events += close(number, cache, held, Reason.VERSION)
        refused = _refused(fetch, sent, FETCH_SESSION_TOPIC_ID_ERROR)
        again = _request_session(fetch, number, full)
        return [refused, *(retry._replace(session_id=sent.session_id) for retry in again)]
    if len(stream.followed):
        cached.touch(len(stream.followed), row.dequeued_us // 1000)
    else:
        fetch.events += close(number, cache, held, Reason.FORGOTTEN)
    return [sent]


def _request_session(fetch: Fetch, number: int, full: Sent | None) -> list[Sent]:
    if full is None:
        return []
    if not fetch.row.is_throttled:
        fetch.requesting.append(number)
    if fetch.row.is_full and fetch.row.session_id != full.session_id:
        full = full._replace(session_id=fetch.row.session_id)
    return [full]


def pending_session(fetch: Fetch) -> PendingSession | None:
    """The session that a FETCH requests of some caches; None: of none."""
    if not fetch.requesting:
        return None
    response, row, stream = fetch.response, fetch.row, fetch.stream
    not_read = NO_SLOTS if response.not_read is None else response.at[response.not_read]
    return PendingSession(
        built_us=row.built_us,
        request_id=row.request_id,
        stream=stream.number,
        caches=tuple(fetch.requesting),
        session_key=stream.session_key,
        partitions=len(stream.followed),
        privileged=row.is_follower,
        uses_topic_ids=row.uses_topic_ids,
        recorded_id=(row.response_session_id or None) if row.is_full else None,
        not_read=tuple(fetch.returned.partitions[not_read].tolist()),
    )


def _refused(fetch: Fetch, sent: Sent, session_error: int) -> Sent:
    return sent._replace(
        response_partitions=0,
        record_bytes=0,
        response_bytes=fetch.sizes.error_response,
        session_error=session_error,
    )


def close(number: int, cache: FetchSessionCache, held: Held, reason: Reason) -> Events:
    """A client gives its session of a cache up, or has emptied it."""
    happened = cache.close(held.cache_id, reason)
    held.drop()
    return [(number, occurrence) for occurrence in happened]
