"""Recordings of real brokers as the pipeline reads and replays them, each once.

What one worker of pytest has replayed, all of them read, and so does the next run of the same code.
"""

import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from constructed import rows_of
from filelock import FileLock
from small_logs import REPOSITORY, folder_of

from kip_replay.jobs._cli import read_config
from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.pipelines.engines import NO_INPUTS, Inputs
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.ingest.recording import Recording, load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.log_gaps import account
from kip_replay.pipelines.replaying.replay import replay
from kip_replay.pipelines.replaying.seam import WHOLE_LOG
from kip_replay.pipelines.replaying.states import steady_phases
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.data_files import moment
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.log_tables import TYPED_TABLES, LogGaps, Requests, Uncertainties
from kip_replay.replay.records import SteadyPhase
from kip_replay.replay.rule import Settings
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

Row = dict[str, Any]
#: A rule's events by node, in its order; under None those of the whole cluster.
Events = dict[int | None, pa.Table]

VOTERS = (1, 2, 3)
STEPS: dict[str, SummedRule] = {steps.name: steps for steps in RULES}
OPTIONS = {
    **read_config(None, []),
    "hwm_parking": {"max_wait_ms": []},
    "incremental_fetch": {"session_slots": [0]},
    "min_isr_acks": {"min_insync_replicas": [1, 3]},
}


def _folder_of_code() -> Path:
    """The folder of what this code replays; removes those of code of another day."""
    tops = (REPOSITORY / top for top in ("replay", "pipelines", "conf"))
    code = [file for top in tops for file in top.rglob("*.*") if file.suffix != ".pyc"]
    digest = blake2b(digest_size=8)
    for file in (*sorted(code), Path(__file__)):
        digest.update(file.read_bytes())
    folder = REPOSITORY / ".golden" / digest.hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    for other in folder.parent.iterdir():
        if other != folder and other.stat().st_mtime < time.time() - 86_400:
            shutil.rmtree(other, ignore_errors=True)
    return folder


WAREHOUSE = Warehouse(_folder_of_code())


class InThisProcess(Local):
    """Starts no others: these logs are read sooner than those are there."""

    def run(self, work: Any, parts: Any) -> list[Any]:
        return [*map(work, parts)]


ENGINE = InThisProcess(WAREHOUSE)


def quiet(_: str) -> None:
    """Says nothing."""


@contextmanager
def alone(*names: str) -> Iterator[None]:
    """Keeps other workers from writing of these recordings meanwhile."""
    with ExitStack() as locks:
        for name in sorted(names):
            locks.enter_context(FileLock(f"{WAREHOUSE.path}/{name}.lock", is_singleton=True))
        yield


@cache
def ingested(name: str) -> Recording:
    recording = load_recording(folder_of(name))
    with alone(name):
        ingest([recording], ENGINE, say=quiet)
    return recording


@cache
def replayed(name: str, rule: str) -> None:
    if rule == "lowest_acked_offset":
        replayed(name, "hwm_parking")
    recording = ingested(name)
    with alone(name):
        replay([recording], ENGINE, [STEPS[rule]], OPTIONS, say=quiet)


@cache
def outcomes(name: str, table: Table) -> list[Row]:
    """Rows of an outcome table, times as microseconds."""
    replayed(name, next(steps.name for steps in RULES if table in steps.outcomes))
    batches = WAREHOUSE.rows(table, [name]).drop_columns("recording").to_batches()
    return [row for batch in batches for row in rows_of(batch)]


def session(name: str, *rules: str) -> duckdb.DuckDBPyConnection:
    """DuckDB with a recording's tables, rules' outcomes among them, and the views."""
    for rule in rules:
        replayed(name, rule)
    database = WAREHOUSE.database([name])
    create_views(database, in_order(read_views(), TABLES))
    return database


def found(name: str, rule: str, sql: str) -> list[tuple[Any, ...]]:
    """What a query finds in a recording's tables, a rule's outcomes among them."""
    with session(name, rule) as database:
        return database.execute(sql).fetchall()


@cache
def steady(name: str) -> SteadyPhase:
    ingested(name)
    return steady_phases(ENGINE, [name])[name]


# --- what rules are fed --------------------------------------------------------------------------


@cache
def events_of(
    name: str, rule: str, missing: frozenset[str] = frozenset(), gaps: tuple[LogGap, ...] = ()
) -> Events:
    """As the log has them, or without the lines of some requests, where gaps are known."""
    ingested(name)
    lost, left = pa.array(missing, pa.string()), {}
    for table in (Requests, *TYPED_TABLES) if missing else ():
        lines = WAREHOUSE.rows(table, [name])
        left[table.name] = lines.filter(~pc.field("request_id").isin(lost))
    if gaps:
        of_gaps = [
            {"recording": name, "node_id": gap.node_id, "number": n, "evidence": "made"}
            | {"after_at": moment(gap.after_us), "before_at": moment(gap.before_us)}
            for n, gap in enumerate(gaps)
        ]
        left["log_gaps"] = pa.Table.from_pylist(of_gaps, LogGaps.arrow_schema)
        of_account = account(ENGINE, {name: VOTERS}, left, evidence_us=0)
        left[Uncertainties.name] = of_account[Uncertainties]
    if rule == "lowest_acked_offset":
        replayed(name, "hwm_parking")
    return events_by(STEPS[rule].text("events", **WHOLE_LOG.values), name, rule, left)


def events_by(text: Text, name: str, rule: str, inputs: Inputs = NO_INPUTS) -> Events:
    """By another text than the rule's own, or of other rows."""
    of = STEPS[rule].rule
    rows = ENGINE.rows(WHOLE_LOG.events(of, text), [name], inputs)
    rows = rows.sort_by([(column, "ascending") for column in (*of.key, *of.order)])
    nodes = pc.unique(rows.column("node_id")).to_pylist() if "node_id" in of.key else [None]
    return {
        node: (rows if node is None else rows.filter(pc.field("node_id") == node))
        .select(of.input_schema.names)
        .cast(of.input_schema)
        for node in sorted(nodes)
    }


def fed(
    rule: str,
    events: pa.Table,
    node: int | None = None,
    gaps: Collection[LogGap] = (),
    every: int | None = None,
    **options: Any,
) -> dict[str, list[Row]]:
    """What a rule emits of events, by table; times as microseconds.

    ``every``: after so many events the replay is saved and another one resumes, which is given
    what is true at all times again.
    """
    of = STEPS[rule].rule
    settings = Settings(
        voters={"r": VOTERS},
        facts={"r": {"lowest_acked_offset": {"broker_heartbeat_interval_ms": 2_000}}},
        log_gaps={"r": [*gaps]} if gaps else {},
        options={rule: options},
    )
    key = {"recording": "r"} | ({} if node is None else {"node_id": node})
    always = pc.less_equal(events.column(of.order[0]), 0)
    first, rest = events.filter(always), events.filter(pc.invert(always))
    places = [*range(0, len(rest), every or len(rest)), len(rest)]
    replay, emitted = of.started(settings, key, None), []
    for begin, end in pairwise(places):
        increment = pa.concat_tables([first, rest.slice(begin, end - begin)]).combine_chunks()
        emitted += [*map(replay.feed, increment.to_batches())]
        if every:
            replay = of.started(settings, key, replay.saved())
    emitted.append(replay.finish())
    return {
        table.name: [row for batch in of_table for row in rows_of(batch)]
        for table, of_table in zip(of.tables, zip(*emitted, strict=True), strict=True)
    }


def percentile(values: Collection[float], q: float) -> float:
    """The value at rank floor(q * (n - 1)) of the sorted values, from 0."""
    return sorted(values)[int(q * (len(values) - 1))]
