"""The check as a step of a run: find, judge, keep.

``quality_results`` and ``quality_failures`` are replaced by recording. ``lineage`` says what they
follow from: suites, this code, and the lineage of everything that is checked. Where that is as
before, a run takes the results that are there. A check that looks ``anew`` reads the tables even
then, since somebody may have touched them, and writes only what comes out differently.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from kip_replay.pipelines.analysis.summarize import SUMMARIES, accuracy_step
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality import data_docs
from kip_replay.pipelines.quality.failing_rows import Finding, Result, find
from kip_replay.pipelines.quality.suites import Expectation, load_suites
from kip_replay.pipelines.quality.words import Outcome
from kip_replay.pipelines.warehouse.lineage import code_of, fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import QUALITY_FAILURES, QUALITY_RESULTS

#: The step of ``lineage``.
STEP = "quality"
#: What ``lineage`` has of recordings, by recording and step.
Lineage = Mapping[tuple[str, str], str]
_TABLES = (QUALITY_RESULTS, QUALITY_FAILURES)


@dataclass(frozen=True)
class QualitySettings:
    """What the configuration sets for checks.

    ``more_suites``: folders besides conf/quality. ``kept_rows``: failing rows kept of an
    expectation and recording. ``data_docs``: whether pages are written.
    """

    more_suites: tuple[str, ...] = ()
    kept_rows: int = 20
    data_docs: bool = True


def check(
    warehouse: Warehouse,
    recordings: Sequence[str],
    settings: QualitySettings,
    anew: bool = False,
) -> Outcome:
    """Checks recordings that were summed up, and keeps the results. Raises UserError."""
    expectations = load_suites([*map(Path, settings.more_suites)])
    lineage = warehouse.lineage(recordings)
    wanted = _follows_from(warehouse, recordings, lineage, expectations, settings)
    stale = [name for name in recordings if anew or lineage.get((name, STEP)) != wanted[name]]
    results = _kept(warehouse, [name for name in recordings if name not in stale], expectations)
    # An object store has no place for pages.
    is_written = settings.data_docs and "://" not in warehouse.path
    page = Path(warehouse.path) / "data_docs" / "index.html" if is_written else None
    if stale or (page and not page.exists()):
        with warehouse.database(stale) as database, ThreadPoolExecutor(1) as pool:
            finding = pool.submit(find, database, stale, expectations, settings.kept_rows)
            # Importing Great Expectations takes seconds of its own.
            from kip_replay.pipelines.quality.validation import validate

            findings = [each.finding for each in results] + finding.result()
        results, sections = validate(findings)
        if page:
            data_docs.publish(page, sections, results)
        fresh = [each for each in results if each.finding.recording in stale]
        _keep(warehouse, fresh, wanted, lineage)
    return Outcome(tuple(recordings), results, warehouse.path, str(page) if page else None)


def _follows_from(
    warehouse: Warehouse,
    recordings: Sequence[str],
    lineage: Lineage,
    expectations: Sequence[Expectation],
    settings: QualitySettings,
) -> dict[str, str]:
    """What results follow from. Raises UserError where there is nothing to check yet."""
    code = code_of((__name__,))
    suites = [
        (*each.place, each.severity, each.says, each.sql, each.shows) for each in expectations
    ]
    wanted = {}
    for name in recordings:
        steps = {step: text for (of, step), text in lineage.items() if of == name and step != STEP}
        if not {SUMMARIES, accuracy_step(name)} <= steps.keys():
            missing = "no summaries of" if steps else "no"
            raise UserError(
                f"the warehouse {warehouse.path} has {missing} recording {name!r}: run kip-replay "
                "run on it with this --warehouse first"
            )
        wanted[name] = fingerprint(code, suites, settings.kept_rows, steps)
    return wanted


def _keep(
    warehouse: Warehouse, results: Sequence[Result], wanted: Mapping[str, str], lineage: Lineage
) -> None:
    """Writes the results of the recordings whose rows or lineage are not there yet."""
    recordings = list(dict.fromkeys(each.finding.recording for each in results))
    rows = {
        QUALITY_RESULTS: [_result_row(each) for each in results],
        QUALITY_FAILURES: [row for each in results for row in _failure_rows(each)],
    }
    there = {table: _rows(warehouse, table, recordings) for table in _TABLES}
    changed = {
        name: wanted[name]
        for name in recordings
        if lineage.get((name, STEP)) != wanted[name]
        or any(_texts(name, rows[table]) != _texts(name, there[table]) for table in _TABLES)
    }
    if not changed:
        return
    writing = warehouse.writing(STEP, changed, _TABLES)
    writing.begin()
    for table in _TABLES:
        files = writing.files()
        mine = [row for row in rows[table] if row["recording"] in changed]
        files.write(table, pa.RecordBatch.from_pylist(mine, schema=table.arrow_schema))
        writing.replace(table, files.closed())
    writing.end(changed)


def _texts(recording: str, rows: Iterable[Mapping[str, Any]]) -> set[str]:
    return {json.dumps(row, sort_keys=True) for row in rows if row["recording"] == recording}


def _result_row(result: Result) -> dict[str, Any]:
    finding, expectation = result.finding, result.finding.expectation
    return {
        **dict(zip(QUALITY_RESULTS.key, finding.place, strict=True)),
        "column_name": expectation.column,
        "severity": expectation.severity.value,
        "success": result.success,
        "observed": f"{finding.failing_rows} failing, {finding.rows_checked} in the table",
        "failing_rows": finding.failing_rows,
        "rows_checked": finding.rows_checked,
        "says": expectation.says,
    }


def _failure_rows(result: Result) -> list[dict[str, Any]]:
    key = dict(zip(QUALITY_RESULTS.key, result.finding.place, strict=True))
    return [
        {**key, "number": number, "failing_row": row}
        for number, row in enumerate(result.finding.kept, start=1)
    ]


def _kept(
    warehouse: Warehouse, recordings: Sequence[str], expectations: Sequence[Expectation]
) -> list[Result]:
    """Results that were kept of recordings that did not change."""

    if not recordings:
        return []
    kept: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in sorted(_rows(warehouse, QUALITY_FAILURES, recordings), key=itemgetter("number")):
        kept[_place(row)].append(row["failing_row"])
    there = {_place(row): row for row in _rows(warehouse, QUALITY_RESULTS, recordings)}
    results = []
    for name, each in product(recordings, expectations):
        row, texts = there[name, *each.place], tuple(kept[name, *each.place])
        finding = Finding(name, each, row["rows_checked"], row["failing_rows"], texts)
        results.append(Result(finding, row["success"]))
    return results


def _rows(warehouse: Warehouse, table: Table, recordings: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = warehouse.rows(table, recordings).to_pylist()
    return rows


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in QUALITY_RESULTS.key)
