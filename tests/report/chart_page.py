"""A report with charts over time and lists of slow requests; no figure is a real one."""

import math
from dataclasses import replace
from pathlib import Path

from report_examples import acks_check, html, recording, report_of

from kip_replay.pipelines.page.view import Bar, Bars, Chart, Line, Mark, Slow, Slowest

#: Ends a script and an attribute, turns the reading direction, is far too long for any column.
HOSTILE = [
    "</script><script>alert(1)</script>",
    "\u202egnp.exe\u200f \"'`{{ 7 * 7 }}",
    "<img src=x onerror=alert(1)>",
    "w" * 10_000,
]
_BEGIN = 1_795_363_200.0


def _wave(base: float, phase: float) -> list[float | None]:
    """Values that rise and fall, with a gap."""
    waves = (base * (1.4 + math.sin(i / 9 + phase) + 0.3 * math.sin(i * 1.7)) for i in range(240))
    return [None if 40 <= i < 52 else value for i, value in enumerate(waves)]


def latency() -> Chart:
    times = [_BEGIN + 5.0 * i for i in range(240)]
    lines = [
        Line("recorded", "recorded", times, _wave(31.0, 0.0)),
        Line("acks=all", "without", times, _wave(29.0, 0.3)),
        Line("min.insync.replicas", "with", times, _wave(12.0, 0.6)),
        Line("finest evidence", "other", times, _wave(9.0, 0.9)),
    ]
    kinds = ("election", "isr", "restart", "config", "fenced", "eviction", "upgrade")
    marks = [Mark(_BEGIN + 130 * i, kind, f"{kind} on node {i}") for i, kind in enumerate(kinds)]
    described = "p99 of commits over time: 90 ms as recorded, 35 ms with the rule, up to 240 ms."
    return Chart(
        "Commit latency", "p99 in buckets of 5 s", described, "time", "ms", lines, marks, "time"
    )


def _bytes() -> Chart:
    times = [_BEGIN + 5.0 * i for i in range(240)]
    lines = [Line(f"node {i}", f"series-{i}", times, _wave(4e5 * (i + 1), i)) for i in range(6)]
    described = "Bytes a second of each node over time; node 5 sends most."
    return Chart("Bytes a second", "by node", described, "time", "B/s", lines, (), "time")


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
    """Two recordings that are compared, and on a page of its own one of hostile names."""
    hostile = " ".join(HOSTILE[:3])
    slow = [Slow(float(i), name, name, name, name, name) for i, name in enumerate(HOSTILE)]
    bars = [Bar(name, "with", [(name, 1.0), (hostile, 2.0)]) for name in HOSTILE]
    names = ("one", hostile, "two")
    report = replace(
        report_of(*map(recording, names), checks=(acks_check("one", "two"),)),
        over_time={
            ("hwm_parking", "one"): [latency(), _bytes()],
            ("hwm_parking", hostile): [_hostile_chart()],
        },
        slowest={
            ("hwm_parking", "one"): slowest(),
            ("hwm_parking", hostile): Slowest(hostile, hostile, slow),
        },
        traffic={hostile: [Bars(hostile, hostile, hostile, "B/s", bars)]},
    )
    path = folder / "page.html"
    path.write_text(html(report), encoding="utf-8", newline="\n")
    return path
