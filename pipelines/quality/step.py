"""The check as a step of a run: count the rows that fail, and keep the results.

``quality_results`` and ``quality_failures`` are replaced by recording. ``lineage`` says what they
follow from: suites, this code, and the lineage of everything that is checked. Where that is as
before, a run takes the results that are there. A check that looks ``anew`` reads the tables even
then, since somebody may have touched them, writes only what comes out differently, and makes the
Great Expectations project.

Of a recording that grows, a run checks what is recent: what the last ingest has read, and as much
before it as ``recent_of`` says. A failure stays in the results until all is checked, by
``kip-replay check`` or once the recording is closed.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import structs

from kip_replay.pipelines.analysis.decide import STEP as DECIDED
from kip_replay.pipelines.analysis.summarize import SUMMARIES, accuracy_step
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.counts import validated
from kip_replay.pipelines.quality.results import QualityOutcome, Result
from kip_replay.pipelines.quality.suites import Expectation, load_suites
from kip_replay.pipelines.storage import is_uri
from kip_replay.pipelines.warehouse.steps import (
    Covered,
    Step,
    StepKind,
    fingerprint,
    inputs_of,
    recent_of,
)
from kip_replay.pipelines.warehouse.tables import EDGE, Warehouse
from kip_replay.replay.tables import TABLES, QualityFailures, QualityResult

STEP = Step(
    name="quality",
    kind=StepKind.BY_TIME,
    reads=tuple(table for table in TABLES.values() if table not in DECIDED.writes),
    writes=(QualityResult, QualityFailures),
    modules=(__name__,),
)


@dataclass(frozen=True)
class QualitySettings:
    """Holds the section ``quality`` of the configuration, and of a log that grows
    how many minutes at least are checked in each run."""

    more_suites: tuple[str, ...] = ()
    kept_rows: int = 20
    data_docs: bool = True
    recent_minutes: float = 60.0


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
