"""What the replay of a broker carries from one increment of a log to the next, as bytes.

Compressed MessagePack of the values themselves; arrays are little-endian bytes. Topics and
partitions that nobody follows any more are left out, and slots are numbered anew, so that the size
is that of what is open.
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


class _State(msgspec.Struct, array_like=True):
    """``topic_of`` and ``index_of`` are of the open partitions, whose numbers are their places."""

    front: tuple[int, str]
    names: dict[str, str]
    topics: list[str]
    topic_of: Ints
    index_of: Ints
    streams: msgspec.Raw
    caches: list[FetchSessionCache]
    pending: list[PendingSession]


class _Followed(NamedTuple):
    """``FollowedPartitions``; ``order``, ``moves`` and ``is_fresh`` are of its full FETCH."""

    partitions: Ints
    requested: list[Ints]
    returned: list[Ints]
    has_tags: bool
    order: Ints
    moves: Ints
    is_fresh: Bools


class Carried(NamedTuple):
    """What a replay goes on from. ``front``: time and id of the last FETCH."""

    front: tuple[int, str]
    numbering: Partitions
    streams: Streams
    caches: list[FetchSessionCache]
    pending: list[PendingSession]


def encoded(carried: Carried) -> bytes:
    numbering, streams = carried.numbering, carried.streams
    open_ones = [np.array(p.not_read, np.int64) for p in carried.pending]
    for stream in streams.by_number.values():
        stream.renumber()
        open_ones.append(stream.followed.slots.partitions)
    numbers: Ints = np.unique(np.concatenate([np.zeros(0, np.int64), *open_ones]))
    topics, topic_of = np.unique(numbering.topic_of[numbers], return_inverse=True)

    def encode(value: Any) -> Any:
        if isinstance(value, FollowedPartitions):
            order = value.order
            return _Followed(
                np.searchsorted(numbers, value.slots.partitions),
                list(value.requested),
                list(value.returned),
                value.has_tags,
                order.keys(),
                order.moves,
                order.is_fresh,
            )
        return value.astype("<i8").tobytes()

    state = msgspec.msgpack.encode(
        _State(
            carried.front,
            numbering.names,
            [numbering.topics[topic] for topic in topics.tolist()],
            topic_of,
            numbering.index_of[numbers],
            msgspec.Raw(msgspec.msgpack.encode(streams, enc_hook=encode)),
            carried.caches,
            [
                p._replace(not_read=tuple(np.searchsorted(numbers, p.not_read).tolist()))
                for p in carried.pending
            ],
        ),
        enc_hook=encode,
    )
    return zlib.compress(state, 1)


def decoded(saved: bytes) -> Carried:
    numbering = Partitions()

    def decode(kind: type, value: Any) -> Any:
        if kind is FollowedPartitions:
            return _followed(msgspec.convert(value, _Followed, dec_hook=decode), numbering)
        return np.frombuffer(value, "<i8").astype(np.int64)

    state = msgspec.msgpack.decode(zlib.decompress(saved), type=_State, dec_hook=decode)
    numbering.names = state.names
    numbering.add_topics(state.topics)
    numbering.numbers(state.topic_of, state.index_of)
    streams = msgspec.msgpack.decode(state.streams, type=Streams, dec_hook=decode)
    return Carried(state.front, numbering, streams, state.caches, state.pending)


def _followed(saved: _Followed, numbering: Partitions) -> FollowedPartitions:
    followed = FollowedPartitions(numbering)
    followed.slots.add(saved.partitions)
    followed.requested, followed.returned = np.stack(saved.requested), np.stack(saved.returned)
    followed.has_tags = saved.has_tags
    order = followed.order
    order.relist(saved.order)
    order.moves, order.is_fresh = saved.moves, saved.is_fresh.astype(np.bool_)
    return followed
