"""The state of a broker's replay, carried from one increment of a log to the next as bytes.

Topics and partitions that nobody follows any more are left out, and slots are numbered anew, so
that the size is that of what is open.
"""

import zlib
from typing import Any

import msgspec
import numpy as np

from ..kafka.messages.columns import Ints
from ..model.cached_partitions import Slots
from ..model.fetch_session import FetchSessionCache
from .lists import FollowedPartitions, Partitions
from .streams import PendingSession, Streams

#: ``Partitions`` of those that are open: names, topics, and of each partition topic and index.
_Numbering = tuple[dict[str, str], list[str], Ints, Ints]
#: ``FollowedPartitions``: rows (number, requested, returned, fresh), order, moves, unplaced.
_Followed = tuple[list[Ints], Ints, Ints, int]


class Carried(msgspec.Struct, array_like=True):
    """The state that a replay goes on from. ``front``: time and id of the last FETCH."""

    front: tuple[int, str]
    numbering: Partitions
    streams: Streams
    caches: list[FetchSessionCache]
    pending: list[PendingSession]


def encoded(carried: Carried) -> bytes:
    """Returns a state as bytes, with what is in use alone; it renumbers the streams' slots."""
    in_use = [np.array(p.not_read, np.int64) for p in carried.pending]
    for stream in carried.streams.by_number.values():
        stream.renumber()
        in_use.append(stream.followed.numbers_of(stream.followed.slots()))
    numbers: Ints = np.unique(np.concatenate([np.zeros(0, np.int64), *in_use]))

    def encode(value: Any) -> Any:
        if isinstance(value, Partitions):
            topics, topic_of = np.unique(value.topic_of[numbers], return_inverse=True)
            keys = [value.topics[topic] for topic in topics.tolist()]
            return value.names, keys, topic_of, value.index_of[numbers]
        if isinstance(value, FollowedPartitions):
            places = np.searchsorted(numbers, value.numbers_of(value.slots()))
            rows = [places, *value.requested, *value.returned, value.is_fresh]
            return rows, value.order, value.moves, value.unplaced
        return value.astype("<i8").tobytes()

    pending = [
        p._replace(not_read=tuple(np.searchsorted(numbers, p.not_read).tolist()))
        for p in carried.pending
    ]
    whole = Carried(carried.front, carried.numbering, carried.streams, carried.caches, pending)
    return zlib.compress(msgspec.msgpack.encode(whole, enc_hook=encode), 1)


def decoded(saved: bytes) -> Carried:
    numbering = Partitions()

    def decode(kind: type, value: Any) -> Any:
        if kind is Partitions:
            names, topics, *of_partitions = msgspec.convert(value, _Numbering, dec_hook=decode)
            numbering.names = names
            numbering.add_topics(topics)
            numbering.numbers(*of_partitions)
            return numbering
        if kind is FollowedPartitions:
            rows, order, moves, unplaced = msgspec.convert(value, _Followed, dec_hook=decode)
            followed = FollowedPartitions(numbering)
            places, *values, is_fresh = rows
            requested, returned = np.split(np.stack(values), [len(followed.requested)])
            followed.restore(places, requested, returned)
            followed.is_fresh, followed.unplaced = is_fresh.astype(np.bool_), unplaced
            followed.order, followed.moves = Slots(order), Slots(moves)
            return followed
        return np.frombuffer(value, "<i8").astype(np.int64)

    carried = msgspec.msgpack.decode(zlib.decompress(saved), type=Carried, dec_hook=decode)
    for stream in carried.streams.by_number.values():
        for session in stream.sessions:
            # What was written once for each cache is one object again.
            for number, cache_id in session.slots.items():
                carried.caches[number].share(cache_id, session.cached)
    return carried
