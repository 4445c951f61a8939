"""Record classes: the rows of tables as objects, and the input events of rules.

A record class is a table, or columns that several have in common (``table``). ``Records`` collects
records of one and emits them as Arrow batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, cast, get_args, get_type_hints

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import astuple
from numpy.typing import NDArray

from .log_gaps import LOG_GAP, Gaps
from .outcomes import Variant, Verdict
from .table import TEXT, RequiredInt, RequiredLong, RequiredText, Table, Text, column, key


class Record(msgspec.Struct, metaclass=Table):
    """Columns that several tables have in common, or all of one."""


class RecordingKey(Record):
    """The column that each table begins with, and that it is partitioned by."""

    recording: RequiredText = key("name of the recording (recording.json: name)")


REQUEST_ID = key("32 hex digits of BLAKE2b over node id and line: its content, once")
NODE_ID = column("node whose log holds the line")


class Line(Record, shares=(RecordingKey,)):
    """The first columns of tables that have a row for a line, or for a part of one."""

    request_id: RequiredText = REQUEST_ID
    node_id: RequiredInt = NODE_ID


class WhatIf(Record, shares=(RecordingKey,)):
    """The first columns of outcomes and sums: the rule, and under which what-if it was replayed."""

    rule: RequiredText = key("name of the rule")
    variant: RequiredText = key("recorded, or the protocol that was replayed")
    parameter: RequiredText = key("what a sweep varies, or none")
    parameter_value: RequiredLong = key("the value it took, -1 without a sweep")


VERDICT = column(
    "replayed, bounded (but its bytes), not_applicable or unknown",
    default=Verdict.REPLAYED,
    is_last=True,
)
REASON = column("why not applicable or unknown", is_last=True)
Decided = Annotated[Verdict, TEXT]


class OfVariant(Record, shares=(WhatIf,)):
    """A row under one variant: the protocol as recorded, or as a rule replays it."""

    variant: Variant


class Outcome(OfVariant):
    """Holds the verdict of an outcome; if it is not decided, the ``reason``."""

    verdict: Decided = VERDICT
    reason: Text = REASON

    def make_unknown(self, reason: str, clears: Iterable[str] = ()) -> None:
        """Says why it could not be decided; columns that say nothing then are null."""
        self.verdict, self.reason = Verdict.UNKNOWN, reason
        for name in clears:
            setattr(self, name, None)

    def rest_on_lines(
        self, gaps: Gaps, node_id: int, since_us: int, until_us: int, *clears: str
    ) -> None:
        """Makes it unknown where lines of a node may be missing between two times.

        If it was so it keeps its reason.
        """
        if gaps.touch(node_id, since_us, until_us):
            is_unknown = self.verdict is Verdict.UNKNOWN
            self.make_unknown(self.reason if is_unknown and self.reason else LOG_GAP, clears)


_OF_VARIANT = WhatIf.key[2:]
Row = TypeVar("Row", bound=Record)
Event = TypeVar("Event", bound=NamedTuple)
T = TypeVar("T")


class Records(Generic[Row]):
    """Rows of one table that were not emitted yet; without the recording.

    Each row is a record under one variant. Rows refer to what they share, so that each record
    becomes values of columns once, however many rows have it.
    """

    def __init__(self, table: type[Row]) -> None:
        self._schema, self._rule = table.without("recording"), table.rule
        #: Columns that are fields of records.
        self._names = {*self._schema.names} - WhatIf.names
        self._added: list[tuple[Sequence[Row], Sequence[Variant], Record | None]] = []

    def add(
        self, record: Row, variants: Sequence[Variant] = (), shared: Record | None = None
    ) -> None:
        """Adds a record under each of some variants, or its own.

        ``shared``: columns that several rows have from one record.
        """
        under = variants or (cast(OfVariant, record).variant,)
        self.add_rows([record] * len(under), under, shared)

    def add_rows(
        self, records: Sequence[Row], variants: Sequence[Variant], shared: Record | None = None
    ) -> None:
        """Adds a record for each variant; several variants may have the same one."""
        self._added.append((records, variants, shared))

    def take(self) -> pa.RecordBatch:
        """Emits the rows as a batch, column by column."""
        added, self._added = self._added, []
        columns: dict[str, pa.Array] = {}
        if added:
            records, under, shared = zip(*added, strict=True)
            rows, places = _distinct([*chain.from_iterable(records)])
            columns |= self._columns(rows, places)
            variants, of_variants = _distinct([*chain.from_iterable(under)])
            values = zip(*variants, strict=True)
            columns |= self._taken(zip(_OF_VARIANT, values, strict=True), of_variants)
            if shared[0] is not None:
                common, of_shared = _distinct(shared)
                columns |= self._columns(common, of_shared.repeat([*map(len, under)]))
            columns["rule"] = pa.repeat(self._rule, len(places))
        arrays = [columns.get(field.name, pa.array([], field.type)) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _columns(self, records: Sequence[Record], places: NDArray[np.int64]) -> dict[str, pa.Array]:
        """Returns the columns of the table that records have, of a row for each place."""
        values = zip(*map(astuple, records), strict=True)
        fields = zip(records[0].__struct_fields__, values, strict=True)
        return self._taken((field for field in fields if field[0] in self._names), places)

    def _taken(
        self, columns: Iterable[tuple[str, Sequence[Any]]], places: NDArray[np.int64]
    ) -> dict[str, pa.Array]:
        of_rows, kind = pa.array(places), self._schema.field
        return {name: pa.array(values, kind(name).type).take(of_rows) for name, values in columns}


def _distinct(objects: Sequence[T]) -> tuple[list[T], NDArray[np.int64]]:
    """Returns objects once each, and the place of each object among them."""
    ids = np.fromiter(map(id, objects), np.uint64, len(objects))
    _, firsts, places = np.unique(ids, return_index=True, return_inverse=True)
    return [objects[first] for first in firsts.tolist()], places


def event_schema(event: type) -> pa.Schema:
    """Makes the Arrow schema of input events: a column for each field of a NamedTuple.

    Whole numbers are INT64. A field that is a list of NamedTuples is a list of structs.
    """
    return pa.schema([(name, _arrow_type(kind)) for name, kind in get_type_hints(event).items()])


def events_of(batch: pa.RecordBatch, event: type[Event]) -> Iterator[Event]:
    """Reads input events; where a kind of them has no value, its field has its default."""
    defaults = event._field_defaults
    columns = [values_of(batch.column(name), defaults.get(name)) for name in event._fields]
    return map(event._make, zip(*columns, strict=True))


def values_of(column: pa.Array, default: Any = None) -> list[Any]:
    """Returns a column's values, a default for nulls; faster than Arrow does for numbers."""
    nulls, values = column.null_count, column
    if nulls == len(column):
        return [default] * nulls
    if not pa.types.is_integer(column.type):
        values = column.to_pylist()
        return [default if value is None else value for value in values] if nulls else values
    numbers = pc.fill_null(column, default or 0).to_numpy()
    if nulls and default is None:
        numbers = numbers.astype(object)
        numbers[column.is_null().to_numpy(zero_copy_only=False)] = None
    whole: list[Any] = numbers.tolist()
    return whole


_ARROW_TYPES = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
}


def _arrow_type(kind: Any) -> pa.DataType:
    if kind in _ARROW_TYPES:
        return _ARROW_TYPES[kind]
    arguments = get_args(kind)
    if type(None) in arguments:
        return _arrow_type(arguments[0])
    if arguments:
        return pa.list_(_arrow_type(arguments[0]))
    return pa.struct([pa.field(field.name, field.type) for field in event_schema(kind)])
