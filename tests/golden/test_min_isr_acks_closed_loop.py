"""Producers that react, held against real brokers.

acks-open and acks-open-minisr are the same producers, which send whether they have a response or
not, on brokers without and with KIP-926; in acks-two-replicas acks=all waits for as many replicas
as acks=min.insync.replicas does in acks-slow-follower. ``make docs`` prints the figures.
"""

from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS, variants
from kip_replay.replay.min_isr_acks.closed_loop_replay import ProducersReact
from kip_replay.replay.min_isr_acks.events import batch_of
from kip_replay.replay.min_isr_acks.replay import MinIsrAcks

from .naive_leader_log import events_of
from .naive_log import percentile

pytestmark = pytest.mark.golden

Row = dict[str, Any]


def replay(recording: str, node: int, size: int = 1500, *, saves: bool = False) -> list[Row]:
    """Rows of a leader, its log in increments of so many events; ``saves``: begun anew at each."""
    events = events_of(recording)[node]
    react = started(node)
    emitted: list[pa.RecordBatch] = []
    for begin, end in pairwise([*range(0, len(events), size), len(events)]):
        if saves:
            react = started(node, react.saved())
        emitted.append(react.feed(batch_of(events[begin:end]))[1])
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


@pytest.mark.parametrize("node", [11, 12])
@pytest.mark.parametrize(
    ("before", "after", "variant"),
    [
        ("acks-open", "acks-open-minisr", ACKS_MIN_INSYNC_REPLICAS),
        ("acks-open-minisr", "acks-open", ACKS_ALL),
        ("acks-open-minisr", "acks-open-minisr", ACKS_MIN_INSYNC_REPLICAS),
        pytest.param("acks-two-replicas", "acks-two-replicas", ACKS_ALL, marks=pytest.mark.slow),
    ],
)
def test_producers_wait_as_long_as_they_did(
    before: str, after: str, variant: str, node: int
) -> None:
    predicted, real = waits(rows_of(before, node), variant), recorded(after, node)
    assert percentile(predicted, 0.5) == pytest.approx(percentile(real, 0.5), rel=0.08, abs=0.5)
    assert percentile(predicted, 0.9) == pytest.approx(percentile(real, 0.9), rel=0.15)


@pytest.mark.slow
def test_a_jvm_that_is_cold_is_predicted_cold() -> None:
    """A seventh of the requests were recorded: the first as many on the other cluster took 8.4 ms
    (p50), all of them 3.0; the replay has only the cold ones to go by."""
    predicted = waits(rows_of("acks-slow-follower", 12), ACKS_MIN_INSYNC_REPLICAS)
    real = recorded("acks-two-replicas", 12)
    assert (
        percentile(real, 0.5) < percentile(predicted, 0.5) < percentile(real[: len(predicted)], 0.5)
    )


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
