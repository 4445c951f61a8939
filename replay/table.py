"""Declares Delta tables of the warehouse as record classes: columns, types, comments, keys.

Each table is declared once: those of the log in ``replay.log_tables``, a rule's in its folder,
those of summaries, checks and bookkeeping in ``replay.tables``, which also lists all of them. The
class is the table: readers and writers import it, ``docs/tables.md`` is printed from it and the
tests compare what is on disk with it. Types are Arrow's, so that the rules need no Spark to name
their output. Code that makes rows as objects makes instances of the class.

Conventions
-----------
* times are UTC with microseconds (``AT``), durations ``*_ms`` are DOUBLE, sizes ``*_bytes`` BIGINT;
* ``recording`` is the first column of every table and the first column of every key;
* a key column is never null.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_args

import msgspec
import pyarrow as pa

AT = pa.timestamp("us", tz="UTC")
TEXT = pa.string()
INT = pa.int32()
LONG = pa.int64()
MS = pa.float64()
BOOL = pa.bool_()

#: Types of fields whose columns may be null, as in ``rack: Text = column("its comment")``.
At = Annotated[int | None, AT]
Bool = Annotated[bool | None, BOOL]
Bytes = Annotated[bytes | None, pa.binary()]
Int = Annotated[int | None, INT]
Ints = Annotated[tuple[int, ...] | None, pa.list_(INT)]
Long = Annotated[int | None, LONG]
Longs = Annotated[tuple[int, ...] | None, pa.list_(LONG)]
Map = Annotated[dict[str, str] | None, pa.map_(TEXT, TEXT)]
Ms = Annotated[float | None, MS]
ManyMs = Annotated[tuple[float, ...] | None, pa.list_(MS)]
Text = Annotated[str | None, TEXT]
Texts = Annotated[tuple[str, ...] | None, pa.list_(TEXT)]
#: A struct, and a list of structs; the call of ``column`` states the fields of these.
Struct = Annotated[dict[str, Any] | None, pa.struct]
Structs = Annotated[list[dict[str, Any]] | None, pa.list_]
#: Types of fields whose columns are never null.
RequiredAt = Annotated[int, AT]
RequiredBool = Annotated[bool, BOOL]
RequiredInt = Annotated[int, INT]
RequiredLong = Annotated[int, LONG]
RequiredText = Annotated[str, TEXT]

#: Columns by which queries select a span of time: a table's is the first of these that it has
#: (``Table.time``). It is null only in rows that are unknown.
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
    """A column of a table.

    ``column`` makes it without a name, and without a type unless it is one of structs: ``Table``
    takes these from the field. ``default`` is the field's. ``is_last``: the column comes after
    those of derived classes.
    """

    name: str
    type: pa.DataType | None
    comment: str
    nullable: bool = True
    default: Any = None
    is_key: bool = False
    is_last: bool = False


def column(comment: str, fields: pa.StructType | None = None, **more: Any) -> Any:
    """Declares a field of a record class, with the comment of its column.

    ``fields``: those of its structs. ``nullable``: the column may be null, though a record never
    lacks the value.
    """
    return Column("", fields, comment, **{"nullable": False, **more})


def key(comment: str) -> Any:
    """Declares a field whose column is part of the table's key."""
    return column(comment, is_key=True)


def struct(text: str, **more: pa.DataType) -> pa.StructType:
    """Makes a struct type of a text like ``"topic string, partition int32"``, and more fields."""
    return pa.struct([*(tuple(field.split()) for field in text.split(",")), *more.items()])


def _columns_declared(namespace: dict[str, Any]) -> list[Column]:
    """Returns the columns that a class declares; leaves msgspec fields with their defaults."""
    columns = []
    for field, declared in list(namespace.items()):
        if isinstance(declared, Column):
            python_type, type_ = get_args(namespace["__annotations__"][field])
            is_optional = type(None) in get_args(python_type)
            columns.append(
                replace(
                    declared,
                    name=field,
                    type=type_(declared.type) if declared.type else type_,
                    nullable=is_optional or declared.nullable,
                )
            )
            del namespace[field]
            if is_optional or declared.default is not None:
                namespace[field] = declared.default
    return columns


class Table(msgspec.StructMeta):
    """The metaclass of record classes: makes columns of the fields that ``column`` declares.

    A class with a ``name`` is a Delta table, and its docstring describes the rows. ``shares``:
    classes whose columns the table has before its own; its records have no such fields, and the
    values are added later (``Records``). ``key``: columns that together are unique and never null.
    ``partitioned_by`` is Delta's partitioning. ``holds_on``: what a row says holds
    until another row says otherwise, however old it is.
    """

    _name: str
    _rule: str
    comment: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    holds_on: bool
    arrow_schema: pa.Schema
    partitioned_by: tuple[str, ...] = ("recording",)

    def __new__(
        cls,
        class_name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        name: str = "",
        rule: str = "",
        shares: Sequence["Table"] = (),
        holds_on: bool = False,
        **options: Any,
    ) -> "Table":
        assert namespace.keys().isdisjoint(Table.__annotations__), "names that each table has"
        columns = [c for base in (*bases, *shares) for c in getattr(base, "columns", ())]
        columns += _columns_declared(namespace)
        options = {"kw_only": True, "gc": False, **options}
        table = super().__new__(cls, class_name, bases, namespace, **options)
        table._name, table._rule, table.holds_on = name, rule, holds_on
        paragraph = " ".join((table.__doc__ or "").split("\n\n")[0].split()).rstrip(".")
        table.comment = f"{rule}: {paragraph[:1].lower()}{paragraph[1:]}" if rule else paragraph
        table.columns = tuple(sorted(columns, key=lambda column: column.is_last))
        table.key = tuple(column.name for column in columns if column.is_key)
        table.arrow_schema = pa.schema(
            [
                pa.field(c.name, c.type, nullable=c.nullable, metadata={"comment": c.comment})
                for c in table.columns
            ]
        )
        return table

    @property
    def name(cls) -> str:
        """Returns the table's name; ``name`` of a record is its column of that name."""
        return cls._name

    @property
    def rule(cls) -> str:
        """Returns the name of the rule whose outcomes the table has, empty if of none."""
        return cls._rule

    @property
    def names(cls) -> set[str]:
        return {column.name for column in cls.columns}

    @property
    def time(cls) -> str | None:
        """Returns the name of the column in ``TIMES`` that the table has first, None if none."""
        return next((name for name in TIMES if name in cls.names), None)

    def without(cls, *names: str) -> pa.Schema:
        """Returns the Arrow schema less some columns (those a later step adds)."""
        return pa.schema([f for f in cls.arrow_schema if f.name not in names])
