"""A stream: what one client does at one broker, whatever sessions it does it in.

On a client's side one ``FetchSessionHandler`` stands for one broker. A log shows its FETCHes under
a session's id, or, without, on a connection. A handler that is refused a session, or whose session
the broker has dropped, goes on with full FETCHes on the same connection: it is the same stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from .followed import FollowedPartitions
from .order import FullOrder
from .recorded import NO_SESSION, PartitionKey, RecordedFetch
from .runs import TopicRuns
from .session import FetchSession
from .sizes import counted_version


class Unknown(StrEnum):
    """Why a log does not tell what a client fetches."""

    BEGAN_BEFORE_LOG = "the session began before the log"
    NOT_IN_LOG = "a body of this FETCH is not in the log"
    LOST = "a body of an earlier FETCH is not in the log"
    VERSION = "the sizes of this FETCH version are not known"


@dataclass
class Held:
    """What one cache gives a stream: the session that its client believes to have, if any."""

    session: int | None = None
    cache_id: int | None = None

    def drop(self) -> None:
        """The client has no session."""
        self.session = self.cache_id = None


class SessionWish(NamedTuple):
    """A full FETCH asks a cache for a session: to be decided when its answer is built.

    In the order of answers. ``not_read`` are the partitions that the full response lists at its
    end; ``recorded_id`` is the session that the recorded broker gave, if any.
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
    not_read: frozenset[PartitionKey]


@dataclass
class Stream:
    """One client's FETCHes at one broker. ``held`` is in the order of the rule's caches."""

    number: int
    client_id: str | None
    connection: str | None
    replica_id: int
    replica_epoch: int
    session_key: str
    held: list[Held]
    followed: FollowedPartitions
    recorded_session_id: int = NO_SESSION
    #: Why its partitions are not known; None: they are.
    unknown: Unknown | None = Unknown.BEGAN_BEFORE_LOG
    #: The next full FETCH starts a session whatever the protocol: this one broke down.
    is_broken: bool = False
    draft_has_uuid: bool = False
    sessions: dict[int, FetchSession] = field(default_factory=dict)
    last_seen_us: int = 0
    _last_session: int = 0
    _opened_by: str | None = None

    @classmethod
    def of(cls, number: int, row: RecordedFetch, session_key: str, caches: int) -> Stream:
        """A stream that begins with a FETCH."""
        order = FullOrder(TopicRuns(counted_version(row.api_version)))
        return cls(
            number,
            row.client_id,
            row.connection,
            row.replica_id,
            row.replica_epoch,
            session_key,
            [Held() for _ in range(caches)],
            FollowedPartitions(order),
        )

    def starts_anew(self, row: RecordedFetch) -> bool:
        """A full FETCH starts a session even where none was refused or dropped.

        After "no such session" and after a response without a session, a client asks with (0, 0)
        for what a roomier cache would have left it. With (id, 0) it says that a FETCH was lost or
        refused; with (0, 0) in the middle of a session it has forgotten it (restarted).
        """
        return (
            self.unknown is not None
            or self.is_broken
            or row.session_id != NO_SESSION
            or self.recorded_session_id != NO_SESSION
        )

    def would_have_gone_on(self, row: RecordedFetch) -> bool:
        """A full FETCH that only a missing body keeps from being replayed as an incremental one.

        Where sessions are recorded, a full FETCH starts one anyway.
        """
        has_session = self.recorded_session_id != NO_SESSION or row.response_session_id
        return self.unknown is Unknown.LOST and row.session_id == NO_SESSION and not has_session

    def lose(self, reason: Unknown) -> None:
        """What it fetches is not known until its next full FETCH."""
        self.unknown = reason
        self.draft_has_uuid = False

    def give_session(self, cache: int, cache_id: int, wish: SessionWish) -> None:
        """A cache gives the session that a full FETCH asked for.

        Caches that give one for the same FETCH share its orders: they stay the same.
        """
        if self._opened_by != wish.request_id:
            self._opened_by = wish.request_id
            self._last_session += 1
            asked = self.followed.order.keys()
            told = sorted(asked, key=wish.not_read.__contains__)
            self.sessions[self._last_session] = FetchSession.of(
                wish.uses_topic_ids, wish.recorded_id, asked, told
            )
        self.held[cache] = Held(self._last_session, cache_id)

    def drop_unheld_sessions(self) -> None:
        """Orders of sessions that no cache gives any more are not needed."""
        held = {held.session for held in self.held}
        for number in [number for number in self.sessions if number not in held]:
            del self.sessions[number]
