"""Views on the warehouse's tables: a file of SQL each, in conf/views, with a comment per column.

The name of a file is the name of its view. It begins with comment lines: what a row says, which
engines run the query as it stands, and each column in its order::

    -- The books of every recording.
    -- engines: spark, duckdb
    -- recording: name of the recording
    -- lines_read: lines
    SELECT recording, sum(lines_read) AS lines_read FROM ingested_files GROUP BY recording
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.session import conf_dir
from kip_replay.replay.schema import TABLES

SPARK, DUCKDB = "spark", "duckdb"
_SOURCE = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
_COLUMN = re.compile(r"-- ([a-z][a-z0-9_]*): (.+)")


@dataclass(frozen=True)
class View:
    """A view: ``columns`` are pairs of name and comment, ``engines`` those that run ``query``."""

    name: str
    comment: str
    columns: tuple[tuple[str, str], ...]
    engines: tuple[str, ...]
    query: str

    @property
    def reads(self) -> tuple[str, ...]:
        """Tables that the query reads, in the order of the schema."""
        named = set(_SOURCE.findall(self.query))
        return tuple(name for name in TABLES if name in named)


def read_view(path: Path) -> View:
    """The view of a file. Raises UserError where the file does not say what it must."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line for line in lines if line.startswith("--")]
    query = "\n".join(line for line in lines if not line.startswith("--")).strip()
    told = [match.groups() for line in comments[1:] if (match := _COLUMN.fullmatch(line))]
    if not query or len(told) != len(comments) - 1 or not told or told[0][0] != "engines":
        raise UserError(
            f"the view {path} must begin with '-- what it says', '-- engines: spark, duckdb' and "
            "'-- column: comment' for each column, and then have one query"
        )
    (_, engines), *columns = told
    return View(
        name=path.stem,
        comment=comments[0].removeprefix("--").strip(),
        columns=tuple((name, comment) for name, comment in columns),
        engines=tuple(engine.strip() for engine in engines.split(",")),
        query=query,
    )


def read_views(folder: Path | None = None) -> list[View]:
    """The views of a folder (conf/views), by name."""
    return [read_view(path) for path in sorted((folder or conf_dir() / "views").glob("*.sql"))]
