"""Pages made by hand: one with every mark, and one on which all text is hostile."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from kip_replay.pipelines.folders import rule_pages
from kip_replay.pipelines.report.marks import Block, shown
from kip_replay.pipelines.report.page import render
from kip_replay.pipelines.report.words import visible

#: Ends a script and an attribute, hides, turns the reading direction; is too long for any column.
HOSTILE = [
    "</script></svg><script>alert(1)</script>\0",
    "\u202egnp.exe\u200f \"'`{{ 7 * 7 }} &amp; é\n# a|b **c** [d](https://e) ~~f~~ ```",
    "<img src=x onerror=\"alert('1')\">",
    "w" * 10_000,
]
TEXT = " ".join(HOSTILE[:3])
BEGIN = 1_795_363_200
_SLOW = {
    "mark": "table",
    "name": "The slowest",
    "columns": ["ms", "node", "client", "topic", "why", "file and line"],
    "filters": ["node", "client", "topic"],
    "sentences": {"why": "Follower {{ node + 1 }} had offset {{ 1000 + 17 * i }} last."},
    "query": """SELECT i, 2400.0 / (i + 1) + i AS ms, i % 3 + 1 AS node,
        'producer-' || i % 4 AS client, ['orders', 'payments', ''][i % 3 + 1] AS topic,
        'broker-' || i % 3 + 1 || '.log:' || 1200 + 31 * i AS "file and line"
        FROM range(20) t(i)
    """,
}


def over_time(name: str, unit: str, styles: Sequence[str]) -> dict[str, Any]:
    """A specification of waves with a gap, in buckets of 5 s."""
    waves = [
        f"(SELECT '{style}' AS line, {at} AS place, {BEGIN} + 5 * i AS x, if(i BETWEEN 40 AND 51, "
        f"NULL, {9.0 * (at + 1)} * (1.4 + sin(i / 9 + {0.3 * at}))) AS y FROM range(240) t(i))"
        for at, style in enumerate(styles)
    ]
    query = f"SELECT *, NULL AS figure FROM ({' UNION ALL '.join(waves)}) ORDER BY place"
    return {"mark": "lines", "name": name, "x": "UTC", "y": unit, "query": query}


SPECS = [
    over_time("Wait", "ms", ["recorded", "acks_all", "acks_min_insync_replicas", "other"]),
    over_time("Bytes", "B/s", ["acks_min_insync_replicas", "acks_all"]),
    {
        "mark": "lines",
        "name": "Sweep",
        "x": "slots",
        "y": "B/s",
        "x_scale": "log",
        "elbow": "elbow: {} slots",
        "query": """SELECT 'incremental' AS line, NULL AS figure, x, y, x AS price
            FROM (VALUES (0, 900.0), (8, 400.0), (16, 90.0), (1000, 90.0)) t(x, y)""",
    },
    {"mark": "table", "name": "Table", "query": "SELECT 'followers' AS \"of\", 1000 AS n"},
    _SLOW,
]


def blocks(specs: Sequence[Any] = SPECS, **values: object) -> list[Block]:
    """Every mark."""
    with duckdb.connect() as database:
        database.execute(f"""CREATE TABLE time_buckets AS SELECT 'r' AS recording, 5 AS bucket_s,
            to_timestamp({BEGIN}) AS first_at, to_timestamp({BEGIN + 5 * 239}) AS last_at""")
        made = [shown(database, spec, recording="r", **values) for spec in specs]
    return [block for block in made if block]


def hostile_blocks(text: str) -> list[Block]:
    """Every mark, with nothing but this text and what is too long."""
    named = {"name": text, "note": text}
    query = f"""SELECT line, NULL AS figure, x, CASE x WHEN {BEGIN + 60} THEN NULL ELSE x END AS y
        FROM (SELECT unnest($every) AS line) CROSS JOIN range({BEGIN}, {BEGIN + 180}, 60) t(x)"""
    slow = {**_SLOW, **named, "sentences": {"why": "{{ text }}"}}
    slow |= {"filters": ["client"], "columns": ["ms", "client", "why"]}
    slow["query"] = "SELECT 1 AS ms, unnest($every) AS client, $text AS text"
    specs = [{"mark": "lines", **named, "x": "UTC", "y": "ms", "query": query}, slow]
    every = [*HOSTILE, text] if text == TEXT else [text + str(i) for i in range(5)]
    return blocks(specs, every=every, text=text)


def page(number: int, name: str, text: str, made: list[Block]) -> dict[str, Any]:
    figures = {"unit": "ms", "before": 300.0, "after": 1.0, "difference": -299.0, "says": text}
    figures |= {"before_variant": "a", "after_variant": "b", "low": -320.0, "high": -280.0}
    figures |= {"figure": text, "count": 9, "unknown_count": 1}
    said = {"sentence": text, "more": [text], "rests_on": [text], "facts": {"a": text}}
    said |= {"reason": "worth_it", "advice": "do it", "paste": f"{text}\n{text}", "accuracy": text}
    rules = {
        rule: {name: stated.get(name) for name in ("kip", "link", "title", "released")}
        | {**said, "gain": figures, "price": [figures]}
        for rule, stated in rule_pages().items()
    }
    finding: dict[str, Any] = dict.fromkeys(("code", "subject", "detail", "says", "action"), text)
    finding |= {"statement": text} | dict.fromkeys(("count", "population", "figure"), 1)
    facts = {"kafka_version_stated": text, "kafka_versions": [text], "clusters": [text]}
    facts |= {"first_at": "2026-11-22T16:00:00Z", "last_at": None, "span_s": 1.0}
    facts |= {"counted_since": text, "nodes": 1, "lines": 12, "requests": 7, "contents": text}
    events = ("election", "isr", "restart", "config")
    return {
        "recording": name,
        "id": f"recording-{number}",
        "facts": facts,
        "accuracy": text,
        "alerts": [{"text": text, "is_critical": True}] * 3,
        "rates": [{"api_name": "FETCH", "per_second": 1.5, "p50_ms": 1.0, "p99_ms": 2.0}],
        "findings": [finding] * 5,
        "clients": {"clients": 2, "at_risk": 1, "says": text},
        "rules": rules,
        "events": [(BEGIN + 130 * i, "◆", f"{of} on node {i}") for i, of in enumerate(events)]
        if name != text
        else [(BEGIN + 2.5, "●", visible(text))],
        "blocks": dict.fromkeys(rules, made),
        "sections": [{"name": text, "id": of, "blocks": made} for of in ("upgrade", "fleet")],
        "calculators": [
            {
                "kip": text,
                "about": text,
                "known": {"costs": {}, "terms": {}},
                "fields": [("a", text, "1")],
                "formulas": [{"label": text, "unit": "ms", "before": "a", "after": "2 * a"}],
            }
        ],
    }


def pages(text: str = TEXT) -> list[dict[str, Any]]:
    return [page(1, "one", "usual", blocks()), page(2, text, text, hostile_blocks(text))]


def written(folder: Path) -> Path:
    path = folder / "page.html"
    path.write_text(render(pages()), encoding="utf-8", newline="\n")
    return path
