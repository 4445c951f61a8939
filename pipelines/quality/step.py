"""The check as a step of a run: find, judge, keep, tell; the same again changes nothing.

``quality_results`` and ``quality_failures`` are replaced by recording. Their commits say what the
rows follow from: suites, this code, and what the summaries were
written with, which in turn stands for outcomes and logs. Where that is as before, a run takes the
results that are there. Asked to look ``anew``, a check reads the tables even then, since somebody
may have touched them, and writes only what comes out differently.
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

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.failing_rows import Finding, find
from kip_replay.pipelines.quality.suites import Expectation, Severity, load_suites
from kip_replay.pipelines.quality.words import Failure, Outcome
from kip_replay.pipelines.warehouse.fingerprint import contents, fingerprint
from kip_replay.pipelines.warehouse.tables import Scope, Warehouse, Written
from kip_replay.replay.schema import (
    BANDWIDTH_SUMMARY,
    LATENCY_SUMMARY,
    PREDICTION_ACCURACY,
    QUALITY_FAILURES,
    QUALITY_RESULTS,
    Table,
)
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

if TYPE_CHECKING:
    from kip_replay.pipelines.quality.validation import Result

_MODULES = ("pipelines/quality/*.py",)
_DATA_DOCS = "data_docs"


@dataclass(frozen=True)
class QualitySettings:
    """What a check is told by the configuration.

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
    wanted = {
        name: _mark(warehouse, name, recordings, expectations, settings) for name in recordings
    }
    warehouse.create_missing_tables([QUALITY_RESULTS, QUALITY_FAILURES])
    stale = [name for name in recordings if anew or not _is_current(warehouse, name, wanted[name])]
    docs = _docs_folder(warehouse, settings)
    if stale or (docs and not docs.exists()):
        with ThreadPoolExecutor(1) as pool:
            # Importing Great Expectations takes seconds of its own.
            loading = pool.submit(_great_expectations)
            found = _found(warehouse, stale, recordings, expectations, settings)
            validation, data_docs = loading.result()
        results = _judged(validation, data_docs, found, docs)
        _keep(warehouse, [r for r in results if r.finding.recording in stale], wanted)
    return _outcome(warehouse, recordings, docs)


def _great_expectations() -> tuple[ModuleType, ModuleType]:
    return (
        import_module("pipelines.quality.validation"),
        import_module("pipelines.quality.data_docs"),
    )


def _found(
    warehouse: Warehouse,
    stale: Sequence[str],
    recordings: Sequence[str],
    expectations: Sequence[Expectation],
    settings: QualitySettings,
) -> list[Finding]:
    """Findings of all recordings: looked for where stale, read where they are there already."""
    fresh = F.col("recording").isin([*stale])

    def read(table: Table) -> DataFrame:
        if not warehouse.exists(table):  # replay_state, where no recording ever grew
            schema = from_arrow_schema(table.arrow_schema)
            return warehouse.spark.createDataFrame([], schema)
        return warehouse.read(table).where(fresh)

    found = find(warehouse.spark, read, stale, expectations, settings.kept_rows) if stale else []
    known = [name for name in recordings if name not in stale]
    return found + _kept_findings(warehouse, known, expectations)


def _judged(
    validation: ModuleType, data_docs: ModuleType, found: Sequence[Finding], docs: Path | None
) -> list[Result]:
    if docs is None:
        return list(validation.validate(found, None))
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


def _mark(
    warehouse: Warehouse,
    name: str,
    recordings: Sequence[str],
    expectations: Sequence[Expectation],
    settings: QualitySettings,
) -> str | None:
    """What results follow from; None where somebody else wrote to a summary."""
    scopes: list[tuple[Table, Scope]] = [
        (LATENCY_SUMMARY, {"recording": name}),
        (BANDWIDTH_SUMMARY, {"recording": name}),
        (PREDICTION_ACCURACY, {"recording": name, "recorded_in": name}),
    ]
    for table, _ in scopes:
        if not warehouse.exists(table):
            raise UserError(
                f"the warehouse {warehouse.path} has no {table.name}: run jobs.run (or "
                "jobs.summarize) with this --warehouse first"
            )
    logs = contents(warehouse, [name])
    if name not in logs:
        raise UserError(
            f"the warehouse {warehouse.path} has no recording {name!r}: run jobs.run on it with "
            "this --warehouse first"
        )
    crossed = [
        warehouse.fingerprint_of(PREDICTION_ACCURACY, {"recording": name, "recorded_in": other})
        for other in recordings
    ]
    summed = [warehouse.fingerprint_of(table, scope) for table, scope in scopes]
    if None in summed:
        return None
    said = [(each.suite, each.name, each.severity, each.says, each.sql) for each in expectations]
    more = [(each.table.name, each.column, each.shows) for each in expectations]
    return fingerprint(
        logs[name], summed, crossed, said, more, settings.kept_rows, modules=_MODULES
    )


def _is_current(warehouse: Warehouse, name: str, mark: str | None) -> bool:
    return mark is not None and all(
        warehouse.is_current(table, {"recording": name}, mark)
        for table in (QUALITY_RESULTS, QUALITY_FAILURES)
    )


def _keep(
    warehouse: Warehouse, results: Sequence[Result], wanted: Mapping[str, str | None]
) -> None:
    """Writes the results of the recordings whose rows or fingerprints are not there yet."""
    rows: dict[str, dict[Table, list[tuple[Any, ...]]]] = defaultdict(
        lambda: {QUALITY_RESULTS: [], QUALITY_FAILURES: []}
    )
    for result in results:
        mine = rows[result.finding.recording]
        mine[QUALITY_RESULTS].append(_result_row(result))
        mine[QUALITY_FAILURES] += _failure_rows(result)
    for table in (QUALITY_RESULTS, QUALITY_FAILURES):
        there = _there(warehouse, table, list(rows))
        changed = [
            name
            for name, of_table in rows.items()
            if not _is_current(warehouse, name, wanted[name]) or {*of_table[table]} != there[name]
        ]
        if changed:
            fresh = [row for name in changed for row in rows[name][table]]
            schema = from_arrow_schema(table.arrow_schema)
            frame = warehouse.spark.createDataFrame(fresh, schema)
            written = [Written({"recording": name}, wanted[name]) for name in changed]
            warehouse.replace_all(table, frame, written)


def _result_row(result: Result) -> tuple[Any, ...]:
    found, said = result.finding, result.finding.expectation
    return (
        found.recording,
        said.suite,
        said.table.name,
        said.name,
        said.column,
        said.severity.value,
        result.success,
        result.observed,
        found.failing_rows,
        found.rows_checked,
        said.says,
    )


def _failure_rows(result: Result) -> list[tuple[Any, ...]]:
    said = result.finding.expectation
    return [
        (result.finding.recording, said.suite, said.table.name, said.name, number, row)
        for number, row in enumerate(result.finding.kept, start=1)
    ]


def _there(
    warehouse: Warehouse, table: Table, recordings: Sequence[str]
) -> dict[str, set[tuple[Any, ...]]]:
    there: dict[str, set[tuple[Any, ...]]] = {name: set() for name in recordings}
    for row in _rows(warehouse, table, recordings):
        there[row["recording"]].add(tuple(row))
    return there


def _rows(warehouse: Warehouse, table: Table, recordings: Sequence[str]) -> list[Row]:
    """Results or failing rows of recordings: expectations times rows kept, so never many."""
    names = [column.name for column in table.columns]
    chosen = F.col("recording").isin([*recordings])
    return warehouse.read(table).where(chosen).select(*names).orderBy(*table.key).collect()


def _kept_findings(
    warehouse: Warehouse, recordings: Sequence[str], expectations: Sequence[Expectation]
) -> list[Finding]:
    if not recordings:
        return []
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


def _place(row: Row) -> tuple[str, ...]:
    return (row["recording"], row["suite"], row["table_name"], row["expectation"])


def _outcome(warehouse: Warehouse, recordings: Sequence[str], docs: Path | None) -> Outcome:
    results = _rows(warehouse, QUALITY_RESULTS, recordings)
    failed = [row for row in results if not row["success"]]
    first = {}
    if failed:
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
        for row in failed
    ]
    index = str(docs / "index.html") if docs else None
    return Outcome(tuple(recordings), len(results), failures, warehouse.path, index)
