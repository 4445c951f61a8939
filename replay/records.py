"""Outcomes as record classes: the fields of one are a table's columns, and its records rows.

A record class is a dataclass whose fields are ``column``s: Arrow type and comment stand beside the
name. It states an outcome once. ``outcome_table`` makes the Delta table of it, ``Records`` collects
records and emits them as Arrow batches.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar

import pyarrow as pa

from .outcomes import Variant, Verdict
from .table import Column, Table

_ARROW_TYPE, _COMMENT = "arrow_type", "comment"


def column(arrow_type: pa.DataType, comment: str) -> Any:
    """Declares a field of a record class; a field that may be None is a nullable column."""
    return dataclasses.field(metadata={_ARROW_TYPE: arrow_type, _COMMENT: comment})


def nullable(arrow_type: pa.DataType, comment: str) -> Any:
    """Declares a column that is null where a record does not say."""
    return dataclasses.field(default=None, metadata={_ARROW_TYPE: arrow_type, _COMMENT: comment})


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Of which variant an outcome is, and whether it could be decided; else ``reason``."""

    variant: Variant
    verdict: Verdict = Verdict.REPLAYED
    reason: str | None = None

    def make_unknown(self, reason: str, clears: Iterable[str] = ()) -> None:
        """Says why it could not be decided; columns that say nothing then are null."""
        self.verdict, self.reason = Verdict.UNKNOWN, reason
        for name in clears:
            setattr(self, name, None)


Record = TypeVar("Record", bound=Outcome)


def outcome_table(
    name: str, rule: str, record: type[Outcome], key: tuple[str, ...], *, holds_on: bool = False
) -> Table:
    """Makes the table of a record class, whose docstring says what a row is."""
    first_line = (record.__doc__ or "").splitlines()[0].rstrip(".")
    comment = f"{rule}: {first_line[:1].lower()}{first_line[1:]}"
    columns = tuple(
        Column(
            field.name, field.metadata[_ARROW_TYPE], field.metadata[_COMMENT], _is_optional(field)
        )
        for field in dataclasses.fields(record)
        if field.metadata
    )
    return Table.of_outcomes(name, comment, columns, key, holds_on=holds_on)


def _is_optional(field: "dataclasses.Field[Any]") -> bool:
    return type(None) in getattr(field.type, "__args__", ())


class Records(Generic[Record]):
    """Records of one table that were not emitted yet; without the recording."""

    def __init__(self, table: Table, rule: str) -> None:
        self._schema, self._rule = table.without("recording"), rule
        self._records: list[Record] = []

    def add(self, record: Record) -> None:
        self._records.append(record)

    def take(self) -> pa.RecordBatch:
        """Emits the records as a batch, column by column."""
        records, self._records = self._records, []
        arrays = []
        for field in self._schema:
            if field.name == "rule":
                values: list[Any] = [self._rule] * len(records)
            elif field.name in ("variant", "parameter", "parameter_value"):
                place = "name" if field.name == "variant" else field.name
                values = [getattr(record.variant, place) for record in records]
            else:
                values = list(map(attrgetter(field.name), records))
            arrays.append(pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
