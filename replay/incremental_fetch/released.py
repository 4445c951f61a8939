"""The protocol as released (KIP-227): full FETCHes, and incremental ones in sessions of a cache."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..kafka.messages.encoding import Ints
from ..kafka.messages.fetch_pieces import TopicTotals
from .cache import FetchSessionCache, Occurrence, Reason
from .lists import Listed, Lists
from .recorded import FETCH_SESSION_ID_NOT_FOUND, FETCH_SESSION_TOPIC_ID_ERROR, RecordedFetch
from .session import INITIAL_EPOCH, NO_SESSION, FetchSession, change, is_returned
from .sizes import Sent, sizes_of
from .slots import NO_SLOTS
from .streams import Held, PendingSession, Stream

#: Events with the number of the cache that each is in.
Events = list[tuple[int, Occurrence]]


class Fetch:
    """A FETCH of a stream whose partitions are known, or that lists them all.

    ``changes`` and ``response`` (``session``, ``followed``) are already part of what the stream
    follows, and it does not matter any more whether it was recorded as a full FETCH or not.
    ``requesting``: caches in which its client has no session. ``events``: what caches do at once.
    """

    def __init__(self, stream: Stream, row: RecordedFetch, lists: Lists) -> None:
        self.stream, self.row, self.followed = stream, row, stream.followed
        self.requesting: list[int] = []
        self.events: Events = []
        self.requested, self.returned = lists.requested, lists.returned
        self.listed = lists.requested.rows[row.number]
        self.forgotten: Ints = lists.forgotten.partitions[lists.forgotten.rows[row.number]]
        self.sizes = sizes_of(row)
        followed, order = self.followed, self.followed.order
        if not row.is_full:
            order.settle()
        forgotten = None if row.is_full else self.forgotten
        self.changes = changes = change(
            followed, self.requested, self.listed, forgotten, row.uses_topic_ids
        )
        if row.is_full:
            slots = changes.listed_slots
            if not changes.keeps_the_set:
                slots = followed.slots.of(self.requested.partitions[self.listed])
            order.list_anew(slots, self.requested.totals[row.number])
        elif not changes.keeps_the_set:
            order.change(
                np.concatenate([changes.removed, changes.replaced]),
                np.concatenate([changes.added_slots, changes.replacing_slots]),
            )
        self.response = followed.respond(self.returned, row.number)

    def topics(self, listed: Listed, at: Ints) -> TopicTotals:
        """What the topics of some positions take."""
        if self.is_as_recorded(listed, at):
            return listed.totals[self.row.number]
        return self.followed.numbering.totals(listed.topics[at])

    def more_bytes(self, at: Ints) -> int:
        """What returned partitions take beyond empty ones."""
        if len(at) == self.row.response_partitions:
            return self.returned.more_bytes_sum[self.row.number]
        return int(np.add.reduce(self.returned.more_bytes[at]))

    def is_as_recorded(self, listed: Listed, at: Ints) -> bool:
        """Positions are all of the recorded list, in its order."""
        n, row = len(at), listed.rows[self.row.number]
        return n == row.stop - row.start and (n < 2 or not np.count_nonzero(at[1:] < at[:-1]))


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
    topics = most = followed.order.totals
    returned = n
    if followed.order.unplaced > 1:
        topics, most = followed.least_and_most()
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
        bytes_open=fetch.sizes.topics(most) - fetch.sizes.topics(topics),
    )


def _topics_not_read_last(fetch: Fetch) -> TopicTotals:
    slots = fetch.followed.order.slots
    last = np.isin(slots, fetch.response.slots[fetch.response.not_read])
    return fetch.followed.totals_of(np.concatenate([slots[~last], slots[last]]))


def incremental_fetch(fetch: Fetch, session: FetchSession) -> Incremental:
    """What goes over the wire in a session that is there."""
    epoch, followed, row = session.next_epoch, fetch.followed, fetch.row
    requested, forgotten = session.request(fetch.changes, followed)
    if session.is_older:
        requested, forgotten = np.arange(fetch.listed.start, fetch.listed.stop), fetch.forgotten
        returned, slots = fetch.response.at, fetch.response.slots
    else:
        which = is_returned(fetch.returned, fetch.response)
        returned, slots = session.response(fetch.response, which)
    if session.uses_topic_ids != row.uses_topic_ids:
        # To the client each partition is the one it was, with another topic id.
        requested, forgotten = np.arange(fetch.listed.start, fetch.listed.stop), forgotten[:0]
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
    if row.is_full or session.is_older or session.recorded_id != row.session_id:
        return None
    sent = incremental.sent
    return (
        fetch.is_as_recorded(fetch.requested, incremental.requested)
        and fetch.is_as_recorded(fetch.returned, incremental.returned)
        and (sent.request_bytes, sent.response_bytes) == (row.request_bytes, row.response_bytes)
        and incremental.forgotten.tolist() == fetch.forgotten.tolist()
    )


def attempts(
    fetch: Fetch,
    caches: Sequence[FetchSessionCache],
    full: Sent | None,
    sessions: Mapping[int, Incremental],
) -> list[list[Sent]]:
    """What a client of each cache sends: nothing, a FETCH, or a refused one and a full one."""
    row, stream = fetch.row, fetch.stream
    size, now_ms = len(stream.followed), row.dequeued_us // 1000
    in_session = {number: [incremental.sent] for number, incremental in sessions.items()}
    in_full = [] if full is None else [full]
    if full is not None and row.is_full and row.session_id != full.session_id:
        in_full = [full._replace(session_id=row.session_id)]
    found = []
    for number, (held, cache) in enumerate(zip(stream.held, caches, strict=True)):
        if held.session is None:
            found.append(in_full)
            fetch.requesting.append(number)
            continue
        session, sent = stream.sessions[held.session], in_session[held.session]
        cached = cache.find(held.cache_id)
        # "New Error Codes": the client goes on with a full FETCH.
        if cached is None:
            held.drop()
            found.append([_refused(fetch, sent[0], FETCH_SESSION_ID_NOT_FOUND), *in_full])
            fetch.requesting.append(number)
        elif session.uses_topic_ids != row.uses_topic_ids:
            fetch.events += close(number, cache, held, Reason.VERSION)
            again = [retry._replace(session_id=sent[0].session_id) for retry in in_full]
            found.append([_refused(fetch, sent[0], FETCH_SESSION_TOPIC_ID_ERROR), *again])
            fetch.requesting.append(number)
        else:
            found.append(sent)
            if size:
                cached.touch(size, now_ms)
            else:
                fetch.events += close(number, cache, held, Reason.FORGOTTEN)
    return found


def pending_session(fetch: Fetch) -> PendingSession | None:
    """The session that a FETCH requests of some caches; None: of none."""
    response, row, stream = fetch.response, fetch.row, fetch.stream
    if not fetch.requesting or not len(stream.followed) or row.is_throttled:
        return None
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
