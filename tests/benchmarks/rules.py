"""Rates of the rules in pure ``replay/``: one core, Arrow batches in, Arrow batches out.

Each measurement starts a new replay, feeds it batches that were made before, and takes what it
returns; it is repeated until ``seconds`` have passed, and the rate is units over time.
"""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from golden.recorded import STEPS, VOTERS, events_of

from kip_replay.replay.rule import Settings

#: Rows of a batch: as large as those that engines hand to rules.
ROWS = 10_000


class Rate(NamedTuple):
    """Of a rule on an input; ``units`` are in all that one replay returns."""

    rule: str
    what: str
    unit: str
    units: int
    per_second: float
    rows_per_second: float


class Measured(NamedTuple):
    """A rule on a node's log, and how its units are counted in the rows of its first table."""

    rule: str
    recording: str
    node_id: int | None
    unit: str
    units_of: Callable[[pa.Table], int]


def _listed(rows: pa.Table) -> int:
    """What full FETCHes would list, all FETCHes together."""
    full = rows.filter(pc.field("variant") == "full")
    return int(pc.sum(full.column("request_partitions")).as_py())


def _acknowledged(rows: pa.Table) -> int:
    return int(rows.group_by(["request_id", "partition"]).aggregate([]).num_rows)


def _simulated(rows: pa.Table) -> int:
    return int(rows.filter(pc.field("variant") != "recorded").num_rows)


#: The busiest of the recordings: full FETCHes, and incremental ones of 1 to 5 partitions.
MEASURED = (
    Measured("incremental_fetch", "sessions-off", 11, "partition-states", _listed),
    Measured("incremental_fetch", "mixed-4.2", 11, "partition-states", _listed),
    # All that a run executes: what is in force and swept, and producers that react.
    Measured("min_isr_acks", "acks-two-replicas", 11, "batches", _acknowledged),
    Measured("hwm_parking", "metadata-4.1", 2, "simulated FETCHes", _simulated),
    Measured(
        "lowest_acked_offset", "metadata-4.1", None, "heartbeats", lambda rows: int(rows.num_rows)
    ),
)
SETTINGS = Settings(
    voters={"r": VOTERS},
    recorded_heartbeat_interval_ms={"r": 2000},
    options={"min_isr_acks": {"min_insync_replicas": [1, 2, 3]}},
)


def rates(seconds: float) -> list[Rate]:
    """Every rule on recorded input."""
    return [_rate(each, seconds) for each in MEASURED]


def _rate(of: Measured, seconds: float) -> Rate:
    events, rule = events_of(of.recording, of.rule)[of.node_id], STEPS[of.rule].rule
    batches = events.combine_chunks().to_batches(ROWS)
    key = {"recording": "r"} | ({} if of.node_id is None else {"node_id": of.node_id})
    taken: list[float] = []
    while sum(taken) < seconds or len(taken) < 3:
        begin = time.perf_counter()
        replay = rule.started(SETTINGS, key, None)
        emitted = [*map(replay.feed, batches), replay.finish()]
        taken.append(time.perf_counter() - begin)
    median = statistics.median(taken)
    units = of.units_of(pa.Table.from_batches([tables[0] for tables in emitted]))
    what = of.recording if of.node_id is None else f"{of.recording}, node {of.node_id}"
    return Rate(of.rule, what, of.unit, units, units / median, len(events) / median)
