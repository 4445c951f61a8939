"""Gaps in the logs of recordings: found before anything is replayed, and kept in ``log_gaps``.

A text of ``gaps/`` for each kind of evidence says what shows a gap. While a recording grows, they
look only at lines that came since, and those shortly before; when it is closed, at all of them once
more.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kip_replay.pipelines.engines import NO_INPUTS, Engine, Inputs
from kip_replay.pipelines.engines.text import MACROS, Text
from kip_replay.pipelines.replaying.states import new_files
from kip_replay.pipelines.warehouse.data_files import microseconds, moment
from kip_replay.pipelines.warehouse.steps import (
    Covered,
    Readings,
    Step,
    StepKind,
    contents_of,
    fingerprint,
    last_ingest,
    readings_of,
)
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_gaps import ALWAYS_SINCE_US, ALWAYS_UNTIL_US, LogGap
from kip_replay.replay.log_tables import IngestedFiles, LogGaps, RejectedLines

_PARTS = {file.stem: file for file in Path(__file__).with_name("gaps").glob("*.sql")}
_SQL = _PARTS["log_gaps"]
STEP = Step(
    name="log_gaps",
    kind=StepKind.BY_TIME,
    writes=(LogGaps,),
    modules=(__name__,),
    queries=tuple(_PARTS.values()),
)
_BEGINNING = moment(0)
_node = itemgetter("recording", "node_id")


def find_log_gaps(engine: Engine, voters: Mapping[str, Collection[int]], is_final: bool) -> None:
    """Writes ``log_gaps`` of recordings, given their voters, where logs or this code changed."""
    warehouse, code = engine.warehouse, STEP.code()
    readings = readings_of(warehouse, voters)
    wanted = {
        name: Covered(
            identity=fingerprint(code, sorted(ids)),
            inputs=fingerprint(contents_of(readings[name])),
            epochs={IngestedFiles.name: last_ingest(readings[name])},
            is_growing=not is_final,
        )
        for name, ids in voters.items()
    }
    due = STEP.due(warehouse, wanted)
    if not due:
        return
    kept: list[dict[str, Any]] = []
    new_gaps: list[dict[str, Any]] = []
    whole = []
    for name, before in due.items():
        is_gone_on = before is not None and before.is_growing and not is_final
        epoch = before.ingest_epoch if before and is_gone_on else 0
        new = [row for row in readings[name] if row["ingest_epoch"] > epoch and row["requests"]]
        if not (is_gone_on and new):
            whole.append(name)
            continue
        since_at = min(row["first_received_at"] for row in new)
        kept += _kept(warehouse, name, readings[name], since_at)
        # The last line that was read before may be a rejected one.
        rejected = new_files(engine, RejectedLines, name, epoch - 1)
        inputs = {RejectedLines.name: rejected}
        new_gaps += gaps_in(engine, {name: voters[name]}, since_at, False, inputs)
    if whole:
        new_gaps += gaps_in(engine, {name: voters[name] for name in whole}, is_final=is_final)
    kept = [row for row in kept if not any(_replaces(other, row) for other in new_gaps)]
    of_nodes = groupby(sorted([*kept, *new_gaps], key=_place), key=_node)
    rows = [{**gap, "number": n} for _, of_node in of_nodes for n, gap in enumerate(of_node, 1)]
    table = pa.Table.from_pylist(rows, LogGaps.arrow_schema)
    warehouse.replace(STEP.name, {name: str(wanted[name]) for name in due}, {LogGaps: table})


def _kept(
    warehouse: Warehouse, recording: str, readings: Readings, since_at: datetime
) -> list[dict[str, Any]]:
    """Rows that new lines since a time do not end: gaps before it, and logs that still lack."""
    logged = {row["node_id"] for row in readings if row["requests"]}
    return [
        row
        for row in warehouse.rows(LogGaps, [recording]).to_pylist()
        if row["evidence"] == "filtered"
        or (row["evidence"] in ("no_log", "logger_off") and row["node_id"] not in logged)
        or (row["before_at"] is not None and row["before_at"] <= since_at)
    ]


def gaps_in(
    engine: Engine,
    voters: Mapping[str, Collection[int]],
    since_at: datetime = _BEGINNING,
    is_final: bool = True,
    inputs: Inputs = NO_INPUTS,
) -> list[dict[str, Any]]:
    """Rows of ``log_gaps`` of recordings, given their voters; without numbers.

    ``inputs``: what is read in place of tables.
    """
    text = Text.read(_SQL, _PARTS, since_at=since_at, is_final=is_final)
    rows = engine.rows(text, voters, {"voters": voters_table(voters), **inputs})
    return list(rows.to_pylist())


def selection_in(tables: Mapping[str, pa.Table]) -> str | None:
    """Returns what shows that the requests in tables of the log are a selection, if they are."""
    text = Text.read(_PARTS["selections"], _PARTS, since_at=_BEGINNING)
    with duckdb.connect() as database:
        for macro in MACROS:
            database.execute(f"CREATE MACRO {macro}")
        for name in text.names:
            database.register(name, tables[name])
        return min((row[1] for row in database.sql(text.sql).fetchall()), default=None)


def voters_table(voters: Mapping[str, Collection[int]]) -> pa.Table:
    """Makes the table ``voters`` of texts: the ids of each recording's metadata quorum."""
    rows = [{"recording": name, "voter": voter} for name, ids in voters.items() for voter in ids]
    schema = pa.schema({"recording": pa.string(), "voter": pa.int32()})
    return pa.Table.from_pylist(rows, schema)


def log_gaps(warehouse: Warehouse, recordings: Collection[str]) -> dict[str, list[LogGap]]:
    gaps: dict[str, list[LogGap]] = {}
    for row in warehouse.rows(LogGaps, recordings).to_pylist():
        gaps.setdefault(row["recording"], []).append(LogGap(row["node_id"], *_span_us(row)))
    return {name: sorted(its) for name, its in gaps.items()}


def _replaces(gap: Mapping[str, Any], kept: Mapping[str, Any]) -> bool:
    """Says whether they overlap; a log that was filtered stays so, whatever else it lacks."""
    (first, until), (from_, last) = _span_us(gap), _span_us(kept)
    overlap = _node(gap) == _node(kept) and first < last and from_ < until
    return overlap and (kept["evidence"] != "filtered" or gap["evidence"] == "filtered")


def _place(gap: Mapping[str, Any]) -> tuple[Any, ...]:
    return *_node(gap), *_span_us(gap)


def _span_us(row: Mapping[str, Any]) -> tuple[int, int]:
    after_at, before_at = row["after_at"], row["before_at"]
    return (
        ALWAYS_SINCE_US if after_at is None else microseconds(after_at),
        ALWAYS_UNTIL_US if before_at is None else microseconds(before_at),
    )
