"""My fleet: who is affected by how much, and what another cluster would gain and pay.

The formulas are in ``fleet.toml`` of each rule, what they need in the view ``unit_costs``; the page
evaluates them in the browser (``fleet.js``), so that sizes can be changed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckdb import DuckDBPyConnection
from markupsafe import Markup

from kip_replay.pipelines.folders import rule_pages, stated_by_rules
from kip_replay.pipelines.report import marks, words
from kip_replay.pipelines.report.marks import Block, Table

_EFFECTS = """
    SELECT node_id, rule, figure, before, after FROM broker_effects
    WHERE recording = $recording AND after IS NOT NULL AND NOT contains(figure, '_p90')
    ORDER BY rule, figure, node_id"""
#: Nodes that are listed.
MOST_NODES = 100


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


def blocks(database: DuckDBPyConnection, recording: str) -> list[Block]:
    """Lists the nodes that are affected, and by how much."""
    effects = _by_node(marks.rows(database, _EFFECTS, recording=recording))
    return [effects] if effects else []


def _by_node(found: Sequence[Mapping[str, Any]]) -> Table | None:
    """A row for each node, a column for each figure, in it what it is before and after."""
    cells = {(row["node_id"], row["rule"], row["figure"]): row for row in found}
    nodes = sorted({row["node_id"] for row in found})[:MOST_NODES]
    columns = dict.fromkeys((row["rule"], row["figure"]) for row in found)
    if not nodes:
        return None
    heads = [f"{rule_pages()[rule]['kip']}: {name.replace('_', ' ')}" for rule, name in columns]
    rows = [
        [str(node), *(_change(cells.get((node, *column))) for column in columns)] for node in nodes
    ]
    note = "before and after each change, of the requests that the column names"
    return Table("By node", note, ["node", *heads], [False] * (len(heads) + 1), rows)


def _change(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    if row["before"] is None:
        return words.number(row["after"], 0)
    before, after = (
        words.number(value, 0 if value is None or value == int(value) or abs(value) >= 100 else 1)
        for value in (row["before"], row["after"])
    )
    return f"{before} → {after}"


def calculators(database: DuckDBPyConnection, recording: str) -> list[Calculator]:
    """Those of rules that have formulas, with what was measured in a recording."""
    query = """
        SELECT rule, kind, name, value FROM unit_costs
        WHERE recording = $recording AND kind IN ('field', 'cost') AND value IS NOT NULL"""
    rows = marks.rows(database, query, recording=recording)
    found = []
    for rule, of in stated_by_rules("fleet.toml").items():
        values = {row["name"]: row["value"] for row in rows if row["rule"] == rule}
        formulas = [
            (
                each["label"],
                "ms" if name.endswith("_ms") else "/s",
                each.get("before", ""),
                each["after"],
            )
            for name, each in of.get("formulas", {}).items()
        ]
        if not (values and formulas):
            continue
        known = of.get("defaults", {}) | values
        fields = [
            (name, label, f"{known[name]:.4g}" if name in known else "")
            for name, label in of["labels"].items()
        ]
        # As many digits as do not depend on the order in which floats were summed.
        costs = {n: float(f"{value:.9g}") for n, value in values.items() if n not in of["labels"]}
        text = json.dumps({"costs": dict(sorted(costs.items())), "terms": of.get("terms", {})})
        kip = rule_pages()[rule]["kip"]
        found.append(Calculator(kip, of["about"], fields, formulas, Markup(text)))
    return found
