"""A stream: the FETCHes of one client at one broker, whatever sessions they are in.

On a client's side one ``FetchSessionHandler`` stands for one broker. A log shows its FETCHes under
a session's id, or, without, on a connection. A handler that is refused a session, or whose session
the broker has dropped, goes on with full FETCHes on the same connection: it is the same stream.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec
import numpy as np

from .followed import FollowedPartitions
from .recorded import RecordedFetch
from .session import NO_SESSION, FetchSession


class Unknown(StrEnum):
    """Why it is not known what a client fetches."""

    BEGAN_BEFORE_LOG = "the session began before the log"
    NOT_IN_LOG = "a body of this FETCH is not in the log"
    LOST = "a body of an earlier FETCH is not in the log"
    VERSION = "the sizes of this FETCH version are not known"


class Held(msgspec.Struct, array_like=True):
    """The session of one cache that a client believes to have: its number here, and the cache's."""

    session: int | None = None
    cache_id: int | None = None

    def drop(self) -> None:
        """The client has no session."""
        self.session = self.cache_id = None


class PendingSession(NamedTuple):
    """A full FETCH requests a session of a cache, which decides when it builds the response.

    In the order of responses. ``not_read``: the partitions, by number, that the full response lists
    at its end; ``recorded_id``: the session that the recorded broker created, if any.
    """

    built_us: int
    request_id: str
    cache: int
    stream: int
    session_key: str
    partitions: int
    privileged: bool
    uses_topic_ids: bool
    recorded_id: int | None
    not_read: tuple[int, ...]


class Stream(msgspec.Struct, array_like=True):
    """One client's FETCHes at one broker. ``held`` is in the order of the rule's caches.

    ``unknown``: why its partitions are not known; None: they are. ``is_broken``: the next full
    FETCH starts a session whatever the protocol, since this one broke down. ``sessions`` by number:
    caches that create one for the same FETCH, ``opened_by``, share its orders.
    """

    number: int
    client_id: str | None
    connection: str | None
    replica_id: int
    replica_epoch: int
    session_key: str
    held: list[Held]
    followed: FollowedPartitions
    recorded_session_id: int = NO_SESSION
    unknown: Unknown | None = Unknown.BEGAN_BEFORE_LOG
    is_broken: bool = False
    draft_has_uuid: bool = False
    sessions: dict[int, FetchSession] = {}
    last_seen_us: int = 0
    last_session: int = 0
    opened_by: str | None = None

    def starts_anew(self, row: RecordedFetch) -> bool:
        """A full FETCH starts a session even where none was refused or dropped.

        After "no such session" and after a response without a session, a client sends (0, 0) for
        what is incremental with a roomier cache. (id, 0): a FETCH was lost or refused; (0, 0) in
        the middle of a session: the client has forgotten it (restarted).
        """
        return (
            self.unknown is not None
            or self.is_broken
            or row.session_id != NO_SESSION
            or self.recorded_session_id != NO_SESSION
        )

    def is_incremental_but_for_a_lost_body(self, row: RecordedFetch) -> bool:
        """A full FETCH that only a missing body keeps from being replayed as an incremental one.

        Where sessions are recorded, a full FETCH starts one anyway.
        """
        has_session = self.recorded_session_id != NO_SESSION or row.response_session_id
        return self.unknown is Unknown.LOST and row.session_id == NO_SESSION and not has_session

    def lose(self) -> None:
        """What it fetches is not known until its next full FETCH."""
        self.unknown = Unknown.LOST
        self.draft_has_uuid = False

    def create_session(self, cache_id: int, pending: PendingSession) -> None:
        """A cache has created the session that a full FETCH requested."""
        if self.opened_by != pending.request_id:
            self.opened_by = pending.request_id
            self.last_session += 1
            requested = returned = self.followed.order.keys()
            if pending.not_read:
                last = np.isin(self.followed.partitions_of(requested), pending.not_read)
                returned = np.concatenate([requested[~last], requested[last]])
            self.sessions[self.last_session] = FetchSession.of(
                pending.uses_topic_ids, pending.recorded_id, requested, returned
            )
        self.held[pending.cache] = Held(self.last_session, cache_id)

    def drop_unheld_sessions(self) -> None:
        """Orders of sessions that no cache has any more are not needed."""
        held = {held.session for held in self.held}
        for number in self.sessions.keys() - held:
            del self.sessions[number]

    def renumber(self) -> None:
        """Give up the slots of partitions that have gone."""
        kept = self.followed.renumber()
        for session in self.sessions.values():
            session.renumber(kept)
