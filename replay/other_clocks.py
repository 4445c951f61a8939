"""Nodes whose clock is not the other nodes': what a rule that compares their times does then.

All outcomes of a key rest on the clock of its own node and of the controllers. Where one of these
is apart, they are ``unknown``. Of any other node only what its own lines say is left out: the rule
goes on as if that node's log were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.outcomes import made_unknown

if TYPE_CHECKING:
    from kip_replay.replay.rule import Replay

#: Reason of outcomes that rest on times by clocks that are apart.
CLOCKS_DIFFER = "clocks of nodes whose times it compares differ"

#: Which events of a batch have times by the clocks of some nodes: a boolean for each.
TimesOf = Callable[[pa.RecordBatch, Collection[int]], pa.Array]


@dataclass(frozen=True)
class Comparison:
    """How a rule compares times of several nodes.

    ``times_of``: which events have times by another node's clock. ``clears``: by name of a table,
    the columns that say nothing where an outcome rests on clocks that are apart.
    """

    times_of: TimesOf
    clears: Mapping[str, Sequence[str]]


def times_of(node: str, kinds: Collection[str] | None = None) -> TimesOf:
    """Events whose column ``node`` is one of the nodes; only of some ``kinds``, None: of all."""

    def is_of(batch: pa.RecordBatch, nodes: Collection[int]) -> pa.Array:
        column = batch.column(node)
        found = pc.is_in(column, pa.array(nodes, column.type))
        if kinds is None:
            return found
        return pc.and_(
            found, pc.is_in(batch.column("kind"), pa.array(map(str, kinds), pa.string()))
        )

    return is_of


class ByClocks:
    """A replay of a recording in which the clocks of some nodes, ``apart``, are not the others'.

    ``is_unknown``: among them is one that all its outcomes rest on. ``tables``: what it emits.
    """

    def __init__(
        self,
        replay: Replay,
        comparison: Comparison,
        tables: Sequence[str],
        apart: Collection[int],
        is_unknown: bool,
    ) -> None:
        self._replay, self._comparison, self._tables = replay, comparison, tables
        self._apart, self._is_unknown = apart, is_unknown

    def feed(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """As ``Replay.feed``; other nodes' own times are left out where outcomes are known."""
        if not self._is_unknown:
            batch = batch.filter(pc.invert(self._comparison.times_of(batch, self._apart)))
        return self._marked(self._replay.feed(batch))

    def finish(self) -> Sequence[pa.RecordBatch]:
        """As ``Replay.finish``."""
        return self._marked(self._replay.finish())

    def saved(self) -> bytes:
        """As ``Replay.saved``."""
        return self._replay.saved()

    def _marked(self, emitted: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
        if not self._is_unknown:
            return emitted
        return [
            made_unknown(
                rows,
                pa.repeat(True, rows.num_rows),
                CLOCKS_DIFFER,
                self._comparison.clears.get(table, ()),
            )
            for table, rows in zip(self._tables, emitted, strict=True)
        ]
