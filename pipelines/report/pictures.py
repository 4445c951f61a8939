"""Pictures as SVG, drawn from plain values: the same values give the same bytes.

Colours are left to the page (classes ``recorded``, ``without``, ``with``, ``other``), so that dark
pages and print can change them; lines also differ in their dashes. Every text and attribute is
escaped. Lengths are in the picture's own units, about CSS pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple, TypeAlias

from markupsafe import Markup, escape

from kip_replay.pipelines.report.values import Curve
from kip_replay.pipelines.report.words import SPACE, milliseconds, number, visible

Point: TypeAlias = tuple[float, float]
#: Width of a letter of 12 px bold text in a wide typeface: what fits with it fits with any.
_LETTER = 7.6
_SMALL_LETTER = 6.6
_LINE_HEIGHT = 15
_SWATCH = 20


class Box(NamedTuple):
    """A rectangle: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        beside = max(self.left, other.left) < min(self.right, other.right)
        return beside and max(self.top, other.top) < min(self.bottom, other.bottom)

    def holds(self, x: float, y: float) -> bool:
        return self.left <= x <= self.right and self.top <= y <= self.bottom


@dataclass(frozen=True)
class Line:
    """A distribution to draw: its class, label, and median in ms (None where it is not known)."""

    variant: str
    label: str
    curve: Curve
    median: float | None


@dataclass(frozen=True)
class Bar:
    """A bar of parts that are stacked: (class, value) from the left."""

    variant: str
    label: str
    parts: tuple[tuple[str, float], ...]

    @property
    def total(self) -> float:
        return sum(value for _, value in self.parts)


def tag(name: str, *content: object, **attributes: object) -> Markup:
    """An element; content and attribute values are escaped unless they are Markup.

    ``_`` in an attribute's name stands for ``-``, a trailing one is dropped (``class_``).
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    text = "".join(f' {key}="{_escaped(_plain(value))}"' for key, value in named.items())
    return Markup(f"<{name}{text}>{''.join(map(_escaped, content))}</{name}>")


def _escaped(value: object) -> Markup:
    return value if isinstance(value, Markup) else escape(visible(str(value)))


def _plain(value: object) -> object:
    """Coordinates with at most one decimal: enough for the eye, and short."""
    return f"{round(value, 1):g}" if isinstance(value, float) else value


def _picture(
    name: str, width: int, height: int, title: str, description: str, content: Iterable[Markup]
) -> Markup:
    """An SVG that screen readers read as one image; ``name`` is unique on the page."""
    ids = f"{name}-title", f"{name}-desc"
    named = tag("title", title, id=ids[0]), tag("desc", description, id=ids[1])
    look = {"class": "picture", "viewBox": f"0 0 {width} {height}", "role": "img"}
    return tag("svg", *named, *content, **look, aria_labelledby=" ".join(ids))


_WIDTH, _HEIGHT = 440, 290
_PLOT = Box(42, 14, 430, 238)
_LEAST_MS = 0.1


class _Axes(NamedTuple):
    """Milliseconds on a logarithmic axis of whole decades, shares on a linear one."""

    from_decade: int
    to_decade: int

    def x(self, ms: float) -> float:
        """What is shorter than the axis stands at its begin."""
        decades = self.to_decade - self.from_decade
        along = (math.log10(max(ms, 10.0**self.from_decade)) - self.from_decade) / decades
        return _PLOT.left + along * (_PLOT.right - _PLOT.left)

    def y(self, share: float) -> float:
        return _PLOT.bottom - share * (_PLOT.bottom - _PLOT.top)


def distribution(
    name: str, lines: Sequence[Line], axis_name: str, title: str, description: str
) -> Markup:
    """Empirical distributions: for each duration the share of values that are no longer."""
    axes = _axes(lines)
    drawn = [_vertices(line.curve, axes) for line in lines]
    middle = (_PLOT.left + _PLOT.right) / 2
    content = [*_grid(axes)]
    content.append(tag("text", axis_name, class_="axis-name middle", x=middle, y=_HEIGHT - 8))
    for line, points in zip(lines, drawn, strict=True):
        content.append(tag("path", class_=f"line {line.variant}", d=_path(points)))
    for line in lines:
        if line.median is not None:
            style, x = f"median {line.variant}", axes.x(line.median)
            content.append(tag("circle", class_=style, cx=x, cy=axes.y(0.5), r=4))
    content += _labels(lines, drawn)
    return _picture(name, _WIDTH, _HEIGHT, title, description, content)


def _axes(lines: Sequence[Line]) -> _Axes:
    shortest = min((max(line.curve.start_ms, _LEAST_MS) for line in lines), default=1.0)
    longest = max((line.curve.points[-1][0] for line in lines), default=1000.0)
    first = math.floor(math.log10(shortest))
    last = max(first + 2, math.ceil(math.log10(max(longest, _LEAST_MS)) - 1e-9))
    return _Axes(first, last)


def _grid(axes: _Axes) -> Iterator[Markup]:
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = axes.y(share)
        style = "axis" if share == 0 else "grid"
        yield tag("line", class_=style, x1=_PLOT.left, x2=_PLOT.right, y1=y, y2=y)
        text = f"{share * 100:.0f}{f'{SPACE}%' if share == 1 else ''}"
        yield tag("text", text, class_="tick end", x=_PLOT.left - 7, y=y + 4)
    # Long axes name every second or third decade, so that the figures keep apart.
    named = 1 + (axes.to_decade - axes.from_decade) // 6
    for decade in range(axes.from_decade, axes.to_decade + 1):
        x = axes.x(10.0**decade)
        yield tag("line", class_="grid", x1=x, x2=x, y1=_PLOT.top, y2=_PLOT.bottom + 5)
        if (axes.to_decade - decade) % named == 0:
            text = number(10.0**decade, max(0, -decade))
            anchor = "end" if decade == axes.to_decade else "middle"
            yield tag("text", text, class_=f"tick {anchor}", x=x, y=_PLOT.bottom + 19)
    decades = range(axes.from_decade, axes.to_decade)
    minor = [_plain(axes.x(part * 10.0**decade)) for decade in decades for part in range(2, 10)]
    tick = f"{_plain(_PLOT.bottom)}V{_plain(_PLOT.bottom + 3)}"
    yield tag("path", class_="axis", d="".join(f"M{x} {tick}" for x in minor))


def _vertices(curve: Curve, axes: _Axes) -> list[Point]:
    points = [(axes.x(ms), axes.y(share)) for ms, share in curve.points]
    return [(axes.x(curve.start_ms), axes.y(0)), *points]


def _path(points: Sequence[Point]) -> str:
    """A staircase: level until the next value, then up."""
    start = f"M{_plain(points[0][0])} {_plain(points[0][1])}"
    return start + "".join(f"H{_plain(x)}V{_plain(y)}" for x, y in points[1:])


def _labels(lines: Sequence[Line], drawn: Sequence[list[Point]]) -> Iterator[Markup]:
    """Each line's name and median beside it, where neither a line nor another label is."""
    taken: list[Box] = []
    for line, points in zip(lines, drawn, strict=True):
        median = f"median {milliseconds(line.median)}"
        width = _SWATCH + 6 + _LETTER * max(len(line.label), len(median))
        box = _free_place(points, drawn, taken, width)
        taken.append(box)
        y, x = box.top + _LINE_HEIGHT / 2, box.left + _SWATCH
        yield tag("line", class_=f"line {line.variant}", x1=box.left, x2=x, y1=y, y2=y)
        x, y = x + 6, box.top + 12
        yield tag("text", line.label, class_=f"label {line.variant}", x=x, y=y)
        yield tag("text", median, class_="label", x=x, y=y + _LINE_HEIGHT)


def _free_place(
    points: Sequence[Point], drawn: Sequence[Sequence[Point]], taken: Sequence[Box], width: float
) -> Box:
    """The first place beside the line that is free, else the one with the least in its way."""
    height = 2 * _LINE_HEIGHT + 2
    # How much is in the way of each place; the first of the best is taken.
    found: list[tuple[int, Box]] = []
    for box in _places(points, width, height):
        within = _PLOT.left + 2 <= box.left <= box.right <= _PLOT.right
        if within and _PLOT.top <= box.top <= box.bottom <= _PLOT.bottom - 2:
            in_the_way = 1000 * sum(box.overlaps(other) for other in taken)
            in_the_way += sum(box.holds(x, y) for line in drawn for x, y in _along(line))
            if in_the_way == 0:
                return box
            found.append((in_the_way, box))
    none = 0, Box(_PLOT.left + 4, _PLOT.top, _PLOT.left + width, _PLOT.top + 30)
    return min(found, key=lambda one: one[0], default=none)[1]


def _places(points: Sequence[Point], width: float, height: float) -> Iterator[Box]:
    """Places to try: right of a rising line its lower part is free, left of it the upper part."""
    for away, step, right in product((12.0, 40.0, 90.0), range(10), (True, False)):
        level = (0.12 + 0.08 * step) if right else (0.86 - 0.08 * step)
        y = _PLOT.bottom - level * (_PLOT.bottom - _PLOT.top)
        x = min(points, key=lambda point: abs(point[1] - y))[0]
        left = x + away if right else x - away - width
        yield Box(left, y - height / 2, left + width, y + height / 2)


def _along(points: Sequence[Point]) -> Iterator[Point]:
    """Points all along the staircase, close enough that no label fits between two."""
    for (x1, y1), (x2, y2) in pairwise(points):
        steps = 1 + int(max(abs(x2 - x1), abs(y2 - y1)) / 4)
        for step in range(steps + 1):
            yield x1 + (x2 - x1) * step / steps, y1
            yield x2, y1 + (y2 - y1) * step / steps


_BAR_WIDTH, _BAR_HEIGHT, _BAR_STEP = 440, 17, 26
_BAR_FROM, _BAR_TO, _BARS_TOP = 132, 368, 22


def bars(name: str, rows: Sequence[Bar], unit: str, title: str, description: str) -> Markup:
    """Horizontal bars, the total at the end of each, parts named above the first."""
    longest = max((bar.total for bar in rows), default=0.0)
    scale = (_BAR_TO - _BAR_FROM) / longest if longest > 0 else 0.0
    content = list(_part_names(rows, scale))
    for place, bar in enumerate(rows):
        content += _bar(bar, _BARS_TOP + place * _BAR_STEP, scale, unit)
    height = _BARS_TOP + len(rows) * _BAR_STEP
    return _picture(name, _BAR_WIDTH, height, title, description, content)


def _part_names(rows: Sequence[Bar], scale: float) -> Iterator[Markup]:
    """What the parts are, above those of the first bar; left out where they would collide."""
    if not rows:
        return
    x, free_from = float(_BAR_FROM), float(_BAR_FROM)
    for part, value in rows[0].parts:
        if value > 0 and x >= free_from:
            yield tag("text", part, class_="tick", x=x, y=_BARS_TOP - 7)
            free_from = x + _SMALL_LETTER * len(part) + 8
        x += value * scale


def _bar(bar: Bar, top: float, scale: float, unit: str) -> Iterator[Markup]:
    middle = top + _BAR_HEIGHT / 2 + 4
    yield tag("text", bar.label, class_=f"label end {bar.variant}", x=_BAR_FROM - 8, y=middle)
    x = float(_BAR_FROM)
    for place, (_, value) in enumerate(bar.parts):
        width = value * scale
        if width > 0:
            style, shown = f"bar part-{place} {bar.variant}", max(0.5, width - 1.5)
            yield tag("rect", class_=style, x=x, y=top, width=shown, height=_BAR_HEIGHT)
        x += width
    total = number(bar.total, 0 if bar.total >= 100 else 1)
    yield tag("text", f"{total} {unit}", class_="label", x=x + 6, y=middle)


_BAND_WIDTH, _BAND_HEIGHT, _BAND_REACH = 96, 16, 2.0


def band(error: float | None, tolerance: float, passed: bool) -> Markup:
    """An error as a dot, in units of the tolerance; an arrow where it is far out.

    The band and its middle, the same in every row, are the page's (``band-picture``).
    """
    middle, y = _BAND_WIDTH / 2, _BAND_HEIGHT / 2
    content, style = [], f"dot {'passed' if passed else 'failed'}"
    if error is not None and math.isfinite(error):
        share = error / tolerance if tolerance > 0 else math.copysign(math.inf, error)
        if abs(share) <= _BAND_REACH or error == 0:
            x = middle + share * (middle - 8) / _BAND_REACH if error else middle
            content.append(tag("circle", class_=style, cx=x, cy=y, r=3.5))
        else:
            side = math.copysign(1, error)
            tip, back = _plain(middle + side * (middle - 1)), _plain(middle + side * (middle - 8))
            points = f"{tip},{_plain(y)} {back},{_plain(y - 4)} {back},{_plain(y + 4)}"
            content.append(tag("polygon", class_=style, points=points))
    look = {"class": "band-picture", "viewBox": f"0 0 {_BAND_WIDTH} {_BAND_HEIGHT}"}
    return tag("svg", *content, **look, width=_BAND_WIDTH, height=_BAND_HEIGHT, aria_hidden="true")
