"""The slowest requests of a rule: rows of a view, the lines that prove them, words for sentences.

Bounded: a view has a hundred rows of each recording, of which ``MOST`` are printed. The session
must know the views (``analysis.views.create_views``).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeAlias

from duckdb import DuckDBPyConnection

from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.view import Slow, Slowest

#: Requests of a recording and rule that are explained.
MOST = 20
#: Characters of a name in a sentence.
NAME_CHARACTERS = 40
#: A part of a duration that is below this share of it explains nothing.
WORTH_NAMING = 0.1

Row: TypeAlias = Mapping[str, Any]
#: File and line of a request, by recording and request_id.
Places: TypeAlias = Mapping[tuple[str, str], str]


def slowest(
    database: DuckDBPyConnection,
    view: str,
    proofs: Sequence[str],
    explained: Callable[[Row, Places], Slow],
    counts: str,
    titled: Callable[..., tuple[str, str]],
) -> dict[str, Slowest]:
    """The slowest of a rule by recording; a recording without any has no entry.

    ``view``: its name; its ``rank`` is the order. ``proofs``: columns of it with keys of the
    lines that prove a row. ``explained``: a row in words, with the places of such lines.
    ``counts``: a query of recordings, each with numbers for its title. ``titled``: name and note,
    of how many rows there are and those numbers.
    """
    known = f"rank <= {MOST} AND source_file IS NOT NULL"
    rows = _rows(database, f"SELECT * FROM {view} WHERE {known} ORDER BY recording, rank")
    places = _places(database, rows, proofs)
    found: dict[str, list[Slow]] = defaultdict(list)
    for row in rows:
        found[row["recording"]].append(explained(row, places))
    of_all = {name: numbers for name, *numbers in database.execute(counts).fetchall()}
    return {name: Slowest(*titled(len(of), *of_all[name]), of) for name, of in found.items()}


def left_out(unknown: int, one: str, many: str | None = None) -> str:
    """The end of a note on how many are not among the rows, empty if none."""
    return f"; {words.count(unknown, one, many)} left out" if unknown else ""


def _rows(database: DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = database.sql(sql).to_arrow_table().to_pylist()
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    """Times in UTC, and DuckDB's sums as integers."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return int(value) if isinstance(value, Decimal) else value


def _places(database: DuckDBPyConnection, rows: Iterable[Row], columns: Sequence[str]) -> Places:
    ids = sorted({row[name] for row in rows for name in columns if row[name] is not None})
    found = database.execute(
        "SELECT recording, request_id, source_file, line_number FROM requests "
        "WHERE list_contains(?, request_id)",
        [ids],
    ).fetchall()
    return {(name, key): place(file, line) for name, key, file, line in found}


def place(file: str, line: int) -> str:
    """'broker-11.log.gz:62'."""
    return f"{words.shortened(words.visible(file), NAME_CHARACTERS)}:{line}"


def name_of(text: str | None, nameless: str = "a client without a name") -> str:
    """A name from a log as it stands in a sentence; what is long is shortened."""
    return words.shortened(words.visible(text), NAME_CHARACTERS) if text else nameless


def after(since: datetime, until: datetime) -> float:
    """Milliseconds from one moment to the other."""
    return (until - since).total_seconds() * 1000


def at(moment: datetime) -> str:
    """'20:52:03.480 UTC'."""
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}{words.SPACE}UTC"


def parts(total_ms: float, named: Iterable[tuple[str, float | None]]) -> str:
    """What a duration consists of, the longest first: '304 ms waiting, 119 ms being sent'."""
    worth = [(ms, name) for name, ms in named if ms is not None and ms >= WORTH_NAMING * total_ms]
    return ", ".join(f"{words.milliseconds(ms)} {name}" for ms, name in sorted(worth)[::-1])
