"""What the replay of a broker carries from one piece of log to the next, as bytes.

MessagePack of plain values; arrays are bytes, little-endian, as wide as they need. Partitions and
topics that nobody follows any more are left out, and slots are numbered anew, so that the size is
that of what is open. A state starts with its version: another one is not read but refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from kip_replay.replay.kafka.messages.encoding import Ints

from .cache import CachedSession, FetchSessionCache
from .followed import FollowedPartitions
from .order import FullOrder
from .partitions import Partitions
from .session import FetchSession
from .stream import Held, SessionWish, Stream, Unknown
from .streams import Streams

VERSION = 1
_RULE = "incremental_fetch"
_TYPES = tuple(map(np.dtype, ("<i1", "<i2", "<i4", "<i8")))


def encoded(
    front: tuple[int, str],
    numbering: Partitions,
    streams: Streams,
    caches: Sequence[FetchSessionCache],
    wishes: Sequence[SessionWish],
) -> bytes:
    """The state of a replay."""
    numbers = _Numbers(numbering, streams, wishes)
    state: bytes = msgspec.msgpack.encode(
        [
            VERSION,
            _RULE,
            [cache.slots for cache in caches],
            list(front),
            dict(numbering.names),
            numbers.saved(),
            streams.last,
            [[_saved_stream(stream, numbers), streams.places_of(stream)] for stream in streams],
            [_saved_cache(cache) for cache in caches],
            [[*wish[:-1], [numbers.number_of[p] for p in wish.not_read]] for wish in wishes],
        ]
    )
    return state


class Decoded:
    """A saved state: what ``encoded`` was given, but for ``caches`` what it says to do with them.

    Raises ValueError where it is not a state of this version, or not of these caches.
    """

    def __init__(
        self,
        saved: bytes,
        numbering: Partitions,
        streams: Streams,
        caches: Sequence[FetchSessionCache],
    ) -> None:
        try:
            values = msgspec.msgpack.decode(saved)
        except msgspec.DecodeError as error:
            raise ValueError(f"the saved state of {_RULE} can't be read: {error}") from error
        if not isinstance(values, list) or values[:2] != [VERSION, _RULE]:
            version = values[0] if isinstance(values, list) and values else None
            raise ValueError(
                f"the saved state is not of {_RULE} version {VERSION} but says {version}:"
                " replay the recording from its beginning"
            )
        slots = [cache.slots for cache in caches]
        if values[2] != slots:
            raise ValueError(
                f"the saved state is of caches with {values[2]} slots, not {slots}:"
                " replay the recording from its beginning"
            )
        _, _, _, front, names, partitions, last, saved_streams, saved_caches, wishes = values
        self.front: tuple[int, str] = (front[0], front[1])
        numbering.name(names)
        numbers = _numbers(numbering, partitions)
        streams.last = last
        for stream, places in saved_streams:
            streams.add(_stream(stream, numbering, numbers), places)
        for cache, of_cache in zip(caches, saved_caches, strict=True):
            _start_cache(cache, of_cache)
        self.wishes = [
            SessionWish._make([*wish, tuple(numbers[not_read].tolist())])
            for *wish, not_read in wishes
        ]


# --- topics and partitions


class _Numbers:
    """The partitions that somebody follows, with numbers of their own."""

    def __init__(
        self, numbering: Partitions, streams: Streams, wishes: Sequence[SessionWish]
    ) -> None:
        open_ones = [np.zeros(0, np.int64)]
        open_ones += [np.array(wish.not_read, np.int64) for wish in wishes]
        for stream in streams:
            stream.renumber()
            open_ones.append(stream.followed.slots.partitions)
        self._numbering = numbering
        self._open: Ints = np.unique(np.concatenate(open_ones))
        self.number_of = {p: number for number, p in enumerate(self._open.tolist())}

    def of(self, partitions: Ints) -> bytes:
        """The numbers of partitions, which are in the order of ``Partitions``' own."""
        return _bytes(np.searchsorted(self._open, partitions))

    def saved(self) -> list[Any]:
        topics, of = np.unique(self._numbering.topic_of[self._open], return_inverse=True)
        names = [self._numbering.topics[topic] for topic in topics.tolist()]
        return [names, _bytes(of), _bytes(self._numbering.index_of[self._open])]


def _numbers(numbering: Partitions, saved: list[Any]) -> Ints:
    """The number that each of the saved ones has now."""
    topics, of, indexes = saved
    numbering.add_topics(topics)
    return numbering.numbers(_ints(of), _ints(indexes))


# --- streams


_OF_STREAM = (
    *("number", "client_id", "connection", "replica_id", "replica_epoch", "session_key"),
    *("recorded_session_id", "is_broken", "draft_has_uuid", "last_seen_us", "last_session"),
    "opened_by",
)


def _saved_stream(stream: Stream, numbers: _Numbers) -> list[Any]:
    return [
        [getattr(stream, name) for name in _OF_STREAM],
        None if stream.unknown is None else stream.unknown.value,
        [[held.session, held.cache_id] for held in stream.held],
        [[number, *_saved_session(session)] for number, session in stream.sessions.items()],
        _saved_followed(stream.followed, numbers),
    ]


def _stream(saved: list[Any], numbering: Partitions, numbers: Ints) -> Stream:
    of_stream, unknown, held, sessions, followed = saved
    values = dict(zip(_OF_STREAM, of_stream, strict=True))
    return Stream(
        **values,
        unknown=None if unknown is None else Unknown(unknown),
        held=[Held(*of_cache) for of_cache in held],
        sessions={number: _session(rest) for number, *rest in sessions},
        followed=_followed(followed, numbering, numbers),
    )


def _saved_session(session: FetchSession) -> list[Any]:
    return [
        session.uses_topic_ids,
        session.recorded_id,
        _bytes(session.client),
        _bytes(session.broker),
        session.last,
        session.next_epoch,
    ]


def _session(saved: list[Any]) -> FetchSession:
    uses_topic_ids, recorded_id, client, broker, last, next_epoch = saved
    return FetchSession(uses_topic_ids, recorded_id, _ints(client), _ints(broker), last, next_epoch)


def _saved_followed(followed: FollowedPartitions, numbers: _Numbers) -> list[Any]:
    order = followed.order
    return [
        numbers.of(followed.slots.partitions),
        [_bytes(row) for row in followed.asked],
        [_bytes(row) for row in followed.told],
        followed.tags,
        [_bytes(order.keys()), _bytes(order.taken), sorted(order.marked), order.all_fresh],
    ]


def _followed(saved: list[Any], numbering: Partitions, numbers: Ints) -> FollowedPartitions:
    partitions, asked, told, tags, order = saved
    followed = FollowedPartitions(numbering)
    followed.slots.add(numbers[_ints(partitions)])
    followed.asked, followed.told = (np.stack([*map(_ints, rows)]) for rows in (asked, told))
    followed.tags = tags
    _start_order(followed.order, order)
    return followed


def _start_order(order: FullOrder, saved: list[Any]) -> None:
    keys, taken, marked, all_fresh = saved
    order.relist(_ints(keys))
    order.taken, order.marked, order.all_fresh = _ints(taken), set(marked), all_fresh


# --- caches


def _saved_cache(cache: FetchSessionCache) -> list[Any]:
    sessions = [
        [s.id, s.shard, s.session_key, s.privileged, s.size, s.created_ms, s.last_used_ms, s.is_old]
        for s in cache
    ]
    return [cache.created, cache.asked, sessions]


def _start_cache(cache: FetchSessionCache, saved: list[Any]) -> None:
    cache.created, cache.asked, sessions = saved
    for session in sessions:
        cache.add(CachedSession(*session))


def _bytes(values: Ints) -> bytes:
    """The narrowest of ``_TYPES`` that holds them, which comes first, and the values."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    bits = max(low.bit_length() if low >= 0 else (-low - 1).bit_length(), high.bit_length()) + 1
    number = next(n for n, t in enumerate(_TYPES) if bits <= 8 * t.itemsize)
    return bytes([number]) + np.ascontiguousarray(values, _TYPES[number]).tobytes()


def _ints(saved: bytes) -> Ints:
    return np.frombuffer(saved, _TYPES[saved[0]], offset=1).astype(np.int64)
