"""PRODUCEs that wait for replicas."""

import random
from functools import cache
from typing import Any

from small_tables import latencies

from constructed import Row, at, row, rule_steps
from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.min_isr_acks.outcomes import (
    PRODUCE_ACK_OUTCOMES,
    PRODUCE_CLOSED_LOOP_OUTCOMES,
)
from kip_replay.replay.min_isr_acks.registration import RULE as MIN_ISR_ACKS
from kip_replay.replay.outcomes import Verdict
from kip_replay.replay.table import Table
from kip_replay.replay.tables import LATENCY_SUMMARY

STEPS = rule_steps(MIN_ISR_ACKS.name)
#: three: waits for fewer than its ISR. two and alone: acks=all waits for just as many. blind: the
#: log tells no ISR. asked: nobody waited for replicas. early: its brokers have the KIP.
ISR = {
    "three": [11, 12, 13],
    "two": [11, 12],
    "alone": [11, 12],
    "blind": None,
    "asked": None,
    "early": [11, 12, 13],
}
RECORDINGS = tuple(ISR)


def produce(recording: str, second: float, partition: int, ms: Row, **values: object) -> Row:
    """A partition of a PRODUCE whose latencies (ms) are recorded, acks_all and min_isr."""
    bounds = {
        f"request_{of}_latency_{end}_ms": None if ms[of] is None else ms[of] + d
        for of in ("acks_all", "min_isr")
        for end, d in (("earliest", -0.5), ("latest", 0.5))
    }
    usual: Row = {"rule": MIN_ISR_ACKS.name, "variant": ACKS_MIN_INSYNC_REPLICAS}
    usual |= {"recording": recording, "node_id": 11, "topic": "t", "partition": partition}
    usual |= {"received_at": at(second), "acks": -1, "isr": ISR[recording]}
    usual |= {"min_insync_replicas": 2, "recorded_error": 0, "acks_all_error": 0}
    usual |= {"min_isr_error": 0, **bounds}
    usual["exposure_ms"] = None if ms["min_isr"] is None else ms["acks_all"] - ms["min_isr"]
    usual |= {f"{of}_{name}_latency_ms": ms[name] for of in ("partition", "request") for name in ms}
    return row(PRODUCE_ACK_OUTCOMES, **(usual | values))


def drawn(dice: random.Random, wait_us: int) -> Row:
    """Latencies in ms: acks=all near the recorded one, but not always; acks=-2 sooner."""
    recorded = dice.randint(2_000, wait_us)
    replayed = max(1_500, recorded + dice.choice([0, 0, 300, -1_999, 2_000, 2_001, 9_000]))
    few = dice.randint(1_000, replayed)
    return {"recorded": recorded / 1000, "acks_all": replayed / 1000, "min_isr": few / 1000}


def drawn_early(dice: random.Random, wait_us: int) -> Row:
    """The same of brokers that respond early."""
    ms = drawn(dice, wait_us)
    return ms | {"recorded": ms["min_isr"] + dice.choice([0.0, 1.5, 2.5])}


UNKNOWN: Row = {"recorded": 5.0, "acks_all": None, "min_isr": None}
NOT_REPLAYED: Row = {
    "verdict": Verdict.UNKNOWN.value,
    "reason": "isr",
    "acks_all_error": None,
    "min_isr_error": None,
}


def history(recording: str, wait_us: int, drawing: Any = drawn) -> list[Row]:
    """Single PRODUCEs of partitions 0 (many), 1 (30 with those not known) and 2 (29)."""
    dice = random.Random(recording)
    rows = []
    for partition, produces, unknown in ((0, 40, 1), (1, 30, 4), (2, 29, 0)):
        for number in range(produces):
            ms, more = (UNKNOWN, NOT_REPLAYED) if number < unknown else (drawing(dice, wait_us), {})
            second = dice.randint(0, 120_000) / 1000
            rows.append(produce(recording, second, partition, ms, **more))
    return rows


def odd_ones(recording: str) -> list[Row]:
    """What is refused, times out, waits for nobody, does not apply, or belongs to a sweep."""
    ms = {"recorded": 7.0, "acks_all": 7.5, "min_isr": 1.25}
    dark = {"recorded": 7.0, "acks_all": 7.5, "min_isr": None}
    refused = {"recorded_error": 19, "acks_all_error": 19, "min_isr_error": 19}
    both = {
        "request_id": f"{recording} of two partitions",
        "partition_recorded_latency_ms": None,
        "request_min_isr_latency_ms": None,
        "exposure_ms": None,
    }
    sweep = {"parameter": "min_insync_replicas"}
    far = {"recorded": 999.0, "acks_all": 999.0, "min_isr": 999.0}
    not_applicable = {"verdict": Verdict.NOT_APPLICABLE.value, "reason": "no log"}
    return [
        produce(recording, 1, 3, ms, exposure_ms=None, **refused),
        # The whole ISR never had it: how long it was exposed is not known.
        produce(recording, 2, 3, ms, exposure_ms=None, acks_all_error=7, recorded_error=7),
        produce(recording, 3, 3, ms, acks_all_error=7),
        produce(recording, 4, 3, far | {"recorded": None}, recorded_error=None, node_id=12),
        # Partition 1 has its early ack in the dark, so nobody knows when the request is answered.
        produce(recording, 5, 0, ms, **both),
        produce(recording, 5, 1, dark, **both, **NOT_REPLAYED),
        produce(recording, 6, 0, far, acks=1),
        produce(recording, 7, 0, far, **not_applicable),
        produce(recording, 8, 0, ms | {"min_isr": 0.5}, parameter_value=1, **sweep),
        produce(recording, 9, 0, ms | {"min_isr": 7.5}, parameter_value=3, **sweep),
        produce(recording, 9.5, 0, UNKNOWN, parameter_value=3, **sweep, **NOT_REPLAYED),
    ]


ROWS = [
    *history("three", 60_000),
    *odd_ones("three"),
    *history("two", 9_000),
    *odd_ones("two"),
    # One PRODUCE only: no rate follows from it.
    produce("alone", 5, 0, {"recorded": 4.0, "acks_all": 4.5, "min_isr": 4.5}),
    *(produce("blind", second, 0, UNKNOWN, **NOT_REPLAYED) for second in range(40)),
    *history("early", 60_000, drawn_early),
    *(produce("asked", second, 0, drawn(random.Random(1), 9_000), acks=1) for second in (1, 3)),
]


LATENCIES = ("latency_ms", "latency_sent_earliest_ms", "latency_sent_latest_ms")


def reactions(waited: Row) -> list[Row]:
    """The same PRODUCE in a cluster whose producers react, under both variants."""
    dice = random.Random("{recording} {received_at} {partition}".format_map(waited))
    recorded = waited["request_recorded_latency_ms"]
    usual = {name: waited[name] for name in ("recording", "rule", "request_id", "node_id")} | {
        "is_own": dice.random() < 0.3,
        "recorded_received_at": waited["received_at"],
        "request_recorded_latency_ms": recorded,
    }
    unknown = {"verdict": Verdict.UNKNOWN.value, "reason": "isr"}
    return [
        row(
            PRODUCE_CLOSED_LOOP_OUTCOMES,
            **usual,
            variant=variant,
            **{name: dice.randint(1_000, 20_000) / 1000 for name in LATENCIES}
            if waited["verdict"] == Verdict.REPLAYED.value
            else unknown,
        )
        for variant in (ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS)
    ]


REACTION_ROWS = [
    reaction
    for r in ROWS
    if (r["acks"], r["parameter"], r["partition"] < 3) == (-1, "none", True)
    and "two partitions" not in r["request_id"]
    for reaction in reactions(r)
]
OUTCOMES = {PRODUCE_ACK_OUTCOMES: ROWS, PRODUCE_CLOSED_LOOP_OUTCOMES: REACTION_ROWS}


@cache
def tables() -> dict[Table, list[Row]]:
    return {PRODUCE_ACK_OUTCOMES: ROWS, LATENCY_SUMMARY: latencies(STEPS, OUTCOMES, RECORDINGS)}
