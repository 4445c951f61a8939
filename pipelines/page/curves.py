"""Sweeps as charts: what each value of a parameter gives, and where a curve has its knee."""

from collections.abc import Iterable, Mapping, Sequence

from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.values import Percentiles
from kip_replay.pipelines.page.view import Chart, Line, Mark

#: A curve that changes by a smaller share of its largest y is flat.
LEAST_CHANGE = 0.1
#: A curve no point of which lies further below its chord, in shares of its range, has no knee.
LEAST_DEPTH = 0.1
#: A percentile of fewer values makes no knee.
LEAST_VALUES = 10
#: A knee is a point between two ends.
_LEAST_POINTS = 3
_PERCENTILES = {"p50": "median", "p90": "90 %", "p99": "99 %"}


def knee(points: Mapping[int, tuple[float | None, float | None]]) -> int | None:
    """The value with which most of a gain is there, and most of its price is not yet.

    ``points``: by value x and y, both better small: a price and what it buys, or how much of
    something, and what it costs. The knee is the point furthest below the straight line between the
    curve's ends, both axes scaled to 0..1 (Kneedle: Satopää et al., "Finding a Kneedle in a
    Haystack", 2011); of equals the one of the smallest x. Of points of one x the lowest counts.
    None: fewer than three known, a flat curve (``LEAST_CHANGE``), or one that is straight or bent
    the other way (``LEAST_DEPTH``).
    """
    best: dict[float, tuple[float, int]] = {}
    for value, (x, y) in sorted(points.items()):
        if x is not None and y is not None:
            best[x] = min(best.get(x, (y, value)), (y, value))
    known = [(x, *best[x]) for x in sorted(best)]
    if len(known) < _LEAST_POINTS:
        return None
    (left, first, _), (right, last, _) = known[0], known[-1]
    height = max(y for _, y, _ in known) - min(y for _, y, _ in known)
    if height <= LEAST_CHANGE * max(abs(y) for _, y, _ in known):
        return None
    slope = (last - first) / (right - left)
    depths = [(first + slope * (x - left) - y) / height for x, y, _ in known]
    deepest = max(depths)
    return known[depths.index(deepest)][2] if deepest > LEAST_DEPTH else None


def percentile(of: Percentiles | None, name: str) -> float | None:
    """A percentile for a knee: None also where too few values are behind it."""
    return None if of is None or of.values < LEAST_VALUES else getattr(of, name)


def line(name: str, style: str, of: Mapping[int, float | None]) -> Line:
    return Line(name, style, sorted(of), [of[x] for x in sorted(of)])


def lines(
    name: str, style: str, spreads: Mapping[int, Percentiles | None], of: Sequence[str]
) -> list[Line]:
    """A line for each percentile of the distributions that each value gives."""
    found = {x: spread for x, spread in spreads.items() if spread is not None}
    return [
        line(f"{name}, {_PERCENTILES[p]}", style, {x: getattr(s, p) for x, s in found.items()})
        for p in of
        if found
    ]


def knee_marks(value: int | None, text: str) -> list[Mark]:
    """A mark at a knee, if there is one; ``text`` has {} for its value."""
    return [] if value is None else [Mark(value, "knee", text.format(words.number(value)))]


def note(text: str, value: int | None, meaning: str) -> str:
    """What a chart is, and what its knee means, if it has one."""
    return text if value is None else f"{text}; {meaning}"


def recorded_marks(values: Iterable[int], unit: str = "") -> list[Mark]:
    return [Mark(at, "recorded", f"as recorded: {words.number(at)}{unit}") for at in sorted(values)]


def chart(
    name: str,
    note: str,
    axes: tuple[str, str],
    of: Sequence[Line],
    marks: Sequence[Mark] = (),
    *,
    is_log: bool = False,
) -> list[Chart]:
    """The chart of a sweep; none with fewer than two values. ``axes``: what x and y are."""
    if len({x for each in of for x in each.x}) < 2:
        return []
    lines = "; ".join(f"{each.name}: {_in_words(each)}" for each in of)
    texts = "".join(f" {mark.text}." for mark in marks)
    described = f"{axes[1]} by {axes[0]}: {lines}.{texts}"
    scale = "log" if is_log else "number"
    return [Chart(name, note, described, *axes, of, marks, scale, has_points=True)]


def _in_words(of: Line) -> str:
    ends = dict([*zip(of.x, of.y, strict=True)][:: max(1, len(of.x) - 1)])
    return " to ".join(f"{words.number(y, 1)} at {words.number(x)}" for x, y in ends.items())
