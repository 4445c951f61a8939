"""Nodes whose clock is not the other nodes': what a rule that compares their times does then.

All outcomes of a key rest on the clock of its own node and of the controllers. Where one of these
is apart, they are ``unknown``. Of any other node only what its own lines say is left out: the rule
goes on as if that node's log were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.outcomes import made_unknown

#: Reason of outcomes that rest on times by clocks that are apart.
CLOCKS_DIFFER = "clocks of nodes whose times it compares differ"

#: Which events of a batch have times by the clocks of some nodes: a boolean for each.
TimesOf = Callable[[pa.RecordBatch, Collection[int]], pa.Array]


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


def without(batch: pa.RecordBatch, times: TimesOf, nodes: Collection[int]) -> pa.RecordBatch:
    """The events but those with times by the clocks of some nodes."""
    return batch.filter(pc.invert(times(batch, nodes)))


def unknown(rows: pa.RecordBatch, clears: Sequence[str]) -> pa.RecordBatch:
    """The rows, all of them unknown; ``clears``: columns that say nothing then."""
    return made_unknown(rows, pa.repeat(True, rows.num_rows), CLOCKS_DIFFER, clears)
