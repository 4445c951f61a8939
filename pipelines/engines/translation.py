"""A text of DuckDB's dialect in Spark's, by sqlglot, which takes a while to import."""

from collections.abc import Iterator
from typing import Any

import sqlglot
from sqlglot import Dialect, ErrorLevel, exp

from kip_replay.pipelines.engines.text import Text

#: DuckDB's functions that sqlglot leaves as they are, for Spark.
_SPARK = {
    "list_position": "array_position({})",
    "list_sum": "aggregate({}, CAST(0 AS BIGINT), (n, each) -> n + each)",
}


def spark_sql(text: Text) -> str:
    """The query in Spark's dialect. Raises ValueError for what would mean something else there."""
    macros = text.macros
    tree = sqlglot.parse_one(text.sql, read="duckdb")
    while calls := [c for c in tree.find_all(exp.Anonymous) if c.name in macros]:
        call = calls[-1]  # the innermost ones come last
        call.replace(_expanded(call, *macros[call.name].group(2, 3)))
    if wrong := sorted({*_refused(tree)}):
        raise ValueError(f"Spark would take {', '.join(wrong)} for something else")
    for union in tree.find_all(exp.Union):
        if union.args.get("by_name"):
            _by_place(union)
    for call in tree.find_all(exp.Anonymous):
        if call.name in _SPARK:
            arguments = ", ".join(argument.sql("spark") for argument in call.expressions)
            call.replace(sqlglot.parse_one(_SPARK[call.name].format(arguments), read="spark"))
    generator = Dialect.get_or_raise("spark").generator(
        comments=False, unsupported_level=ErrorLevel.RAISE
    )
    # Hive has no nested WITH; Spark has, and on one level names of parts would meet.
    generator.EXPRESSIONS_WITHOUT_NESTED_CTES = set()  # type: ignore[misc]
    return str(generator.generate(tree))


def _expanded(call: exp.Anonymous, parameters: str, body: str) -> exp.Expr:
    def pairs(expressions: list[Any]) -> Iterator[tuple[str | None, Any]]:
        for argument in expressions:
            named = isinstance(argument, exp.PropertyEQ)
            yield (argument.this.name, argument.expression) if named else (None, argument)

    declared = sqlglot.parse_one(f"f({parameters})", read="duckdb").expressions
    names = [name or value.name for name, value in pairs(declared)]
    values: dict[str, Any] = {name: value for name, value in pairs(declared) if name}
    passed = enumerate(pairs(call.expressions))
    values |= {name or names[place]: value for place, (name, value) in passed}
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
    if isinstance(value, exp.Column) and len(value.parts) < 4:
        parts: Any = reversed([part.copy() for part in value.parts])
        return exp.column(name.copy(), *parts)
    return exp.Dot(this=value, expression=name.copy())


def _by_place(union: exp.Union) -> None:
    """Makes a UNION ALL BY NAME one by place: what a branch does not have is NULL in it."""
    branches = [*_branches(union)]
    names = [
        *dict.fromkeys(column.alias_or_name for branch in branches for column in branch.selects)
    ]
    for branch in branches:
        own = {column.alias_or_name: column for column in branch.selects}
        missing = {name: exp.alias_(exp.null(), name) for name in names if name not in own}
        branch.set("expressions", [(own | missing)[name] for name in names])


def _branches(query: Any) -> Iterator[Any]:
    """Yields what a UNION is of, which is by place from then on."""
    if isinstance(query, exp.Union):
        query.set("by_name", False)
        yield from _branches(query.left)
        yield from _branches(query.right)
    else:
        yield query.unnest()


def _refused(tree: Any) -> Iterator[str]:
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
    for union in tree.find_all(exp.Union):
        if union.args.get("by_name") and any(branch.is_star for branch in _branches(union.copy())):
            yield "UNION ALL BY NAME of *"
    for star in tree.find_all(exp.Star):
        if star.args.get("except_") or star.args.get("replace"):
            yield "EXCLUDE or REPLACE"
    for spec in tree.find_all(exp.WindowSpec):
        if spec.args.get("exclude"):
            yield "EXCLUDE CURRENT ROW"
    for call in tree.find_all(exp.Round):
        if call.args.get("decimals") is not None:
            yield "round to decimals"
    for call in tree.find_all(exp.ArrayAgg):
        if isinstance(call.this, exp.Order):
            yield "list(... ORDER BY)"
    for number in tree.find_all(exp.Literal):
        is_decimal = not number.is_string and "." in number.this and "e" not in number.this.lower()
        if is_decimal and isinstance(number.parent, exp.Div):
            yield f"the decimal {number.this} (write {number.this}e0)"
    for select in tree.find_all(exp.Select):
        yield from _lateral_aliases(select)


def _lateral_aliases(select: Any) -> Iterator[str]:
    """Aliases of new names that another expression of the same SELECT reads."""
    read = [({c.name for c in e.find_all(exp.Column) if not c.table}, e) for e in select.selects]
    new = {e.alias for names, e in read if isinstance(e, exp.Alias) and e.alias not in names}
    for names, _ in read:
        for name in new & names:
            yield f"the alias {name} within its SELECT"
