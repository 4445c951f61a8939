"""The check as a step of a run: find, judge, keep, tell.

``quality_results`` and ``quality_failures`` are replaced by recording. ``lineage`` says what they
follow from: suites, this code, and the lineage of everything that is checked. Where that is as
before, a run takes the results that are there. A check that looks ``anew`` reads the tables even
then, since somebody may have touched them, and writes only what comes out differently.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kip_replay.pipelines.analysis.summarize import SUMMARIES, accuracy_step
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.failing_rows import Finding, find
from kip_replay.pipelines.quality.suites import Expectation, Severity, load_suites
from kip_replay.pipelines.quality.words import Failure, Outcome
from kip_replay.pipelines.warehouse.lineage import code_of, fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import QUALITY_FAILURES, QUALITY_RESULTS, Table

if TYPE_CHECKING:
    from kip_replay.pipelines.quality.validation import Result

#: The step of ``lineage``.
STEP = "quality"
_TABLES = (QUALITY_RESULTS, QUALITY_FAILURES)
_DATA_DOCS = "data_docs"
#: Imported where they are needed: Great Expectations takes seconds.
_VALIDATION = "kip_replay.pipelines.quality.validation"
_PAGES = "kip_replay.pipelines.quality.data_docs"


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
    wanted = _follows_from(warehouse, recordings, expectations, settings)
    lineage = warehouse.lineage(recordings)
    stale = [name for name in recordings if anew or lineage.get((name, STEP)) != wanted[name]]
    docs = _docs_folder(warehouse, settings)
    if stale or (docs and not docs.exists()):
        with ThreadPoolExecutor(1) as pool:
            # Importing Great Expectations takes seconds of its own.
            loading = pool.submit(import_module, _VALIDATION)
            found = []
            if stale:
                with warehouse.database(stale) as database:
                    found = find(database, stale, expectations, settings.kept_rows)
            known = [name for name in recordings if name not in stale]
            found += _kept_findings(warehouse, known, expectations)
            results = _judged(loading.result(), found, docs)
        fresh = [result for result in results if result.finding.recording in stale]
        _keep(warehouse, fresh, wanted, lineage)
    return _outcome(warehouse, recordings, docs)


def _judged(validation: ModuleType, found: Sequence[Finding], docs: Path | None) -> list[Result]:
    if docs is None:
        return list(validation.validate(found, None))
    data_docs = import_module(_PAGES)
    fresh = docs.with_name(f"_{docs.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    results = list(validation.validate(found, fresh))
    data_docs.publish(fresh, docs, results)
    return results


def _docs_folder(warehouse: Warehouse, settings: QualitySettings) -> Path | None:
    """Where pages go; an object store has no folders to put them in."""
    if not settings.data_docs or "://" in warehouse.path:
        return None
    return Path(warehouse.path) / _DATA_DOCS


def _follows_from(
    warehouse: Warehouse,
    recordings: Sequence[str],
    expectations: Sequence[Expectation],
    settings: QualitySettings,
) -> dict[str, str]:
    """What results follow from. Raises UserError where there is nothing to check yet."""
    lineage = warehouse.lineage(recordings)
    code = code_of((__name__, _VALIDATION, _PAGES))
    suites = [
        (each.suite, each.name, each.severity, each.says, each.sql, each.table.name, each.shows)
        for each in expectations
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
    warehouse: Warehouse,
    results: Sequence[Result],
    wanted: Mapping[str, str],
    lineage: Mapping[tuple[str, str], str],
) -> None:
    """Writes the results of the recordings whose rows or lineage are not there yet."""
    rows: dict[str, dict[Table, list[dict[str, Any]]]] = defaultdict(
        lambda: {t: [] for t in _TABLES}
    )
    for result in results:
        rows[result.finding.recording][QUALITY_RESULTS].append(_result_row(result))
        rows[result.finding.recording][QUALITY_FAILURES] += _failure_rows(result)
    there = {table: _rows(warehouse, table, [*rows]) for table in _TABLES}
    changed = {
        name: wanted[name]
        for name, of_table in rows.items()
        if lineage.get((name, STEP)) != wanted[name]
        or any(
            _set(of_table[table]) != _set(r for r in there[table] if r["recording"] == name)
            for table in _TABLES
        )
    }
    if not changed:
        return
    writing = warehouse.writing(STEP, changed, _TABLES)
    writing.begin()
    for table in _TABLES:
        files = writing.files()
        of_table = [row for name in changed for row in rows[name][table]]
        files.write(table, pa.RecordBatch.from_pylist(of_table, schema=table.arrow_schema))
        writing.replace(table, files.closed())
    writing.end(changed)


def _set(rows: Any) -> set[str]:
    return {json.dumps(row, sort_keys=True) for row in rows}


def _result_row(result: Result) -> dict[str, Any]:
    found, said = result.finding, result.finding.expectation
    return {
        "recording": found.recording,
        "suite": said.suite,
        "table_name": said.table.name,
        "expectation": said.name,
        "column": said.column,
        "severity": said.severity.value,
        "success": result.success,
        "observed": result.observed,
        "failing_rows": found.failing_rows,
        "rows_checked": found.rows_checked,
        "says": said.says,
    }


def _failure_rows(result: Result) -> list[dict[str, Any]]:
    found, said = result.finding, result.finding.expectation
    return [
        {
            "recording": found.recording,
            "suite": said.suite,
            "table_name": said.table.name,
            "expectation": said.name,
            "number": number,
            "failing_row": row,
        }
        for number, row in enumerate(found.kept, start=1)
    ]


def _rows(warehouse: Warehouse, table: Table, recordings: Sequence[str]) -> list[dict[str, Any]]:
    """Results or failing rows of recordings: expectations times rows kept, so never many."""
    rows: list[dict[str, Any]] = warehouse.rows(table, recordings).to_pylist()
    return sorted(rows, key=lambda row: tuple(str(row[name]).zfill(12) for name in table.key))


def _kept_findings(
    warehouse: Warehouse, recordings: Sequence[str], expectations: Sequence[Expectation]
) -> list[Finding]:
    kept: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for row in _rows(warehouse, QUALITY_FAILURES, recordings):
        kept[_place(row)].append(row["failing_row"])
    there = {_place(row): row for row in _rows(warehouse, QUALITY_RESULTS, recordings)}
    return [
        Finding(name, each, row["rows_checked"], row["failing_rows"], tuple(kept[place]))
        for name in recordings
        for each in expectations
        if (row := there[place := (name, each.suite, each.table.name, each.name)])
    ]


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["recording"], row["suite"], row["table_name"], row["expectation"])


def _outcome(warehouse: Warehouse, recordings: Sequence[str], docs: Path | None) -> Outcome:
    results = _rows(warehouse, QUALITY_RESULTS, recordings)
    failing = _rows(warehouse, QUALITY_FAILURES, recordings)
    first = {_place(row): row["failing_row"] for row in failing if row["number"] == 1}
    failures = [
        Failure(
            recording=row["recording"],
            suite=row["suite"],
            table_name=row["table_name"],
            expectation=row["expectation"],
            severity=Severity(row["severity"]),
            says=row["says"],
            failing_rows=row["failing_rows"],
            example=json.loads(first.get(_place(row), "{}")),
        )
        for row in results
        if not row["success"]
    ]
    index = str(docs / "index.html") if docs else None
    return Outcome(tuple(recordings), len(results), failures, warehouse.path, index)
