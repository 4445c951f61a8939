"""Gaps in the logs of recordings: found before anything is replayed, and kept in ``log_gaps``.

A text of ``gaps/`` for each kind of evidence says what shows a gap. While a recording grows, they
look only at lines that came since, and those shortly before; when it is closed, at all of them once
more.

A log begins in the middle of a cluster's life. What held then often shows later: METADATA that
names an ISR tells that of the beginning, if no line between changed it. A gap in another node's
log leaves open what it would show. Of both there is one account for all rules, whose texts say
which evidence counts, and what refutes it.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from kip_replay.pipelines.engines import NO_INPUTS, Engine, Inputs
from kip_replay.pipelines.engines.text import MACROS, Text
from kip_replay.pipelines.replaying.rule_texts import HELD, SHARED
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
from kip_replay.replay.log_tables import (
    HELD_TABLES,
    IngestedFiles,
    LogGaps,
    RejectedLines,
    Uncertainties,
)
from kip_replay.replay.model.brokers import FENCING_KNOWN_AFTER_US, SESSION_TIMEOUT_US
from kip_replay.replay.model.partition import REPLICA_LAG_TIME_MAX_US
from kip_replay.replay.model.raft import METADATA_MAX_IDLE_INTERVAL_US
from kip_replay.replay.table import Table

Row = Mapping[str, Any]

_PARTS = {file.stem: file for file in Path(__file__).with_name("gaps").glob("*.sql")}
_SQL = _PARTS["log_gaps"]
STEP = Step(
    name="log_gaps",
    kind=StepKind.BY_TIME,
    writes=(LogGaps,),
    modules=(__name__,),
    queries=tuple(_PARTS.values()),
)
HELD_STEP = Step(
    name="held",
    writes=HELD_TABLES,
    modules=(__name__,),
    queries=(*HELD, *SHARED.values()),
)
#: How old METADATA may be: brokers apply a change within it.
_STALE_US = 2_000_000
#: Topic.MAX_NAME_LENGTH
_TOPIC_NAME_MAX = 249
_VALUES = {
    "stale_us": _STALE_US,
    "silence_us": SESSION_TIMEOUT_US,
    "fenced_us": FENCING_KNOWN_AFTER_US,
    # A node fetches at least so often: a FETCH waits 500 ms.
    "pause_us": 2_000_000,
    # How far two of its records may be off, and how long a gap may be so that their number is
    # certain.
    "idle_us": METADATA_MAX_IDLE_INTERVAL_US,
    "idle_slack_us": 60_000,
    "counted_us_max": 20_000_000,
    "lag_us_max": REPLICA_LAG_TIME_MAX_US,
    # Of a name's characters in Java's hash code, from the last one on.
    "powers_of_31": [31**n % (1 << 32) for n in range(_TOPIC_NAME_MAX)],
    # Later than all lines.
    "never_us": 1 << 52,
}
_GAPS_NAMED_MAX = 3
#: How each kind of selection shows (``gaps/selections.sql``), and what it takes instead.
SELECTIONS = {
    "deprecated_only": "every request in them is of a deprecated version, as where "
    "kafka.request.logger is at INFO; it takes DEBUG",
    "sampled": "connections skip requests evenly, as in a sample; it takes every request",
    "no_fetch": "they have no FETCH, though other requests show that there were some; it takes "
    "every API",
}
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


# --- what held when logs began


def account(
    engine: Engine,
    voters: Mapping[str, Collection[int]],
    inputs: Inputs = NO_INPUTS,
    *,
    has_gaps: bool = True,
    **values: int,
) -> dict[Table, pa.Table]:
    """Rows of the account's tables, given each recording's voters; ``has_gaps``: any has."""
    read = {**inputs, "voters": voters_table(voters)}
    rows: dict[Table, pa.Table] = {}
    for table, file in zip(HELD_TABLES, HELD, strict=True):
        # Without a gap nothing is uncertain.
        if table is Uncertainties and not has_gaps:
            rows[table] = table.arrow_schema.empty_table()
            continue
        filled = engine.rows(Text.read(file, SHARED, **_VALUES, **values), voters, read)
        rows[table] = filled.select(table.arrow_schema.names).cast(table.arrow_schema)
    return rows


def find_what_held(engine: Engine, voters: Mapping[str, Collection[int]], evidence_us: int) -> None:
    """Writes the account of recordings, given their voters, where logs or this code changed.

    ``evidence_us``: how long after a beginning a line may still tell of it.
    """
    warehouse, code = engine.warehouse, HELD_STEP.code()
    readings, gaps = readings_of(warehouse, voters), log_gaps(warehouse, voters)
    wanted = {
        name: Covered(
            identity=fingerprint(code, evidence_us, sorted(ids)),
            inputs=fingerprint(contents_of(readings[name]), gaps.get(name)),
        )
        for name, ids in voters.items()
    }
    if due := HELD_STEP.due(warehouse, wanted):
        ids, has_gaps = {name: voters[name] for name in due}, bool(due.keys() & gaps.keys())
        rows = account(engine, ids, has_gaps=has_gaps, evidence_us=evidence_us)
        warehouse.replace(HELD_STEP.name, {name: str(wanted[name]) for name in due}, rows)


# --- words


def selection_sentence(evidence: str) -> str:
    return (
        f"these logs are a selection of requests: {SELECTIONS[evidence]}. Which clients an upgrade "
        "breaks, and who is connected, still shows; all else is unknown"
    )


def gap_sentences(rows: Iterable[Row]) -> list[str]:
    sentences = []
    ordered = sorted(rows, key=itemgetter("recording", "node_id", "number"))
    for name, of_recording in groupby(ordered, key=itemgetter("recording")):
        gaps = [*of_recording]
        if gaps[0]["evidence"] in SELECTIONS:
            sentences.append(selection_sentence(gaps[0]["evidence"]))
            continue
        sentences += [gap_sentence(gap) for gap in gaps[:_GAPS_NAMED_MAX]]
        if len(gaps) > _GAPS_NAMED_MAX:
            more = (
                f"{len(gaps) - _GAPS_NAMED_MAX:,} more gap{'s' * (len(gaps) > _GAPS_NAMED_MAX + 1)}"
            )
            sentences.append(f"the logs of recording {name!r} have {more}: see table log_gaps")
    return sentences


def gap_sentence(gap: Row) -> str:
    log = f"node {gap['node_id']} of recording {gap['recording']!r}"
    if gap["evidence"] == "no_log":
        return f"{log} has no log: what rests on it is unknown"
    if gap["evidence"] == "logger_off":
        why = "kafka.request.logger was off, unless nothing was requested of it"
        return f"{log} has an empty log but others show it ran: {why}; what rests on it is unknown"
    if gap["evidence"] == "filtered":
        return f"{log} lacks all lines of some kind that it must have: what rests on it is unknown"
    after, before = (_time(gap[name]) for name in ("after_at", "before_at"))
    missing = gap["lines_missing"]
    lines = f"{missing:,} line{'s' * (missing > 1)} or more" if missing else "lines"
    if after is None:
        return f"{log} ran before its log begins at {before}: what rests on that is unknown"
    until = f"between {after} and {before}" if before else f"after {after}"
    if gap["evidence"] == "contradiction":
        return f"{log}: lines contradict each other {until}: what rests on them is unknown"
    return f"{log}: {lines} are missing {until} ({gap['evidence']}): what rests on them is unknown"


def _time(at: datetime | None) -> str | None:
    if at is None:
        return None
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"
