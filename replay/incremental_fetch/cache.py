"""The broker's cache of fetch sessions: who finds a slot, who is refused, who is thrown out.

Source: ``FetchSessionCacheShard`` and ``FetchSessionCache`` (KIP-227, "Fetch Session Caching").
``max.incremental.fetch.session.cache.slots`` slots are spread over 8 shards, the same whole number
each: fewer than 8 slots are no slot. New sessions go to the shards in turn, and compete within
theirs. A full shard first gives up the session that was not used for longest, if that is more than
120 s. Else the newcomer is compared with the least valuable session that it may throw out, by
(privileged, partitions, id): a follower may throw out any consumer's session, and everyone those
that are older than 120 s. The newcomer's id counts as 0, so that it loses against its equal.

Kafka draws ids at random; here they count up, so that among equals the older one goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

SHARDS = 8
#: ``min.incremental.fetch.session.eviction.ms``: after this, who is not used or is old may go.
EVICTION_MS = 120_000


class SessionEvent(StrEnum):
    """What happens to a session."""

    CREATED = "created"
    REFUSED = "refused"
    EVICTED = "evicted"
    CLOSED = "closed"


class Reason(StrEnum):
    """Why it happens."""

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


@dataclass
class CachedSession:
    """A session as the cache sees it. ``session_key`` is what the outcomes call it."""

    id: int
    shard: int
    session_key: str
    privileged: bool
    size: int
    created_ms: int
    last_used_ms: int
    is_old: bool = False

    @property
    def evictable_key(self) -> tuple[bool, int, int]:
        """What it is worth (``EvictableKey``)."""
        return self.privileged, self.size, self.id


class Occurrence(NamedTuple):
    """An event of a session in the cache."""

    event: SessionEvent
    reason: Reason
    session_key: str
    shard: int
    partitions: int
    privileged: bool


@dataclass
class FetchSessionCache:
    """The cache of one broker. ``slots`` None: every session finds a slot."""

    slots: int | None
    eviction_ms: int = EVICTION_MS
    _shards: list[dict[int, CachedSession]] = field(
        default_factory=lambda: [{} for _ in range(SHARDS)]
    )
    _shard_of: dict[int, int] = field(default_factory=dict)
    created: int = 0
    asked: int = 0

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._shard_of

    def __len__(self) -> int:
        return len(self._shard_of)

    def __iter__(self) -> Iterator[CachedSession]:
        """All sessions, shard by shard in the order in which they came."""
        for shard in self._shards:
            yield from shard.values()

    def add(self, session: CachedSession) -> None:
        """A session that is there."""
        self._shards[session.shard][session.id] = session
        self._shard_of[session.id] = session.shard

    def maybe_create(
        self, session_key: str, privileged: bool, size: int, now_ms: int
    ) -> tuple[int | None, list[Occurrence]]:
        """A full FETCH is answered: the new session's id, or None, and what happened over it."""
        shard = self.asked % SHARDS
        self.asked += 1
        sessions = self._shards[shard]
        happened: list[Occurrence] = []
        has_room = self.slots is None or len(sessions) < self.slots // SHARDS
        if not has_room:
            refused_for = self._try_evict(sessions, (privileged, size, 0), now_ms, happened)
            if refused_for is not None:
                return None, [
                    Occurrence(
                        SessionEvent.REFUSED, refused_for, session_key, shard, size, privileged
                    )
                ]
        self.created += 1
        session = CachedSession(self.created, shard, session_key, privileged, size, now_ms, now_ms)
        self.add(session)
        why = Reason.SLOT_FREE if has_room else Reason.SLOT_MADE_FREE
        return session.id, [*happened, _occurrence(SessionEvent.CREATED, why, session)]

    def touch(self, session_id: int, size: int, now_ms: int) -> None:
        """An incremental FETCH uses a session, which has ``size`` partitions from then on."""
        session = self._shards[self._shard_of[session_id]][session_id]
        session.last_used_ms = now_ms
        session.size = size
        # Kafka looks at the age only here: a session that is not used does not become old.
        session.is_old = now_ms - session.created_ms > self.eviction_ms

    def close(self, session_id: int, reason: Reason) -> list[Occurrence]:
        """A session is over, if it is still there."""
        if session_id not in self:
            return []
        session = self._remove(session_id)
        return [_occurrence(SessionEvent.CLOSED, reason, session)]

    def forget_unused(self, before_ms: int) -> None:
        """Without a limit: drop what nobody has used for so long that nobody will."""
        if self.slots is not None:
            return
        for shard in self._shards:
            for session in [s for s in shard.values() if s.last_used_ms < before_ms]:
                self._remove(session.id)

    def _try_evict(
        self,
        sessions: dict[int, CachedSession],
        newcomer: tuple[bool, int, int],
        now_ms: int,
        happened: list[Occurrence],
    ) -> Reason | None:
        """``tryEvict``: throw one out; None if that was done, else why the newcomer is refused."""
        if not sessions:
            return Reason.NO_SLOTS
        idlest = min(sessions.values(), key=lambda s: (s.last_used_ms, s.id))
        if now_ms - idlest.last_used_ms > self.eviction_ms:
            self._evict(idlest, Reason.IDLE, happened)
            return None
        privileged = newcomer[0]
        evictable = [s for s in sessions.values() if s.is_old or (privileged and not s.privileged)]
        least = min(evictable, key=lambda s: s.evictable_key, default=None)
        if least is None or newcomer < least.evictable_key:
            return Reason.CACHE_FULL
        outranked = privileged and not least.privileged
        self._evict(least, Reason.NOT_PRIVILEGED if outranked else Reason.SMALLER, happened)
        return None

    def _evict(self, session: CachedSession, reason: Reason, happened: list[Occurrence]) -> None:
        self._remove(session.id)
        happened.append(_occurrence(SessionEvent.EVICTED, reason, session))

    def _remove(self, session_id: int) -> CachedSession:
        return self._shards[self._shard_of.pop(session_id)].pop(session_id)


def _occurrence(event: SessionEvent, reason: Reason, session: CachedSession) -> Occurrence:
    return Occurrence(
        event, reason, session.session_key, session.shard, session.size, session.privileged
    )
