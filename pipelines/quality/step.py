"""The check as a step of a run: count the rows that fail, and keep the results.

``quality_results`` and ``quality_failures`` are replaced by recording. ``lineage`` says what they
follow from: suites, this code, and the lineage of everything that is checked. Where that is as
before, a run takes the results that are there. A check that looks ``anew`` reads the tables even
then, since somebody may have touched them, writes only what comes out differently, and makes the
Great Expectations project.

Of a recording that grows, a run checks what is recent: what the last ingest has read, and as much
before it as ``recent_of`` says. A failure stays in the results until all is checked, by
``kip-replay check`` or once the recording is closed.

What is expected of each row by itself is counted in one pass over its table; keys, and expectations
in SQL, take a query each. These are parts of one text of all small tables, and one a large table.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib.util import find_spec
from itertools import chain, product, starmap
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from msgspec import structs

from kip_replay.pipelines.analysis.decide import STEP as DECIDED
from kip_replay.pipelines.analysis.summarize import SUMMARIES, accuracy_step
from kip_replay.pipelines.engines import NO_INPUTS, Engine, Inputs
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.printable import json_object, visible
from kip_replay.pipelines.quality.suites import Expectation, load_suites
from kip_replay.pipelines.rule_files import Severity
from kip_replay.pipelines.storage import is_uri
from kip_replay.pipelines.warehouse.steps import (
    Covered,
    Step,
    StepKind,
    fingerprint,
    inputs_of,
    recent_of,
)
from kip_replay.pipelines.warehouse.tables import EDGE, Warehouse, are_small, sql_text
from kip_replay.replay.tables import TABLES, Lineage, QualityFailures, QualityResult

STEP = Step(
    name="quality",
    kind=StepKind.BY_TIME,
    reads=tuple(table for table in TABLES.values() if table not in DECIDED.writes),
    writes=(QualityResult, QualityFailures),
    modules=(__name__,),
)
_ORDER: tuple[str, ...] = tuple(reversed(Severity))
_VALUE_CHARACTERS_MAX = 80
_FAILED_LINES_MAX = 30


@dataclass(frozen=True)
class QualitySettings:
    """Holds the section ``quality`` of the configuration, and of a log that grows
    how many minutes at least are checked in each run."""

    more_suites: tuple[str, ...] = ()
    kept_rows: int = 20
    data_docs: bool = True
    recent_minutes: float = 60.0


class Result(QualityResult):
    """A row of quality_results, with the first rows that failed."""

    kept: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def identity(self) -> tuple[str, ...]:
        return tuple(getattr(self, name) for name in QualityResult.key)

    @property
    def place(self) -> tuple[str, str, str]:
        return (self.suite, self.table_name, self.expectation)

    @property
    def failure_rows(self) -> list[dict[str, Any]]:
        key = dict(zip(QualityResult.key, self.identity, strict=True))
        return [{**key, "number": n, "failing_row": row} for n, row in enumerate(self.kept, 1)]


@dataclass(frozen=True)
class QualityOutcome:
    """Holds the results of a check of recordings, and where the failing rows are."""

    recordings: Sequence[str]
    results: Sequence[Result]
    warehouse: str
    data_docs: str | None = None
    left_out: str = ""

    @property
    def failures(self) -> list[Result]:
        """The worst first."""
        failed = [result for result in self.results if not result.success]
        return sorted(failed, key=lambda result: (_ORDER.index(result.severity), *result.identity))

    @property
    def is_critical(self) -> bool:
        return any(failure.severity == Severity.CRITICAL for failure in self.failures)


def check(
    engine: Engine, recordings: Sequence[str], settings: QualitySettings, anew: bool = False
) -> QualityOutcome:
    """Checks recordings that were summed up, and keeps the results. Raises UserError."""
    warehouse = engine.warehouse
    expectations = load_suites([*map(Path, settings.more_suites)])
    wanted = _wanted(warehouse, recordings, expectations, settings.kept_rows)
    due = STEP.due(warehouse, wanted)
    stale = [*recordings] if anew else [*due]
    results = _kept(warehouse, recordings)
    if stale:
        recent = {} if anew else recent_of(warehouse, stale, settings.recent_minutes).recent
        begins = {name: moment - EDGE for name, moment in recent.items() if due[name]}
        there = {result for result in results if result.recording in stale}
        whole = [name for name in stale if name not in begins]
        fresh = validated(engine, whole, expectations, settings.kept_rows) if whole else []
        fresh += _of_recent(engine, begins, expectations, settings.kept_rows, there)
        changed = {result.recording for result in there ^ {*fresh}}
        changed |= due.keys()
        if changed:
            _keep(warehouse, fresh, {name: wanted[name] for name in changed})
        results = [*(result for result in results if result not in there), *fresh]
    outcome = QualityOutcome(tuple(recordings), results, warehouse.path)
    # An object store has no place for pages.
    if not anew or not settings.data_docs or is_uri(warehouse.path):
        return outcome
    if not find_spec("great_expectations"):
        return replace(outcome, left_out="data docs")
    # Importing Great Expectations takes seconds.
    from kip_replay.pipelines.quality.project import write_project

    return replace(outcome, data_docs=write_project(outcome))


def _of_recent(
    engine: Engine,
    begins: Mapping[str, datetime],
    expectations: Sequence[Expectation],
    kept_rows: int,
    there: Collection[Result],
) -> list[Result]:
    """Results of the recent part of recordings; what failed in the rest of them still does.

    A row may fail as what it belongs to is not recent: what fails is looked at once more, whole.
    """
    recent = engine.on(engine.warehouse.since(begins))
    results = {result.identity: result for result in there if result.recording in begins}
    parts = {it.place: it for it in expectations if not it.of_all}
    for name, moment in begins.items():
        of_part = validated(recent, [name], [*parts.values()], kept_rows)
        failed = [parts[result.place] for result in of_part if not result.success]
        of_part = [
            structs.replace(result, observed=f"{result.observed} from {moment:%F %T} UTC on")
            for result in of_part
            if result.success and results[result.identity].success
        ]
        of_whole = validated(engine, [name], failed, kept_rows) if failed else []
        results |= {result.identity: result for result in (*of_part, *of_whole)}
    return [*results.values()]


def _wanted(
    warehouse: Warehouse,
    recordings: Sequence[str],
    expectations: Sequence[Expectation],
    kept_rows: int,
) -> dict[str, Covered]:
    """States what results follow from: expectations, and the lineage of a recording.

    Raises UserError where there is nothing to check yet.
    """
    suites = [asdict(expectation) for expectation in expectations]
    identity, lineage = fingerprint(STEP.code(), suites, kept_rows), warehouse.lineage(recordings)
    wanted = {}
    for name in recordings:
        # Decisions follow from these results.
        steps = {step for recording, step in lineage if recording == name}
        steps -= {STEP.name, DECIDED.name}
        if not {SUMMARIES, accuracy_step(name)} <= steps:
            missing = "no summaries of" if steps else "no"
            raise UserError(
                f"the warehouse {warehouse.path} has {missing} recording {name!r}: run kip-replay "
                "run on it with this --warehouse first"
            )
        read = {step.partition("/")[0] for step in steps}
        inputs = inputs_of(lineage, name, read)
        wanted[name] = Covered(identity=identity, inputs=inputs)
    return wanted


def _keep(warehouse: Warehouse, results: Sequence[Result], covered: Mapping[str, Covered]) -> None:
    mine = [result for result in results if result.recording in covered]
    rows = {
        QualityResult: [structs.asdict(result) for result in mine],
        QualityFailures: [row for result in mine for row in result.failure_rows],
    }
    tables = {table: pa.Table.from_pylist(its, table.arrow_schema) for table, its in rows.items()}
    follows_from = {name: str(now) for name, now in covered.items()}
    warehouse.replace(STEP.name, follows_from, tables)


def _kept(warehouse: Warehouse, recordings: Sequence[str]) -> list[Result]:
    kept: dict[tuple[str, ...], list[str]] = defaultdict(list)
    failures = warehouse.rows(QualityFailures, recordings).to_pylist()
    for row in sorted(failures, key=itemgetter("number")):
        kept[_key(row)].append(row["failing_row"])
    results = warehouse.rows(QualityResult, recordings).to_pylist()
    return [Result(**row, kept=tuple(kept[_key(row)])) for row in results]


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in QualityResult.key)


# --- counts


def validated(
    engine: Engine, recordings: Sequence[str], expectations: Sequence[Expectation], kept_rows: int
) -> list[Result]:
    """A result for each recording and expectation. Raises UserError for a wrong expectation."""
    of_tables: dict[str, list[Expectation]] = defaultdict(list)
    for expectation in sorted(expectations, key=lambda expectation: not expectation.condition):
        of_tables[expectation.table].append(expectation)
    texts: list[dict[str, list[Expectation]]] = [{}]
    for table, of_table in of_tables.items():
        files = engine.warehouse.files(TABLES[table], recordings)
        if are_small(files):  # these are counted together
            texts[0][table] = of_table
        else:
            texts.append({table: of_table})
    results = []
    for of_text in filter(None, texts):
        counts = _counted(engine, recordings, of_text)
        for name, (table, of_table) in product(recordings, of_text.items()):
            for number, expectation in enumerate(of_table):
                rows, failing = counts[name, table, -1], counts[name, table, number]
                first = _first_rows(engine, name, expectation, kept_rows) if failing else ()
                results.append(_result(name, expectation, rows, failing, first))
    return results


def _counted(
    engine: Engine, recordings: Sequence[str], of_tables: Mapping[str, Sequence[Expectation]]
) -> Counter[tuple[str, str, int]]:
    """Counts the rows of each recording and table that fail an expectation, by its number.

    -1: all rows. Raises UserError that names an expectation whose SQL is wrong.
    """
    counts: Counter[tuple[str, str, int]] = Counter()
    text = Text("\nUNION ALL ".join(starmap(_counting, of_tables.items())))
    try:
        parts = engine.rows(text, recordings, _inputs(engine, text, recordings)).to_pylist()
    except (duckdb.Error, ValueError) as error:
        expectations = [*chain(*of_tables.values())]
        if len(expectations) == 1:
            raise expectations[0].error(error) from None
        for expectation in expectations:
            _counted(engine, recordings, {expectation.table: [expectation]})
        raise
    for part in parts:
        for number, count in enumerate(part["counts"], start=part["first"]):
            counts[part["recording"], part["table_name"], number] = count
    return counts


def _inputs(engine: Engine, text: Text, recordings: Sequence[str]) -> Inputs:
    if Lineage.name not in text.names:
        return NO_INPUTS
    return {Lineage.name: engine.warehouse.lineage_table(recordings)}


def _counting(table: str, expectations: Sequence[Expectation]) -> str:
    """Counts the rows of a table that fail: rows of (recording, table_name, first, counts).

    ``counts`` are of the expectations from number ``first`` on, which begin with those that have
    conditions. Before them, at -1, is the number of the table's rows.
    """
    conditions = [it.condition for it in expectations if it.condition]
    counts = ["count(*)", *(f"count(CASE WHEN {condition} THEN 1 END)" for condition in conditions)]
    numbered = {f"({e.query}) AS failing": n for n, e in enumerate(expectations) if not e.condition}
    parts = [
        f"SELECT recording, '{table}' AS table_name, {first} AS first, [{counted}] AS counts "
        f"FROM {rows}"
        for rows, first, counted in (
            (table, -1, ", ".join(counts)),
            *((query, number, "count(*)") for query, number in numbered.items()),
        )
    ]
    return "\nUNION ALL ".join(f"{part} GROUP BY recording" for part in parts)


def _first_rows(
    engine: Engine, recording: str, expectation: Expectation, rows_max: int
) -> list[Mapping[str, Any]]:
    """The first failing rows of a recording, by their columns from left to right."""
    text = Text(
        f"SELECT * FROM ({expectation.query}) AS failing WHERE recording = {sql_text(recording)} "
        f"ORDER BY ALL NULLS FIRST LIMIT {rows_max}"
    )
    inputs = _inputs(engine, text, [recording])
    try:
        rows: list[Mapping[str, Any]] = engine.rows(text, [recording], inputs).to_pylist()
    except (duckdb.Error, ValueError) as error:
        raise expectation.error(error) from None
    return rows


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
    values = {name: value for name, value in row.items() if name != "recording"}
    return json_object([*values], [*values.values()])


# --- words


def summary(outcome: QualityOutcome) -> list[str]:
    """Lines for the terminal."""
    severities = [failure.severity for failure in outcome.failures]
    failed = ", ".join(f"{severities.count(severity)} {severity}" for severity in _ORDER)
    names, failures = outcome.recordings, outcome.failures
    checked = f"{len(outcome.results)} expectations of "
    checked += names[0] if len(names) == 1 else f"{len(names)} recordings"
    lines = [f"quality: {checked}; failed: {failed}"]
    for failure in failures[:_FAILED_LINES_MAX]:
        lines += _lines(failure)
    if len(failures) > _FAILED_LINES_MAX:
        lines.append(f"  and {len(failures) - _FAILED_LINES_MAX} more")
    if failures:
        lines.append(f"  failing rows: {outcome.warehouse}/{QualityFailures.name}")
    if outcome.data_docs:
        lines.append(f"  data docs: {outcome.data_docs}")
    if outcome.left_out:
        lines.append(f"  left out: {outcome.left_out}: pip install 'kip-replay[quality]'")
    return lines


def _lines(failure: Result) -> Iterator[str]:
    count = failure.failing_rows
    rows = f"{count} failing row{'' if count == 1 else 's'}"
    where = f"{failure.severity} in {failure.recording}: {failure.table_name}"
    yield f"  {where}, {failure.expectation}: {rows}; expected: {failure.says}"
    if failure.kept:
        first = json.loads(failure.kept[0])
        values = ", ".join(f"{name} {_value(value)}" for name, value in first.items())
        yield f"    such as: {values}"


def _value(value: object) -> str:
    """One line of printable text: a log's strings may hold anything, terminal codes too."""
    printable = visible("null" if value is None else str(value))
    cut = "..." if len(printable) > _VALUE_CHARACTERS_MAX else ""
    return printable[:_VALUE_CHARACTERS_MAX] + cut
