"""Outcomes as record classes: the fields of one are a table's columns, and its records rows.

The fields of a record class are ``column``s: Arrow type and comment are beside the name. It
states an outcome once. ``outcome_table`` makes the Delta table of it, ``Records`` collects
records and emits them as Arrow batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, pairwise
from operator import attrgetter
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, cast, get_args, get_type_hints

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .log_gaps import LOG_GAP, Gaps
from .outcomes import WHAT_IF, Variant, Verdict
from .table import AT, BOOL, INT, LONG, MS, TEXT, Column, Table

#: Nullable columns, as types of fields: with ``column`` a comment is all that is left to say.
At = Annotated[int | None, AT]
Bool = Annotated[bool | None, BOOL]
Int = Annotated[int | None, INT]
Ints = Annotated[tuple[int, ...] | None, pa.list_(INT)]
Long = Annotated[int | None, LONG]
Ms = Annotated[float | None, MS]
Text = Annotated[str | None, TEXT]
#: Those that are never null.
RequiredAt = Annotated[int, AT]
RequiredInt = Annotated[int, INT]
RequiredLong = Annotated[int, LONG]
RequiredText = Annotated[str, TEXT]


class _Declared(NamedTuple):
    comment: str
    nullable: bool
    default: int | None


def column(comment: str, *, nullable: bool = False, default: int | None = None) -> Any:
    """Declares a field of a record class, with the comment of its column.

    ``nullable``: the column is, though each record has a value. ``default``: of one that may be
    null.
    """
    return _Declared(comment, nullable, default)


class RecordClass(msgspec.StructMeta):
    """The type of record classes: makes columns of the fields that have a comment."""

    columns: tuple[Column, ...]

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "RecordClass":
        columns = []
        for key, value in list(namespace.items()):
            if isinstance(value, _Declared):
                kind, arrow_type = get_args(namespace["__annotations__"][key])
                is_optional = type(None) in get_args(kind)
                is_nullable = is_optional or value.nullable
                columns.append(Column(key, arrow_type, value.comment, is_nullable))
                del namespace[key]
                if is_optional:
                    namespace[key] = value.default
        record = super().__new__(cls, name, bases, namespace, **options)
        record.columns = tuple(columns)
        return record


class Record(msgspec.Struct, metaclass=RecordClass, kw_only=True, gc=False):
    """Columns that several outcomes have in common, or (``Outcome``) all of them."""


class Outcome(Record, kw_only=True, gc=False):
    """Holds the variant of an outcome and its verdict; if it is not decided, the ``reason``."""

    variant: Variant
    verdict: Verdict = Verdict.REPLAYED
    reason: str | None = None

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


_OF_VARIANT = WHAT_IF[1:]
Row = TypeVar("Row", bound=Record)
Event = TypeVar("Event", bound=NamedTuple)


def outcome_table(
    name: str,
    rule: str,
    record: RecordClass,
    key: tuple[str, ...],
    *,
    shared: RecordClass | None = None,
    verdict: bool = True,
    holds_on: bool = False,
) -> Table:
    """Makes the table of a record class, whose docstring says what a row is.

    ``shared``: a record class of the columns that several outcomes have from one record.
    """
    paragraph = " ".join((record.__doc__ or "").split("\n\n")[0].split()).rstrip(".")
    comment = f"{rule}: {paragraph[:1].lower()}{paragraph[1:]}"
    columns = (*(shared.columns if shared else ()), *record.columns)
    return Table.of_outcomes(name, comment, columns, key, verdict=verdict, holds_on=holds_on)


class Records(Generic[Row]):
    """Rows of one table that were not emitted yet; without the recording.

    Each row is a record under one variant. Rows refer to what they share, so that each record
    becomes values of columns once, however many rows have it.
    """

    def __init__(self, table: Table, rule: str) -> None:
        self._schema, self._rule = table.without("recording"), rule
        #: Columns that are fields of records.
        self._names = {*self._schema.names} - {*WHAT_IF}
        self._added: list[tuple[Row, Sequence[Variant], Record | None]] = []

    def add(
        self, record: Row, variants: Sequence[Variant] = (), shared: Record | None = None
    ) -> None:
        """Adds a record under each of some variants, or its own.

        ``shared``: columns that rows added one after the other have from one record.
        """
        self._added.append((record, variants, shared))

    def take(self) -> pa.RecordBatch:
        """Emits the rows as a batch, column by column."""
        added, self._added = self._added, []
        columns: dict[str, pa.Array] = {}
        if added:
            records, under, shared = zip(*added, strict=True)
            of_records = np.arange(len(records)).repeat([len(variants) or 1 for variants in under])
            columns |= self._columns(records, of_records)
            if shared[0] is not None:
                is_new = [True, *(after is not before for before, after in pairwise(shared))]
                of_shared = np.cumsum(is_new)[of_records] - 1
                columns |= self._columns([*compress(shared, is_new)], of_shared)
            variants = chain.from_iterable(
                variants or (cast(Outcome, record).variant,) for record, variants, _ in added
            )
            for name, values in zip(_OF_VARIANT, zip(*variants, strict=True), strict=True):
                columns[name] = pa.array(values, self._schema.field(name).type)
            columns["rule"] = pa.repeat(self._rule, len(of_records))
        arrays = [columns.get(field.name, pa.array([], field.type)) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _columns(self, records: Sequence[Record], places: NDArray[np.int64]) -> dict[str, pa.Array]:
        """Returns the columns of the table that records have, of a row for each place."""
        names = [name for name in records[0].__struct_fields__ if name in self._names]
        by_name = zip(names, zip(*map(attrgetter(*names), records), strict=True), strict=True)
        arrays = {name: pa.array(values, self._schema.field(name).type) for name, values in by_name}
        if len(places) == len(records):
            return arrays
        return {name: array.take(pa.array(places)) for name, array in arrays.items()}


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
