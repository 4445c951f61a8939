"""Topics and partitions by position: what a leader's log names by name, or by id."""

from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .events import NULL, Event

#: An array of integers or flags.
Array: TypeAlias = np.ndarray[Any, Any]
_BITS = 32
Key = TypeVar("Key", int, str)


def longs(column: pa.Array) -> Array:
    """A column of integers or flags, nulls as ``NULL``."""
    whole = column if column.type == pa.int64() else column.cast(pa.int64())
    if whole.null_count:
        whole = pc.fill_null(whole, NULL)
    array: Array = whole.to_numpy(zero_copy_only=False)
    return array


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


class MinIsrConfig(msgspec.Struct):
    """min.insync.replicas per topic, as set, deleted or described."""

    default: int | None
    assigned: dict[str, int] = {}
    described: dict[str, int] = {}
    #: Topics whose config was altered, but the leader may not have applied it yet.
    opened: list[str] = []
    #: What it was before a hole in which it may have been altered.
    doubted: tuple[int | None, dict[str, int], dict[str, int]] | None = None

    def take(self, event: Event) -> None:
        """Take a config of a topic, or of the default where it has no name."""
        name, value = event.name or "", event.value
        self.opened = [one for one in self.opened if one != name]
        number = int(value) if value is not None and value.isdigit() else None
        if event.operation == "describe":
            # What describes a topic that was set may be older than what was set.
            if number is not None and name:
                self.described[name] = number
            elif number is not None:
                self.default = number
        elif event.operation == "set" and number is not None:
            if name:
                self.assigned[name] = number
            else:
                self.default = number
        elif name:
            self.assigned.pop(name, None)
            self.described.pop(name, None)

    def doubt(self) -> None:
        """All of it may be another one by now."""
        if self.doubted is None:
            self.doubted = self.default, self.assigned, self.described
        self.default, self.assigned, self.described = None, {}, {}

    def believe(self) -> None:
        """It is none: but for what was read since, it is as it was."""
        if self.doubted is not None:
            default, assigned, described = self.doubted
            self.default = default if self.default is None else self.default
            self.assigned, self.described = assigned | self.assigned, described | self.described
            self.doubted = None

    def of(self, topic: str) -> int | None:
        """The value in force for a topic, None if the log does not have it."""
        known = self.assigned.get(topic, self.described.get(topic))
        if topic in self.opened or (known is None and "" in self.opened):
            return None
        return self.default if known is None else known
