"""What the replay of a broker carries from one increment of a log to the next, as bytes.

Topics and partitions that nobody follows any more are left out, and slots are numbered anew, so
that the size is that of what is open.
"""

import zlib
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..kafka.messages.encoding import Bools, Ints
from .cache import FetchSessionCache
from .followed import FollowedPartitions
from .partitions import Partitions
from .streams import PendingSession, Streams


class _Numbering(NamedTuple):
    """``Partitions``, of those that are open: their places are their numbers when it is read."""

    names: dict[str, str]
    topics: list[str]
    topic_of: Ints
    index_of: Ints


class _Followed(NamedTuple):
    """``FollowedPartitions``; ``order``, ``moves`` and ``is_fresh`` are of its full FETCH."""

    partitions: Ints
    requested: list[Ints]
    returned: list[Ints]
    has_tags: bool
    order: Ints
    moves: Ints
    is_fresh: Bools
    unplaced: int


class Carried(msgspec.Struct, array_like=True):
    """What a replay goes on from. ``front``: time and id of the last FETCH."""

    front: tuple[int, str]
    numbering: Partitions
    streams: Streams
    caches: list[FetchSessionCache]
    pending: list[PendingSession]


def encoded(carried: Carried) -> bytes:
    numbering = carried.numbering
    open_ones = [np.array(p.not_read, np.int64) for p in carried.pending]
    for stream in carried.streams.by_number.values():
        stream.renumber()
        open_ones.append(stream.followed.slots.partitions)
    numbers: Ints = np.unique(np.concatenate([np.zeros(0, np.int64), *open_ones]))

    def encode(value: Any) -> Any:
        if isinstance(value, Partitions):
            topics, topic_of = np.unique(value.topic_of[numbers], return_inverse=True)
            keys = [value.topics[topic] for topic in topics.tolist()]
            return _Numbering(value.names, keys, topic_of, value.index_of[numbers])
        if isinstance(value, FollowedPartitions):
            partitions, order = np.searchsorted(numbers, value.slots.partitions), value.order
            values = list(value.requested), list(value.returned), value.has_tags
            return _Followed(
                partitions, *values, order.slots, order.moves, order.is_fresh, order.unplaced
            )
        return value.astype("<i8").tobytes()

    pending = [
        p._replace(not_read=tuple(np.searchsorted(numbers, p.not_read).tolist()))
        for p in carried.pending
    ]
    whole = Carried(carried.front, numbering, carried.streams, carried.caches, pending)
    return zlib.compress(msgspec.msgpack.encode(whole, enc_hook=encode), 1)


def decoded(saved: bytes) -> Carried:
    numbering = Partitions()

    def decode(kind: type, value: Any) -> Any:
        if kind is Partitions:
            known = msgspec.convert(value, _Numbering, dec_hook=decode)
            numbering.names = known.names
            numbering.add_topics(known.topics)
            numbering.numbers(known.topic_of, known.index_of)
            return numbering
        if kind is FollowedPartitions:
            return _followed(msgspec.convert(value, _Followed, dec_hook=decode), numbering)
        return np.frombuffer(value, "<i8").astype(np.int64)

    return msgspec.msgpack.decode(zlib.decompress(saved), type=Carried, dec_hook=decode)


def _followed(saved: _Followed, numbering: Partitions) -> FollowedPartitions:
    followed = FollowedPartitions(numbering)
    followed.slots.add(saved.partitions)
    followed.requested, followed.returned = np.stack(saved.requested), np.stack(saved.returned)
    followed.has_tags = saved.has_tags
    order = followed.order
    order.relist(saved.order)
    order.moves, order.is_fresh = saved.moves, saved.is_fresh.astype(np.bool_)
    order.unplaced = saved.unplaced
    return followed
