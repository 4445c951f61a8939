"""The check as a step of a run: count the rows that fail, and keep the results.

``quality_results`` and ``quality_failures`` are replaced by recording. ``lineage`` says what they
follow from: suites, this code, and the lineage of everything that is checked. Where that is as
before, a run takes the results that are there. A check that looks ``anew`` reads the tables even
then, since somebody may have touched them, writes only what comes out differently, and makes the
Great Expectations project.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kip_replay.pipelines.analysis.decide import STEP as DECIDED
from kip_replay.pipelines.analysis.summarize import SUMMARIES, accuracy_step
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.printable import json_object
from kip_replay.pipelines.quality.suites import Expectation, load_suites
from kip_replay.pipelines.quality.texts import Failing, counting, failing, first_rows
from kip_replay.pipelines.quality.words import Outcome, Result
from kip_replay.pipelines.warehouse.lineage import code_of, fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import QUALITY_FAILURES, QUALITY_RESULTS

STEP = "quality"
Rows = Callable[[str], pa.Table]
#: Of a recording and an expectation: how many rows fail, and the first of them.
Found = dict[tuple[str, Expectation], tuple[int, list[dict[str, Any]]]]


@dataclass(frozen=True)
class QualitySettings:
    """What the configuration sets for checks.

    ``more_suites``: folders besides conf/quality. ``kept_rows``: failing rows kept of an
    expectation and recording. ``data_docs``: whether a check writes the project and its pages.
    """

    more_suites: tuple[str, ...] = ()
    kept_rows: int = 20
    data_docs: bool = True


def check(
    engine: Engine, recordings: Sequence[str], settings: QualitySettings, anew: bool = False
) -> Outcome:
    """Checks recordings that were summed up, and keeps the results. Raises UserError."""
    warehouse = engine.warehouse
    expectations = load_suites([*map(Path, settings.more_suites)])
    # Without Great Expectations, a run leaves out what only it can validate.
    has_gx = all(map(find_spec, ("great_expectations", "sqlalchemy")))
    others = [] if has_gx else [each for each in expectations if failing(each) is None]
    if others and anew:
        raise others[0].error("it needs pip install 'kip-replay[quality]'")
    expectations = [each for each in expectations if each not in others]
    left_out = f"{len(others)} expectations of yours" if others else ""
    wanted = _follows_from(warehouse, recordings, expectations, settings.kept_rows)
    lineage = warehouse.lineage(recordings)
    stated = {name: lineage.get((name, STEP)) for name in recordings}
    stale = [name for name in recordings if anew or stated[name] != wanted[name]]
    results = _kept(warehouse, recordings)
    if stale:
        there = {each for each in results if each.recording in stale}
        fresh = validated(engine, stale, expectations, settings.kept_rows)
        changed = {each.recording for each in there ^ {*fresh}}
        changed |= {name for name in stale if stated[name] != wanted[name]}
        if changed:
            _keep(warehouse, fresh, {name: wanted[name] for name in changed})
        results = [*(each for each in results if each not in there), *fresh]
    page = None
    # An object store has no place for pages.
    if anew and settings.data_docs and "://" not in warehouse.path:
        left_out = "data docs"
        if has_gx:
            # Importing Great Expectations takes seconds.
            from kip_replay.pipelines.quality.project import write_project

            page, left_out = write_project(warehouse.path, recordings, expectations), ""
    return Outcome(tuple(recordings), results, warehouse.path, page, left_out)


def validated(
    engine: Engine, recordings: Sequence[str], expectations: Sequence[Expectation], kept_rows: int
) -> list[Result]:
    """A result for each recording and expectation. Raises UserError for a wrong expectation."""
    as_sql = {each: failing(each) for each in expectations}
    others = [each for each, text in as_sql.items() if text is None]
    found: Found = {}

    def rows(query: str) -> pa.Table:
        return engine.rows(Text(query), recordings)

    sizes, counts = _counted(rows, as_sql)
    for (name, each), count in counts.items():
        text = first_rows(each, name, kept_rows)
        try:
            found[name, each.expectation] = count, rows(text).to_pylist()
        except (duckdb.Error, ValueError) as error:
            raise each.expectation.error(error) from None
    if others:
        from kip_replay.pipelines.quality.project import failing_rows

        found |= failing_rows(engine.warehouse.path, recordings, others, kept_rows)
    return [
        _result(name, each, sizes[each.table, name], *found.get((name, each), (0, [])))
        for name in recordings
        for each in expectations
    ]


def _counted(
    rows: Rows, as_sql: Mapping[Expectation, Failing | None]
) -> tuple[dict[tuple[str, str], int], dict[tuple[str, Failing], int]]:
    """Rows of each table and recording, and of each recording those that fail, where any do."""
    sizes: dict[tuple[str, str], int] = Counter()
    counts = {}
    tables: dict[str, list[Failing]] = {each.table: [] for each in as_sql}
    for each in filter(None, as_sql.values()):
        tables[each.expectation.table].append(each)
    for table, of_table in tables.items():
        of_table.sort(key=lambda each: each.condition is None)
        for part in _counted_in(rows, table, of_table):
            for number, count in enumerate(part["counts"], start=part["first"]):
                if number < 0:
                    sizes[table, part["recording"]] = count
                elif count:
                    counts[part["recording"], of_table[number]] = count
    return sizes, counts


def _counted_in(rows: Rows, table: str, expected: Sequence[Failing]) -> list[dict[str, Any]]:
    """The counts of a table. Raises UserError that names an expectation whose SQL is wrong."""
    try:
        counted: list[dict[str, Any]] = rows(counting(table, expected)).to_pylist()
    except (duckdb.Error, ValueError) as error:
        if len(expected) == 1:
            raise expected[0].expectation.error(error) from None
        for each in expected:
            _counted_in(rows, table, [each])
        raise
    return counted


def _follows_from(
    warehouse: Warehouse,
    recordings: Sequence[str],
    expectations: Sequence[Expectation],
    kept_rows: int,
) -> dict[str, str]:
    """What results follow from. Raises UserError where there is nothing to check yet."""
    suites = [asdict(each) for each in expectations]
    lineage = warehouse.lineage(recordings)
    wanted = {}
    for name in recordings:
        # Decisions follow from these results.
        others = {key for key in lineage if key[0] == name} - {(name, STEP), (name, DECIDED)}
        steps = {step: lineage[name, step] for _, step in others}
        if not {SUMMARIES, accuracy_step(name)} <= steps.keys():
            missing = "no summaries of" if steps else "no"
            raise UserError(
                f"the warehouse {warehouse.path} has {missing} recording {name!r}: run kip-replay "
                "run on it with this --warehouse first"
            )
        wanted[name] = fingerprint(code_of((__name__,)), suites, kept_rows, steps)
    return wanted


def _keep(warehouse: Warehouse, results: Sequence[Result], follows_from: Mapping[str, str]) -> None:
    mine = [each for each in results if each.recording in follows_from]
    rows = {
        QUALITY_RESULTS: [each.row for each in mine],
        QUALITY_FAILURES: [row for each in mine for row in each.failure_rows],
    }
    tables = {table: pa.Table.from_pylist(of, table.arrow_schema) for table, of in rows.items()}
    warehouse.replace(STEP, follows_from, tables)


def _kept(warehouse: Warehouse, recordings: Sequence[str]) -> list[Result]:
    kept: dict[tuple[str, ...], list[str]] = defaultdict(list)
    failures = warehouse.rows(QUALITY_FAILURES, recordings).to_pylist()
    for row in sorted(failures, key=itemgetter("number")):
        kept[_key(row)].append(row["failing_row"])
    results = warehouse.rows(QUALITY_RESULTS, recordings).to_pylist()
    return [Result(**row, kept=tuple(kept[_key(row)])) for row in results]


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in QUALITY_RESULTS.key)


def _result(
    recording: str,
    expectation: Expectation,
    rows_checked: int,
    failing_rows: int,
    first: Sequence[Mapping[str, Any]],
) -> Result:
    return Result(
        recording=recording,
        suite=expectation.suite,
        table_name=expectation.table,
        expectation=expectation.name,
        column_name=next(iter(expectation.columns), None),
        severity=expectation.severity.value,
        success=failing_rows == 0,
        observed=f"{failing_rows} failing, {rows_checked} in the table",
        failing_rows=failing_rows,
        rows_checked=rows_checked,
        says=expectation.says,
        kept=tuple(sorted(map(_text, first))),
    )


def _text(row: Mapping[str, Any]) -> str:
    shown = {name: value for name, value in row.items() if name != "recording"}
    return json_object([*shown], [*shown.values()])
