"""Charts, bars and lists of slow requests as the browser gets them.

`charts.html.j2` prints the values of `marks.py` as HTML that is complete without scripts;
`charts.js` draws charts with uPlot, `page.js` sorts and filters. A chart's figures are in the
page as JSON that holds no text: names and sentences are in the HTML, escaped, and scripts only take
them from there.
"""

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.marks import Bar, Bars, Chart, Line, Slowest

HERE = Path(__file__).parent
_SCRIPTS = "axes.js", "charts.js", "page.js", "fleet.js"
#: Charts of at most this many x have a table beside them, and all digits that matter.
SMALL = 40
#: Digits of a figure of a large chart: a picture shows no more.
_DIGITS, _X_DIGITS, _ALL_DIGITS = 3, 4, 6
#: Characters of a name, and of a sentence on a slow request.
_NAME, _SENTENCE = 120, 1000
#: A symbol for each kind of mark; a kind that is not here has the last.
_SYMBOLS = {
    "election": "▲",
    "isr": "◆",
    "fenced": "✖",
    "eviction": "▼",
    "restart": "↻",
    "config": "■",
    "gap": "◇",
    "elbow": "◎",
}
_OTHER_SYMBOL = "●"


class Scripts(NamedTuple):
    """``tags``: the script elements, for the end of the body; ``hashes``: for CSP's script-src."""

    tags: Markup
    hashes: str


@cache
def scripts() -> Scripts:
    """The page's scripts, which load nothing, and what allows these and no others."""
    licence = (HERE / "uplot" / "LICENSE").read_text(encoding="utf-8")
    library = (HERE / "uplot" / "uPlot.iife.min.js").read_text(encoding="utf-8")
    own = [(HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS]
    texts = [f"/*!\n{licence}*/\n{library}", *own]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in texts]
    return Scripts(
        Markup("\n".join(f"<script>{text}</script>" for text in texts)),
        " ".join(f"'sha256-{digest.decode()}'" for digest in digests),
    )


@cache
def styles() -> Markup:
    """The style sheet of charts, bars and lists; colours come from the page's variables."""
    files = HERE / "uplot" / "uPlot.min.css", HERE / "charts.css"
    return Markup("\n".join(file.read_text(encoding="utf-8") for file in files))


def figures(chart: Chart) -> Markup:
    """A chart's figures as JSON for a script element.

    ``x``: the positions on each of the different axes. ``y``: for each line the place of its axis
    and its values, null where it has a gap. ``marks``: for each its x and its symbol. ``zero``:
    where zero is on a log axis.
    """
    digits = _ALL_DIGITS if _is_small(chart) else _DIGITS
    axes: list[list[float]] = []
    lines = []
    for line in chart.lines:
        x, y = _points(chart, line)
        if x not in axes:
            axes.append(x)
        written = ",".join(_written(value, digits, chart.y_scale == "share") for value in y)
        lines.append(f"[{axes.index(x)},[{written}]]")
    zero = _edge(chart)
    marks = [[_place(mark.x, zero), symbol(mark.kind)] for mark in chart.marks]
    # Numbers and symbols: nothing in it could end the element.
    ends = [json.dumps(of, separators=(",", ":")) for of in (axes, marks, zero)]
    return Markup(f'{{"x":{ends[0]},"y":[{",".join(lines)}],"marks":{ends[1]},"zero":{ends[2]}}}')


def _is_small(chart: Chart) -> bool:
    return len({x for line in chart.lines for x in line.x}) <= SMALL


def _edge(chart: Chart) -> float | None:
    """Places zero on a log axis: at the power of ten below everything else."""
    xs = [x for line in chart.lines for x in line.x] + [mark.x for mark in chart.marks]
    if chart.x_scale != "log" or min(xs, default=1) > 0:
        return None
    least = min((x for x in xs if x > 0), default=1.0)
    return _short(10.0 ** (math.ceil(math.log10(least)) - 1))


def _points(chart: Chart, line: Line) -> tuple[list[float], list[float | None]]:
    """Points in ascending x, the last of those at one x."""
    edge = _edge(chart)
    digits = _ALL_DIGITS if chart.x_scale == "time" or _is_small(chart) else _X_DIGITS
    at = {_place(x, edge, digits): y for x, y in zip(line.x, line.y, strict=True)}
    return sorted(at), [at[x] for x in sorted(at)]


def _place(x: float, edge: float | None, digits: int = _ALL_DIGITS) -> float:
    return edge if edge is not None and x <= 0 else _short(x, digits)


def _short(value: float, digits: int = _ALL_DIGITS) -> float:
    """Milliseconds of a time in seconds, else this many digits; 3 rather than 3.0."""
    value = round(value, 3) if abs(value) >= 1e6 else float(f"{value:.{digits}g}")
    return int(value) if value == int(value) else value


def _written(value: float | None, digits: int, is_share: bool) -> str:
    """A number of JSON with this many digits; shares have four decimals."""
    if value is None or not math.isfinite(value):
        return "null"
    text = f"{round(value, 4):g}" if is_share else f"{value:.{digits}g}"
    return text.replace("e+", "e")


def symbol(kind: str) -> str:
    return _SYMBOLS.get(kind, _OTHER_SYMBOL)


def cut(name: str) -> str:
    """A name of a client, a topic or a file, cut where it is too long to read."""
    return words.shortened(name, _NAME)


def at_x(chart: Chart, x: float) -> str:
    if chart.x_scale != "time":
        return amount(x, "")
    stamp = datetime.fromtimestamp(x, UTC)
    return f"{stamp:%Y-%m-%d %H:%M:%S}" + (f".{stamp:%f}"[:4] if stamp.microsecond else "")


def at_y(chart: Chart, y: float | None) -> str:
    if chart.y_scale == "share":
        return words.NOT_KNOWN if y is None else f"{words.number(y * 100, 2)}{words.SPACE}%"
    return amount(y, "")


def amount(value: float | None, unit: str) -> str:
    """A figure with its unit and as many digits as matter; bytes as kB, MB, GB."""
    if value is None or not math.isfinite(value):
        return words.NOT_KNOWN
    if unit.startswith("B"):
        return words.size(value) + unit[1:]
    size = abs(value)
    decimals = 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2
    decimals = decimals if size >= 0.1 or not value else 1 - math.floor(math.log10(size))
    return words.number(value, decimals) + (f"{words.SPACE}{unit}" if unit else "")


def table(chart: Chart) -> list[tuple[str, list[str]]]:
    """A small chart's figures, a row for each x; nothing of a large one."""
    if not _is_small(chart):
        return []
    lines = [dict(zip(line.x, line.y, strict=True)) for line in chart.lines]
    xs = sorted({x for line in chart.lines for x in line.x})
    return [(at_x(chart, x), [at_y(chart, line.get(x)) for line in lines]) for x in xs]


@dataclass(frozen=True)
class Stack:
    """A bar as it is drawn: parts as (name, value, per cent of the width, place in the legend)."""

    name: str
    style: str
    total: str
    parts: Sequence[tuple[str, str, float, int]]


def stacks(it: Bars) -> list[Stack]:
    """Bars on one scale, the longest over the whole width."""
    longest = max((_total(bar) for bar in it.bars), default=0.0)
    names = list(dict.fromkeys(name for bar in it.bars for name, _ in bar.parts))

    def part(name: str, value: float) -> tuple[str, str, float, int]:
        width = round(100 * value / longest, 2) if longest > 0 else 0.0
        return cut(name), amount(value, it.unit), width, names.index(name)

    return [
        Stack(cut(bar.name), bar.style, amount(_total(bar), it.unit), [part(*p) for p in bar.parts])
        for bar in it.bars
    ]


def _total(bar: Bar) -> float:
    return math.fsum(value for _, value in bar.parts)


def slow_rows(it: Slowest) -> list[tuple[str, ...]]:
    """Milliseconds as a plain number and for reading, then the texts, cut where they are long."""
    rows = []
    for row in it.rows:
        about = map(cut, (row.node, row.client, row.topic))
        why = words.shortened(row.why, _SENTENCE)
        rows.append((f"{row.ms:g}", amount(row.ms, ""), *about, why, cut(row.source)))
    return rows


#: What the macros of charts.html.j2 call.
FILTERS = {
    "chart_figures": figures,
    "chart_table": table,
    "chart_at": at_x,
    "symbol": symbol,
    "cut": cut,
    "stacks": stacks,
    "slow_rows": slow_rows,
}
