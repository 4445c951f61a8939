"""Topics and partitions by position: what a leader's log names by name, or by id."""

from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .inputs import longs
from .log import Array

_BITS = 32
Key = TypeVar("Key", int, str)


class Topics(msgspec.Struct):
    """Topics' names, and the partitions of this leader as (topic, partition) positions."""

    names: dict[str, int] = {}
    #: Positions by topic's position and partition, packed.
    partitions: dict[int, int] = {}
    named: dict[str, str] = {}

    def partitions_of(self, columns: dict[str, pa.Array]) -> Array:
        """Positions of the partitions that events name, new ones for those that are new."""
        names, ids = columns["topic"], columns["topic_id"]
        coded = (names if not names.null_count else pc.coalesce(names, ids, "")).dictionary_encode()
        topics = [
            _position(self.names, self._resolved(one)) for one in coded.dictionary.to_pylist()
        ]
        keys = (_decoded(topics, coded) << _BITS) | longs(columns["partition"])
        coded = pa.array(keys).dictionary_encode()
        positions = [_position(self.partitions, key) for key in coded.dictionary.to_pylist()]
        return _decoded(positions, coded)

    def _resolved(self, name: str) -> str:
        # An event may name a topic by its id where the name is meant.
        once = self.named.get(name, name)
        return self.named.get(once, once)

    def of_partitions(self) -> list[str]:
        names = list(self.names)
        return [names[key >> _BITS] for key in self.partitions]

    def columns(self) -> tuple[pa.Array, Array]:
        """Name of the topic and number of each partition, by its position."""
        keys = np.array(list(self.partitions), np.int64)
        names = pa.array(list(self.names), pa.string())
        return names.take(pa.array(keys >> _BITS)), keys & ((1 << _BITS) - 1)


def _position(positions: dict[Key, int], key: Key) -> int:
    return positions.setdefault(key, len(positions))


def _decoded(positions: list[int], coded: pa.DictionaryArray) -> Array:
    by_code = np.array(positions, np.int64)
    decoded: Array = by_code[coded.indices.to_numpy(zero_copy_only=False)]
    return decoded
