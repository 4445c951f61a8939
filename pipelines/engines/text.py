"""Set operations as SQL texts: written in DuckDB's dialect, translated for Spark by sqlglot.

A text is one query. It may begin with macros of its own (``CREATE TEMP MACRO``), and has ``$names``
in place of values, which are bound when it is read. Beside DuckDB's functions it may call those of
``MACROS``, which have Spark's names.

What the two engines take for different things, or sqlglot drops, is refused by ``translation``: a
text that it translates means the same in both.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse.tables import sql_text

#: Spark's functions, for DuckDB.
MACROS = (
    # rank floor(q * (n - 1)), the unknown ranked last: as in latency_summary
    "percentile_lower(value, q) AS "
    "list_sort(list(value))[1 + floor(q::DECIMAL(9, 6) * (count(*) - 1))::BIGINT]",
    "explode(list) AS unnest(list)",
    "collect_list(value) AS list(value) FILTER (value IS NOT NULL)",
    "sort_array(list) AS list_sort(list)",
    "get(list, place) AS list[place + 1]",
    "size(list) AS len(list)",
    "unix_micros(moment) AS epoch_us(moment)",
    "timestamp_micros(us) AS make_timestamptz(us)",
)
NO_PARTS: Mapping[str, Any] = MappingProxyType({})
_MACRO = re.compile(r"CREATE TEMP MACRO (\w+)\((.*?)\) AS\s+(.*?);\n", re.DOTALL)
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
#: What a query reads, and what its WITH names. DuckDB's parser finds the same in every text that
#: ships (tests/engines/test_text.py), but takes half a second for those of a run.
_NO_CODE = re.compile(r"--.*|'(?:[^']|'')*'")
_READ = re.compile(r"(?<!DISTINCT )\b(?:FROM|JOIN)\s+(\w+)\b(?!\s*[(.])")
_OF_WITH = re.compile(
    r"(?:\bWITH(?:\s+RECURSIVE)?|,)\s+(\w+)(?:\s*\([\w, ]*\))?\s+AS\s+(?:MATERIALIZED\s+)?\("
)


@cache
def tables_in(query: str) -> frozenset[str]:
    """Returns the names of tables that a query reads, each behind a FROM or JOIN of its own."""
    query = _NO_CODE.sub(" ", _MACRO.sub("", query))
    return frozenset(_READ.findall(query)) - frozenset(_OF_WITH.findall(query))


def read_texts(*files: Path) -> dict[str, str]:
    """Reads queries by name: a file is one, of its name, or has several, each behind a line
    ``-- name: latencies``. Raises UserError for two of one name, and for one before the first."""
    texts: dict[str, str] = {}
    for file in files:
        before, *named = _NAME.split(file.read_text(encoding="utf-8"))
        names, queries = named[::2] or [file.stem], named[1::2] or [before]
        if named and before.strip():
            raise UserError(f"{file} cannot be read: its first text needs a line `-- name: NAME`")
        if twice := {name for name in names if name in texts or names.count(name) > 1}:
            raise UserError(f"{file} cannot be read: there is another text {', '.join(twice)}")
        texts.update(zip(names, queries, strict=True))
    return texts


@dataclass(frozen=True)
class Text:
    """A query in DuckDB's dialect; ``parts``: other texts that it may read, by name."""

    query: str
    parts: Mapping[str, "Text"] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(
        cls,
        query: Path | str,
        parts: "Mapping[str, Path | str | Text]" = NO_PARTS,
        /,
        **values: object,
    ) -> "Text":
        """Reads a text, or that of a file, and its parts, which may read one another."""
        texts: dict[str, Text] = {}

        def read(part: Path | str | Text) -> Text:
            if isinstance(part, Text):
                return part
            query = part if isinstance(part, str) else part.read_text(encoding="utf-8")
            return cls(bound(query, values), texts)

        texts |= {name: read(part) for name, part in parts.items()}
        return read(query)

    @cached_property
    def parts_read(self) -> Mapping[str, "Text"]:
        """Returns the parts that it reads, and all that these read, each after what it reads."""
        read: dict[str, Text] = {}
        for name in sorted(tables_in(self.query) & self.parts.keys()):
            part = self.parts[name]
            for other, text in [*part.parts_read.items(), (name, part)]:
                assert read.setdefault(other, text).query == text.query, f"two texts {other}"
        return read

    @cached_property
    def names(self) -> set[str]:
        """Names of tables and inputs that it and its parts read."""
        texts = (self, *self.parts_read.values())
        return {name for text in texts for name in tables_in(text.query)} - self.parts_read.keys()

    @property
    def macros(self) -> dict[str, re.Match[str]]:
        """Macros of its parts and its own by name: their parameters and bodies."""
        macros: dict[str, re.Match[str]] = {}
        for text in (*self.parts_read.values(), self):
            for macro in _MACRO.finditer(text.query):
                assert macros.setdefault(macro[1], macro)[0] == macro[0], f"two macros {macro[1]}"
        return macros

    @property
    def sql(self) -> str:
        """The query without macros, the parts in one WITH in front."""
        query, *parts = (_MACRO.sub("", t.query).strip() for t in (self, *self.parts_read.values()))
        named = (f"{name} AS ({part})" for name, part in zip(self.parts_read, parts, strict=True))
        return f"WITH {', '.join(named)} SELECT * FROM ({query})" if parts else query


def bound(query: str, values: Mapping[str, object]) -> str:
    """A query with literals in place of those ``$names`` that are given."""

    def literal(match: re.Match[str]) -> str:
        return _literal(values[match[1]]) if match[1] in values else match[0]

    return re.sub(r"\$(\w+)", literal, query)


def _literal(value: object) -> str:
    if isinstance(value, datetime):
        return f"CAST('{value.isoformat()}' AS TIMESTAMPTZ)"
    if isinstance(value, str):
        return sql_text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return str(value)
