"""Outcomes as record classes: the fields of one are a table's columns, and its records rows.

The fields of a record class are ``column``s: Arrow type and comment are beside the name. It
states an outcome once. ``outcome_table`` makes the Delta table of it, ``Records`` collects
records and emits them as Arrow batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

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
        self._clear()

    def _clear(self) -> None:
        self._records: list[Row] = []
        self._shared: list[Record] = []
        #: Of each row.
        self._variants: list[Variant] = []
        self._record_places: list[int] = []
        self._shared_places: list[int] = []

    def add(
        self, record: Row, variants: Sequence[Variant] = (), shared: Record | None = None
    ) -> None:
        """Adds a record under each of some variants, or its own.

        ``shared``: columns that rows added one after the other have from one record.
        """
        if shared is not None:
            if not self._shared or self._shared[-1] is not shared:
                self._shared.append(shared)
            self._shared_places += [len(self._shared) - 1] * (len(variants) or 1)
        if variants:
            self._variants += variants
            self._record_places += [len(self._records)] * len(variants)
        else:
            assert isinstance(record, Outcome)
            self._variants.append(record.variant)
            self._record_places.append(len(self._records))
        self._records.append(record)

    def take(self) -> pa.RecordBatch:
        """Emits the rows as a batch, column by column."""
        rows, columns = len(self._variants), dict[str, tuple[Sequence[Any], pa.Array | None]]()
        for records, row_places in (
            (self._records, self._record_places),
            (self._shared, self._shared_places),
        ):
            places = None if len(records) == rows else pa.array(row_places, pa.int64())
            columns |= {name: (values, places) for name, values in _columns_of(records).items()}
        if rows:
            of_variants = zip(_OF_VARIANT, zip(*self._variants, strict=True), strict=True)
            columns |= {name: (values, None) for name, values in of_variants}
        columns["rule"] = [self._rule] * rows, None
        self._clear()
        arrays = []
        for field in self._schema:
            values, places = columns.get(field.name, ((), None))
            array = pa.array(values, field.type)
            arrays.append(array if places is None else array.take(places))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _columns_of(records: Sequence[Record]) -> dict[str, Sequence[Any]]:
    if not records:
        return {}
    names = records[0].__struct_fields__
    return dict(zip(names, zip(*map(attrgetter(*names), records), strict=True), strict=True))


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
