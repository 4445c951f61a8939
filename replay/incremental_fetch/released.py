"""The protocol as released (KIP-227): full FETCHes, and incremental ones in sessions of a cache."""

from collections.abc import Iterable, Sequence, Set
from typing import Self

import msgspec
import numpy as np
from msgspec.structs import replace

from ..kafka.messages.columns import Bools, Ints
from ..kafka.messages.sizes import TopicTotals
from ..model.cached_partitions import NOTHING, Entries, ResponseChanges
from ..model.fetch_session import (
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSessionCache,
    Reason,
    RequestChanges,
    is_returned,
    update,
)
from ..records import Verdict
from .lists import FollowedPartitions, Listed, Lists, Requested, Returned
from .outcomes import FetchSizes, Sent, counted_version, nothing_sent, sizes_of
from .recorded import FETCH_SESSION_ID_NOT_FOUND, RecordedFetch
from .streams import Events, PendingSession, Session, Stream, Unknown

#: Why nothing is sent, and why bytes lie between bounds.
NOTHING_TO_FETCH = "without a session, who fetches nothing sends nothing"
ORDER_NOT_KNOWN = "the order of partitions is older than the log"


class ReplayedFetch(msgspec.Struct, gc=False):
    """A FETCH of a stream whose partitions are known, or that lists them all.

    The stream has followed ``changes`` and ``response`` (``follow``), and it does not matter any
    more whether it was recorded as a full FETCH or not. ``listed``: positions of the partitions
    that its request lists. ``is_returned``: which partitions of the response an incremental one
    would list. ``not_read``: partitions, by number, that the broker did not look at. ``added``: how
    many its client did not fetch before, None behind missing lines. ``events``: what caches do at
    once.
    """

    stream: Stream
    row: RecordedFetch
    followed: FollowedPartitions
    requested: Requested
    returned: Returned
    listed: slice
    forgotten: Ints
    sizes: FetchSizes
    version: int
    changes: RequestChanges
    response: ResponseChanges
    is_returned: Bools
    not_read: Ints
    added: int | None
    events: Events

    @classmethod
    def follow(cls, stream: Stream, row: RecordedFetch, lists: Lists) -> Self:
        """Has a stream follow a FETCH and its response."""
        followed, requested, returned = stream.followed, lists.requested, lists.returned
        listed = requested.rows[row.number]
        forgotten = lists.forgotten.partitions[lists.forgotten.rows[row.number]]
        changes = update(
            followed, requested, listed, None if row.is_full else forgotten, row.uses_topic_ids
        )
        if row.is_full:
            slots = changes.kept
            if not changes.keeps_the_set:
                slots = followed.slots_of(requested.partitions[listed])
            followed.list_anew(slots, requested.totals[row.number])
        else:
            followed.change(changes)
        has_errors = returned.errors[row.number] > 0
        response = followed.respond(returned, returned.rows[row.number], has_errors)
        not_read, is_cut = NOTHING, stream.unknown is Unknown.GAP
        if response.not_read is not None:
            not_read = returned.partitions[response.entries.at[response.not_read]]
        return cls(
            stream=stream,
            row=row,
            followed=followed,
            requested=requested,
            returned=returned,
            listed=listed,
            forgotten=forgotten,
            sizes=sizes_of(row),
            version=counted_version(row.api_version),
            changes=changes,
            response=response,
            is_returned=is_returned(response),
            not_read=not_read,
            added=None if is_cut else len(changes.added.at) + len(changes.replaced),
            events=[],
        )

    def topics(self, listed: Listed, at: Ints, *, is_as_recorded: bool) -> TopicTotals:
        """Counts what the topics of some positions take."""
        if is_as_recorded:
            return listed.totals[self.row.number]
        return self.followed.numbering.totals(listed.topics[at])

    def more_bytes(self, at: Ints) -> int:
        """Counts what returned partitions take beyond empty ones."""
        if len(at) == self.row.response_partitions:
            return self.returned.more_bytes_sum[self.row.number]
        return int(np.add.reduce(self.returned.more_bytes[at]))

    def classic_bytes(self, at: Ints) -> int:
        """Counts the same before there were flexible versions."""
        if len(at) == self.row.response_partitions:
            return self.returned.classic_bytes_sum[self.row.number]
        return int(np.add.reduce(self.returned.classic_bytes[at]))

    def is_as_recorded(self, listed: Listed, at: Ints) -> bool:
        """Tells whether positions are all of the recorded list, in its order."""
        row = listed.rows[self.row.number]
        is_whole = len(at) == row.stop - row.start
        return is_whole and (len(at) < 2 or at.tobytes() == listed.positions[row].tobytes())


class Incremental(msgspec.Struct, gc=False):
    """An incremental FETCH of one session: what it lists, both ways, in order.

    ``requested`` are positions, ``forgotten`` partitions by number. ``lists_as_recorded``: both
    lists of positions are those of the recorded FETCH.
    """

    session: Session
    sent: Sent
    requested: Ints
    forgotten: Ints
    returned: Entries
    lists_as_recorded: bool


def full_fetch(fetch: ReplayedFetch) -> Sent:
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
    bytes_open = 0
    if most is not topics:
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
        request_bytes=fetch.sizes.request(topics, n, fetch.sizes.nothing),
        response_bytes=fetch.sizes.response(
            topics_returned, returned, fetch.more_bytes(fetch.response.entries.at)
        ),
        bytes_open=bytes_open,
    )


def incremental_fetch(fetch: ReplayedFetch, session: Session) -> Incremental:
    """Sends what goes over the wire in a session that is there."""
    epoch, followed, row = session.epoch, fetch.followed, fetch.row
    entries, forgotten = session.request(fetch.changes, followed)
    requested = entries.at
    if session.is_older:
        requested, forgotten = fetch.requested.positions[fetch.listed], fetch.forgotten
        returned = fetch.response.entries
    else:
        returned = session.response(fetch.response, fetch.is_returned)
    is_recorded_request = fetch.is_as_recorded(fetch.requested, requested)
    is_recorded_response = fetch.is_as_recorded(fetch.returned, returned.at)
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
            fetch.topics(fetch.requested, requested, is_as_recorded=is_recorded_request),
            len(requested),
            fetch.sizes.forgotten(followed.numbering, forgotten),
        ),
        response_bytes=fetch.sizes.response(
            fetch.topics(fetch.returned, returned.at, is_as_recorded=is_recorded_response),
            len(returned.at),
            fetch.more_bytes(returned.at),
        ),
    )
    is_recorded = is_recorded_request and is_recorded_response
    return Incremental(session, sent, requested, forgotten, returned, is_recorded)


def equals_recorded(fetch: ReplayedFetch, incremental: Incremental | None) -> bool | None:
    """Compares lists and bytes with those of the recorded session, both ways; None: it has none."""
    row = fetch.row
    if row.is_full or incremental is None or incremental.session.is_older:
        return None
    sent = incremental.sent
    if incremental.session.recorded_id != row.session_id:
        return None
    return (
        (sent.request_bytes, sent.response_bytes) == (row.request_bytes, row.response_bytes)
        and incremental.lists_as_recorded
        and incremental.forgotten.tolist() == fetch.forgotten.tolist()
    )


def attempts(
    fetch: ReplayedFetch,
    caches: Sequence[FetchSessionCache],
    full: Sent,
    incrementals: Iterable[Incremental],
) -> tuple[list[Sent], dict[int, Sent]]:
    """Returns what a client sends under each cache, and by cache what it sends after a refusal.

    Without a session it sends a full FETCH.
    """
    row, stream = fetch.row, fetch.stream
    size = stream.followed.size
    if size and row.is_full and row.session_id != full.session_id:
        full = replace(full, session_id=row.session_id)
    sent, retries = [full] * len(caches), dict[int, Sent]()
    for incremental in incrementals:
        session = incremental.session
        refusing = [
            number
            for number, cache_id in session.slots.items()
            if caches[number].find(cache_id) is None
        ]
        for number in session.slots:
            sent[number] = incremental.sent
        for number in refusing:
            # "New Error Codes": it goes on with a full FETCH, as one without a session.
            sent[number], retries[number] = _refused(fetch, incremental), full
            del session.slots[number]
        if not size:
            fetch.events += session.close([*session.slots], caches, Reason.FORGOTTEN)
        elif session.slots:
            session.cached.touch(size, row.dequeued_us // 1000)
    return sent, retries if size else {}


def _refused(fetch: ReplayedFetch, incremental: Incremental) -> Sent:
    """Returns an incremental FETCH whose session was evicted, with the error of its response."""
    return replace(
        incremental.sent,
        response_partitions=0,
        record_bytes=0,
        response_bytes=fetch.sizes.error_response,
        session_error=FETCH_SESSION_ID_NOT_FOUND,
    )


def pending_session(fetch: ReplayedFetch, caches: Set[int]) -> PendingSession | None:
    """Makes the session that a FETCH requests of the caches that have none of its client's.

    None: it requests none.
    """
    row, stream = fetch.row, fetch.stream
    if not stream.followed.size or row.is_throttled:
        return None
    requesting = caches
    for session in stream.sessions:
        requesting = requesting - session.slots.keys()
    if not requesting:
        return None
    return PendingSession(
        built_us=row.built_us,
        request_id=row.request_id,
        stream=stream.number,
        caches=tuple(sorted(requesting)),
        recorded_id=(row.response_session_id or None) if row.is_full else None,
        not_read=tuple(fetch.not_read.tolist()),
    )
