"""Rates of the rules in pure ``replay/``: one core, Arrow batches in, Arrow batches out.

Each measurement starts a new replay, feeds it batches that were made before, and takes what it
hands out; it is repeated until ``seconds`` have passed, and the rate is units over time. Units are
counted in the input or the rows, as goals are stated.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from golden import naive_fetches, naive_heartbeats, naive_leader_log, naive_log
from notation import heartbeats, recorded

from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP, HwmParking
from kip_replay.replay.hwm_parking import variants as parking_variants
from kip_replay.replay.incremental_fetch import IncrementalFetch
from kip_replay.replay.lowest_acked_offset import ORDER, LowestAckedOffset, events
from kip_replay.replay.min_isr_acks import variants as ack_variants
from kip_replay.replay.min_isr_acks.events import batch_of as leader_batch
from kip_replay.replay.min_isr_acks.replay import MinIsrAcks
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.rule import Replay

from . import inputs
from .kip_227 import Example, fetches_of

Batches = Sequence[pa.RecordBatch]
VOTERS = (1, 2, 3)
INTERVALS_MS = (100, 500, 1000, 2000)
#: A controller's FETCHes, and all leaders' batches: the busiest of the recordings.
METADATA, CONTROLLER = "metadata-4.1", 2
ACKS, LEADER = "acks-two-replicas", 11
SESSIONS, IN_SESSIONS, BROKER = "sessions-off", "mixed-4.2", 11


class Engine(NamedTuple):
    """A rule and what it is fed; ``units`` are in all that one replay returns."""

    rule: str
    what: str
    unit: str
    start: Callable[[], Replay]
    batches: Batches
    units: int


class Rate(NamedTuple):
    engine: Engine
    per_second: float
    rows_per_second: float


def rates(quick: bool, seconds: float) -> list[Rate]:
    """Every rule on generated and on recorded input; inputs of a quick run are smaller."""
    less = 5 if quick else 1
    rules = (_incremental_fetch, _min_isr_acks, _hwm_parking, _lowest_acked_offset)
    return [_rate(engine, seconds) for rule in rules for engine in rule(less)]


def _rate(engine: Engine, seconds: float) -> Rate:
    taken: list[float] = []
    while sum(taken) < seconds or len(taken) < 3:
        begin = time.perf_counter()
        _replayed(engine.start(), engine.batches)
        taken.append(time.perf_counter() - begin)
    median = statistics.median(taken)
    rows = sum(batch.num_rows for batch in engine.batches)
    return Rate(engine, engine.units / median, rows / median)


def _replayed(replay: Replay, batches: Batches) -> list[Sequence[pa.RecordBatch]]:
    return [*(replay.feed(batch) for batch in batches), replay.finish()]


def _outcomes(replay: Replay, batches: Batches) -> pa.Table:
    """All rows of the first outcome table, to count units in."""
    return pa.Table.from_batches([tables[0] for tables in _replayed(replay, batches)])


# --- the four rules ------------------------------------------------------------------------------


def _incremental_fetch(less: int) -> list[Engine]:
    examples = {
        "KIP-227, 10,000 partitions, 1 % active, full FETCHes": Example(10_000, 100, 8, False),
        "the same, incremental": Example(10_000, 100, 300 // less, True),
    }
    batches: dict[str, Batches]
    batches = {what: fetches_of(example) for what, example in examples.items()}
    batches[f"recorded: {SESSIONS}, full FETCHes"] = [naive_fetches.fetches_of(SESSIONS, BROKER)]
    in_sessions = naive_fetches.fetches_of(IN_SESSIONS, BROKER)
    batches[f"recorded: {IN_SESSIONS}, incremental FETCHes of 1 to 5 partitions"] = [in_sessions]

    def start() -> Replay:
        return IncrementalFetch(BROKER)

    def partition_states(fed: Batches) -> int:
        """What full FETCHes would list, all FETCHes together."""
        full = _outcomes(start(), fed).filter(pc.field("variant") == "full")
        return int(pc.sum(full.column("request_partitions")).as_py())

    return [
        Engine("incremental_fetch", what, "partition-states", start, fed, partition_states(fed))
        for what, fed in batches.items()
    ]


def _min_isr_acks(less: int) -> list[Engine]:
    recorded_events = naive_leader_log.events_of(ACKS)[LEADER]
    batches = {
        "generated: 100 partitions, 10 to a PRODUCE, two followers": inputs.produces(
            100, 200 // less
        ),
        # Its 20 s let batches settle on the way, as they do in any log of more than seconds.
        "the same, five times as long": inputs.produces(100, 1_000 // less),
        f"recorded: {ACKS}, leader {LEADER}": [leader_batch(recorded_events)],
    }

    def start() -> Replay:
        return MinIsrAcks(LEADER, ack_variants())

    def acknowledged(fed: Batches) -> int:
        rows = _outcomes(start(), fed).group_by(["request_id", "partition"])
        return int(rows.aggregate([]).num_rows)

    return [
        Engine("min_isr_acks", what, "batches", start, fed, acknowledged(fed))
        for what, fed in batches.items()
    ]


def _hwm_parking(less: int) -> list[Engine]:
    fetches = naive_log.recording(METADATA).fetches[CONTROLLER]
    batches = {
        "generated: 5 replicas of a 4.0 cluster": inputs.metadata_fetches(5, 2_000 // less),
        "generated: 30 replicas of a 4.0 cluster": inputs.metadata_fetches(30, 400 // less),
        f"recorded: {METADATA}, controller {CONTROLLER}": [recorded.batch_of(fetches)],
    }

    def start() -> Replay:
        return HwmParking(CONTROLLER, VOTERS, parking_variants())

    def simulated(fed: Batches) -> int:
        return int(_outcomes(start(), fed).filter(pc.field("variant") != "recorded").num_rows)

    return [
        Engine("hwm_parking", what, "simulated FETCHes", start, fed, simulated(fed))
        for what, fed in batches.items()
    ]


def _lowest_acked_offset(less: int) -> list[Engine]:
    observed = naive_heartbeats.observed(METADATA).events
    batches: dict[str, Batches] = {
        "generated: 3 brokers": inputs.broker_heartbeats(3, 2_000 // less),
        "generated: 100 brokers": inputs.broker_heartbeats(100, 200 // less),
        f"recorded: {METADATA}": inputs.event_batches(observed),
    }

    def start() -> Replay:
        return LowestAckedOffset(VOTERS, (), 2000)

    def start_sweep() -> Replay:
        return LowestAckedOffset(VOTERS, INTERVALS_MS, 2000)

    # Each recorded heartbeat is simulated so often, under three variants.
    times = 3 * sum(2000 // interval_ms for interval_ms in INTERVALS_MS)
    sweeps = {
        "generated: 3 brokers at four intervals": _learning(3, 1_000 // less),
        "generated: 100 brokers at four intervals": _learning(100, 50 // less),
    }
    measured = [
        ("heartbeats", 1, start, batches),
        ("simulated heartbeats", times, start_sweep, sweeps),
    ]
    return [
        Engine("lowest_acked_offset", what, unit, begin, fed, each * _heartbeats(fed))
        for unit, each, begin, inputs_of in measured
        for what, fed in inputs_of.items()
    ]


def _learning(brokers: int, rounds: int) -> Batches:
    """Heartbeats of brokers that learn of each commit, without KIP-1166 250 ms later.

    They learn of all that a heartbeat of ``broker_heartbeats`` reports, and of no more, before it.
    """
    batches = inputs.broker_heartbeats(brokers, rounds)
    fetches = pa.Table.from_batches(batches).filter(pc.field("kind") == events.FETCH).to_pylist()
    commits = {fetch["offset"]: fetch["dequeued_us"] / 1000 for fetch in reversed(fetches)}
    learned = [
        heartbeats.learned(11 + broker, at + 2_000 + broker % 7 + later, offset, variant)
        for offset, at in commits.items()
        for broker in range(brokers)
        for variant, later in ((RECORDED, 0), (WITHOUT_KIP, 250), (WITH_KIP, 0))
    ]
    table = pa.Table.from_batches([*batches, *inputs.event_batches(learned)])
    table = table.sort_by([(name, "ascending") for name in ORDER])
    return [*table.combine_chunks().to_batches(inputs.ROWS)]


def _heartbeats(batches: Batches) -> int:
    kinds = pa.chunked_array([batch.column("kind") for batch in batches])
    return int(pc.sum(pc.equal(kinds, events.HEARTBEAT)).as_py())
