"""What a Delta table of the warehouse is: name, columns, types, comments, keys.

Each table is described once: those of the log in ``replay.log_tables``, a rule's in its folder,
those of summaries, checks and bookkeeping in ``replay.tables``, which also lists all of them.
Readers and writers import these, ``docs/tables.md`` is printed from them and the tests compare what
is on disk with them. Types are Arrow's, so that the rules need no Spark to name their output.

Conventions
-----------
* times are UTC with microseconds (``AT``), durations ``*_ms`` are DOUBLE, sizes ``*_bytes`` BIGINT;
* ``recording`` is the first column of every table and the first column of every key;
* a key column is never null.
"""

from dataclasses import dataclass
from functools import partial
from typing import Self

import pyarrow as pa

AT = pa.timestamp("us", tz="UTC")
TEXT = pa.string()
INT = pa.int32()
LONG = pa.int64()
MS = pa.float64()
BOOL = pa.bool_()

#: Time columns of tables, the one that questions select by first. No row of a table lacks its own,
#: but for what is unknown.
TIMES = (
    "recorded_received_at",
    "received_at",
    "leader_at",
    "appended_at",
    "built_at",
    "event_at",
    "responded_at",
    "requested_at",
    "applied_at_earliest",
    "learned_at",
)


@dataclass(frozen=True)
class Column:
    name: str
    type: pa.DataType
    comment: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """A Delta table.

    ``key`` columns together are unique and never null. ``partitioned_by`` is Delta's partitioning.
    ``holds_on``: what a row says holds until another row says otherwise, however old it is.
    """

    name: str
    comment: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    partitioned_by: tuple[str, ...] = ("recording",)
    holds_on: bool = False

    @classmethod
    def of_outcomes(
        cls,
        name: str,
        comment: str,
        columns: tuple[Column, ...],
        key: tuple[str, ...],
        *,
        verdict: bool = True,
        holds_on: bool = False,
    ) -> Self:
        """Outcomes or sums: rule and what-if come first, a ``verdict`` last."""
        judged = VERDICT if verdict else ()
        every = (*OUTCOME, *columns, *judged)
        return cls(name, comment, every, (*WHAT_IF_KEY, *key), holds_on=holds_on)

    @property
    def names(self) -> set[str]:
        return {column.name for column in self.columns}

    @property
    def time(self) -> str | None:
        """The column that tells recent rows from older ones; None: it has none."""
        return next((name for name in TIMES if name in self.names), None)

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field(c.name, c.type, nullable=c.nullable, metadata={"comment": c.comment})
                for c in self.columns
            ]
        )

    def without(self, *names: str) -> pa.Schema:
        """The Arrow schema less some columns (those a later step adds)."""
        return pa.schema([f for f in self.arrow_schema if f.name not in names])


#: A column that is never null.
Required = partial(Column, nullable=False)

RECORDING = Required("recording", TEXT, "name of the recording (recording.json: name)")

REQUEST_ID = Required(
    "request_id",
    TEXT,
    "32 hex digits of BLAKE2b (keyed under --anonymize) over node id and line: its content, once",
)

NODE_ID = Required("node_id", INT, "node whose log holds the line")

#: What tables begin with whose rows are of one line.
LINE = (RECORDING, REQUEST_ID, NODE_ID)

#: What outcome, eviction and summary tables share: which rule it is of, under which what-if.
WHAT_IF = (
    Required("rule", TEXT, "name of the rule"),
    Required("variant", TEXT, "recorded, or the protocol that was replayed"),
    Required("parameter", TEXT, "what a sweep varies, or none"),
    Required("parameter_value", LONG, "the value it took, -1 without a sweep"),
)

#: What those tables begin with.
OUTCOME = (RECORDING, *WHAT_IF)

#: What their keys begin with.
WHAT_IF_KEY = ("recording", *(column.name for column in WHAT_IF))

VERDICT = (
    Required("verdict", TEXT, "replayed, bounded (but its bytes), not_applicable or unknown"),
    Column("reason", TEXT, "why not applicable or unknown"),
)
