"""Streams: the FETCHes of each client at one broker, whatever sessions they are in.

A log shows a client's FETCHes (``FetchSessionHandler``) under a session's id, or on a connection:
who is refused a session, or whose session was dropped, goes on there with full FETCHes.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..log_gaps import LOG_GAP, Gaps
from ..model.cached_partitions import NO_SLOT, PartitionOrder
from ..model.fetch_session import (
    INITIAL_EPOCH,
    NO_SESSION,
    CachedSession,
    FetchSession,
    FetchSessionCache,
    Occurrence,
    Reason,
    next_epoch,
)
from .lists import FollowedPartitions, Lists, Partitions, Requested
from .recorded import FETCH_SESSION_ID_NOT_FOUND, RecordedFetch

#: ``connections.max.idle.ms``: a broker closes a connection that is silent for longer.
CONNECTION_IDLE_US = 600_000_000
#: A client that has a session and is silent for a day is gone.
SESSION_IDLE_US = 86_400_000_000


class Unknown(StrEnum):
    """Why it is not known what a client fetches."""

    BEGAN_BEFORE_LOG = "the session began before the log"
    NOT_IN_LOG = "a body of this FETCH is not in the log"
    LOST = "a body of an earlier FETCH is not in the log"
    VERSION = "the sizes of this FETCH version are not known"
    TAGGED = "it has fields of partitions that only FETCHes of the metadata log have"
    GAP = LOG_GAP


#: Events with the number of the cache that each is in.
Events = list[tuple[int, Occurrence]]


class Session(FetchSession, array_like=True, kw_only=True):
    """A session of a stream, in all caches that created it for the same FETCH.

    ``slots``: by the cache's number, its id there as far as its client knows: the cache may have
    evicted it. ``recorded_id``: the id in the log, if the recorded broker created it too.
    ``is_older`` than the log: the orders of its partitions are not known.
    """

    cached: CachedSession
    slots: dict[int, int]
    recorded_id: int | None = None
    is_older: bool = False

    def close(
        self, numbers: Iterable[int], caches: Sequence[FetchSessionCache], reason: Reason
    ) -> Events:
        """Gives up the session in some caches, which have it or not."""
        return [
            (number, occurrence)
            for number in numbers
            for occurrence in caches[number].close(self.slots.pop(number), reason)
        ]


class PendingSession(NamedTuple):
    """A full FETCH requests a session of ``caches``, which decide when the response is built.

    It sorts by that time. ``not_read``: the partitions, by number, that the full response lists at
    its end; ``recorded_id``: the session that the recorded broker created, if any.
    """

    built_us: int
    request_id: str
    stream: int
    caches: tuple[int, ...]
    recorded_id: int | None
    not_read: tuple[int, ...] = ()


class Stream(msgspec.Struct, array_like=True):
    """One client's FETCHes at one broker, and its sessions there.

    ``unknown``: why its partitions are not known; None: they are. ``is_broken``: the next full
    FETCH starts a session whatever the protocol, since this one broke down. ``built_us``: its last
    response. ``epoch``: of its last FETCH. ``counts_epochs``: how many came since the session began
    is known. ``is_older``: its partitions are those that held when the log began (``take_over``).
    """

    number: int
    client_id: str | None
    connection: str | None
    replica_id: int
    replica_epoch: int
    session_key: str
    uses_topic_ids: bool
    followed: FollowedPartitions
    recorded_session_id: int = NO_SESSION
    unknown: Unknown | None = Unknown.BEGAN_BEFORE_LOG
    is_broken: bool = False
    draft_has_uuid: bool = False
    sessions: list[Session] = []
    last_seen_us: int = 0
    built_us: int = 0
    epoch: int = INITIAL_EPOCH
    counts_epochs: bool = True
    is_older: bool = False

    def starts_anew(self, row: RecordedFetch) -> bool:
        """Tells whether a full FETCH starts a session even where none was refused or dropped.

        After "no such session" and after a response without a session, a client sends (0, 0) for
        what is incremental with a roomier cache. (id, 0): a FETCH was lost or refused; (0, 0) in
        the middle of a session: the client has forgotten it (restarted).
        """
        return (
            (self.unknown is not None and not self.goes_on(row))
            or self.is_broken
            or row.session_id != NO_SESSION
            or self.recorded_session_id != NO_SESSION
        )

    def goes_on(self, row: RecordedFetch, after: Unknown = Unknown.GAP) -> bool:
        """Tells whether a full FETCH behind missing lines mostly repeats what was before them.

        ``after``: what is missing. Where sessions are recorded, a full FETCH starts one anyway.
        """
        if self.unknown is not after:
            return False
        has_session = self.recorded_session_id != NO_SESSION or row.response_session_id
        return row.session_id == NO_SESSION and not has_session

    def follows(self, row: RecordedFetch) -> bool:
        """Tells by the epochs whether no FETCH is between the last one and this one."""
        is_same = row.session_id == self.recorded_session_id != NO_SESSION
        return is_same and row.session_epoch == next_epoch(self.epoch)

    def lose(self, why: Unknown = Unknown.LOST) -> None:
        """Forgets what it fetches, until its next full FETCH lists that."""
        self.unknown = why
        self.draft_has_uuid = False

    def create_session(
        self, pending: PendingSession, cached: CachedSession, slots: dict[int, int]
    ) -> Session:
        """Adds the session that a full FETCH requested, in the caches that have created it."""
        requested = returned = self.followed.order
        if pending.not_read:
            returned = self.followed.order_returned(np.array(pending.not_read))
        session = Session(
            client=PartitionOrder.listing(requested),
            broker=PartitionOrder.listing(returned),
            cached=cached,
            slots=slots,
            recorded_id=pending.recorded_id,
        )
        self.sessions.append(session)
        return session

    def take_over(self, row: RecordedFetch, requested: Requested) -> None:
        """Begins with the partitions of a recorded session that is older than the log."""
        self.followed.take_over(requested, requested.rows[row.number])
        self.unknown, self.counts_epochs, self.is_older = None, False, True
        self.draft_has_uuid = row.is_follower

    def is_refuted(self, row: RecordedFetch, lists: Lists) -> bool:
        """Tells whether it lacks a partition that is returned, or forgotten, and was not listed."""
        requested, *others = (listed.partitions[listed.rows[row.number]] for listed in lists)
        partitions = np.concatenate(others)
        lacking = partitions[self.followed.slots_of(partitions) == NO_SLOT]
        return not np.isin(lacking, requested).all()

    def renumber(self) -> None:
        kept = self.followed.renumber()
        for session in self.sessions:
            session.client.renumber(kept)
            session.broker.renumber(kept)


class Streams(msgspec.Struct, array_like=True):
    """The streams of one broker by number; numbers by session, connection and fetcher thread."""

    node_id: int
    by_number: dict[int, Stream] = {}
    last: int = 0
    by_session: dict[int, int] = {}
    by_connection: dict[tuple[str | None, str | None], int] = {}
    by_fetcher: dict[tuple[str | None, int], int] = {}

    def key_without_session(self, row: RecordedFetch) -> str:
        """Returns the ``session_key`` of a FETCH without a session."""
        return f"{self.node_id}/{row.client_id or ''}/{row.connection or ''}"

    def take(
        self,
        stream: Stream | None,
        row: RecordedFetch,
        numbering: Partitions,
        gaps: Gaps,
    ) -> Stream | None:
        """Places the stream of a FETCH (``find``; None: a new one) where this FETCH was.

        It is lost where FETCHes of it may be in ``gaps``. None for a client that has never
        requested a session and does not now.
        """
        if stream is None:
            if row.closes_session and row.session_id == NO_SESSION:
                return None
            stream = self._new(row, numbering)
            if gaps.touch(self.node_id, row.dequeued_us - CONNECTION_IDLE_US, row.dequeued_us):
                stream.lose(Unknown.GAP)
        elif not stream.follows(row) and gaps.touch(
            self.node_id, max(stream.last_seen_us, stream.built_us), row.dequeued_us
        ):
            self._lose(stream, row)
        self._place(stream, row)
        if row.is_full and not row.closes_session:
            # The key of a FETCH without a session, unless its response creates one.
            stream.session_key = self.key_without_session(row)
            if row.error_code == 0 and row.response_session_id:
                stream.session_key = f"{self.node_id}/{row.response_session_id}/{row.request_id}"
        return stream

    def respond(self, stream: Stream, row: RecordedFetch) -> None:
        """Follows what the recorded response does to its client's session.

        ``FetchSessionHandler.handleResponse``.
        """
        if row.error_code is None:
            return
        stream.built_us = row.built_us
        if row.error_code == FETCH_SESSION_ID_NOT_FOUND:
            self._set_session(stream, NO_SESSION)
        elif row.error_code:
            stream.is_broken = True
        elif row.is_full or not row.response_session_id:
            self._set_session(stream, row.response_session_id or NO_SESSION)

    def forget(self, stream: Stream) -> None:
        """Removes a stream whose client has closed its session, or is gone."""
        self._set_session(stream, NO_SESSION)
        self._leave(stream)
        del self.by_number[stream.number]

    def forget_idle(self, now_us: int) -> None:
        """Forgets streams that have been silent for too long to come back."""
        for stream in list(self.by_number.values()):
            has_session = stream.recorded_session_id != NO_SESSION
            span = SESSION_IDLE_US if has_session else CONNECTION_IDLE_US
            if now_us - stream.last_seen_us > span:
                self.forget(stream)

    def find(self, row: RecordedFetch) -> Stream | None:
        """Finds the stream of a FETCH by its session, connection or fetcher thread."""
        number = self.by_connection.get((row.client_id, row.connection))
        if row.session_id != NO_SESSION:
            number = self.by_session.get(row.session_id, number)
        elif number is None and row.is_follower:
            number = self._reconnected(row)
        return None if number is None else self.by_number[number]

    def _reconnected(self, row: RecordedFetch) -> int | None:
        """Finds the fetcher thread of the same run of a broker, now on a new connection."""
        number = self.by_fetcher.get((row.client_id, row.replica_id))
        stream = None if number is None else self.by_number[number]
        if stream is None or row.replica_epoch < 0 or stream.replica_epoch != row.replica_epoch:
            return None
        if stream.recorded_session_id != NO_SESSION:
            return None
        stream.is_broken = True
        return number

    def _new(self, row: RecordedFetch, numbering: Partitions) -> Stream:
        self.last += 1
        stream = Stream(
            self.last,
            row.client_id,
            row.connection,
            row.replica_id,
            row.replica_epoch,
            self.key_without_session(row),
            row.uses_topic_ids,
            FollowedPartitions(numbering),
        )
        self.by_number[stream.number] = stream
        if row.session_id != NO_SESSION:
            stream.session_key = self._key_of_unseen(row)
            self._set_session(stream, row.session_id)
        return stream

    def _lose(self, stream: Stream, row: RecordedFetch) -> None:
        stream.lose(Unknown.GAP)
        if not row.is_full and row.session_id != stream.recorded_session_id:
            stream.session_key = self._key_of_unseen(row)
            self._set_session(stream, row.session_id)

    def _key_of_unseen(self, row: RecordedFetch) -> str:
        """Returns the ``session_key`` of a session whose first FETCH is not in the log."""
        return f"{self.node_id}/{row.session_id}/before the log"

    def _place(self, stream: Stream, row: RecordedFetch) -> None:
        self._leave(stream)
        stream.client_id, stream.connection = row.client_id, row.connection
        if stream.uses_topic_ids != row.uses_topic_ids:
            # FETCH_SESSION_TOPIC_ID_ERROR: the session is of topics by name, or by id.
            stream.uses_topic_ids, stream.is_broken = row.uses_topic_ids, True
        if row.request_partitions is not None:
            stream.replica_id, stream.replica_epoch = row.replica_id, row.replica_epoch
            stream.epoch = row.session_epoch
        stream.last_seen_us = row.dequeued_us
        self.by_connection[row.client_id, row.connection] = stream.number
        if stream.replica_id >= 0:
            self.by_fetcher[row.client_id, stream.replica_id] = stream.number

    def _leave(self, stream: Stream) -> None:
        _remove(self.by_connection, (stream.client_id, stream.connection), stream)
        _remove(self.by_fetcher, (stream.client_id, stream.replica_id), stream)

    def _set_session(self, stream: Stream, session_id: int) -> None:
        _remove(self.by_session, stream.recorded_session_id, stream)
        stream.recorded_session_id = session_id
        if session_id != NO_SESSION:
            self.by_session[session_id] = stream.number


def _remove(numbers: dict[Any, int], key: object, stream: Stream) -> None:
    """Removes a stream from where it was, unless another one is there by now."""
    if numbers.get(key) == stream.number:
        del numbers[key]
