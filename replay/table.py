"""Describes Delta tables of the warehouse: name, columns, types, comments, keys.

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

from collections import defaultdict
from dataclasses import dataclass
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
        what_if = tuple(column.name for column in OUTCOME)
        return cls(name, comment, every, (*what_if, *key), holds_on=holds_on)

    @property
    def names(self) -> set[str]:
        return {column.name for column in self.columns}

    @property
    def time(self) -> str | None:
        """Names the column that tells recent rows from older ones; None: it has none."""
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
        """Returns the Arrow schema less some columns (those a later step adds)."""
        return pa.schema([f for f in self.arrow_schema if f.name not in names])


RECORDING_COLUMN = """
recording text* name of the recording (recording.json: name)
"""

#: What tables begin with whose rows are of one line.
LINE_COLUMNS = f"""{RECORDING_COLUMN}
request_id text* 32 hex digits of BLAKE2b over node id and line: its content, once
node_id    int!  node whose log holds the line
"""

#: What outcomes and sums begin with: which rule they are of, under which what-if.
OUTCOME_COLUMNS = f"""{RECORDING_COLUMN}
rule            text* name of the rule
variant         text* recorded, or the protocol that was replayed
parameter       text* what a sweep varies, or none
parameter_value long* the value it took, -1 without a sweep
"""

VERDICT_COLUMNS = """
verdict text! replayed, bounded (but its bytes), not_applicable or unknown
reason  text  why not applicable or unknown
"""

_TYPES = {"at": AT, "text": TEXT, "int": INT, "long": LONG, "ms": MS, "bool": BOOL}
_TYPES |= {"bytes": pa.binary(), "map": pa.map_(TEXT, TEXT)}


def table(text: str, *, holds_on: bool = False) -> Table:
    """Makes a table of its text: name and comment, then a column a line: name, type and comment.

    A star behind a type is a column of the key, an exclamation mark one that is never null either.
    Fields of a struct are indented below it, separated by commas.
    """
    head, columns = text.strip().split("\n", 1)
    name, comment = " ".join(head.split()).split(": ", 1)
    lines = [line.split() for line in columns.splitlines() if line[:1].strip()]
    key = tuple(words[0] for words in lines if words[1].endswith("*"))
    return Table(name, comment, columns_of(columns), key, holds_on=holds_on)


def columns_of(text: str) -> tuple[Column, ...]:
    """Columns of the text of a table, or of a part of it."""
    inner: dict[int, list[Column]] = defaultdict(list)
    for line in reversed(text.splitlines()):
        depth = (len(line) - len(line.lstrip())) // 2
        below = [(column.name, column.type) for column in reversed(inner.pop(depth + 1, []))]
        for entry in reversed(line.split(",") if depth else [line]):
            name, type_, *comment = entry.split() or ("", "")
            if name:
                arrow_type = _type(type_.rstrip("*!"), below)
                nullable = type_[-1] not in "*!"
                inner[depth].append(Column(name, arrow_type, " ".join(comment), nullable))
    return tuple(reversed(inner[0]))


def _type(name: str, fields: list[tuple[str, pa.DataType]]) -> pa.DataType:
    element = name.removeprefix("[]")
    type_ = pa.struct(fields) if element == "struct" else _TYPES[element]
    return type_ if name == element else pa.list_(type_)


RECORDING, REQUEST_ID, NODE_ID = LINE = columns_of(LINE_COLUMNS)
OUTCOME = columns_of(OUTCOME_COLUMNS)
VERDICT = columns_of(VERDICT_COLUMNS)
