"""The broker's cache of fetch sessions: which finds a slot, is refused, is evicted.

Source: ``FetchSessionCacheShard`` and ``FetchSessionCache`` (KIP-227, "Fetch Session Caching").
``max.incremental.fetch.session.cache.slots`` slots are spread over 8 shards, the same whole number
each: fewer than 8 slots are no slot. New sessions go to the shards in turn, and compete within
theirs. A full shard first gives up the session that was not used for longest, if that is more than
120 s. Else the new session is compared with the least valuable one that it may evict, by
(privileged, partitions, id): a follower's may evict any consumer's, and all may evict those that
are older than 120 s. The new one's id counts as 0, so that it loses against its equal.

Kafka draws ids at random; here they count up, so that among equals the older one goes, and the
remainder by the number of shards is a session's shard.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

SHARDS = 8
#: ``min.incremental.fetch.session.eviction.ms``: a session may go that was not used for longer, or
#: is older.
EVICTION_MS = 120_000


class SessionEvent(StrEnum):
    CREATED = "created"
    REFUSED = "refused"
    EVICTED = "evicted"
    CLOSED = "closed"


class Reason(StrEnum):
    SLOT_FREE = "a slot was free"
    SLOT_MADE_FREE = "a slot was made free"
    NO_SLOTS = "no slots"
    CACHE_FULL = "cache full"
    IDLE = "idle"
    NOT_PRIVILEGED = "not privileged"
    SMALLER = "smaller"
    FORGOTTEN = "all forgotten"
    CLIENT = "client closed it"
    NEW_SESSION = "client asked for a new one"
    VERSION = "client changed between topic names and ids"


class CachedSession(msgspec.Struct, array_like=True):
    """A session as the cache has it."""

    id: int
    session_key: str
    privileged: bool
    size: int
    created_ms: int
    last_used_ms: int
    is_old: bool = False

    @property
    def evictable_key(self) -> tuple[bool, int, int]:
        return self.privileged, self.size, self.id

    def touch(self, size: int, now_ms: int) -> None:
        """An incremental FETCH uses the session, which has ``size`` partitions from then on."""
        self.last_used_ms = now_ms
        self.size = size
        # Kafka looks at the age only here: a session that is not used does not become old.
        self.is_old = now_ms - self.created_ms > EVICTION_MS


class Occurrence(NamedTuple):
    event: SessionEvent
    reason: Reason
    session_key: str
    shard: int | None
    partitions: int
    privileged: bool


class FetchSessionCache(msgspec.Struct, array_like=True):
    """The cache of one broker. ``slots`` None: every session finds a slot.

    ``shards``: sessions by id, in the order in which they came. ``created`` and ``requested``
    count sessions.
    """

    slots: int | None
    shards: list[dict[int, CachedSession]] = msgspec.field(
        default_factory=lambda: [{} for _ in range(SHARDS)]
    )
    created: int = 0
    requested: int = 0

    def find(self, session_id: int | None) -> CachedSession | None:
        """The session of this id, if it is still there."""
        return None if session_id is None else self.shards[session_id % SHARDS].get(session_id)

    def maybe_create(
        self, session_key: str, privileged: bool, size: int, now_ms: int
    ) -> tuple[int | None, list[Occurrence]]:
        """The response to a full FETCH is built: the new session's id, or None, and the events."""
        shard = self.requested % SHARDS
        self.requested += 1
        sessions = self.shards[shard]
        new_id = (self.created + 1) * SHARDS + shard
        new = CachedSession(new_id, session_key, privileged, size, now_ms, now_ms)
        events, why = [], Reason.SLOT_FREE
        if self.slots is not None and len(sessions) >= self.slots // SHARDS:
            evicted, why = _evictable(sessions, new)
            if evicted is None:
                return None, [_occurrence(SessionEvent.REFUSED, why, new)]
            del sessions[evicted.id]
            events, why = [_occurrence(SessionEvent.EVICTED, why, evicted)], Reason.SLOT_MADE_FREE
        self.created += 1
        sessions[new.id] = new
        return new.id, [*events, _occurrence(SessionEvent.CREATED, why, new)]

    def close(self, session_id: int | None, reason: Reason) -> list[Occurrence]:
        """A session is over, if it is still there."""
        session = self.find(session_id)
        if session is None:
            return []
        del self.shards[session.id % SHARDS][session.id]
        return [_occurrence(SessionEvent.CLOSED, reason, session)]

    def forget_unused(self, before_ms: int) -> None:
        """Without a limit: drop what nobody has used for so long that nobody will."""
        if self.slots is not None:
            return
        for shard in self.shards:
            for session in [s for s in shard.values() if s.last_used_ms < before_ms]:
                del shard[session.id]


def _evictable(
    sessions: Mapping[int, CachedSession], new: CachedSession
) -> tuple[CachedSession | None, Reason]:
    """Who leaves its slot to a new session, and why; None: nobody (``tryEvict``)."""
    if not sessions:
        return None, Reason.NO_SLOTS
    idlest = min(sessions.values(), key=lambda s: (s.last_used_ms, s.id))
    if new.created_ms - idlest.last_used_ms > EVICTION_MS:
        return idlest, Reason.IDLE
    candidates = [s for s in sessions.values() if s.is_old or (new.privileged and not s.privileged)]
    least = min(candidates, key=lambda s: s.evictable_key, default=None)
    if least is None or (new.privileged, new.size, 0) < least.evictable_key:
        return None, Reason.CACHE_FULL
    outranked = new.privileged and not least.privileged
    return least, Reason.NOT_PRIVILEGED if outranked else Reason.SMALLER


def _occurrence(event: SessionEvent, reason: Reason, session: CachedSession) -> Occurrence:
    return Occurrence(
        event, reason, session.session_key, session.id % SHARDS, session.size, session.privileged
    )
