"""A page with a chart of every sort, bars and a list of slow requests; no figure is a real one."""

import math
from pathlib import Path

import jinja2

from kip_replay.pipelines.page.view import Bar, Bars, Chart, Line, Mark, Slow, Slowest
from kip_replay.pipelines.report import charts, page

#: Ends a script and an attribute, turns the reading direction, is far too long for any column.
HOSTILE = [
    "</script><script>alert(1)</script>",
    "\u202egnp.exe\u200f \"'`{{ 7 * 7 }}",
    "<img src=x onerror=alert(1)>",
    "w" * 10_000,
]
_BEGIN = 1_795_363_200.0
_TEMPLATE = """
{% import "charts.html.j2" as show %}
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {{ hashes }}">
<link rel="icon" href="data:,">
<title>charts</title>
<style>{% include "style.css.j2" %}{{ styles }}</style></head>
<body><main>
<nav class="pages" aria-label="Pages"><a href="#page-one">One</a><a href="#page-two">Two</a></nav>
<section class="page" id="page-one">
<h2>How long commits take</h2>
<pre class="paste">max.incremental.fetch.session.cache.slots=2000</pre>
<div data-sync="one">{{ show.chart(latency) }}{{ show.chart(bytes) }}</div>
<div class="grid">{{ show.chart(distribution) }}{{ show.chart(sweep) }}</div>
{{ show.bars(bars) }}{{ show.slowest(slowest) }}
</section>
<section class="page" id="page-two">
<h2>Another</h2>
<details id="folded"><summary>Folded</summary>
<p id="inside">inside</p>{{ show.chart(hostile_chart) }}</details>
{{ show.bars(hostile_bars) }}{{ show.slowest(hostile_slowest) }}
</section>
</main>{{ tags }}</body></html>
"""


def _wave(base: float, length: int, phase: float) -> list[float | None]:
    """Values that rise and fall, with a peak and a gap."""
    peak = [base * 6 * math.exp(-(((i - 150) / 6) ** 2)) for i in range(length)]
    waves = [
        base * (1.4 + math.sin(i / 9 + phase) + 0.3 * math.sin(i * 1.7)) for i in range(length)
    ]
    return [
        None if 40 <= i < 52 else a + b for i, (a, b) in enumerate(zip(waves, peak, strict=True))
    ]


def latency(points: int = 240) -> Chart:
    times = [_BEGIN + 5.0 * i for i in range(points)]
    lines = [
        Line("recorded", "recorded", times, _wave(31.0, points, 0.0)),
        Line("acks=all", "without", times, _wave(29.0, points, 0.3)),
        Line("min.insync.replicas", "with", times, _wave(12.0, points, 0.6)),
        Line("finest evidence", "other", times, _wave(9.0, points, 0.9)),
    ]
    kinds = ("election", "isr", "restart", "config", "fenced", "eviction", "upgrade")
    marks = [Mark(_BEGIN + 130 * i, kind, f"{kind} on node {i}") for i, kind in enumerate(kinds)]
    described = "p99 of commits over time: 90 ms as recorded, 35 ms with the rule, up to 240 ms."
    return Chart(
        "Commit latency", "p99 in buckets of 5 s", described, "time", "ms", lines, marks, "time"
    )


def _bytes() -> Chart:
    times = [_BEGIN + 5.0 * i for i in range(240)]
    lines = [
        Line(f"node {i}", f"series-{i}", times, _wave(4e5 * (i + 1), 240, i)) for i in range(6)
    ]
    described = "Bytes a second of each node over time; node 5 sends most."
    return Chart("Bytes a second", "by node", described, "time", "B/s", lines, (), "time")


def distribution() -> Chart:
    shares = [i / 200 for i in range(1, 201)]
    lines = [
        Line(name, style, [base * 40 ** (share**3) for share in shares], shares)
        for name, style, base in (
            ("recorded", "recorded", 8),
            ("without", "without", 9),
            ("with", "with", 1),
        )
    ]
    described = "Half of the commits take at most 13 ms as recorded, 1.6 ms with the rule."
    name, note = "How many commits take at most so long", "all partitions"
    return Chart(name, note, described, "ms", "share", lines, (), "log", "share", is_stepped=True)


def sweep() -> Chart:
    slots = [0.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0]
    lines = [Line("with", "with", slots, [9.1e6, 8.7e6, 5.2e6, 1.1e6, 1e6, 1e6, 1e6])]
    described = "Bytes a second fall until 1,000 slots, and hardly after."
    marks = [Mark(1000.0, "knee", "1,000 slots")]
    name, note = "What more cache slots save", "tried: the points"
    return Chart(name, note, described, "slots", "B/s", lines, marks, "log", has_points=True)


def bars() -> Bars:
    parts = ("records", "protocol overhead", "empty responses")
    each = [
        Bar("recorded", "recorded", [*zip(parts, (2.1e6, 4.2e5, 9.0e4), strict=True)]),
        Bar("without", "without", [*zip(parts, (2.1e6, 4.0e5, 9.1e4), strict=True)]),
        Bar("with the rule", "with", [*zip(parts, (2.1e6, 6.1e4, 2.0e3), strict=True)]),
    ]
    described = "With the rule 2.2 MB/s rather than 2.6 MB/s, nearly all of it records."
    return Bars("Who sends what", "responses", described, "B/s", each)


def slowest() -> Slowest:
    rows = [
        Slow(
            2400.0 / (i + 1) + i,
            f"{i % 3 + 1}",
            f"producer-{i % 4}",
            ("orders", "payments", "")[i % 3],
            f"The follower on node {i % 3 + 2} had fetched offset {1000 + 17 * i} only "
            f"{2300 // (i + 1)} ms after it was appended: its FETCH before that was a long poll.",
            f"broker-{i % 3 + 1}.log:{1200 + 31 * i}",
        )
        for i in range(20)
    ]
    return Slowest("The twenty slowest commits", "longest first", rows)


def _hostile_chart() -> Chart:
    times = [_BEGIN, _BEGIN + 60, _BEGIN + 120]
    lines = [Line(name, f"series-{i}", times, [1.0, None, i]) for i, name in enumerate(HOSTILE)]
    marks = [Mark(_BEGIN + 30 * i, name, name) for i, name in enumerate(HOSTILE)]
    name = HOSTILE[0]
    return Chart(name, HOSTILE[2], HOSTILE[1], name, name, lines, marks, "time")


def written(folder: Path) -> Path:
    hostile = " ".join(HOSTILE[:3])
    slow = [Slow(float(i), name, name, name, name, name) for i, name in enumerate(HOSTILE)]
    rows = [Bar(name, "with", [(name, 1.0), (hostile, 2.0)]) for name in HOSTILE]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(charts.HERE),
        autoescape=True,
        finalize=page._finalized,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= charts.FILTERS
    text = environment.from_string(_TEMPLATE.lstrip()).render(
        latency=latency(),
        bytes=_bytes(),
        distribution=distribution(),
        sweep=sweep(),
        bars=bars(),
        slowest=slowest(),
        hostile_chart=_hostile_chart(),
        hostile_bars=Bars(hostile, hostile, hostile, "B/s", rows),
        hostile_slowest=Slowest(hostile, hostile, slow),
        hashes=charts.scripts().hashes,
        tags=charts.scripts().tags,
        styles=charts.styles(),
    )
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8", newline="\n")
    return path
