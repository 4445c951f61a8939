"""The TOML files of rules and suites: their schemas, which are checked when a file is read.

CONTRIBUTING.md names the files of a rule's folder; each key has its meaning here.
"""

from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec

from kip_replay.pipelines.errors import UserError

_Schema = TypeVar("_Schema")


class Severity(StrEnum):
    """Grades rows that fail; the words are Great Expectations'."""

    INFO = "info"
    """Worth knowing; nothing is wrong."""
    WARNING = "warning"
    """Figures may be off where the rows are."""
    CRITICAL = "critical"
    """What the tables say of that recording is not to be relied on: exit status 3."""


class Expectation(msgspec.Struct, forbid_unknown_fields=True):
    """One ``[[expectation]]``: conditions that hold for each row of tables, or a SELECT of rows
    that fail, with ``{batch}`` for the table and ``recording`` among its columns."""

    #: Tables by name, or every rule's outcome tables that have some columns.
    tables: list[str] | None = None
    outcomes_with: list[str] | None = None
    #: Each is an expectation of its own, by that name; a condition that is NULL holds.
    holds: list[str] = []
    #: Of which rows it is required.
    where: str | None = None
    unexpected_rows_query: str | None = None
    name: str | None = None
    description: str | None = None
    severity: Severity = Severity.CRITICAL
    #: Compares what only the whole of a recording has, such as sums with rows.
    of_all: bool = False

    def __post_init__(self) -> None:
        if (self.tables is None) == (self.outcomes_with is None):
            raise ValueError("Expected one of `tables` and `outcomes_with`")
        if bool(self.holds) == bool(self.unexpected_rows_query):
            raise ValueError("Expected one of `holds` and `unexpected_rows_query`")
        if self.unexpected_rows_query and not self.name:
            raise ValueError("Expected a `name` with `unexpected_rows_query`")
        if self.name and len(self.holds) > 1:
            raise ValueError("Expected one condition in `holds` with a `name`")
        if self.where and not self.holds:
            raise ValueError("Expected `where` with `holds` only")


class Suite(msgspec.Struct, forbid_unknown_fields=True):
    """``quality.toml``, or a file of conf/quality or the user's."""

    expectation: list[Expectation]


class Need(msgspec.Struct, forbid_unknown_fields=True):
    """What logs must show for a rule, or else ``open``: a query whose rows are sentences on what
    began before the logs and is in none of the samples."""

    #: Roles of the nodes whose logs are looked at, separated by commas.
    of: str = ""
    #: A condition in DuckDB's SQL on a parsed line (replay/kafka/request_log/parsed_line.py).
    shows: str = ""
    what: str = ""
    how: str = ""
    #: The key of the rule's ``manifest.toml`` that makes up for it.
    stated: str | None = None
    #: The rule is replayed without, and less is known.
    helps: bool = False
    open: str | None = None

    def __post_init__(self) -> None:
        if bool(self.open) == bool(self.of and self.shows and self.what and self.how):
            raise ValueError("Expected `open`, or `of`, `shows`, `what` and `how`")


class Needs(msgspec.Struct, forbid_unknown_fields=True):
    """``needs.toml``."""

    needs: list[Need]


def read_toml(file: Path, schema: type[_Schema]) -> _Schema:
    """Reads a file that has a schema. Raises UserError with the file, the key and what it needs."""
    try:
        return msgspec.toml.decode(file.read_bytes(), type=schema)
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None
