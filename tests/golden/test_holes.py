"""Recordings from which lines are taken: what is still said is what the whole log says.

Of a row of both, each column is equal, or the row is ``unknown``; ``LEFT_OPEN`` are columns whose
null says that the log can't tell. Without knowing of the hole, rows would differ.
"""

from collections.abc import Sequence
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kip_replay.replay.incremental_fetch import IncrementalFetch
from kip_replay.replay.incremental_fetch import holes as of_broker
from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.min_isr_acks.holes import NO_HOLES, Holes

from .damaged import Row, compared
from .naive_fetches import fetches_of
from .naive_leader_log import events_in, events_of, replay
from .naive_log import lines_of_recording

pytestmark = pytest.mark.golden

CONTROLLERS, NODES = (1, 2, 3), (1, 2, 3, 11, 12, 13)
#: Not known where the row is known: the next append, when consumers saw it, requests in a session.
LEFT_OPEN = {
    "last_offset",
    "visible_at",
    "session_epoch",
    "session_partitions",
    "added_partitions",
    "session_id",
}
_SECOND_US = 1_000_000


def same_or_open(row: Row, other: Row) -> bool:
    """Equal but for nulls that say so, and the key of a session whose first FETCH is missing."""
    differs = {name for name in row if row[name] != other[name]}
    if "session_key" in differs and row["session_key"].endswith("before the log"):
        differs.remove("session_key")
    return all(name in LEFT_OPEN and row[name] is None for name in differs)


ACKS = itemgetter("parameter_value", "request_id", "topic", "partition")


@pytest.mark.parametrize(
    ("nodes", "since_s", "span_s", "different", "unknown"),
    [
        # Broker 13 stops: its heartbeats, and the ISR that it leaves, are in the hole.
        pytest.param((1,), 25.6, 2, 340, 600, id="active controller"),
        pytest.param((11,), 25.6, 2, 0, 250, id="leader"),
        # Broker 12 comes back in it, so that more than idle records are written.
        pytest.param(NODES, 40, 2, 0, 1100, id="all nodes"),
    ],
)
def test_acks_are_those_of_the_whole_log_or_unknown(
    nodes: Sequence[int], since_s: float, span_s: float, different: int, unknown: int
) -> None:
    lines, leader = lines_of_recording("acks-not-enough"), 11
    since_us = min(line.received_us for line in lines) + round(since_s * _SECOND_US)
    until_us = since_us + round(span_s * _SECOND_US)
    kept = [
        line
        for line in lines
        if line.node_id not in nodes or not since_us <= line.completed_us <= until_us
    ]
    events = events_in(kept)[leader]
    holes = Holes.of(leader, [LogGap(node, since_us, until_us) for node in nodes], CONTROLLERS)
    whole = replay(leader, events_of("acks-not-enough")[leader])
    unaware, aware = (
        compared(whole, replay(leader, events, holes=one), ACKS, same_or_open)
        for one in (NO_HOLES, holes)
    )
    was_unknown = sum(row["verdict"] == "unknown" for row in whole)
    assert unaware["different"] >= different
    assert aware.keys() <= {"equal", "unknown"}
    assert aware["unknown"] - was_unknown <= unknown


FETCHES = itemgetter("variant", "parameter_value", "request_id", "attempt")


@pytest.mark.parametrize(
    ("recording", "different", "unknown"), [("sessions-on", 70, 500), ("sessions-off", 200, 30)]
)
def test_fetches_are_those_of_the_whole_log_or_unknown(
    recording: str, different: int, unknown: int
) -> None:
    node, batch = 12, fetches_of(recording, 12)
    built_us = batch.column("built_us")
    since_us = int(pc.quantile(built_us, 0.4)[0].as_py())
    gap = LogGap(node, since_us, since_us + 2 * _SECOND_US)
    is_lost = pc.and_(
        pc.greater_equal(built_us, gap.after_us), pc.less_equal(built_us, gap.before_us)
    )
    kept, whole = batch.filter(pc.invert(is_lost)), rows_of(batch, of_broker.NO_HOLES)
    unaware, aware = (
        compared(whole, rows_of(kept, holes), FETCHES, same_or_open)
        for holes in (of_broker.NO_HOLES, of_broker.Holes([gap]))
    )
    assert unaware["different"] >= different
    assert aware.keys() <= {"equal", "unknown"}
    assert aware["unknown"] - unaware["unknown"] <= unknown


def rows_of(batch: pa.RecordBatch, holes: of_broker.Holes) -> list[Row]:
    replay = IncrementalFetch(12, holes=holes)
    emitted = [replay.feed(batch).outcomes, replay.finish().outcomes]
    return [row for each in emitted for row in each.to_pylist()]
