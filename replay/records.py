"""Record classes: the rows of tables as objects, and the input events of rules.

A record class declares a table of the warehouse, or columns that several tables share (module
``table``). ``Records`` collects records of one table and emits them as Arrow batches. What outcomes
of all rules share is here too: variant, verdict, advice, phase.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, cast, get_args, get_type_hints

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import astuple
from numpy.typing import NDArray

from .log_gaps import LOG_GAP, Gaps
from .table import TEXT, RequiredInt, RequiredLong, RequiredText, Table, Text, column, key

#: Name of the variant that is not replayed: what the log itself shows.
RECORDED = "recorded"
#: The fewest values of which a figure is stated.
SAMPLES_MIN = 30
#: ``parameter_value`` of variants without a sweep, whose parameter is ``none``.
NOT_SWEPT = -1


class Verdict(StrEnum):
    """Tells whether an outcome was decided; ``UNKNOWN`` always has a reason.

    ``BOUNDED``: decided, but for its bytes, of which two bounds are known.
    """

    REPLAYED = "replayed"
    BOUNDED = "bounded"
    NOT_APPLICABLE = "not_applicable"
    UNKNOWN = "unknown"


class Variant(NamedTuple):
    """A protocol to replay under, and the parameter that a sweep varies."""

    name: str
    parameter: str = "none"
    parameter_value: int = NOT_SWEPT


class Advice(StrEnum):
    """Names what to do about a rule in a recording."""

    DO = "do it"
    DONT = "don't"
    IN_USE = "already in use"
    NO_RELEASE = "in no release yet"
    NOT_ENOUGH = "not enough data"
    WITHHELD = "withheld"


STARTING, STEADY, STOPPING = "starting", "steady", "stopping"


class SteadyPhase(NamedTuple):
    """A recording while it neither starts nor stops; UTC microseconds, ``until_us`` is exclusive.

    It is steady from the last broker's first unfencing to the first wantShutDown, both read from
    heartbeats that controllers responded to. A broker that comes more than a minute after the
    others does not count: the cluster was running. A log that begins or ends in the middle of
    normal work has no such moment: then its own begin or end bounds the phase.
    """

    from_us: int
    until_us: int

    def phase_of(self, at_us: int) -> str:
        if at_us < self.from_us:
            return STARTING
        return STEADY if at_us < self.until_us else STOPPING


#: A phase without bounds, for logs that are replayed without knowing it.
ALWAYS_STEADY = SteadyPhase(-(1 << 62), 1 << 62)


class Record(msgspec.Struct, metaclass=Table):
    """The base of record classes: all columns of a table, or some that several tables share."""


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
    """An outcome's verdict and, where it is not decided, the ``reason``."""

    verdict: Decided = VERDICT
    reason: Text = REASON

    def make_unknown(self, reason: str, clears: Iterable[str] = ()) -> None:
        """Sets the verdict to ``UNKNOWN`` for a reason; the columns ``clears`` become null."""
        self.verdict, self.reason = Verdict.UNKNOWN, reason
        for name in clears:
            setattr(self, name, None)

    def rest_on_lines(
        self, gaps: Gaps, node_id: int, since_us: int, until_us: int, *clears: str
    ) -> None:
        """Makes the outcome unknown where a node's lines may be missing between two times.

        An outcome that was unknown before keeps its reason.
        """
        if gaps.touch(node_id, since_us, until_us):
            is_unknown = self.verdict is Verdict.UNKNOWN
            self.make_unknown(self.reason if is_unknown and self.reason else LOG_GAP, clears)


#: Columns of ``WhatIf`` that a ``Variant`` has: all but the recording and the rule.
_VARIANT_COLUMNS = WhatIf.key[2:]
Row = TypeVar("Row", bound=Record)
Event = TypeVar("Event", bound=NamedTuple)
T = TypeVar("T")


class Records(Generic[Row]):
    """Collects the rows of one table until they are emitted, without the column ``recording``.

    A row is a record under one variant. Several rows may have the same record, which is converted
    to Arrow once and then repeated.
    """

    def __init__(self, table: type[Row]) -> None:
        self._schema, self._rule = table.without("recording"), table.rule
        #: Columns that are fields of records.
        self._names = {*self._schema.names} - WhatIf.names
        #: By call of ``add_rows``: its records, their variants, and what all of them share.
        self._added: list[tuple[Sequence[Row], Sequence[Variant], Record | None]] = []

    def add(
        self, record: Row, variants: Sequence[Variant] = (), shared: Record | None = None
    ) -> None:
        """Adds a row for each of the variants; without any, for the record's own.

        ``shared``: a record with columns that these rows have besides.
        """
        variants = variants or (cast(OfVariant, record).variant,)
        self.add_rows([record] * len(variants), variants, shared)

    def add_rows(
        self, records: Sequence[Row], variants: Sequence[Variant], shared: Record | None = None
    ) -> None:
        """Adds a record for each variant; several variants may have the same one."""
        if records:
            self._added.append((records, variants, shared))

    def take(self) -> pa.RecordBatch:
        """Emits the rows as a batch, column by column."""
        added, self._added = self._added, []
        columns: dict[str, pa.Array] = {}
        if added:
            records, variants, shared = zip(*added, strict=True)
            distinct_records, places = _distinct([*chain.from_iterable(records)])
            columns |= self._columns(distinct_records, places)
            distinct_variants, variant_places = _distinct([*chain.from_iterable(variants)])
            values = zip(*distinct_variants, strict=True)
            named_values = zip(_VARIANT_COLUMNS, values, strict=True)
            columns |= self._repeated(named_values, variant_places)
            if shared[0] is not None:
                distinct_shared, shared_places = _distinct(shared)
                row_counts = [*map(len, variants)]
                columns |= self._columns(distinct_shared, shared_places.repeat(row_counts))
            columns["rule"] = pa.repeat(self._rule, len(places))
        arrays = [columns.get(field.name, pa.array([], field.type)) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _columns(self, records: Sequence[Record], places: NDArray[np.int64]) -> dict[str, pa.Array]:
        """Returns the table's columns that are fields of records; row i has ``places[i]``'s."""
        values = zip(*map(astuple, records), strict=True)
        fields = zip(records[0].__struct_fields__, values, strict=True)
        return self._repeated((field for field in fields if field[0] in self._names), places)

    def _repeated(
        self, columns: Iterable[tuple[str, Sequence[Any]]], places: NDArray[np.int64]
    ) -> dict[str, pa.Array]:
        """Makes columns of named values: each row has the value at its place."""
        indices, field = pa.array(places), self._schema.field
        return {name: pa.array(values, field(name).type).take(indices) for name, values in columns}


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
    """Reads input events; a field that is null in a row has the default of the NamedTuple."""
    defaults = event._field_defaults
    columns = [values_of(batch.column(name), defaults.get(name)) for name in event._fields]
    return map(event._make, zip(*columns, strict=True))


def values_of(column: pa.Array, default: Any = None) -> list[Any]:
    """Returns a column as a list, a default for nulls; for numbers faster than ``to_pylist``."""
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
