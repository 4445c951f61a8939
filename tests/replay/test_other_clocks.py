"""What becomes of outcomes where clocks are apart."""

from typing import Any

import pyarrow as pa
import pytest

from kip_replay.replay.records import Outcome, Verdict
from kip_replay.replay.rule import CLOCKS_DIFFER, Comparison, Replay, Rule, Settings
from kip_replay.replay.rules import RULES
from kip_replay.replay.table import Int, Ms, column


class Echoed(Outcome, name="echo", rule="echo"):
    """What was fed."""

    source_id: Int = column("")
    wait_ms: Ms = column("")


EVENTS = [(None, "fetch"), (12, "fetch"), (12, "metadata"), (13, "metadata")]


class Echo(Replay):
    """Emits a row for each event."""

    def feed(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        rows = [
            {"source_id": node, "wait_ms": 5.0, "verdict": Verdict.REPLAYED.value}
            for node in batch.column("source_id").to_pylist()
        ]
        return [pa.RecordBatch.from_pylist(rows, Echoed.without("recording"))]

    def finish(self) -> list[pa.RecordBatch]:
        unknown = {"verdict": Verdict.UNKNOWN.value, "reason": "the log ended"}
        return [pa.RecordBatch.from_pylist([unknown], Echoed.without("recording"))]


def rule(**more: Any) -> Rule:
    schema = pa.schema([("source_id", pa.int32()), ("kind", pa.string())])
    start = lambda *_: Echo()  # noqa: E731
    return Rule((), schema, (Echoed,), start, **more)


def outcomes(of: Rule, apart: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """(source_id, wait_ms, reason) of what a rule makes of EVENTS and of the end of the log."""
    settings = Settings({"r": (1, 2, 3)}, clocks_apart={"r": apart})
    replay = of.started(settings, {"recording": "r", "node_id": 11}, None)
    nodes, kinds = zip(*EVENTS, strict=True)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(nodes, pa.int32()), pa.array(kinds)], schema=of.input_schema
    )
    rows = [
        row for emitted in (replay.feed(batch), replay.finish()) for row in emitted[0].to_pylist()
    ]
    return [(row["source_id"], row["wait_ms"], row["reason"]) for row in rows]


COMPARING = rule(comparison=Comparison("source_id", {"echo": ["wait_ms"]}, ("metadata",)))
ALL = [(node, 5.0, None) for node, _ in EVENTS]
CASES = {
    "no clock is apart": (COMPARING, (), ALL),
    "a rule that compares no times minds no clock": (rule(), (11, 2, 12), ALL),
    # What was unknown keeps its reason.
    "its own clock": (COMPARING, (11,), [(node, None, CLOCKS_DIFFER) for node, _ in EVENTS]),
    "a controller's": (COMPARING, (2,), [(node, None, CLOCKS_DIFFER) for node, _ in EVENTS]),
    # A follower's FETCH is in the leader's log, by the leader's clock.
    "what another node states at its own times is left out": (COMPARING, (12,), ALL[:2] + ALL[3:]),
}


@pytest.mark.parametrize(("of", "apart", "expected"), CASES.values(), ids=CASES)
def test_what_rests_on_a_clock_that_is_apart_is_unknown(
    of: Rule, apart: tuple[int, ...], expected: list[tuple[Any, ...]]
) -> None:
    assert outcomes(of, apart) == [*expected, (None, None, "the log ended")]


@pytest.mark.parametrize("of", RULES.values(), ids=lambda of: of.name)
def test_what_is_cleared_are_columns_that_may_be_null(of: Rule) -> None:
    clears = of.comparison.clears if of.comparison else {}
    assert clears.keys() in (set(), {table.name for table in of.tables})
    for table in of.tables:
        nullable = {column.name for column in table.columns if column.nullable}
        assert {*clears.get(table.name, ())} <= nullable
