"""Record classes: the rows of tables as objects, and the input events of rules.

A record class is a table, or columns that several have in common (``table``). ``Records`` collects
records of one and emits them as Arrow batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from .log_gaps import LOG_GAP, Gaps
from .outcomes import Variant, Verdict
from .table import TEXT, RequiredInt, RequiredLong, RequiredText, Table, Text, column, key


class Record(msgspec.Struct, metaclass=Table):
    """Columns that several tables have in common, or all of one."""


class Recording(Record):
    """What each table begins with."""

    recording: RequiredText = key("name of the recording (recording.json: name)")


REQUEST_ID = key("32 hex digits of BLAKE2b over node id and line: its content, once")
NODE_ID = column("node whose log holds the line")


class Line(Record, shares=(Recording,)):
    """What tables begin with whose rows are of one line."""

    request_id: RequiredText = REQUEST_ID
    node_id: RequiredInt = NODE_ID


class WhatIf(Record, shares=(Recording,)):
    """What outcomes and sums begin with: which rule they are of, under which what-if."""

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
    """What happens under one variant."""

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


class Records(Generic[Row]):
    """Rows of one table that were not emitted yet; without the recording.

    Each row is a record under one variant. Rows refer to what they share, so that each record
    becomes values of columns once, however many rows have it.
    """

    def __init__(self, table: type[Row]) -> None:
        self._schema, self._rule = table.without("recording"), table.rule
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
            assert isinstance(record, OfVariant)
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
