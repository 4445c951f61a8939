"""Topics and partitions by position: what a leader's log names by name, or by id."""

from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .events import NULL, PENDING, Event
from .kip_926 import UNKNOWN

#: An array of integers or flags.
Array: TypeAlias = np.ndarray[Any, Any]
_BITS = 32


def longs(column: pa.Array) -> Array:
    """A column of integers or flags, nulls as ``NULL``."""
    whole = column if column.type == pa.int64() else column.cast(pa.int64())
    if whole.null_count:
        whole = pc.fill_null(whole, NULL)
    array: Array = whole.to_numpy(zero_copy_only=False)
    return array


class Topics(msgspec.Struct):
    """The partitions of this leader by position, and names of topic ids."""

    positions: dict[str, dict[int, int]] = {}
    count: int = 0
    named: dict[str, str] = {}

    def partitions_of(
        self, columns: dict[str, pa.Array]
    ) -> tuple[Array, dict[int, tuple[str, int]]]:
        """Positions of the partitions that events name, and what is at them.

        Positions are never used again.
        """
        names, ids = columns["topic"], columns["topic_id"]
        coded = (names if not names.null_count else pc.coalesce(names, ids, "")).dictionary_encode()
        keys = (coded.indices.to_numpy(zero_copy_only=False).astype(np.int64) << _BITS) | longs(
            columns["partition"]
        )
        few, places = np.unique(keys, return_inverse=True)
        topics = [self._resolved(name) for name in coded.dictionary.to_pylist()]
        found: dict[int, tuple[str, int]] = {}
        positions = []
        for key in few.tolist():
            one = topics[key >> _BITS], key & ((1 << _BITS) - 1)
            positions.append(self._position(*one))
            found[positions[-1]] = one
        return np.array(positions, np.int64)[places], found

    def _position(self, topic: str, partition: int) -> int:
        of_topic = self.positions.setdefault(topic, {})
        if partition not in of_topic:
            of_topic[partition], self.count = self.count, self.count + 1
        return of_topic[partition]

    def keep(self, positions: set[int]) -> None:
        """Forget all other partitions, and names of ids: each increment begins with them."""
        kept = {
            topic: {number: one for number, one in of_topic.items() if one in positions}
            for topic, of_topic in self.positions.items()
        }
        self.positions, self.named = {topic: of for topic, of in kept.items() if of}, {}

    def _resolved(self, name: str) -> str:
        # An event may name a topic by its id where the name is meant.
        once = self.named.get(name, name)
        return self.named.get(once, once)


class MinIsrConfig(msgspec.Struct):
    """min.insync.replicas per topic, the default without a name, as set, deleted or described."""

    known: dict[str, int]
    #: Topics of which it was set.
    assigned: set[str] = set()

    def take(self, event: Event) -> None:
        name, value = event.name or "", event.value or ""
        if event.operation == PENDING:
            self.known[name] = UNKNOWN
            self.assigned.discard(name)
        elif event.operation == "describe":
            # What describes a topic that was set may be older than what was set.
            if value.isdigit() and name not in self.assigned:
                self.known[name] = int(value)
        elif event.operation == "set" and value.isdigit():
            self.known[name] = int(value)
            self.assigned |= {name} - {""}
        elif name:
            self.known.pop(name, None)
            self.assigned.discard(name)

    def forget(self) -> None:
        """All of it may be another one by now."""
        self.known, self.assigned = {}, set()

    def of(self, topic: str) -> int:
        """The value in force for a topic, UNKNOWN if the log does not have it."""
        return self.known.get(topic, self.known.get("", UNKNOWN))
