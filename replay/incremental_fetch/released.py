"""The protocol as released (KIP-227): full FETCHes, and incremental ones in sessions of a cache."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from ..kafka.messages.encoding import Ints
from ..kafka.messages.sizes import TopicTotals
from ..model.cached_partitions import NOTHING, Entries
from ..model.fetch_session import (
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSessionCache,
    Occurrence,
    Reason,
    is_returned,
    update,
)
from ..outcomes import Verdict
from .lists import Listed, Lists
from .outcomes import Sent, nothing_sent
from .recorded import FETCH_SESSION_ID_NOT_FOUND, FETCH_SESSION_TOPIC_ID_ERROR, RecordedFetch
from .sizes import counted_version, sizes_of
from .streams import Held, PendingSession, Session, Stream, Unknown

#: Why nothing is sent, and why bytes lie between bounds.
NOTHING_TO_FETCH = "without a session, who fetches nothing sends nothing"
ORDER_NOT_KNOWN = "the order of partitions is older than the log"

#: Events with the number of the cache that each is in.
Events = list[tuple[int, Occurrence]]


class Fetch:
    """A FETCH of a stream whose partitions are known, or that lists them all.

    ``changes`` and ``response`` are already part of what the stream follows, and it does not matter
    any more whether it was recorded as a full FETCH or not. ``requesting``: caches in which its
    client has no session. ``events``: what caches do at once.
    """

    def __init__(self, stream: Stream, row: RecordedFetch, lists: Lists) -> None:
        self.stream, self.row, self.followed = stream, row, stream.followed
        self.requesting: list[int] = []
        self.events: Events = []
        self.requested, self.returned = lists.requested, lists.returned
        self.listed = lists.requested.rows[row.number]
        self.forgotten: Ints = lists.forgotten.partitions[lists.forgotten.rows[row.number]]
        self.sizes, self.version = sizes_of(row), counted_version(row.api_version)
        followed = self.followed
        followed.has_tags |= self.requested.has_tags
        forgotten = None if row.is_full else self.forgotten
        self.changes = changes = update(
            followed, self.requested, self.listed, forgotten, row.uses_topic_ids
        )
        if row.is_full:
            slots = changes.kept
            if not changes.keeps_the_set:
                slots = followed.slots_of(self.requested.partitions[self.listed])
            followed.list_anew(slots, self.requested.totals[row.number])
        else:
            followed.change(changes)
        errors = self.returned.errors[row.number]
        self.response = followed.respond(self.returned, self.returned.rows[row.number], errors > 0)
        #: Of those in the response: an incremental one lists it.
        self.is_returned = is_returned(self.response)
        #: Partitions, by number, that the broker did not look at.
        self.not_read = NOTHING
        if self.response.not_read is not None:
            at = self.response.entries.at[self.response.not_read]
            self.not_read = self.returned.partitions[at]
        #: Partitions that the client's FETCH before did not list; None behind missing lines.
        self.added: int | None = len(changes.added.at) + len(changes.replaced)
        if stream.unknown is Unknown.GAP:
            self.added = None

    def topics(self, listed: Listed, at: Ints) -> TopicTotals:
        """Counts what the topics of some positions take."""
        if self.is_as_recorded(listed, at):
            return listed.totals[self.row.number]
        return self.followed.numbering.totals(listed.topics[at])

    def more_bytes(self, at: Ints) -> int:
        """Counts what returned partitions take beyond empty ones."""
        if len(at) == self.row.response_partitions:
            return self.returned.more_bytes_sum[self.row.number]
        return int(np.add.reduce(self.returned.more_bytes[at]))

    def is_as_recorded(self, listed: Listed, at: Ints) -> bool:
        """Tells whether positions are all of the recorded list, in its order."""
        row = listed.rows[self.row.number]
        is_whole = len(at) == row.stop - row.start
        return is_whole and (len(at) < 2 or at.tobytes() == listed.positions[row].tobytes())


class Incremental(msgspec.Struct, gc=False):
    """An incremental FETCH of one session: what it lists, both ways, in order.

    ``requested`` are positions, ``forgotten`` partitions by number.
    """

    session: Session
    sent: Sent
    requested: Ints
    forgotten: Ints
    returned: Entries


def full_fetch(fetch: Fetch) -> Sent:
    """Sends everything, each time, as without sessions."""
    followed, row = fetch.followed, fetch.row
    n = returned = followed.size
    if not n:
        return nothing_sent(fetch.version, Verdict.NOT_APPLICABLE, NOTHING_TO_FETCH)
    topics, most = followed.totals
    if row.is_throttled:
        topics_returned, returned = TopicTotals(), 0
    elif len(fetch.not_read):
        slots = followed.order_returned(fetch.not_read)
        topics_returned = followed.numbering.totals(followed.topics_of(slots))
    else:
        topics_returned = topics
    bytes_open = fetch.sizes.topics(most) - fetch.sizes.topics(topics)
    return Sent(
        verdict=Verdict.BOUNDED if bytes_open else Verdict.REPLAYED,
        reason=ORDER_NOT_KNOWN if bytes_open else None,
        api_version=fetch.version,
        session_id=NO_SESSION,
        session_epoch=INITIAL_EPOCH,
        is_full=True,
        session_partitions=n,
        request_partitions=n,
        response_partitions=returned,
        added_partitions=fetch.added,
        record_bytes=row.record_bytes,
        request_bytes=fetch.sizes.request(topics, n, followed.tag_bytes(), fetch.sizes.nothing),
        response_bytes=fetch.sizes.response(
            topics_returned, returned, fetch.more_bytes(fetch.response.entries.at)
        ),
        bytes_open=bytes_open,
    )


def incremental_fetch(fetch: Fetch, session: Session) -> Incremental:
    """Sends what goes over the wire in a session that is there."""
    epoch, followed, row = session.epoch, fetch.followed, fetch.row
    entries, forgotten = session.request(fetch.changes, followed)
    requested = entries.at
    if session.is_older:
        requested, forgotten = fetch.requested.positions[fetch.listed], fetch.forgotten
        returned = fetch.response.entries
    else:
        returned = session.response(fetch.response, fetch.is_returned)
    if session.uses_topic_ids != row.uses_topic_ids:
        # To the client each partition is the one it was, with another topic id.
        requested, forgotten = fetch.requested.positions[fetch.listed], forgotten[:0]
    sent = Sent(
        api_version=fetch.version,
        session_id=session.recorded_id,
        session_epoch=epoch if fetch.stream.counts_epochs else None,
        is_full=False,
        session_partitions=followed.size,
        request_partitions=len(requested),
        response_partitions=len(returned.at),
        forgotten_partitions=len(forgotten),
        added_partitions=fetch.added,
        record_bytes=row.record_bytes,
        request_bytes=fetch.sizes.request(
            fetch.topics(fetch.requested, requested),
            len(requested),
            fetch.requested.tag_bytes(requested),
            fetch.sizes.forgotten(followed.numbering, forgotten),
        ),
        response_bytes=fetch.sizes.response(
            fetch.topics(fetch.returned, returned.at),
            len(returned.at),
            fetch.more_bytes(returned.at),
        ),
    )
    return Incremental(session, sent, requested, forgotten, returned)


def equals_recorded(fetch: Fetch, incremental: Incremental | None) -> bool | None:
    """Compares lists and bytes with those of the recorded session, both ways; None: it has none."""
    row = fetch.row
    if row.is_full or incremental is None or incremental.session.is_older:
        return None
    sent = incremental.sent
    if incremental.session.recorded_id != row.session_id:
        return None
    return (
        (sent.request_bytes, sent.response_bytes) == (row.request_bytes, row.response_bytes)
        and fetch.is_as_recorded(fetch.requested, incremental.requested)
        and fetch.is_as_recorded(fetch.returned, incremental.returned.at)
        and incremental.forgotten.tolist() == fetch.forgotten.tolist()
    )


def attempts(
    fetch: Fetch,
    caches: Sequence[FetchSessionCache],
    full: Sent,
    sessions: Mapping[int, Incremental],
) -> list[list[Sent]]:
    """Sends what a client of each cache does: a FETCH, or a refused one and a full one."""
    row, stream = fetch.row, fetch.stream
    size, now_ms = stream.followed.size, row.dequeued_us // 1000
    in_session = {number: [incremental.sent] for number, incremental in sessions.items()}
    if size and row.is_full and row.session_id != full.session_id:
        full = replace(full, session_id=row.session_id)
    in_full = [full]
    by_cache = []
    for number, (held, cache) in enumerate(zip(stream.held, caches, strict=True)):
        if held.session is None:
            by_cache.append(in_full)
            fetch.requesting.append(number)
            continue
        session, sent = stream.sessions[held.session], in_session[held.session]
        cached = cache.find(held.cache_id)
        if cached is not None and session.uses_topic_ids == row.uses_topic_ids:
            by_cache.append(sent)
            if size:
                cached.touch(size, now_ms)
            else:
                fetch.events += close(number, cache, held, Reason.FORGOTTEN)
            continue
        # "New Error Codes": the client goes on with a full FETCH, under error 70 as one without a
        # session.
        error, retries = FETCH_SESSION_ID_NOT_FOUND, in_full
        if cached is not None:
            error = FETCH_SESSION_TOPIC_ID_ERROR
            retries = [replace(full, session_id=sent[0].session_id)]
        fetch.events += close(number, cache, held, Reason.VERSION)
        fetch.requesting.append(number)
        refused = replace(
            sent[0],
            response_partitions=0,
            record_bytes=0,
            response_bytes=fetch.sizes.error_response,
            session_error=error,
        )
        by_cache.append([refused, *(retries if size else ())])
    return by_cache


def pending_session(fetch: Fetch) -> PendingSession | None:
    """Makes the session that a FETCH requests of some caches; None: of none."""
    row, stream = fetch.row, fetch.stream
    if not fetch.requesting or not stream.followed.size or row.is_throttled:
        return None
    return PendingSession(
        built_us=row.built_us,
        request_id=row.request_id,
        stream=stream.number,
        caches=tuple(fetch.requesting),
        uses_topic_ids=row.uses_topic_ids,
        recorded_id=(row.response_session_id or None) if row.is_full else None,
        not_read=tuple(fetch.not_read.tolist()),
    )


def close(number: int, cache: FetchSessionCache, held: Held, reason: Reason) -> Events:
    """Gives up the session of a cache."""
    happened = cache.close(held.cache_id, reason)
    held.drop()
    return [(number, occurrence) for occurrence in happened]
