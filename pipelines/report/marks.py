"""Makes what a page shows of a specification and the rows of its query.

A specification is a table of a ``page.toml``: ``mark`` (lines, bars, table or slowest), ``name``,
``note``, what its axes are, and a ``query`` on the warehouse's tables and views. Queries are
bounded: views have at most this many points, buckets or rows of each recording.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from duckdb import DuckDBPyConnection

from kip_replay.pipelines.report import words

Spec: TypeAlias = Mapping[str, Any]
Row: TypeAlias = Mapping[str, Any]
_FIGURES = {"p50": "median", "p90": "90 %", "p99": "99 %"}
#: A curve that changes by a smaller share of its largest y is flat; one no point of which lies
#: further below its chord, in shares of its range, has no elbow.
LEAST_CHANGE = LEAST_DEPTH = 0.1


class Line(NamedTuple):
    """A line of a chart; ``style`` is a CSS class such as ``with``. A y of None is a gap."""

    name: str
    style: str
    x: Sequence[float]
    y: Sequence[float | None]


class Mark(NamedTuple):
    """Something at an x of a chart: an event of the cluster, the elbow of a curve."""

    x: float
    kind: str
    text: str


@dataclass(frozen=True)
class Chart:
    """A picture of lines, drawn in the browser; ``described`` says what it shows in words.

    ``x_scale``: ``number``, ``log`` or ``time`` (x is seconds since 1970). ``y_scale``: ``number``,
    ``log`` or ``share`` (0 to 1). ``is_stepped``: an empirical distribution. ``has_points``: x is
    what was tried, and nothing is known between two of them. ``lists_marks``: else another chart of
    its group does.
    """

    name: str
    note: str
    described: str
    x_name: str
    y_name: str
    lines: Sequence[Line]
    marks: Sequence[Mark] = ()
    x_scale: str = "number"
    y_scale: str = "number"
    is_stepped: bool = False
    has_points: bool = False
    lists_marks: bool = True


class Bar(NamedTuple):
    """A bar of parts that are stacked, (name, value) from the left; ``style`` is a CSS class."""

    name: str
    style: str
    parts: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Bars:
    """Bars beside each other; values are in ``unit``, as in ``B/s``."""

    name: str
    note: str
    unit: str
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Table:
    """A table of cells that are ready to print; ``is_text`` by column."""

    name: str
    note: str
    columns: Sequence[str]
    is_text: Sequence[bool]
    cells: Sequence[Sequence[str]]


class Slow(NamedTuple):
    """A slow request (or write, or change): how long it took, and its witness in words."""

    ms: float
    node: str
    client: str
    topic: str
    why: str
    source: str


@dataclass(frozen=True)
class Slowest:
    """The slowest of something, sortable and filterable by node, client and topic."""

    name: str
    note: str
    rows: Sequence[Slow]


Block: TypeAlias = Chart | Bars | Table | Slowest


def rows(database: DuckDBPyConnection, query: str, **values: object) -> list[dict[str, Any]]:
    """The rows of a query, with those values that it has a ``$name`` for."""
    named = {name: values[name] for name in values if re.search(rf"\${name}\b", query)}
    found = database.execute(query, named or None)
    columns = [name for name, *_ in found.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]


def grouped(found: Iterable[Row], column: str = "recording") -> dict[str, list[Row]]:
    """Rows by the value of a column."""
    by: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        by[row[column]].append(row)
    return by


def shown(database: DuckDBPyConnection, spec: Spec, **values: object) -> Block | None:
    """Makes what a specification shows of a recording; None where there is nothing."""
    found = rows(database, spec["query"], **values)
    return _MARKS[spec["mark"]](spec, found) if found else None


def distribution(name: str, note: str, found: Sequence[Row]) -> Chart | None:
    """Rows of ``curve_points`` (line, style, x, y) as cumulative shares."""
    lines = _lines(found)
    described = _described(((line.name, line.x) for line in lines), words.milliseconds)
    names = ("ms", "share of all")
    return (
        Chart(name, note, described, *names, lines, (), "log", "share", is_stepped=True)
        if lines
        else None
    )


def _chart(spec: Spec, found: Sequence[Row]) -> Chart | None:
    lines = [line for line in _lines(found) if any(y is not None for y in line.y)]
    if len({x for line in lines for x in line.x}) < 2:
        return None
    points = {row["x"]: (row["price"], row["y"]) for row in found if row.get("price") is not None}
    at = elbow(points) if "elbow" in spec else None
    marks = [] if at is None else [Mark(at, "elbow", spec["elbow"].format(words.number(at)))]
    known = ((line.name, [y for y in line.y if y is not None]) for line in lines)
    described = _described(known, lambda value: words.number(value, 1))
    scale = spec.get("x_scale", "number")
    texts = spec["name"], spec.get("note", ""), described, spec["x"], spec["y"]
    return Chart(*texts, lines, marks, scale, has_points=True)


def _lines(found: Sequence[Row]) -> list[Line]:
    """A line for each ``line`` and ``figure``, in the order of variants; x rises."""
    points: dict[tuple[str, str | None], list[tuple[float, float | None]]] = defaultdict(list)
    for row in found:
        y = None if row["y"] is None else float(row["y"])
        points[row["line"], row.get("figure")].append((float(row["x"]), y))
    order = words.in_order(name for name, _ in points)
    lines = []
    ranked = sorted(points.items(), key=lambda each: (order.index(each[0][0]), each[0][1] or ""))
    for (name, figure), of in ranked:
        placed = sorted(of, key=lambda point: (point[0], point[1] or 0.0))
        named = filter(None, (words.named(name), _FIGURES.get(figure or "")))
        xs, ys = [x for x, _ in placed], [y for _, y in placed]
        lines.append(Line(", ".join(named), words.variant_class(name), xs, ys))
    return lines


def _described(lines: Iterable[tuple[str, Sequence[float]]], wording: Any) -> str:
    """Between which values each line goes, by its name."""
    ends = (
        f"{name}: {wording(values[0])} to {wording(values[-1])}" for name, values in lines if values
    )
    return "; ".join(ends) + "."


def elbow(points: Mapping[int, tuple[float | None, float | None]]) -> int | None:
    """The value with which most of a gain is there, and most of its price is not yet.

    ``points``: by value a price and what it buys, both better small. The elbow is the point
    furthest below the straight line between the curve's ends, both axes scaled to 0..1 (Kneedle:
    Satopää et al., "Finding a Kneedle in a Haystack", 2011). None: fewer than three known, a flat
    curve, or one that is straight or bent the other way.
    """
    best: dict[float, tuple[float, int]] = {}
    for value, (price, y) in sorted(points.items()):
        if price is not None and y is not None:
            best[price] = min(best.get(price, (y, value)), (y, value))
    known = [(price, *best[price]) for price in sorted(best)]
    if len(known) < 3:
        return None
    (left, first, _), (right, last, _) = known[0], known[-1]
    ys = [y for _, y, _ in known]
    height = max(ys) - min(ys)
    if height <= LEAST_CHANGE * max(map(abs, ys)):
        return None
    slope = (last - first) / (right - left)
    depths = [(first + slope * (x - left) - y) / height for x, y, _ in known]
    deepest = max(depths)
    return known[depths.index(deepest)][2] if deepest > LEAST_DEPTH else None


def _bars(spec: Spec, found: Sequence[Row]) -> Bars:
    parts: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row in found:
        parts[row["bar"]].append((row["part"], float(row["value"] or 0)))
    bars = [Bar(words.variant_name(v), words.variant_class(v), of) for v, of in parts.items()]
    return Bars(spec["name"], spec.get("note", ""), spec["unit"], bars)


def _table(spec: Spec, found: Sequence[Row]) -> Table:
    columns = [*found[0]]
    is_text = [any(isinstance(row[name], str) for row in found) for name in columns]
    cells = [[_cell(row[name]) for name in columns] for row in found]
    return Table(spec["name"], spec.get("note", ""), columns, is_text, cells)


def _cell(value: object) -> str:
    if isinstance(value, str):
        return words.named(value)
    if value is None or isinstance(value, int):
        return words.number(value)
    return words.number(float(value), 2 if abs(float(value)) < 100 else 0)  # type: ignore[arg-type]


def _slowest(spec: Spec, found: Sequence[Row]) -> Slowest:
    def text(value: object) -> str:
        return "" if value is None else str(value)

    of = []
    for row in found:
        if row["ms"] is not None:
            node, client, topic, why = map(text, map(row.get, ("node", "client", "topic", "why")))
            source = f"{row['source_file']}:{row['line_number']}"
            of.append(Slow(row["ms"], node, client, topic, why, source))
    return Slowest(spec["name"], spec.get("note", ""), of)


_MARKS: Mapping[str, Any] = {
    "lines": _chart,
    "bars": _bars,
    "table": _table,
    "slowest": _slowest,
}
