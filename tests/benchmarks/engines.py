"""Rates of the rules in pure ``replay/``: one core, Arrow batches in, Arrow batches out.

Each measurement starts a new replay, feeds it batches that were made before, and takes what it
returns; it is repeated until ``seconds`` have passed, and the rate is units over time.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from golden import naive_fetches, naive_heartbeats, naive_leader_log, naive_log
from notation import heartbeats, recorded

from kip_replay.replay.hwm_parking import HwmParking
from kip_replay.replay.hwm_parking import variants as parking_variants
from kip_replay.replay.incremental_fetch import IncrementalFetch
from kip_replay.replay.lowest_acked_offset import LowestAckedOffset
from kip_replay.replay.min_isr_acks import variants as ack_variants
from kip_replay.replay.min_isr_acks.closed_loop_replay import ProducersReact
from kip_replay.replay.min_isr_acks.events import batch_of as leader_batch
from kip_replay.replay.min_isr_acks.replay import MinIsrAcks
from kip_replay.replay.rule import Replay

from .kip_227 import ROWS, Example, fetches_of

Batches = Sequence[pa.RecordBatch]
VOTERS = (1, 2, 3)
#: A controller's FETCHes, and all leaders' batches: the busiest of the recordings.
METADATA, CONTROLLER = "metadata-4.1", 2
ACKS, LEADER = "acks-two-replicas", 11
SESSIONS, IN_SESSIONS, BROKER = "sessions-off", "mixed-4.2", 11


class Rate(NamedTuple):
    """Of a rule on an input; ``units`` are in all that one replay returns."""

    rule: str
    what: str
    unit: str
    units: int
    per_second: float
    rows_per_second: float


class Engine(NamedTuple):
    """A rule, and how its units are counted in the rows of its first table."""

    start: Callable[[], Replay]
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


ENGINES = {
    "incremental_fetch": Engine(lambda: IncrementalFetch(BROKER), "partition-states", _listed),
    # All that a run executes: what is in force and swept, and producers that react.
    "min_isr_acks": Engine(
        lambda: ProducersReact(
            LEADER, lambda saved: MinIsrAcks(LEADER, ack_variants((1, 2, 3)), None, saved)
        ),
        "batches",
        _acknowledged,
    ),
    "hwm_parking": Engine(
        lambda: HwmParking(CONTROLLER, VOTERS, parking_variants()), "simulated FETCHes", _simulated
    ),
    "lowest_acked_offset": Engine(
        lambda: LowestAckedOffset(VOTERS, (), 2000), "heartbeats", lambda rows: int(rows.num_rows)
    ),
}


def batches_of(batch_of: Callable[[Any], pa.RecordBatch], rows: Sequence[Any]) -> Batches:
    """Rows in batches as large as those that engines hand to rules."""
    return [batch_of(rows[i : i + ROWS]) for i in range(0, len(rows), ROWS)]


def _inputs(less: int) -> Mapping[str, Mapping[str, Batches]]:
    """What each rule is fed, generated and recorded."""
    return {
        "incremental_fetch": {
            "KIP-227, 10,000 partitions, 1 % active, full FETCHes": fetches_of(
                Example(10_000, 100, 8, False)
            ),
            "the same, incremental": fetches_of(Example(10_000, 100, 300 // less, True)),
            f"recorded: {SESSIONS}, full FETCHes": [naive_fetches.fetches_of(SESSIONS, BROKER)],
            f"recorded: {IN_SESSIONS}, incremental FETCHes of 1 to 5 partitions": [
                naive_fetches.fetches_of(IN_SESSIONS, BROKER)
            ],
        },
        "min_isr_acks": {
            f"recorded: {ACKS}, leader {LEADER}": batches_of(
                leader_batch, naive_leader_log.events_of(ACKS)[LEADER]
            )
        },
        "hwm_parking": {
            f"recorded: {METADATA}, controller {CONTROLLER}": batches_of(
                recorded.batch_of, naive_log.recording(METADATA).fetches[CONTROLLER]
            )
        },
        "lowest_acked_offset": {
            f"recorded: {METADATA}": batches_of(
                heartbeats.batch_of, naive_heartbeats.observed(METADATA).events
            )
        },
    }


def rates(quick: bool, seconds: float) -> list[Rate]:
    """Every rule on generated and on recorded input; inputs of a quick run are smaller."""
    return [
        _rate(rule, what, batches, seconds)
        for rule, of in _inputs(5 if quick else 1).items()
        for what, batches in of.items()
    ]


def _rate(rule: str, what: str, batches: Batches, seconds: float) -> Rate:
    engine = ENGINES[rule]
    taken: list[float] = []
    while sum(taken) < seconds or len(taken) < 3:
        begin = time.perf_counter()
        replay = engine.start()
        emitted = [*map(replay.feed, batches), replay.finish()]
        taken.append(time.perf_counter() - begin)
    median = statistics.median(taken)
    units = engine.units_of(pa.Table.from_batches([tables[0] for tables in emitted]))
    rows = sum(batch.num_rows for batch in batches)
    return Rate(rule, what, engine.unit, units, units / median, rows / median)
