"""Fetch sessions as Kafka 4.0 has them, method by method: the oracle of ``incremental_fetch``.

Source: ``FetchSessionHandler.java`` (client), ``FetchSession.scala`` (broker). Nothing here is fast
or shares code with the replay, except for the tuples that partitions come in. Session ids count up.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .recorded import RequestedPartition, ReturnedPartition

Key = tuple[str, int]
NOT_FOUND, INVALID_EPOCH, TOPIC_ID_ERROR = 70, 71, 106
EVICTION_MS = 120_000
SHARDS = 8


class Request(NamedTuple):
    session_id: int
    epoch: int
    partitions: list[RequestedPartition]
    forgotten: list[Key]
    version: int = 17

    @property
    def is_full(self) -> bool:
        return self.epoch in (0, -1)


class Response(NamedTuple):
    error: int
    session_id: int
    partitions: list[ReturnedPartition]


def next_epoch(epoch: int) -> int:
    return 1 if epoch == 2**31 - 1 else epoch + 1


# --- client --------------------------------------------------------------------------------------


@dataclass
class FetchSessionHandler:
    """``names`` maps topic ids to names: the handler's maps go by name."""

    names: dict[str, str]
    session_id: int = 0
    epoch: int = 0
    session: dict[Key, RequestedPartition] = field(default_factory=dict)

    def build(self, wanted: Iterable[RequestedPartition], version: int = 17) -> Request:
        following = {self._name(requested): requested for requested in wanted}
        if self.epoch in (0, -1):
            self.session = dict(following)
            return Request(self.session_id, self.epoch, list(following.values()), [], version)
        removed, replaced = [], []
        for name in list(self.session):
            before = self.session[name]
            after = following.pop(name, None)
            if after is None:
                del self.session[name]
                removed.append(before)
            elif before.topic_id != after.topic_id and before.topic_id and after.topic_id:
                following[name] = self.session[name] = after
                replaced.append(before)
            elif _data(before) != _data(after):
                following[name] = self.session[name] = after
        for name, requested in following.items():
            self.session.setdefault(name, requested)
        gone = [*removed, *replaced] if version >= 13 else removed
        by_topic: dict[str, list[Key]] = {}
        for requested in gone:
            by_topic.setdefault(self._name(requested)[0], []).append(requested.key)
        forgotten = [key for keys in by_topic.values() for key in keys]
        return Request(self.session_id, self.epoch, list(following.values()), forgotten, version)

    def handle(self, response: Response, throttled: bool = False) -> None:
        if response.error == NOT_FOUND:
            self.session_id, self.epoch = 0, 0
        elif response.error:
            self.epoch = 0
        elif self.epoch == 0:
            self.session_id = response.session_id
            self.epoch = 1 if response.session_id and not throttled else 0
        elif response.session_id == 0:
            self.session_id, self.epoch = 0, 0
        else:
            self.epoch = next_epoch(self.epoch)

    def close(self) -> None:
        self.epoch = -1

    def _name(self, requested: RequestedPartition) -> Key:
        topic = requested.topic_id or requested.topic or ""
        return self.names.get(topic, topic), requested.partition


def _data(requested: RequestedPartition) -> tuple[object, ...]:
    return (
        requested.topic_id,
        requested.fetch_offset,
        requested.log_start_offset,
        requested.partition_max_bytes,
        requested.current_leader_epoch,
        requested.last_fetched_epoch,
    )


# --- broker --------------------------------------------------------------------------------------


@dataclass
class CachedPartition:
    high_watermark: int = -1
    log_start_offset: int = -1

    def maybe_update(self, returned: ReturnedPartition) -> bool:
        must_respond = (returned.record_bytes or 0) > 0
        if self.high_watermark != returned.high_watermark:
            must_respond = True
            self.high_watermark = returned.high_watermark
        if self.log_start_offset != returned.log_start_offset:
            must_respond = True
            self.log_start_offset = returned.log_start_offset
        if returned.preferred_read_replica >= 0:
            must_respond = True
        if returned.error_code:
            self.high_watermark = -1
            must_respond = True
        return must_respond or returned.diverging_epoch is not None


@dataclass
class Session:
    id: int
    privileged: bool
    partitions: dict[Key, CachedPartition]
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    epoch: int = 1
    cached_size: int = -1

    @property
    def last_used_key(self) -> tuple[int, int]:
        return self.last_used_ms, self.id

    @property
    def evictable_key(self) -> tuple[bool, int, int]:
        return self.privileged, self.cached_size, self.id


@dataclass
class CacheShard:
    entries: int
    sessions: dict[int, Session] = field(default_factory=dict)
    last_used: dict[tuple[int, int], Session] = field(default_factory=dict)
    evictable_by_all: dict[tuple[bool, int, int], Session] = field(default_factory=dict)
    evictable_by_privileged: dict[tuple[bool, int, int], Session] = field(default_factory=dict)
    evicted: list[int] = field(default_factory=list)

    def maybe_create(self, session: Session, size: int, now: int) -> bool:
        key = (session.privileged, size, 0)
        if len(self.sessions) < self.entries or self.try_evict(key, now):
            self.sessions[session.id] = session
            self.touch(session, now)
            return True
        return False

    def try_evict(self, key: tuple[bool, int, int], now: int) -> bool:
        if not self.last_used:
            return False
        oldest = min(self.last_used)
        if now - oldest[0] > EVICTION_MS:
            self._evict(self.last_used[oldest])
            return True
        evictable = self.evictable_by_privileged if key[0] else self.evictable_by_all
        if not evictable or key < min(evictable):
            return False
        self._evict(evictable[min(evictable)])
        return True

    def _evict(self, session: Session) -> None:
        self.remove(session)
        self.evicted.append(session.id)

    def remove(self, session: Session) -> None:
        self.last_used.pop(session.last_used_key, None)
        self.evictable_by_all.pop(session.evictable_key, None)
        self.evictable_by_privileged.pop(session.evictable_key, None)
        self.sessions.pop(session.id, None)

    def touch(self, session: Session, now: int) -> None:
        self.last_used.pop(session.last_used_key, None)
        session.last_used_ms = now
        self.last_used[session.last_used_key] = session
        if session.cached_size != -1:
            self.evictable_by_privileged.pop(session.evictable_key, None)
            self.evictable_by_all.pop(session.evictable_key, None)
        session.cached_size = len(session.partitions)
        if not session.privileged or now - session.created_ms > EVICTION_MS:
            self.evictable_by_privileged[session.evictable_key] = session
        if now - session.created_ms > EVICTION_MS:
            self.evictable_by_all[session.evictable_key] = session


class Context(NamedTuple):
    request: Request
    kind: str
    session: Session | None = None
    error: int = 0


@dataclass
class FetchManager:
    """A broker's sessions. ``slots`` is max.incremental.fetch.session.cache.slots."""

    slots: int
    shards: list[CacheShard] = field(default_factory=list)
    _counter: int = 0
    _last_id: int = 0

    def __post_init__(self) -> None:
        self.shards = [CacheShard(self.slots // SHARDS) for _ in range(SHARDS)]

    def find(self, session_id: int) -> tuple[CacheShard, Session] | None:
        for shard in self.shards:
            if session_id in shard.sessions:
                return shard, shard.sessions[session_id]
        return None

    def new_context(self, request: Request, now: int) -> Context:
        found = self.find(request.session_id)
        if request.is_full:
            if found is not None:
                found[0].remove(found[1])
            return Context(request, "full" if request.epoch == 0 else "sessionless")
        if found is None:
            return Context(request, "error", error=NOT_FOUND)
        shard, session = found
        if session.epoch != request.epoch:
            return Context(request, "error", error=INVALID_EPOCH)
        if session.uses_topic_ids != (request.version >= 13):
            return Context(request, "error", error=TOPIC_ID_ERROR)
        for requested in request.partitions:
            session.partitions.setdefault(requested.key, CachedPartition())
        for key in request.forgotten:
            session.partitions.pop(key, None)
        if not session.partitions:
            shard.remove(session)
            return Context(request, "sessionless")
        shard.touch(session, now)
        session.epoch = next_epoch(session.epoch)
        return Context(request, "incremental", session)

    def respond(
        self,
        context: Context,
        read: Callable[[Key], ReturnedPartition],
        not_read: Iterable[Key],
        privileged: bool,
        now: int,
        throttled: bool = False,
    ) -> Response:
        """``not_read``: partitions answered without being read, behind the others."""
        request, session = context.request, context.session
        if context.kind == "error":
            return Response(context.error, 0, [])
        if session is not None and session.epoch != next_epoch(request.epoch):
            return Response(INVALID_EPOCH, session.id, [])
        if throttled:
            return Response(0, 0 if session is None else session.id, [])
        keys = [a.key for a in request.partitions] if session is None else list(session.partitions)
        last = set(not_read)
        keys = [key for key in keys if key not in last] + [key for key in keys if key in last]
        returned = [read(key) for key in keys]
        if context.kind == "sessionless":
            return Response(0, 0, returned)
        if session is None:
            return Response(0, self._create(request, returned, privileged, now), returned)
        answer = []
        for partition in returned:
            cached = session.partitions[partition.key]
            if cached.maybe_update(partition):
                answer.append(partition)
                if (partition.record_bytes or 0) > 0:
                    del session.partitions[partition.key]
                    session.partitions[partition.key] = cached
        return Response(0, session.id, answer)

    def _create(
        self, request: Request, returned: list[ReturnedPartition], privileged: bool, now: int
    ) -> int:
        shard = self.shards[self._counter % SHARDS]
        self._counter += 1
        cached = {t.key: CachedPartition(t.high_watermark, t.log_start_offset) for t in returned}
        uses_topic_ids = request.version >= 13
        session = Session(self._last_id + 1, privileged, cached, uses_topic_ids, now, now)
        if not shard.maybe_create(session, len(returned), now):
            return 0
        self._last_id += 1
        return session.id
