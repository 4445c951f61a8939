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
from .kip_227 import NODE_ID, Example

Batches = Sequence[pa.RecordBatch]
VOTERS = (1, 2, 3)
INTERVALS_MS = (100, 500, 1000, 2000)
#: A controller's FETCHes, and all leaders' batches: the busiest of the recordings.
METADATA, CONTROLLER = "metadata-4.1", 2
ACKS, LEADER = "acks-two-replicas", 11
SESSIONS, IN_SESSIONS, BROKER = "sessions-off", "mixed-4.2", 11


class Engine(NamedTuple):
    """A rule and what it is fed. ``units_of`` counts, in all that one replay hands out."""

    rule: str
    what: str
    unit: str
    goal: float
    start: Callable[[], Replay]
    batches: Batches
    units: int


class Rate(NamedTuple):
    rule: str
    what: str
    unit: str
    goal: float
    per_second: float
    rows_per_second: float
    units: int


def rates(quick: bool, seconds: float) -> list[Rate]:
    """Every rule on generated and on recorded input."""
    return [_rate(engine, seconds) for engine in engines(quick)]


def engines(quick: bool) -> list[Engine]:
    """What is measured; inputs of a quick run are smaller."""
    less = 5 if quick else 1
    return [
        *_incremental_fetch(less),
        *_min_isr_acks(less),
        *_hwm_parking(less),
        *_lowest_acked_offset(less),
    ]


def _rate(engine: Engine, seconds: float) -> Rate:
    taken: list[float] = []
    while sum(taken) < seconds or len(taken) < 3:
        begin = time.perf_counter()
        _replayed(engine.start(), engine.batches)
        taken.append(time.perf_counter() - begin)
    median = statistics.median(taken)
    rows = sum(batch.num_rows for batch in engine.batches)
    return Rate(
        engine.rule,
        engine.what,
        engine.unit,
        engine.goal,
        engine.units / median,
        rows / median,
        engine.units,
    )


def _replayed(replay: Replay, batches: Batches) -> list[Sequence[pa.RecordBatch]]:
    return [*(replay.feed(batch) for batch in batches), replay.finish()]


def _outcomes(replay: Replay, batches: Batches, position: int = 0) -> pa.Table:
    """All rows of one outcome table, to count units in."""
    handed_out = [batches[position] for batches in _replayed(replay, batches)]
    return pa.Table.from_batches(handed_out)


# --- the four rules ------------------------------------------------------------------------------


def _incremental_fetch(less: int) -> list[Engine]:
    examples = {
        "KIP-227, 10,000 partitions, 1 % active, full FETCHes": Example(10_000, 100, 8, False),
        "the same, incremental": Example(10_000, 100, 300 // less, True),
    }
    batches: dict[str, Batches] = {}
    for what, example in examples.items():
        fetches = inputs.fetches_of(example)
        batches[what] = [*fetches.first, *fetches.then]
    batches[f"recorded: {SESSIONS}, full FETCHes"] = [naive_fetches.fetches_of(SESSIONS, BROKER)]
    in_sessions = naive_fetches.fetches_of(IN_SESSIONS, BROKER)
    batches[f"recorded: {IN_SESSIONS}, incremental FETCHes of 1 to 5 partitions"] = [in_sessions]
    return [
        Engine(
            "incremental_fetch",
            what,
            "partition-states",
            20e6,
            _start_fetches,
            fed,
            _partition_states(fed),
        )
        for what, fed in batches.items()
    ]


def _start_fetches() -> Replay:
    return IncrementalFetch(NODE_ID)


def _partition_states(batches: Batches) -> int:
    """What full FETCHes would list, all FETCHes together."""
    rows = _outcomes(_start_fetches(), batches)
    full = rows.filter(pc.equal(rows.column("variant"), "full"))
    return int(pc.sum(full.column("request_partitions")).as_py())


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

    return [
        Engine(
            "min_isr_acks",
            what,
            "batches",
            5e6,
            start,
            fed,
            _distinct(_outcomes(start(), fed), ["request_id", "partition"]),
        )
        for what, fed in batches.items()
    ]


def _distinct(rows: pa.Table, columns: list[str]) -> int:
    return int(rows.group_by(columns).aggregate([]).num_rows)


def _hwm_parking(less: int) -> list[Engine]:
    fetches = naive_log.recording(METADATA).fetches[CONTROLLER]
    batches = {
        "generated: 5 replicas of a 4.0 cluster": inputs.metadata_fetches(5, 2_000 // less),
        "generated: 30 replicas of a 4.0 cluster": inputs.metadata_fetches(30, 400 // less),
        f"recorded: {METADATA}, controller {CONTROLLER}": [recorded.batch_of(fetches)],
    }

    def start() -> Replay:
        return HwmParking(CONTROLLER, VOTERS, parking_variants())

    return [
        Engine(
            "hwm_parking",
            what,
            "simulated FETCHes",
            # An hour of a controller of 1,000 brokers, 2.4 appends a second, in 15 minutes.
            29e3,
            start,
            fed,
            _simulated(_outcomes(start(), fed)),
        )
        for what, fed in batches.items()
    ]


def _simulated(rows: pa.Table) -> int:
    return int(rows.filter(pc.not_equal(rows.column("variant"), "recorded")).num_rows)


def _lowest_acked_offset(less: int) -> list[Engine]:
    observed = naive_heartbeats.observed(METADATA).events
    batches = {
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
    return [
        *(
            Engine("lowest_acked_offset", what, "heartbeats", 1e6, start, fed, _heartbeats(fed))
            for what, fed in batches.items()
        ),
        *(
            Engine(
                "lowest_acked_offset",
                what,
                "simulated heartbeats",
                1e6,
                start_sweep,
                fed,
                times * _heartbeats(fed),
            )
            for what, fed in sweeps.items()
        ),
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
