"""Producers that react, held against real brokers.

acks-open and acks-open-minisr are the same producers, which send whether they have a response or
not, on brokers without and with KIP-926; in acks-varying-open and acks-varying-open-minisr the
distances of followers change every few seconds beside. In acks-two-replicas acks=all waits for as
many replicas as acks=min.insync.replicas does in acks-slow-follower. ``make docs`` prints the
figures.
"""

from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS, variants
from kip_replay.replay.min_isr_acks.closed_loop_replay import COLD, ProducersReact
from kip_replay.replay.min_isr_acks.events import batch_of
from kip_replay.replay.min_isr_acks.reasons import LOG_ENDED
from kip_replay.replay.min_isr_acks.replay import MinIsrAcks

from .naive_leader_log import events_of
from .naive_log import percentile

pytestmark = pytest.mark.golden

Row = dict[str, Any]


def replay(recording: str, node: int, size: int = 1500, *, saves: bool = False) -> list[Row]:
    """Rows of a leader, its log in increments of so many events; ``saves``: begun anew at each."""
    every = events_of(recording)[node]
    names = [event for event in every if event.kind == "topic"]
    events = every[len(names) :]
    react = started(node)
    emitted: list[pa.RecordBatch] = []
    for begin, end in pairwise([*range(0, len(events), size), len(events)]):
        if saves:
            react = started(node, react.saved())
        emitted.append(react.feed(batch_of([*names, *events[begin:end]]))[1])
    emitted.append(react.finish()[1])
    rows: list[Row] = pa.Table.from_batches(emitted).to_pylist()
    return rows


def started(node: int, saved: bytes | None = None) -> ProducersReact:
    return ProducersReact(node, lambda begun: MinIsrAcks(node, variants(), 2, begun), saved)


@cache
def rows_of(recording: str, node: int) -> list[Row]:
    return replay(recording, node)


def waits(rows: Iterable[Row], variant: str, column: str = "latency_ms") -> list[float]:
    return [r[column] for r in rows if r["variant"] == variant and r[column] is not None]


def recorded(recording: str, node: int) -> list[float]:
    return waits(rows_of(recording, node), ACKS_ALL, "request_recorded_latency_ms")


def of_leaders(recording: str, *nodes: int, fast: bool = False) -> list[Any]:
    marks = () if fast else pytest.mark.slow
    return [pytest.param(recording, node, marks=marks) for node in nodes]


@pytest.mark.parametrize(
    ("recording", "node"),
    [
        *of_leaders("acks-open", 11, 12),
        *of_leaders("acks-open-minisr", 11, 12),
        *of_leaders("acks-varying", 11, 12),
        *of_leaders("acks-varying-open", 11, 12, fast=True),
        *of_leaders("acks-varying-open-minisr", 11, 12),
        *of_leaders("acks-slow-follower", 11, 12, fast=True),
        *of_leaders("acks-two-replicas", 11, 12),
        *of_leaders("acks-not-enough", 11),
        *of_leaders("mixed-4.2", 11, 12),
    ],
)
def test_the_recorded_cluster_is_predicted_from_its_own_log(recording: str, node: int) -> None:
    variant = ACKS_MIN_INSYNC_REPLICAS if recording.endswith("minisr") else ACKS_ALL
    predicted, real = waits(rows_of(recording, node), variant), recorded(recording, node)
    assert len(real) >= 300
    assert percentile(predicted, 0.5) == pytest.approx(percentile(real, 0.5), rel=0.1)
    assert percentile(predicted, 0.9) == pytest.approx(percentile(real, 0.9), rel=0.15)


@pytest.mark.slow
def test_transactions_wait_for_their_coordinator_before_the_append() -> None:
    predicted, real = waits(rows_of("mixed-4.2", 13), ACKS_ALL), recorded("mixed-4.2", 13)
    assert percentile(predicted, 0.5) == pytest.approx(percentile(real, 0.5), rel=0.1)
    assert percentile(predicted, 0.9) == pytest.approx(percentile(real, 0.9), rel=0.15)


@pytest.mark.parametrize("node", [11, 12])
@pytest.mark.parametrize(
    ("before", "after", "variant", "p50"),
    [
        ("acks-open", "acks-open-minisr", ACKS_MIN_INSYNC_REPLICAS, 0.08),
        ("acks-open-minisr", "acks-open", ACKS_ALL, 0.08),
        # With acks=all brokers were slower in the first eight seconds, all of them.
        ("acks-varying-open", "acks-varying-open-minisr", ACKS_MIN_INSYNC_REPLICAS, 0.2),
        ("acks-varying-open-minisr", "acks-varying-open", ACKS_ALL, 0.08),
    ],
)
def test_producers_wait_as_long_as_they_did(
    before: str, after: str, variant: str, p50: float, node: int
) -> None:
    predicted, real = waits(rows_of(before, node), variant), recorded(after, node)
    assert percentile(predicted, 0.5) == pytest.approx(percentile(real, 0.5), rel=p50, abs=0.5)
    assert percentile(predicted, 0.9) == pytest.approx(percentile(real, 0.9), rel=0.15)


def test_two_replicas_are_predicted_from_three() -> None:
    """At five times the load, which the log does not tell, more batches wait for the next FETCH."""
    predicted = waits(rows_of("acks-slow-follower", 11), ACKS_MIN_INSYNC_REPLICAS)
    real = recorded("acks-two-replicas", 11)
    assert percentile(predicted, 0.5) == pytest.approx(percentile(real, 0.5), rel=0.1)
    assert percentile(predicted, 0.9) == pytest.approx(percentile(real, 0.9), rel=0.15)


def test_what_a_cold_jvm_would_do_at_another_load_is_unknown() -> None:
    """Its followers fetched 347 times; with two replicas 2,369 times, and three times as fast."""
    rows = rows_of("acks-slow-follower", 12)
    of_variant = [row for row in rows if row["variant"] == ACKS_MIN_INSYNC_REPLICAS]
    assert {row["reason"] for row in of_variant} == {COLD, LOG_ENDED}
    assert not waits(rows, ACKS_MIN_INSYNC_REPLICAS)


@pytest.mark.parametrize(
    ("recording", "node"),
    [("acks-not-enough", 11), pytest.param("mixed-4.2", 12, marks=pytest.mark.slow)],
)
def test_rows_follow_from_the_log_alone(recording: str, node: int) -> None:
    """Whatever the increments, and whether a state was saved between them."""

    def in_order(rows: list[Row]) -> list[Row]:
        return sorted(rows, key=lambda r: (r["variant"], r["request_id"]))

    whole = in_order(rows_of(recording, node))
    assert in_order(replay(recording, node, 10**9)) == whole
    assert in_order(replay(recording, node, 700, saves=True)) == whole
