"""Set operations as SQL texts: written in DuckDB's dialect, translated for Spark by sqlglot.

A text is one query. It may begin with macros of its own (``CREATE TEMP MACRO``), and has ``$names``
in place of values, which are bound when it is read. Beside DuckDB's functions it may call those of
``MACROS``, which have Spark's names.

What the two engines take for different things, or sqlglot drops, is refused by ``spark_sql``: a
text that it translates means the same in both.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kip_replay.pipelines.warehouse.tables import sql_text

if TYPE_CHECKING:
    from sqlglot import exp

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
#: DuckDB's functions that sqlglot leaves as they are, for Spark.
_SPARK = {
    "list_position": "array_position({})",
    "list_sum": "aggregate({}, CAST(0 AS BIGINT), (n, each) -> n + each)",
}
NO_PARTS: Mapping[str, Any] = MappingProxyType({})
_NAMES = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
_MACRO = re.compile(r"CREATE TEMP MACRO (\w+)\((.*?)\) AS\s+(.*?);\n", re.DOTALL)


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
                if name in _NAMES.findall(query)
            },
        )

    @property
    def names(self) -> set[str]:
        """Names that it reads: of tables, inputs, and parts of its own."""
        return set(_NAMES.findall(self.query)).union(*(part.names for part in self.parts.values()))

    @property
    def macros(self) -> list[str]:
        own = [match[0] for match in _MACRO.finditer(self.query)]
        return [*(each for part in self.parts.values() for each in part.macros), *own]

    @property
    def sql(self) -> str:
        """The query without macros, parts in front."""
        query = _MACRO.sub("", self.query).strip()
        if not self.parts:
            return query
        parts = ", ".join(f"{name} AS ({part.sql})" for name, part in self.parts.items())
        return f"WITH {parts} SELECT * FROM ({query})"


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


# --- translation for Spark


def spark_sql(text: Text) -> str:
    """The query in Spark's dialect. Raises ValueError for what would mean something else there."""
    import sqlglot
    from sqlglot import Dialect, ErrorLevel, exp

    macros = {m[1]: (m[2], m[3]) for each in text.macros for m in [_MACRO.match(each)] if m}
    tree = sqlglot.parse_one(text.sql, read="duckdb")
    while calls := [c for c in tree.find_all(exp.Anonymous) if c.name in macros]:
        call = calls[-1]  # the innermost ones come last
        call.replace(_expanded(call, *macros[call.name]))
    if wrong := sorted({*_refused(tree)}):
        raise ValueError(f"Spark would take {', '.join(wrong)} for something else")
    for union in tree.find_all(exp.Union):
        if union.args.get("by_name"):
            _by_place(union)
    for call in tree.find_all(exp.Anonymous):
        if call.name in _SPARK:
            arguments = ", ".join(each.sql("spark") for each in call.expressions)
            call.replace(sqlglot.parse_one(_SPARK[call.name].format(arguments), read="spark"))
    generator = Dialect.get_or_raise("spark").generator(
        comments=False, unsupported_level=ErrorLevel.RAISE
    )
    # Hive has no nested WITH; Spark has, and on one level names of parts would meet.
    generator.EXPRESSIONS_WITHOUT_NESTED_CTES = set()  # type: ignore[misc]
    return str(generator.generate(tree))


def _expanded(call: "exp.Anonymous", parameters: str, body: str) -> "exp.Expr":
    import sqlglot
    from sqlglot import exp

    def pairs(expressions: list[Any]) -> Iterator[tuple[str | None, Any]]:
        for each in expressions:
            named = isinstance(each, exp.PropertyEQ)
            yield (each.this.name, each.expression) if named else (None, each)

    declared = sqlglot.parse_one(f"f({parameters})", read="duckdb").expressions
    names = [name or value.name for name, value in pairs(declared)]
    values: dict[str, Any] = {name: value for name, value in pairs(declared) if name}
    given = enumerate(pairs(call.expressions))
    values |= {name or names[place]: value for place, (name, value) in given}
    # p.topic of a parameter p is a column of the table p to the parser.
    tree = sqlglot.parse_one(body, read="duckdb")
    for column in [*tree.find_all(exp.Column)]:
        first = column.parts[0]
        if first.name not in values:
            continue
        value = values[first.name].copy()
        for part in column.parts[1:]:
            value = _field(value, part)
        if column is tree:
            tree = value
            break
        column.replace(value)
    return tree


def _field(value: Any, name: Any) -> Any:
    from sqlglot import exp

    if isinstance(value, exp.Column) and len(value.parts) < 4:
        parts: Any = reversed([part.copy() for part in value.parts])
        return exp.column(name.copy(), *parts)
    return exp.Dot(this=value, expression=name.copy())


def _by_place(union: "exp.Union") -> None:
    """Makes a UNION ALL BY NAME one by place: what a branch does not have is NULL in it."""
    from sqlglot import exp

    branches = [*_branches(union)]
    names = [*dict.fromkeys(each.alias_or_name for branch in branches for each in branch.selects)]
    for branch in branches:
        own = {each.alias_or_name: each for each in branch.selects}
        missing = {name: exp.alias_(exp.null(), name) for name in names if name not in own}
        branch.set("expressions", [(own | missing)[name] for name in names])
    for each in (union, *union.find_all(exp.Union)):
        each.set("by_name", False)


def _branches(query: Any) -> Iterator[Any]:
    from sqlglot import exp

    if isinstance(query, exp.Union):
        yield from _branches(query.left)
        yield from _branches(query.right)
    else:
        yield query.unnest()


def _refused(tree: Any) -> Iterator[str]:
    from sqlglot import exp

    kinds = {
        exp.Qualify: "QUALIFY",
        exp.Pivot: "PIVOT",
        exp.Placeholder: "an unbound $name",
        exp.Parameter: "an unbound $name",
    }
    for kind, word in kinds.items():
        if tree.find(kind):
            yield word
    if any(join.method == "ASOF" for join in tree.find_all(exp.Join)):
        yield "ASOF"
    for star in tree.find_all(exp.Star):
        if star.args.get("except_") or star.args.get("replace"):
            yield "EXCLUDE or REPLACE"
    for spec in tree.find_all(exp.WindowSpec):
        if spec.args.get("exclude"):
            yield "EXCLUDE CURRENT ROW"
    for each in tree.find_all(exp.Round):
        if each.args.get("decimals") is not None:
            yield "round to decimals"
    for each in tree.find_all(exp.ArrayAgg):
        if isinstance(each.this, exp.Order):
            yield "list(... ORDER BY)"
    for number in tree.find_all(exp.Literal):
        is_decimal = not number.is_string and "." in number.this and "e" not in number.this.lower()
        if is_decimal and isinstance(number.parent, exp.Div):
            yield f"the decimal {number.this} (write {number.this}e0)"
    for select in tree.find_all(exp.Select):
        yield from _lateral_aliases(select)


def _lateral_aliases(select: Any) -> Iterator[str]:
    """Aliases of new names that another expression of the same SELECT reads."""
    from sqlglot import exp

    read = [({c.name for c in e.find_all(exp.Column) if not c.table}, e) for e in select.selects]
    new = {e.alias for names, e in read if isinstance(e, exp.Alias) and e.alias not in names}
    for names, _ in read:
        for name in new & names:
            yield f"the alias {name} within its SELECT"
