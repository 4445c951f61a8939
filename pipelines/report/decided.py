"""Decisions as tables: written by a run, read back by everything that shows them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kip_replay.pipelines.analysis.intervals import Interval
from kip_replay.pipelines.page.decisions import Advice, Decision, Effect
from kip_replay.pipelines.page.view import Page
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import DECISIONS, HEADLINES

#: The step of ``lineage``.
STEP = "decisions"


def decided(
    warehouse: Warehouse, pages: list[Page], fingerprint: str | None, writes: bool = True
) -> list[Page]:
    """The pages with the decisions that the tables have, after writing those that follow anew.

    ``fingerprint``: of what decisions follow from; None: of tables that are not current.
    """
    names = [name for page in pages for name in page.recordings]
    lineage = warehouse.lineage(names)
    stale = [name for name in names if lineage.get((name, STEP)) != fingerprint]
    if fingerprint is None or (stale and not writes):
        return pages
    if stale:
        write(warehouse, pages, dict.fromkeys(stale, fingerprint))
    return read(warehouse, pages)


def write(warehouse: Warehouse, pages: Sequence[Page], follows_from: Mapping[str, str]) -> None:
    """Writes the decisions of pages, and the figures that they rest on."""
    decisions = [row for page in pages for row in _rows(page) if row["recording"] in follows_from]
    headlines = [
        {"recording": row["recording"], "rule": row["rule"], **effect}
        for row in decisions
        for effect in [*filter(None, [row["gain"]]), *row["price"]]
    ]
    tables = {HEADLINES: headlines, DECISIONS: decisions}
    rows = {table: pa.Table.from_pylist(of, table.arrow_schema) for table, of in tables.items()}
    warehouse.replace(STEP, follows_from, rows)


def read(warehouse: Warehouse, pages: Sequence[Page]) -> list[Page]:
    """The pages with the decisions that the tables have of them."""
    names = [name for page in pages for name in page.recordings]
    found = warehouse.rows(DECISIONS, names).to_pylist()
    rows = {(row["recording"], row["rule"]): row for row in found}
    return [
        replace(
            page,
            sections=[
                replace(
                    section,
                    limits=rows[page.recordings[0], section.prose.rule]["rests_on"],
                    decisions={n: _decision(rows[n, section.prose.rule]) for n in page.recordings},
                )
                for section in page.sections
            ],
        )
        for page in pages
    ]


def _rows(page: Page) -> Iterator[dict[str, Any]]:
    for section in page.sections:
        for name, of in section.decisions.items():
            yield {
                "recording": name,
                "rule": section.prose.rule,
                "advice": of.advice.value,
                "reason": of.reason,
                "gain": of.gain and _row(of.gain),
                "price": [*map(_row, of.price)],
                "paste": of.paste,
                "rests_on": [*section.limits],
                "is_withdrawn": of.is_withdrawn,
            }


def _row(of: Effect) -> dict[str, Any]:
    low, high = of.less_within or (None, None)
    ends = {"before": of.before, "after": of.after, "low": low, "high": high}
    return {"figure": of.name, "unit": of.unit, **ends}


def _decision(row: Mapping[str, Any]) -> Decision:
    gain, price = row["gain"], [*map(_effect, row["price"])]
    advice, gain = Advice(row["advice"]), gain and _effect(gain)
    return Decision(advice, row["reason"], gain, price, row["paste"], row["is_withdrawn"])


def _effect(row: Mapping[str, Any]) -> Effect:
    within = None if row["low"] is None else Interval(row["low"], row["high"])
    return Effect(row["figure"], row["unit"], row["before"], row["after"], within)
