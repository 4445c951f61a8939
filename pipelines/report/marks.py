"""Makes what a page shows of a specification and the rows of its query.

A specification is a table of a ``page.toml``: ``mark``, ``name``, ``note`` and a ``query`` on the
warehouse's tables and views, which are bounded. A table may name the ``columns`` to show, and
``sentences`` (templates of a column, over a row). A query of lines has line, figure, x and y; where
``x`` is UTC, x is when a bucket of ``time_buckets`` begins, in seconds since 1970; lines that have
a figure are of the unit ``right``, if one is stated. A query of bars has a name, a figure that is
not the sum or null, and a column for each part; one of a strip has name, x and y as lines have.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import jinja2
from duckdb import DuckDBPyConnection

from kip_replay.pipelines.report import words
from kip_replay.pipelines.warehouse.tables import fetched

Spec: TypeAlias = Mapping[str, Any]
Row: TypeAlias = Mapping[str, Any]
#: A specification with its rows, as report.html.j2 prints it.
Block: TypeAlias = dict[str, Any]
#: The x and the y of points; a y of None is a gap.
Points: TypeAlias = Sequence[tuple[float, float | None]]

_FIGURES = {"p50": "median", "p90": "90 %", "p99": "99 %"}
#: Empty buckets that a line of latencies goes over: nothing happened in them. Longer is a gap.
_BRIDGED = 3
#: Cells of a strip, at most, and of all strips of a picture.
_CELLS, _MOST_CELLS = 60, 3000
#: Characters of a name of a client, a topic or a file, and of a sentence.
_NAME, _SENTENCE = 120, 1000
_BUCKETS = """
    SELECT bucket_s, epoch_us(first_at) // 1000000 AS first, epoch_us(last_at) // 1000000 AS last
    FROM time_buckets WHERE recording = $recording"""


def rows(database: DuckDBPyConnection, query: str, **values: object) -> list[dict[str, Any]]:
    """The rows of a query, with those values that it has a ``$name`` for."""
    named = {name: values[name] for name in values if re.search(rf"\${name}\b", query)}
    records = fetched(database, query, named).to_pylist()
    return [{name: _plain(value) for name, value in row.items()} for row in records]


def _plain(value: object) -> object:
    """Sums of whole numbers are decimals in Arrow."""
    return int(value) if isinstance(value, Decimal) and value == int(value) else value


def grouped(records: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows by recording."""
    by: dict[str, list[Row]] = defaultdict(list)
    for row in records:
        by[row["recording"]].append(row)
    return by


def block(database: DuckDBPyConnection, spec: Spec, **values: object) -> Block | None:
    """Makes what a specification shows of a recording; None where there is nothing."""
    records = rows(database, spec["query"], **values)
    if not records or spec["mark"] == "table":
        return table(spec, records) if records else None
    if spec["mark"] == "bars":
        return _bars(spec, records)
    buckets = rows(database, _BUCKETS, **values)[0] if spec["x"] == "UTC" else None
    if spec["mark"] == "strip" and buckets:
        return _strip(spec, records, buckets)
    return _chart(spec, records, buckets)


# --- tables ---------------------------------------------------------------------------------------


def table(spec: Spec, records: Sequence[Row]) -> Block:
    """Cells are pairs: what they are sorted by, and their text."""
    sentences = {name: _sentence(text) for name, text in spec.get("sentences", {}).items()}
    columns = spec.get("columns", [*records[0]])
    filled = [
        {**row, **{name: " ".join(it.render(row).split()) for name, it in sentences.items()}}
        for row in records
    ]
    is_text = [any(isinstance(row[name], str) for row in filled) for name in columns]
    most = {name: _SENTENCE if name in sentences else _NAME for name in columns}
    cells = [[_cell(row[name], most[name]) for name in columns] for row in filled]
    return {
        "note": "",
        **spec,
        "columns": columns,
        "is_text": is_text,
        "cells": cells,
    }


def _cell(value: object, characters: int) -> tuple[object, str]:
    if isinstance(value, str):
        text = words.shortened(words.named(value), characters)
        return text, text
    if isinstance(value, datetime):
        return value.isoformat(), f"{value:%H:%M:%S}"
    if isinstance(value, (float, Decimal)):
        amount = float(value)
        decimals = 0 if abs(amount) >= 100 or amount.is_integer() else 2
        # As many digits as do not depend on the order in which floats were summed.
        return float(f"{amount:.9g}"), words.number(amount, decimals)
    return value, words.number(value if isinstance(value, int) else None)


@cache
def _sentence(text: str) -> jinja2.Template:
    return _SENTENCES.from_string(text)


_SENTENCES = jinja2.Environment(undefined=jinja2.StrictUndefined)
_SENTENCES.filters |= {"ms": words.milliseconds, "number": words.number, "clock": words.clock}


# --- bars -----------------------------------------------------------------------------------------


def _bars(spec: Spec, records: Sequence[Row]) -> Block:
    """Bars of parts, beside the longest of them. A wait that clients wish is in no figure."""
    parts = [name for name in records[0] if name not in ("name", "figure")]
    sums = [sum(row[part] or 0 for part in parts if part != "wished wait") for row in records]
    longest, unit = max(sums) or 1, spec["unit"]

    def text(value: float) -> str:
        return words.size(value) if unit == "B" else words.in_unit(value, unit)

    def bar(row: Row, total: float) -> dict[str, Any]:
        cells = [
            _part(part.split()[0], min(row[part] / longest, 1), 1, f"{part} {text(row[part])}")
            for part in parts
            if row[part]
        ]
        name = words.shortened(row["name"], _NAME)
        return {"name": name, "figure": row.get("figure") or text(total), "cells": cells}

    return {"note": "", **spec, "parts": parts, "bars": [*map(bar, records, sums)]}


def _part(style: str, width: float, opacity: float, title: str) -> dict[str, str]:
    sizes = {"width": f"{100 * width:.3g}", "opacity": f"{opacity:.2g}"}
    return {"style": style, **sizes, "title": title}


def _strip(spec: Spec, records: Sequence[Row], buckets: Row) -> Block:
    """A bar over time for each name: the fuller a cell, the more; nothing where nothing was."""
    begins, unit = range(buckets["first"], buckets["last"] + 1, buckets["bucket_s"]), spec["unit"]
    by: dict[str, dict[int, float]] = defaultdict(dict)
    for row in records:
        by[row["name"]][row["x"]] = row["y"] or 0.0
    per_cell = -(-len(begins) // max(1, min(_CELLS, _MOST_CELLS // len(by))))
    cells = [begins[at : at + per_cell] for at in range(0, len(begins), per_cell)]

    def bar(name: str, at: Mapping[int, float]) -> dict[str, Any]:
        rates = [sum(at.get(x, 0.0) for x in cell) / len(cell) for cell in cells]
        drawn = []
        for cell, rate in zip(cells, rates, strict=True):
            title = f"from {datetime.fromtimestamp(cell[0], UTC):%Y-%m-%d %H:%M:%S}: "
            shade = 0.2 + 0.8 * rate / (max(rates) or 1)
            title += words.in_unit(rate, unit)
            drawn.append(_part("rate" if rate else "none", len(cell) / len(begins), shade, title))
        whole = words.in_unit(sum(at.values()) / len(begins), unit)
        return {"name": name, "figure": whole, "cells": drawn}

    width = f"a cell is {words.seconds(per_cell * buckets['bucket_s'])}"
    return {**spec, "note": width, "bars": [bar(*item) for item in by.items()]}


# --- lines ----------------------------------------------------------------------------------------


class ChartLine(NamedTuple):
    """A line of a chart; ``style`` is a CSS class such as ``with``."""

    name: str
    style: str
    points: Points
    is_right: bool


def _chart(spec: Spec, records: Sequence[Row], buckets: Row | None) -> Block | None:
    lines = [*_lines(spec, records, buckets)]
    xs = {x for line in lines for x, _ in line.points}
    if len(xs) < 2:
        return None
    width = f"; a point is {words.seconds(buckets['bucket_s'])}" if buckets else ""
    return {
        **spec,
        "note": spec.get("note", "") + width,
        "described": "; ".join(_described(line, spec) for line in lines) + ".",
        "data": [_drawn(line) for line in lines],
        "scales": (
            "time" if buckets else spec.get("x_scale", "number"),
            spec.get("y_scale", "number"),
        ),
    }


def _lines(spec: Spec, records: Sequence[Row], buckets: Row | None) -> Iterator[ChartLine]:
    """Lines that have a point."""
    for (name, figure), points in _points(records, spec.get("styles", ())).items():
        is_right = "right" in spec and figure is not None
        is_rate = spec.get("is_rate", False) and not is_right
        placed = _over_time(points, buckets, is_rate) if buckets else points
        if any(y is not None for _, y in placed):
            parts = filter(None, (words.named(name), _FIGURES.get(figure or "")))
            label = words.visible(words.shortened(", ".join(parts), _NAME))
            style = spec.get("styles", {}).get(name) or words.variant_class(name)
            yield ChartLine(label, style, placed, is_right)


def _points(records: Sequence[Row], first: Iterable[str]) -> dict[tuple[str, str | None], Points]:
    """Points by line and figure, in the order of variants behind the ``first``; x rises."""
    by: dict[tuple[str, str | None], list[tuple[float, float | None]]] = defaultdict(list)
    for row in records:
        x = row["x"].timestamp() if isinstance(row["x"], datetime) else float(row["x"])
        by[row["line"], row["figure"]].append((x, None if row["y"] is None else float(row["y"])))
    order = [*first, *words.in_order(name for name, _ in by)]
    ranked = sorted(by, key=lambda key: (order.index(key[0]), key[1] or ""))
    return {key: sorted(by[key], key=lambda point: (point[0], point[1] or 0.0)) for key in ranked}


def _over_time(points: Points, buckets: Row, is_rate: bool) -> Points:
    """A point in the middle of each bucket; where nothing happened, a rate is 0."""
    width, at = buckets["bucket_s"], dict(points)

    def placed() -> Iterator[tuple[float, float | None]]:
        empty = 0
        for begin in range(buckets["first"], buckets["last"] + 1, width):
            empty = 0 if begin in at else empty + 1
            if is_rate or not empty or empty == _BRIDGED + 1:
                yield begin + width / 2, at.get(begin, 0.0 if is_rate else None)

    return [*placed()]


def _described(line: ChartLine, spec: Spec) -> str:
    unit = spec["right" if line.is_right else "y"]
    ys = [y for _, y in line.points if y is not None]
    return f"{line.name}: {words.number(min(ys), 1)} to {words.number(max(ys), 1)} {unit}"


def _drawn(line: ChartLine) -> dict[str, Any]:
    """As many digits as a picture shows."""

    def short(value: float, digits: int) -> float:
        value = round(value, 3) if abs(value) >= 1e6 else float(f"{value:.{digits}g}")
        return int(value) if value == int(value) else value

    # The last of those at one x.
    points = {short(x, 6): y if y is None else short(y, 4) for x, y in line.points}
    drawn = {"name": line.name, "style": line.style, "x": [*points], "y": [*points.values()]}
    return {**drawn, "right": True} if line.is_right else drawn
