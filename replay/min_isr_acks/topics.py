"""Topics and partitions by position: what a leader's log names by name, or by id."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.min_isr_acks.inputs import Interned, longs
from kip_replay.replay.min_isr_acks.state import Array

_BITS = 32


class Topics:
    """Topics' names, and the partitions of this leader as (topic, partition) positions."""

    def __init__(self) -> None:
        self.names = Interned()
        self.partitions = Interned()
        self._named: dict[str, str] = {}

    def name(self, topic_id: str, name: str) -> None:
        """A topic's id and name, true at all times."""
        self._named[topic_id] = name

    def partitions_of(self, columns: dict[str, pa.Array]) -> Array:
        """Positions of the partitions that events name, new ones for those that are new."""
        topics = self._topics_of(columns["topic"], columns["topic_id"])
        keys = (topics << _BITS) | longs(columns["partition"])
        coded = pa.array(keys).dictionary_encode()
        positions = [
            self.partitions.of((key >> _BITS, key & ((1 << _BITS) - 1)))
            for key in coded.dictionary.to_pylist()
        ]
        return _decoded(positions, coded)

    def _topics_of(self, names: pa.Array, ids: pa.Array) -> Array:
        """By name, or by id where there is no name."""
        texts = names if not names.null_count else pc.coalesce(names, ids, "")
        coded = texts.dictionary_encode()
        positions = [self.names.of(self._resolved(text)) for text in coded.dictionary.to_pylist()]
        return _decoded(positions, coded)

    def _resolved(self, name: str) -> str:
        # An event may name a topic by its id where the name is meant.
        once = self._named.get(name, name)
        return self._named.get(once, once)

    def columns(self) -> tuple[pa.Array, Array]:
        """Name of the topic and number of each partition, by its position."""
        topics = np.array([topic for topic, _ in self.partitions.values], np.int64)
        numbers = np.array([number for _, number in self.partitions.values], np.int64)
        return pa.array(self.names.values, pa.string()).take(pa.array(topics)), numbers

    def saved(self) -> dict[str, Any]:
        """Plain values to start from."""
        return {
            "names": self.names.values,
            "partitions": self.partitions.values,
            "named": self._named,
        }

    @staticmethod
    def of(plain: dict[str, Any]) -> Topics:
        """What ``saved`` returned."""
        topics = Topics()
        topics.names = Interned(plain["names"])
        topics.partitions = Interned(map(tuple, plain["partitions"]))
        topics._named = dict(plain["named"])
        return topics


def _decoded(positions: list[int], coded: pa.DictionaryArray) -> Array:
    by_code = np.array(positions, np.int64)
    decoded: Array = by_code[coded.indices.to_numpy(zero_copy_only=False)]
    return decoded
