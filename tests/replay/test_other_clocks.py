"""What becomes of outcomes where clocks are apart."""

from typing import Any

import pyarrow as pa
import pytest

from kip_replay.replay.other_clocks import CLOCKS_DIFFER, Comparison, times_of
from kip_replay.replay.outcomes import Verdict
from kip_replay.replay.rule import Rule, Settings
from kip_replay.replay.rules import RULES
from kip_replay.replay.table import INT, MS, RECORDING, VERDICT, Column, Table

ECHO = Table(
    "echo",
    "what was fed",
    (RECORDING, Column("source_id", INT, ""), Column("wait_ms", MS, ""), *VERDICT),
    key=("recording",),
)
EVENTS = [(None, "fetch"), (12, "fetch"), (12, "metadata"), (13, "metadata")]


class Echo:
    """Emits a row for each event."""

    def feed(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        rows = [
            {"source_id": node, "wait_ms": 5.0, "verdict": Verdict.REPLAYED.value}
            for node in batch.column("source_id").to_pylist()
        ]
        return [pa.RecordBatch.from_pylist(rows, ECHO.without("recording"))]

    def finish(self) -> list[pa.RecordBatch]:
        unknown = {"verdict": Verdict.UNKNOWN.value, "reason": "the log ended"}
        return [pa.RecordBatch.from_pylist([unknown], ECHO.without("recording"))]

    def saved(self) -> bytes:
        return b""


def rule(**more: Any) -> Rule:
    schema = pa.schema([("source_id", pa.int32()), ("kind", pa.string())])
    start = lambda *_: Echo()  # noqa: E731
    return Rule("echo", ("recording", "node_id"), (), schema, (ECHO,), start, **more)


def outcomes(of: Rule, apart: tuple[int, ...], node_id: int = 11) -> list[tuple[Any, ...]]:
    """(source_id, wait_ms, reason) of what a rule makes of EVENTS and of the end of the log."""
    settings = Settings({"r": (1, 2, 3)}, clocks_apart={"r": apart})
    replay = of.started(settings, {"recording": "r", "node_id": node_id}, None)
    nodes, kinds = zip(*EVENTS, strict=True)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(nodes, pa.int32()), pa.array(kinds)], schema=of.input_schema
    )
    rows = [
        row for emitted in (replay.feed(batch), replay.finish()) for row in emitted[0].to_pylist()
    ]
    return [(row["source_id"], row["wait_ms"], row["reason"]) for row in rows]


COMPARING = rule(comparison=Comparison(times_of("source_id", ("metadata",)), {"echo": ["wait_ms"]}))
ENDED = (None, None, "the log ended")
ALL = [*((node, 5.0, None) for node, _ in EVENTS), ENDED]


def test_all_is_replayed_where_no_clock_is_apart() -> None:
    assert outcomes(COMPARING, ()) == ALL


@pytest.mark.parametrize("apart", [11, 2], ids=["its own", "a controller's"])
def test_all_is_unknown_where_a_clock_is_apart_that_it_rests_on(apart: int) -> None:
    """What was unknown keeps its reason."""
    unknown = [(node, None, CLOCKS_DIFFER) for node, _ in EVENTS]
    assert outcomes(COMPARING, (apart,)) == [*unknown, ENDED]


def test_what_another_node_states_at_its_own_times_is_left_out() -> None:
    """Only that: a follower's FETCH is in the leader's log, by the leader's clock."""
    assert outcomes(COMPARING, (12,)) == [
        (None, 5.0, None),
        (12, 5.0, None),
        (13, 5.0, None),
        ENDED,
    ]


def test_a_rule_that_compares_no_times_minds_no_clock() -> None:
    assert outcomes(rule(), (11, 2, 12)) == ALL


@pytest.mark.parametrize("of", RULES.values(), ids=lambda of: of.name)
def test_what_is_cleared_are_columns_that_may_be_null(of: Rule) -> None:
    clears = of.comparison.clears if of.comparison else {}
    assert clears.keys() in (set(), {table.name for table in of.tables})
    for table in of.tables:
        nullable = {column.name for column in table.columns if column.nullable}
        assert {*clears.get(table.name, ())} <= nullable
