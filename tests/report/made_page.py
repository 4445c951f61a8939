"""Pages made by hand: one with every mark, and one on which all text is hostile."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from kip_replay.pipelines.report.marks import block
from kip_replay.pipelines.report.page import render
from kip_replay.pipelines.report.words import visible

#: Ends a script and an attribute, hides, turns the reading direction; is too long for any column.
HOSTILE = [
    "</script></svg><script>alert(1)</script>\0",
    "\u202egnp.exe\u200f \"'`{{ 7 * 7 }} &amp; é\n# a|b **c** [d](https://e) ~~f~~ ```",
    "<img src=x onerror=\"alert('1')\">",
    "w" * 500,
]
TEXT = " ".join(HOSTILE)
BEGIN = 1_795_363_200
#: What a page has of no log: codes, classes, links, and when it began.
_KEPT = {"advice", "reason", "unit", "link", "id", "first_at", "before_variant", "after_variant"}
_KEPT |= {
    "fields",
    "mark",
    "style",
    "scales",
    "x",
    "y",
    "columns",
    "before",
    "after",
    "terms",
}


def over_time(name: str, unit: str, styles: Sequence[str]) -> dict[str, Any]:
    """A specification of waves with a gap, in buckets of 5 s."""
    waves = [
        f"(SELECT '{style}' AS line, NULL AS figure, {BEGIN} + 5 * i AS x, if(i BETWEEN 40 AND 51, "
        f"NULL, {9.0 * (at + 1)} * (1.4 + sin(i / 9 + {0.3 * at}))) AS y FROM range(240) t(i))"
        for at, style in enumerate(styles)
    ]
    query = " UNION ALL ".join(waves)
    return {"mark": "lines", "name": name, "x": "UTC", "y": unit, "query": query}


PICTURES = [
    over_time("Load", "requests/s", ["recorded"]) | {"view": "requests"},
    {"mark": "bars", "name": "Clients", "view": "usage", "unit": "B"}
    | {
        "query": """SELECT * FROM (VALUES ('producer-1', 4e6, 1e6, NULL),
            ('poller', NULL, NULL, '9 requests')) t(name, sent, "wished wait", figure)""",
    },
    {"mark": "strip", "name": "Nodes", "view": "requests", "x": "UTC", "unit": "/s"}
    | {
        "query": f"""SELECT 'node ' || n AS name, if(n = 1, {BEGIN} + 5 * i, NULL) AS x, 2.0 AS y
            FROM range(1, 3) t(n), range(79 * n - 79, 80) t(i)""",
    },
]
SPECS = [
    over_time("Wait", "ms", ["recorded", "acks_all", "acks_min_insync_replicas", "other"]),
    over_time("Bytes", "B/s", ["acks_min_insync_replicas", "acks_all"]),
    {"mark": "lines", "name": "Sweep", "x": "slots", "y": "B/s", "x_scale": "log"}
    | {
        "query": """SELECT 'incremental' AS line, NULL AS figure, x, y
            FROM (VALUES (0, 900.0), (8, 400.0), (16, 90.0), (1000, 90.0)) t(x, y)""",
    },
    {"mark": "table", "name": "The slowest"}
    | {
        "columns": ["ms", "node", "client", "topic", "why", "file and line"],
        "sentences": {"why": "Follower {{ node + 1 }} had offset {{ 1000 + 17 * i }} last."},
        "query": """SELECT i, 2400.0 / (i + 1) + i AS ms, i % 3 + 1 AS node,
            'producer-' || i % 4 AS client, ['orders', 'payments', ''][i % 3 + 1] AS topic,
            'broker-' || i % 3 + 1 || '.log:' || 1200 + 31 * i AS "file and line"
            FROM range(31) t(i)""",
    },
]


def page() -> dict[str, Any]:
    """A sample's page, with every mark."""
    golden = json.loads(Path(__file__).with_name("report.json").read_text(encoding="utf-8"))
    of: dict[str, Any] = golden["recordings"][0]
    with duckdb.connect() as database:
        database.execute(f"""CREATE TABLE time_buckets AS SELECT 'r' AS recording, 5 AS bucket_s,
            to_timestamp({BEGIN}) AS first_at, to_timestamp({BEGIN + 5 * 239}) AS last_at""")
        blocks = [block(database, spec, recording="r") for spec in SPECS]
        pictures = [block(database, spec, recording="r") for spec in PICTURES]
    bands = ["node froze: 12", "rolling restart, planned: 1, 2"]
    return of | {
        "alerts": [{"text": f"gap {number}", "is_critical": True} for number in range(3)],
        "findings": [{**it, "detail": f"{n}"} for n in range(5) for it in of["findings"]],
        "clients": {"clients": 2, "at_risk": 1, "says": "one"},
        "bands": [
            (BEGIN + 130 * i, (BEGIN + 60, None)[i], i == 1, of) for i, of in enumerate(bands)
        ],
        "pictures": pictures,
        "blocks": dict.fromkeys(of["rules"], blocks),
        "sections": [{"name": it, "id": it, "blocks": blocks} for it in ("upgrade", "nodes")],
    }


def spoiled(value: Any, text: str, key: str = "") -> Any:
    """The same with this text in place of every other."""
    # Names of lines are written out where they are read.
    text = visible(text) if key == "data" else text
    if isinstance(value, dict):
        return {name: spoiled(of, text, name) for name, of in value.items()}
    if isinstance(value, (list, tuple)) and key not in _KEPT:
        return [spoiled(of, text) for of in value]
    return text if isinstance(value, str) and key not in _KEPT else value


def pages(text: str = TEXT) -> list[dict[str, Any]]:
    second = spoiled(page(), text)
    second["bands"] = [(*of, visible(text)) for *of, text in second["bands"]]
    return [page(), second]


def written(folder: Path) -> Path:
    path = folder / "page.html"
    path.write_text(render(pages()), encoding="utf-8", newline="\n")
    return path
