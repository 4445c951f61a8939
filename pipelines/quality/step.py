"""The check as a step of a run: validate, and keep the results.

``quality_results`` and ``quality_failures`` are replaced by recording. ``lineage`` says what they
follow from: suites, this code, and the lineage of everything that is checked. Where that is as
before, a run takes the results that are there. A check that looks ``anew`` reads the tables even
then, since somebody may have touched them, and writes only what comes out differently.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from kip_replay.pipelines.analysis.summarize import SUMMARIES, accuracy_step
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.suites import Expectation, load_suites
from kip_replay.pipelines.quality.words import Outcome, Result
from kip_replay.pipelines.warehouse.lineage import code_of, fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import QUALITY_FAILURES, QUALITY_RESULTS, TABLES

#: The step of ``lineage``.
STEP = "quality"
#: What ``lineage`` has of recordings, by recording and step.
Lineage = Mapping[tuple[str, str], str]
_TABLES = (QUALITY_RESULTS, QUALITY_FAILURES)


@dataclass(frozen=True)
class QualitySettings:
    """What the configuration sets for checks.

    ``more_suites``: folders besides conf/quality. ``kept_rows``: failing rows kept of an
    expectation and recording. ``data_docs``: whether the project and its pages are written.
    """

    more_suites: tuple[str, ...] = ()
    kept_rows: int = 20
    data_docs: bool = True


def check(
    warehouse: Warehouse, recordings: Sequence[str], settings: QualitySettings, anew: bool = False
) -> Outcome:
    """Checks recordings that were summed up, and keeps the results. Raises UserError."""
    expectations = load_suites([*map(Path, settings.more_suites)])
    lineage = warehouse.lineage(recordings)
    wanted = _follows_from(warehouse, recordings, lineage, expectations, settings)
    stale = [name for name in recordings if anew or lineage.get((name, STEP)) != wanted[name]]
    results = _kept(warehouse, [name for name in recordings if name not in stale], expectations)
    # An object store has no place for pages.
    has_page = settings.data_docs and "://" not in warehouse.path
    if stale:
        fresh = validated(warehouse, stale, expectations, settings.kept_rows, has_page)
        _keep(warehouse, fresh, wanted, lineage)
        results += fresh
    page = f"{warehouse.path}/gx/uncommitted/data_docs/local_site/index.html"
    return Outcome(tuple(recordings), results, warehouse.path, page if has_page else None)


def validated(
    warehouse: Warehouse,
    recordings: Sequence[str],
    expectations: Sequence[Expectation],
    kept_rows: int,
    has_page: bool,
) -> list[Result]:
    """A result for each recording and expectation. Raises UserError for a wrong expectation.

    All recordings are validated at once, and what fails in any of them in each.
    """
    # Importing Great Expectations takes seconds.
    from kip_replay.pipelines.quality.project import failing_rows, validate

    places = validate(warehouse.path, recordings, expectations, has_page)
    failing = [each for each in expectations if each.place in places]
    sizes = _sizes(warehouse, recordings, expectations)
    results = []
    for name in recordings:
        found = failing_rows(warehouse.path, name, failing, kept_rows) if failing else {}
        for each in expectations:
            count, rows = found.get(each.place, (0, ()))
            results.append(Result(name, each, sizes.get((each.table, name), 0), count, rows))
    return results


def _sizes(
    warehouse: Warehouse, recordings: Sequence[str], expectations: Sequence[Expectation]
) -> dict[tuple[str, str], int]:
    """Rows of each table and recording, as the files that the tables name have them."""
    sizes: dict[tuple[str, str], int] = defaultdict(int)
    for table in {each.table for each in expectations}:
        for file in warehouse.files(TABLES[table], recordings):
            sizes[table, file["partition.recording"]] += file["num_records"]
    return sizes


def _follows_from(
    warehouse: Warehouse,
    recordings: Sequence[str],
    lineage: Lineage,
    expectations: Sequence[Expectation],
    settings: QualitySettings,
) -> dict[str, str]:
    """What results follow from. Raises UserError where there is nothing to check yet."""
    code = code_of((__name__, "kip_replay.pipelines.quality.project"))
    suites = [
        (*each.place, each.type, each.severity, each.description, dict(each.arguments))
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
    warehouse: Warehouse, results: Sequence[Result], wanted: Mapping[str, str], lineage: Lineage
) -> None:
    """Writes the results of the recordings whose rows or lineage are not there yet."""
    recordings = list(dict.fromkeys(each.recording for each in results))
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
    expectation = result.expectation
    return {
        **dict(zip(QUALITY_RESULTS.key, result.place, strict=True)),
        "column_name": expectation.column,
        "severity": expectation.severity.value,
        "success": result.success,
        "observed": f"{result.failing_rows} failing, {result.rows_checked} in the table",
        "failing_rows": result.failing_rows,
        "rows_checked": result.rows_checked,
        "says": expectation.says,
    }


def _failure_rows(result: Result) -> list[dict[str, Any]]:
    key = dict(zip(QUALITY_RESULTS.key, result.place, strict=True))
    return [
        {**key, "number": number, "failing_row": row}
        for number, row in enumerate(result.kept, start=1)
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
        results.append(Result(name, each, row["rows_checked"], row["failing_rows"], texts))
    return results


def _rows(warehouse: Warehouse, table: Table, recordings: Sequence[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = warehouse.rows(table, recordings).to_pylist()
    return rows


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in QUALITY_RESULTS.key)
