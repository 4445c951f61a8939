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
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import sqlglot
from sqlglot import TokenType

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
_BEFORE_TABLES = {TokenType.FROM, TokenType.JOIN}
MACRO = re.compile(r"CREATE TEMP MACRO (\w+)\((.*?)\) AS\s+(.*?);\n", re.DOTALL)


@dataclass(frozen=True)
class Text:
    """A query in DuckDB's dialect; ``parts``: other texts that it reads, by name."""

    query: str
    parts: Mapping[str, "Text"] = field(default_factory=dict)

    @classmethod
    def read(
        cls, file: Path, parts: "Mapping[str, Path | Text]" = NO_PARTS, /, **values: object
    ) -> "Text":
        """The text of a file, with those of ``parts`` that it reads, and those that these read."""
        query = bound(file.read_text(encoding="utf-8"), values)
        return cls(
            query,
            {
                name: cls.read(part, parts, **values) if isinstance(part, Path) else part
                for name, part in parts.items()
                if name in tables_of(query)
            },
        )

    @property
    def names(self) -> set[str]:
        """Names that it reads: of tables, inputs, and parts of its own."""
        return {*tables_of(self.query)}.union(*(part.names for part in self.parts.values()))

    @property
    def macros(self) -> list[str]:
        own = [match[0] for match in MACRO.finditer(self.query)]
        return [*(each for part in self.parts.values() for each in part.macros), *own]

    @property
    def sql(self) -> str:
        """The query without macros, parts in front."""
        query = MACRO.sub("", self.query).strip()
        if not self.parts:
            return query
        parts = ", ".join(f"{name} AS ({part.sql})" for name, part in self.parts.items())
        return f"WITH {parts} SELECT * FROM ({query})"


@cache
def tables_of(query: str) -> frozenset[str]:
    """Names behind FROM and JOIN: tables, and the query's own parts."""
    tokens = sqlglot.tokenize(query, read="duckdb")
    return frozenset(
        name.text
        for word, name in pairwise(tokens)
        if word.token_type in _BEFORE_TABLES
        and name.token_type is not TokenType.STRING
        and name.text.isidentifier()
    )


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
