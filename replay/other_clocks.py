"""Nodes whose clock is not the other nodes': what a rule that compares their times does then.

All outcomes of a key rest on the clock of its own node and of the controllers. Where one of these
is apart, they are ``unknown``. Of any other node only what its own lines say is left out: the rule
goes on as if that node's log were not there.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from .outcomes import Verdict

#: Reason of outcomes that rest on times by clocks that are apart.
CLOCKS_DIFFER = "clocks of nodes whose times it compares differ"

#: Which events of a batch have times by the clocks of some nodes: a boolean for each.
TimesOf = Callable[[pa.RecordBatch, Collection[int]], pa.Array]


class Comparison(NamedTuple):
    """Describes how a rule compares times of several nodes.

    ``times_of``: which events have times by another node's clock. ``clears``: by name of a table,
    the columns that say nothing where an outcome rests on clocks that are apart.
    """

    times_of: TimesOf
    clears: Mapping[str, Sequence[str]]

    def without_times_of(self, nodes: Collection[int], events: pa.RecordBatch) -> pa.RecordBatch:
        return events.filter(pc.invert(self.times_of(events, nodes)))

    def unknown(self, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Makes all rows of a table unknown; those that were so keep their reason."""
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        was_so = pc.equal(columns["verdict"], Verdict.UNKNOWN.value)
        columns["reason"] = pc.if_else(was_so, columns["reason"], CLOCKS_DIFFER)
        columns["verdict"] = pa.repeat(Verdict.UNKNOWN.value, rows.num_rows)
        for name in self.clears.get(table, ()):
            columns[name] = pa.nulls(rows.num_rows, columns[name].type)
        return pa.RecordBatch.from_arrays([*columns.values()], schema=rows.schema)


def times_of(node: str, kinds: Collection[str] | None = None) -> TimesOf:
    """Selects events whose column ``node`` is one of the nodes, of ``kinds`` (None: of all)."""

    def is_of(batch: pa.RecordBatch, nodes: Collection[int]) -> pa.Array:
        column = batch.column(node)
        found = pc.is_in(column, pa.array(nodes, column.type))
        if kinds is None:
            return found
        of_kinds = pc.is_in(batch.column("kind"), pa.array(map(str, kinds), pa.string()))
        return pc.and_(found, of_kinds)

    return is_of
