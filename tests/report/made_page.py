"""Pages made by hand: one with every mark, and one on which all text is hostile."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kip_replay.pipelines.folders import rule_pages
from kip_replay.pipelines.report.logs import Logs
from kip_replay.pipelines.report.marks import (
    Bar,
    Bars,
    Block,
    Chart,
    Line,
    Mark,
    Slow,
    Slowest,
    Table,
)
from kip_replay.pipelines.report.page import render
from kip_replay.pipelines.report.pages import Card, Effect, Page

#: Ends a script and an attribute, hides, turns the reading direction; is too long for any column.
HOSTILE = [
    "</script></svg><script>alert(1)</script>\0",
    "\u202egnp.exe\u200f \"'`{{ 7 * 7 }} &amp; é\n# a|b **c** [d](https://e) ~~f~~ ```",
    "<img src=x onerror=\"alert('1')\">",
    "w" * 10_000,
]
TEXT = " ".join(HOSTILE[:3])
BEGIN = 1_795_363_200.0


def _wave(base: float, phase: float) -> list[float | None]:
    """Values that rise and fall, with a gap."""
    waves = (base * (1.4 + math.sin(i / 9 + phase) + 0.3 * math.sin(i * 1.7)) for i in range(240))
    return [None if 40 <= i < 52 else value for i, value in enumerate(waves)]


def over_time(name: str, unit: str, styles: Sequence[str]) -> Chart:
    times = [BEGIN + 5.0 * i for i in range(240)]
    lines = [Line(of, of, times, _wave(9.0 * (i + 1), 0.3 * i)) for i, of in enumerate(styles)]
    kinds = ("election", "isr", "restart", "config", "fenced", "eviction", "upgrade")
    events = [Mark(BEGIN + 130 * i, kind, f"{kind} on node {i}") for i, kind in enumerate(kinds)]
    return Chart(name, "in 5 s", f"{name}: 9 to 90.", "UTC", unit, lines, events, "time")


def blocks() -> list[Block]:
    """Every mark."""
    sweep = Line("fetch sessions", "with", [0, 8, 16, 1000], [900.0, 400.0, 90.0, 90.0])
    rows = [
        Slow(
            2400.0 / (i + 1) + i,
            f"{i % 3 + 1}",
            f"producer-{i % 4}",
            ("orders", "payments", "")[i % 3],
            f"Follower {i % 3 + 2} had offset {1000 + 17 * i} last.",
            f"broker-{i % 3 + 1}.log:{1200 + 31 * i}",
        )
        for i in range(20)
    ]
    elbow = [Mark(16.0, "elbow", "elbow: 16 slots")]
    scales = {"x_scale": "log", "has_points": True}
    return [
        over_time("Wait", "ms", ["recorded", "without", "with", "other"]),
        over_time("Bytes", "B/s", ["with", "without", *["other"] * 4]),
        Chart("Sweep", "", "900 to 90.", "slots", "B/s", [sweep], elbow, **scales),  # type: ignore[arg-type]
        Bars("Bars", "", "B/s", [Bar("sessions", "with", [("records", 9e3), ("lists", 10.0)])]),
        Table("Table", "of two", ["of", "n"], [True, False], [["followers", "1,000"]]),
        Slowest("The slowest", "longest first", rows),
    ]


def hostile_blocks(text: str) -> list[Block]:
    """Every mark, with nothing but this text and what is too long."""
    every = [*HOSTILE, text] if text == TEXT else [text] * 5
    times = [BEGIN, BEGIN + 60, BEGIN + 120]
    lines = [
        Line(of, ("with", "without")[i % 2], times, [1.0, None, i]) for i, of in enumerate(every)
    ]
    events = [Mark(BEGIN + 30 * i, of, of) for i, of in enumerate(every)]
    slow = [Slow(float(i), of, of, of, of, of) for i, of in enumerate(every)]
    bars = [Bar(of, "with", [(of, 1.0), (text, 2.0)]) for of in every]
    return [
        Chart(text, text, text, text, text, lines, events, "time"),
        Bars(text, text, "B/s", bars),
        Table(text, text, [text, text], [True, False], [[of, of] for of in every]),
        Slowest(text, text, slow),
    ]


def card(rule: str, text: str, shown: Sequence[Block]) -> Card:
    figures = {"unit": "ms", "before": 300.0, "after": 1.0, "low": -320.0, "high": -280.0}
    counts = {"count": 9, "unknown_count": 1}
    row: dict[str, Any] = {"figure": text, "before_variant": "a", "after_variant": "b"}
    row |= figures | counts
    decision = {"rule": rule, "advice": "do it", "reason": "worth_it", "facts": [("a", text)]}
    decision |= {"gain": row, "price": [row], "paste": f"{text}\n{text}", "rests_on": [text]}
    effects = [Effect(name, text, row) for name in ("Gain", "Price")]
    stated = rule_pages()[rule]
    return Card(rule, stated, decision, text, effects, text, shown[0], shown, [_table(text)])


def _table(text: str) -> Table:
    return Table(text, text, [text], [True], [[text]])


def page(number: int, name: str, text: str, shown: Sequence[Block]) -> Page:
    line = {"node_id": 1, "source_file": text, "line_number": 7, "line": text, "line_bytes": 4}
    counts = {"lines_read": 12, "requests": 7, "other": 3, "rejected": 1, "repeated": 1}
    node = {"node_id": 1, "files": 1, "contents": "ab", "first_us": None, "last_us": None, **counts}
    rejected = [{"reason": text, "n": 1, "examples": [line]}]
    logs = Logs(name, text, [{**node, "versions": [text], "damage": [text]}], rejected)
    cards = [card(rule, text, shown) for rule in rule_pages()]
    alerts = [(of, True) for of in logs.warnings] + [(text, False)]
    id, table = f"recording-{number}", _table(text)
    finding: dict[str, Any] = dict.fromkeys(("code", "subject", "detail"), text)
    finding |= dict.fromkeys(("says", "action", "statement"), text)
    finding |= dict.fromkeys(("count", "population", "figure"), 1)
    overview = {"rates": text, "findings": [finding] * 5, "overview": [shown[0], table]}
    basis = (name, id, logs.facts, alerts, cards, text, text, logs)
    return Page(*basis, at_risk=table, **overview)  # type: ignore[arg-type]


def pages(text: str = TEXT) -> list[Page]:
    return [page(1, "one", "usual", blocks()), page(2, text, text, hostile_blocks(text))]


def written(folder: Path) -> Path:
    path = folder / "page.html"
    path.write_text(render(pages()), encoding="utf-8", newline="\n")
    return path
