"""prediction_accuracy's own arithmetic: what is beside what, what is an error, and what passes."""

from collections import Counter
from operator import itemgetter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from constructed import Key, Row, at_rank, database, keyed, known_and_unknown, verdict
from hypothesis import given, settings
from hypothesis import strategies as st

from kip_replay.pipelines.analysis.accuracy import (
    Judgement,
    Kind,
    Tolerance,
    distribution,
    prediction_accuracy,
)
from kip_replay.pipelines.rules import RULES
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.phases import SteadyPhase
from kip_replay.replay.tables import PREDICTION_ACCURACY

#: A query without rows.
NOTHING = "SELECT NULL AS recording WHERE FALSE"


def values_of(columns: str, *rows: tuple[object, ...]) -> str:
    """Rows as a query."""

    def text(value: object) -> str:
        return "NULL" if value is None else repr(value)

    listed = ", ".join(f"({', '.join(map(text, row))})" for row in rows)
    return f"FROM (VALUES {listed}) AS given({columns})"


def judged(judgement: Judgement) -> list[Row]:
    with database({}) as session:
        pairs = session.sql(f"SELECT predicted_from, recorded_in FROM ({judgement.wanted})")
        rows = prediction_accuracy(session, {"a rule": judgement}, {}, pairs.fetchall())
    assert rows.schema == PREDICTION_ACCURACY.arrow_schema
    assert set(rows.column("rule").to_pylist()) <= {"a rule"}
    found: list[Row] = rows.to_pylist()
    return found


def wanted(*pairs: tuple[str, str, str]) -> str:
    return values_of("predicted_from, recorded_in, own_variant", *pairs)


def measured(*rows: tuple[str, str, str, str, float | None]) -> str:
    """Measures by recording, variant, metric, unit and value."""
    columns = "recording, variant, metric, unit, value, group_kind, group_value, baseline"
    filled = [(*row, "all", "all", 0.5, 7, 2) for row in rows]
    return values_of(f"{columns}, sample_count, unknown_count", *filled)


def figures(rows: list[Row]) -> dict[Key, tuple[Any, ...]]:
    names = ("variant", "predicted", "recorded", "baseline", "sample_count", "unknown_count")
    found = keyed(rows, ("predicted_from", "recorded_in", "metric"))
    return {key: tuple(r[name] for name in names) for key, r in found.items()}


def test_a_prediction_stands_beside_what_was_recorded() -> None:
    """Under the variant that the other recording ran; what one side lacks is no count there."""
    measures = measured(
        ("a", "new", "wait", "ms", 10.0),
        ("a", "old", "wait", "ms", 20.0),
        ("a", RECORDED, "wait", "ms", 21.0),
        ("b", RECORDED, "wait", "ms", 12.0),
        ("b", "old", "wait", "ms", 99.0),
        ("a", "new", "only predicted", "count", 3.0),
        ("a", "new", "only predicted wait", "ms", 3.0),
        ("b", RECORDED, "only recorded", "count", 4.0),
        ("b", RECORDED, "only recorded wait", "ms", 4.0),
        ("c", RECORDED, "wait", "ms", 99.0),
    )
    pairs = wanted(("a", "a", "old"), ("a", "b", "new"))
    assert figures(judged(Judgement(pairs, measures, NOTHING, ()))) == {
        ("a", "a", "wait"): ("old", 20.0, 21.0, 0.5, 7, 2),
        ("a", "b", "wait"): ("new", 10.0, 12.0, 0.5, 7, 2),
        ("a", "b", "only predicted"): ("new", 3.0, 0.0, 0.5, 7, 2),
        ("a", "b", "only predicted wait"): ("new", 3.0, None, 0.5, 7, 2),
        ("a", "b", "only recorded"): ("new", 0.0, 4.0, None, 0, 0),
        ("a", "b", "only recorded wait"): ("new", None, 4.0, None, 0, 0),
    }


def test_what_is_known_beforehand_is_demanded_of_self_checks_only() -> None:
    shares = values_of(
        "recording, metric, value, sample_count, unknown_count",
        ("a", "share", 0.75, 7, 2),
        ("b", "share", None, 7, 2),
        ("c", "share", 1.0, 7, 2),
    )
    pairs = wanted(("a", "a", "old"), ("a", "b", "new"), ("b", "b", "new"))
    demands = [Tolerance("share", variant, True, 0.3, None) for variant in ("old", "new")]
    rows = judged(Judgement(pairs, NOTHING, shares, demands))
    assert figures(rows) == {
        ("a", "a", "share"): ("old", 0.75, 1.0, None, 7, 2),
        ("b", "b", "share"): ("new", None, 1.0, None, 7, 2),
    }
    assert [r["passed"] for r in rows] == [True, False]


def test_two_runs_of_the_same_thing_show_the_noise() -> None:
    """Those whose brokers ran the same protocol, and that predict nothing of each other."""
    measures = measured(
        ("a", RECORDED, "wait", "ms", 21.0),
        ("b", RECORDED, "wait", "ms", 12.0),
        ("c", RECORDED, "wait", "ms", 5.0),
    )
    wants = wanted(("a", "a", "old"), ("b", "b", "old"), ("c", "c", "new"), ("a", "c", "new"))
    judgement = Judgement(wants, measures, NOTHING, ())
    with database({}) as session:
        pairs = [("a", "b"), ("b", "a"), ("a", "c"), ("b", "c"), ("a", "a")]
        rows = prediction_accuracy(session, {"a rule": judgement}, {}, pairs).to_pylist()
    of = itemgetter("predicted_from", "recorded_in", "predicted", "recorded", "error", "passed")
    assert [of(r) for r in rows if r["kind"] == Kind.TWO_RUNS] == [
        ("a", "b", 21.0, 12.0, 9.0, None),
        ("b", "a", 12.0, 21.0, -9.0, None),
    ]


def test_kinds_are_apart_and_little_data_is_marked() -> None:
    share = "recording, metric, value, sample_count, unknown_count"
    shares = values_of(share, ("a", "bound", 1.0, 20, 10), ("a", "share", 1.0, 20, 9))
    demands = [Tolerance(name, "old", True, 0.0, None) for name in ("bound", "share")]
    measures = measured(("b", RECORDED, "wait", "ms", 12.0))
    wants = wanted(("a", "a", "old"), ("a", "b", "old"))
    judgement = Judgement(wants, measures, shares, demands, bounds=("bound",))
    phases = {"a": SteadyPhase(0, 10_000_000), "b": SteadyPhase(0, 9_999_999)}
    with database({}) as session:
        pairs = [("a", "a"), ("a", "b")]
        rows = prediction_accuracy(session, {"a rule": judgement}, phases, pairs).to_pylist()
    assert {r["metric"]: (r["kind"], r["is_enough"]) for r in rows} == {
        "bound": (Kind.BOUND, True),
        "share": (Kind.SELF_CHECK, False),
        "wait": (Kind.OTHER_CLUSTER, False),
    }


TOLERANCES = (
    Tolerance("either", "v", True, 1.0, 0.1),
    Tolerance("either", "v", False, 2.0, 0.5),
    Tolerance("absolute", "v", True, 1.0, None),
    Tolerance("relative", "v", True, None, 0.1),
)
#: Rows as a rule may show them: recorded_in, variant, metric, predicted, recorded; and scale,
#: is_judged.
Shown = tuple[str, str, str, float | None, float | None]
SIDES = pa.schema(
    {
        **dict.fromkeys(("recorded_in", "variant", "metric"), pa.string()),
        **dict.fromkeys(("predicted", "recorded", "scale"), pa.float64()),
        "is_judged": pa.bool_(),
        "group_value": pa.string(),
    }
)


def judgement(rows: list[Shown], scale: float | None = None, is_judged: bool = True) -> list[Row]:
    """Rows of prediction_accuracy in the order of what is shown."""
    filled = [(*row, scale, is_judged, f"{n:03d}") for n, row in enumerate(rows)]
    given_rows = [dict(zip(SIDES.names, row, strict=True)) for row in filled]
    shown = """SELECT *, 'a' AS predicted_from, 'n' AS group_kind, 'ms' AS unit,
        NULL::DOUBLE AS baseline, 7 AS sample_count, 2 AS unknown_count FROM given_rows"""
    with database({}) as session:
        session.register("given_rows", pa.Table.from_pylist(given_rows, schema=SIDES))
        judgements = {"rule": Judgement("FROM pairs", NOTHING, NOTHING, TOLERANCES, shown)}
        pairs = [("a", "a"), ("a", "b")]
        found = prediction_accuracy(session, judgements, {}, pairs).to_pylist()
    return sorted(found, key=lambda r: str(r["group_value"]))


#: metric, predicted, recorded; the tolerance and whether it passes.
CASES: list[tuple[str, float | None, float | None, float | None, bool | None]] = [
    # The larger of the two: 1 ms of a small value, a tenth of a large one.
    ("either", 6.0, 5.0, 1.0, True),
    ("either", 6.5, 5.0, 1.0, False),
    ("either", 18.0, 20.0, 2.0, True),
    ("either", 17.5, 20.0, 2.0, False),
    ("either", -22.5, -20.0, 2.0, False),
    ("absolute", 100.5, 100.0, 1.0, True),
    ("absolute", 102.0, 100.0, 1.0, False),
    ("relative", 109.0, 100.0, 10.0, True),
    ("relative", 0.5, 0.0, 0.0, False),
    ("relative", 0.0, 0.0, 0.0, True),
    # Nothing is predicted where something was recorded: a miss.
    ("relative", None, 100.0, 10.0, False),
    ("absolute", None, None, 1.0, False),
    # Relative to what nobody knows: no demand.
    ("relative", 100.0, None, None, None),
    ("no such metric", 1.0, 1.0, None, None),
]


def test_what_passes() -> None:
    found = judgement([("a", "v", *case[:3]) for case in CASES])
    assert [(r["tolerance"], r["passed"]) for r in found] == [case[3:] for case in CASES]


VALUE = st.one_of(st.none(), st.floats(-1e9, 1e9), st.sampled_from([0.0, 1.0, 10.0]))
SHOWN = st.tuples(
    st.sampled_from(["a", "b"]),
    st.sampled_from(["v", "w"]),
    st.sampled_from(["either", "absolute", "relative", "none"]),
    VALUE,
    VALUE,
)


@settings(max_examples=20)
@given(rows=st.lists(SHOWN, min_size=1, max_size=40))
def test_every_verdict_is_plain_arithmetic_on_its_row(rows: list[Shown]) -> None:
    found = judgement(rows)
    assert len(found) == len(rows)
    for r, (target, variant, metric, predicted, recorded) in zip(found, rows, strict=True):
        expected = verdict(TOLERANCES, ("a", target, metric), variant, predicted, recorded)
        expected |= {"recording": "a", "sample_count": 7, "unknown_count": 2}
        assert {name: r[name] for name in expected} == expected


def test_a_scale_replaces_recorded_and_what_is_not_judged_has_no_verdict() -> None:
    rows: list[Shown] = [("a", "v", "relative", predicted, 1.0) for predicted in (5.0, 15.0)]
    of = itemgetter("error", "tolerance", "passed")
    assert [*map(of, judgement(rows, scale=100.0))] == [(4.0, 10.0, True), (14.0, 10.0, False)]
    shown = [*map(of, judgement(rows, is_judged=False))]
    assert shown == [(4.0, None, None), (14.0, None, None)]


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.sampled_from("ab"),
        st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=30),
        min_size=1,
    )
)
def test_distributions_are_plain_arithmetic_on_their_values(values: dict[str, Any]) -> None:
    counted = Counter((name, value) for name, of in values.items() for value in of)
    rows = [{"name": name, "value": v, "occurs": n} for (name, v), n in counted.items()]
    kinds = pa.schema({"name": pa.string(), "value": pa.int64(), "occurs": pa.int64()})
    with duckdb.connect() as session:
        session.register("histogram", pa.Table.from_pylist(rows, schema=kinds))
        found = session.sql(distribution("histogram", "name")).to_arrow_table().to_pylist()
    assert len(found) == len(values)
    for r in found:
        of = values[r["name"]]
        known = [value for value in of if value is not None]
        assert r == {
            "name": r["name"],
            "mean": sum(known) / len(known) if known else None,
            "p50": at_rank(of, 500),
            "p90": at_rank(of, 900),
            **known_and_unknown(of),
        }


@pytest.mark.parametrize("steps", RULES, ids=lambda steps: steps.name)
def test_every_demand_is_made_once_and_demands_something(steps: Any) -> None:
    """A metric with two tolerances would be judged twice; one without a limit never."""
    tolerances = steps.judgement.tolerances
    demands = Counter((t.metric, t.variant, t.self_check) for t in tolerances)
    assert set(demands.values()) == {1}
    for tolerance in tolerances:
        limits = {tolerance.absolute, tolerance.relative} - {None}
        assert limits
        assert min(limits) >= 0


def test_without_rows_there_are_none() -> None:
    """All rules over empty tables: what an ingest of no such request leaves."""
    judgements = {steps.name: steps.judgement for steps in RULES}
    with database({}) as session:
        rows = prediction_accuracy(session, judgements, {}, [("a", "a"), ("a", "b")])
    assert (rows.num_rows, rows.schema) == (0, PREDICTION_ACCURACY.arrow_schema)
