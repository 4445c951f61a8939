"""My fleet: who is affected by how much, and what another cluster would gain and pay.

The formulas are in ``fleet.toml`` of each rule, what they need in the view ``unit_costs``; the page
evaluates them in the browser (``fleet.js``), so that sizes can be changed.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from duckdb import DuckDBPyConnection
from markupsafe import Markup

from kip_replay.pipelines.folders import of_rules, rule_pages
from kip_replay.pipelines.report import marks
from kip_replay.pipelines.report.marks import Block

_TABLES = (
    {
        "mark": "table",
        "name": "By node",
        "note": "what each change does to it, as recorded or as replayed",
        "query": """
            SELECT node_kind || ' ' || node_id AS node, rule, replace(figure, '_', ' ') AS figure,
                before, after, unit, count AS values
            FROM broker_effects WHERE recording = $recording
            ORDER BY rule, figure, node_id LIMIT 100""",
    },
    {
        "mark": "table",
        "name": "By client library",
        "note": "as clients name themselves in API_VERSIONS; sessions are those of FETCHes",
        "query": """
            SELECT * EXCLUDE (recording) FROM client_software WHERE recording = $recording
            LIMIT 50""",
    },
)


@dataclass(frozen=True)
class Calculator:
    """The formulas of a rule. ``fields``: name, label and value as recorded, empty if not known."""

    kip: str
    about: str
    fields: Sequence[tuple[str, str, str]]
    #: Label, unit, and what it is before and after.
    formulas: Sequence[tuple[str, str, str, str]]
    #: For the browser: measured costs and terms.
    known: Markup


@cache
def _stated() -> Mapping[str, Mapping[str, Any]]:
    files = {file.parent.name: file.read_text("utf-8") for file in of_rules("fleet.toml")}
    return {rule: tomllib.loads(text) for rule, text in files.items()}


def blocks(database: DuckDBPyConnection, recording: str) -> list[Block]:
    found = (marks.shown(database, spec, recording=recording) for spec in _TABLES)
    return [block for block in found if block is not None]


def calculators(database: DuckDBPyConnection, recording: str) -> list[Calculator]:
    """Those of rules that have formulas, with what was measured in a recording."""
    query = """
        SELECT rule, kind, name, value FROM unit_costs
        WHERE recording = $recording AND kind IN ('field', 'cost') AND value IS NOT NULL"""
    rows = marks.rows(database, query, recording=recording)
    found = []
    for rule, of in _stated().items():
        values = {row["name"]: row["value"] for row in rows if row["rule"] == rule}
        formulas = [
            (each["label"], name.rsplit("_", 1)[-1], each.get("before", ""), each["after"])
            for name, each in of.get("formulas", {}).items()
        ]
        if not (values and formulas):
            continue
        known = of.get("defaults", {}) | values
        fields = [
            (name, label, f"{known[name]:.6g}" if name in known else "")
            for name, label in of["labels"].items()
        ]
        costs = {name: value for name, value in values.items() if name not in of["labels"]}
        text = json.dumps({"costs": costs, "terms": of.get("terms", {})})
        kip = rule_pages()[rule]["kip"]
        found.append(Calculator(kip, of["about"], fields, formulas, Markup(text)))
    return found
