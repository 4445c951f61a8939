"""Views on the warehouse's tables: a text of SQL each, with a comment per column.

Those on the outcomes of a rule are in ``views.sql`` of its folder, the others in conf/views, a file
each. A text begins with comment lines: what a row says, then columns; one that has none says what
that of its name does in a table or view that the query reads.
DuckDB and Spark both run the query that follows, on tables and other views::

    -- Lines read of every recording.
    -- lines_read: lines
    SELECT recording, sum(lines_read) AS lines_read FROM ingested_files GROUP BY recording

Every table that also has rows for other values of a setting (``parameter``) has a view without
these, as :func:`as_configured` names it.

A query may read ``unknown_outcomes`` too, rows of every outcome table, ``client_connections``,
``stated_errors``, ``own_times``, and ``served_versions`` and ``error_names``, which are Kafka's. A
``$name`` is a limit of ``[findings]`` in conf/decisions.toml.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb

from kip_replay.pipelines.engines.text import MACROS, NO_PARTS, Text, bound, read_texts
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.replaying.states import STEADY_PHASES
from kip_replay.pipelines.rule_files import conf_dir, of_rules
from kip_replay.replay.kafka.messages.schemas import ERROR_NAMES, SERVED_VERSIONS
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

_WHAT_IF = {"parameter", "parameter_value"}
_TEXT = re.compile(r"-- (.+)\n((?:-- [a-z]\w*: .+\n)*)([^-\s](?s:.+))")
_SERVED_VERSIONS = Text(
    f"SELECT * FROM (VALUES {str(SERVED_VERSIONS)[1:-1].replace('None', 'NULL')}) "
    "AS t(api_name, lowest_served, not_served_from, served_again_from)"
)
_PARTS = tuple(
    Path(__file__).with_name(f"{name}.sql")
    for name in ("client_connections", "stated_errors", "own_times")
)
CLIENT_CONNECTIONS, STATED_ERRORS, _ = _PARTS
NAMES_OF_ERRORS = Text(
    f"SELECT * FROM (VALUES {str([*ERROR_NAMES.items()])[1:-1]}) AS t(error_code, error_name)"
)


@dataclass(frozen=True)
class View:
    """A view: what a row says, and those columns that say something else than what they read."""

    name: str
    comment: str
    columns: Mapping[str, str]
    query: str

    @property
    def sources(self) -> set[str]:
        """Names of tables and views that the query reads."""
        return Text(self.query).names


def read_view(name: str, text: str, limits: Mapping[str, float] = NO_PARTS) -> View:
    """The view of a text. Raises UserError where the text does not say what it must."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise UserError(
            f"the view {name} must begin with '-- what a row says', then have '-- column: comment' "
            "for columns that no table it reads has, and then one query"
        )
    pairs = (line.removeprefix("-- ").partition(": ") for line in match[2].splitlines())
    columns = {column: comment for column, _, comment in pairs}
    query = bound(match[3].strip(), limits)
    return View(name, match[1], columns, Text(query, _parts()).sql)


@cache
def _parts() -> Mapping[str, Text]:
    """Texts that the queries of views may read."""
    columns = ("recording", "rule", "variant", "reason")
    unknown = (
        f"SELECT {', '.join(columns)}, '{name}' AS table_name FROM {name} WHERE verdict = 'unknown'"
        for name, table in TABLES.items()
        if {*columns, "verdict"} <= table.names
    )
    kafka = {"served_versions": _SERVED_VERSIONS, "error_names": NAMES_OF_ERRORS}
    own = {"unknown_outcomes": Text(" UNION ALL ".join(unknown))}
    own |= {file.stem: Text.read(file) for file in _PARTS}
    return own | kafka | {"text_of_steady_phases": STEADY_PHASES}


def read_views(limits: Mapping[str, float] | None = None) -> list[View]:
    """All views; ``limits`` of findings are those of conf/decisions.toml if not given."""
    limits = limits or tomllib.loads((conf_dir() / "decisions.toml").read_text("utf-8"))["findings"]
    texts = read_texts(*(conf_dir() / "views").glob("*.sql"), *of_rules("views.sql"))
    swept = [table for table in TABLES.values() if table.names >= _WHAT_IF]
    views = [read_view(name, text, limits) for name, text in texts.items()]
    return sorted([*views, *map(_without_sweeps, swept)], key=lambda view: view.name)


def as_configured(table: str) -> str:
    """Names the view of a table's rows under the settings that the cluster has."""
    return f"{table}_as_configured"


def _without_sweeps(table: Table) -> View:
    names = ", ".join(c.name for c in table.columns if c.name not in _WHAT_IF)
    query = f"SELECT {names} FROM {table.name} WHERE parameter = 'none'"
    comment = f"{table.comment}; under the settings that the cluster has"
    return View(as_configured(table.name), comment, {}, query)


def comments_of(
    view: View, names: Iterable[str], of_sources: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Comments the columns of a view, as the tables and views that it reads do unless it does."""
    known: dict[str, str] = {}
    for source in sorted(view.sources, reverse=True):
        known |= of_sources.get(source, {})
    known |= view.columns
    return {name: known.get(name, "") for name in names}


def in_order(views: Iterable[View], tables: Collection[str]) -> list[View]:
    """The views whose tables are there, each after the views that it reads."""
    left = {view.name: view for view in views}
    named, there = {*TABLES, *left}, {*tables}
    ordered: list[View] = []
    while ready := [view for view in left.values() if view.sources & named <= there]:
        ordered += ready
        there |= {view.name for view in ready}
        left = {name: view for name, view in left.items() if name not in there}
    return ordered


def named_in(text: str, views: Sequence[View]) -> list[View]:
    """The views, of some ``in_order``, that a text has a word for, and those that they read."""
    words, named = {*re.findall(r"\w+", text)}, list[View]()
    for view in reversed(views):
        if view.name in words:
            words |= view.sources
            named.append(view)
    return named[::-1]


def create_views(
    session: duckdb.DuckDBPyConnection, views: Iterable[View], computed: Collection[str] = ()
) -> None:
    """Makes views of ``in_order``, and what they call, known in a session that has their tables.

    ``computed``: those that are computed here and now, as they are read more than once.
    """
    for macro in MACROS:
        session.execute(f"CREATE OR REPLACE TEMP MACRO {macro}")
    for view in views:
        kind = "TABLE" if view.name in computed else "VIEW"
        session.execute(f"CREATE TEMP {kind} {view.name} AS {view.query}")
