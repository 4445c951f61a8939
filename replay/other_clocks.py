"""Nodes whose clock is not the other nodes': what a rule that compares their times does then.

All outcomes of a key rest on the clock of its own node and of the controllers. Where one of these
is apart, they are ``unknown``. Of any other node only what its own lines say is left out: the rule
goes on as if that node's log were not there.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from .outcomes import Verdict

#: Reason of outcomes that rest on times by clocks that are apart.
CLOCKS_DIFFER = "clocks of nodes whose times it compares differ"


class Comparison(NamedTuple):
    """Describes how a rule compares times of several nodes.

    ``node``: the column of the node by whose clock the times of events are. ``clears``: by name of
    a table, columns that say nothing where an outcome rests on clocks that are apart. ``kinds`` of
    events that have such times; none: all do.
    """

    node: str
    clears: Mapping[str, Sequence[str]]
    kinds: Collection[str] = ()

    def without_times_of(self, nodes: Collection[int], events: pa.RecordBatch) -> pa.RecordBatch:
        column = events.column(self.node)
        is_of = pc.is_in(column, pa.array(nodes, column.type))
        if self.kinds:
            kinds = pa.array(map(str, self.kinds), pa.string())
            is_of = pc.and_(is_of, pc.is_in(events.column("kind"), kinds))
        return events.filter(pc.invert(is_of))

    def unknown(self, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Makes all rows of a table unknown; those that were so keep their reason."""
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        was_so = pc.equal(columns["verdict"], Verdict.UNKNOWN.value)
        columns["reason"] = pc.if_else(was_so, columns["reason"], CLOCKS_DIFFER)
        columns["verdict"] = pa.repeat(Verdict.UNKNOWN.value, rows.num_rows)
        for name in self.clears.get(table, ()):
            columns[name] = pa.nulls(rows.num_rows, columns[name].type)
        return pa.RecordBatch.from_arrays([*columns.values()], schema=rows.schema)
