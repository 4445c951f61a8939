"""prediction_accuracy's own arithmetic: what is beside what, what is an error, and what passes."""

import tomllib
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest
from constructed import Row, engine_on, keyed, rule_steps

from kip_replay.pipelines.analysis.accuracy import Judgement, prediction_accuracy
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.rule_files import Kind, Tolerance
from kip_replay.pipelines.rules import RULES
from kip_replay.replay.records import RECORDED, SAMPLES_MIN, SteadyPhase
from kip_replay.replay.tables import PredictionAccuracy
from tools.accuracy import largest, text

Rows = Sequence[tuple[Any, ...]]
COUNTS = ("sample_count", "unknown_count")
#: Columns of what tests give, and what the texts of a rule add to them.
GIVEN = {
    "wanted": (("predicted_from", "recorded_in", "own_variant"), "TRUE AS is_judged"),
    "measures": (
        ("recording", "variant", "metric", "unit", "value"),
        "'all' AS group_kind, 'all' AS group_value, 0.5 AS baseline, 7 AS sample_count, "
        "2 AS unknown_count",
    ),
    "shares": (
        ("recording", "metric", "value", *COUNTS),
        "'all' AS group_kind, 'all' AS group_value",
    ),
    "shown": (
        ("recorded_in", "variant", "metric", "predicted", "recorded", "group_value", "is_judged"),
        "$scale AS scale, 'a' AS predicted_from, 'n' AS group_kind, 'ms' AS unit, "
        "NULL AS baseline, 7 AS sample_count, 2 AS unknown_count",
    ),
}
TYPES = {
    **dict.fromkeys(("value", "predicted", "recorded"), pa.float64()),
    **dict.fromkeys(COUNTS, pa.int64()),
    "is_judged": pa.bool_(),
}


def judged(
    wanted: Rows,
    tolerances: Sequence[Tolerance] = (),
    *,
    pairs: Sequence[tuple[str, str]] = (),
    steady: dict[str, SteadyPhase] | None = None,
    scale: str = "NULL",
    **rows: Rows,
) -> list[Row]:
    """Rows of prediction_accuracy; ``rows`` of measures, shares and what is shown."""
    texts, more = {}, {}
    for name, of in {"measures": (), **rows, "wanted": wanted}.items():
        columns, added = GIVEN[name]
        schema = pa.schema([(column, TYPES.get(column, pa.string())) for column in columns])
        given = [dict(zip(columns, row, strict=True)) for row in of]
        more[f"my_{name}"] = pa.Table.from_pylist(given, schema)
        texts[name] = Text(f"SELECT *, {added} FROM my_{name}".replace("$scale", scale))
    pairs = pairs or [row[:2] for row in wanted]
    usual = Judgement.read({}, (), {"rule": "a rule", "samples_min": SAMPLES_MIN}).texts
    rules = {"a rule": Judgement({**usual, **texts}, tolerances)}
    found = prediction_accuracy(engine_on({}, more), rules, steady or {}, pairs)
    assert found.schema == PredictionAccuracy.arrow_schema
    assert {*found.column("rule").to_pylist()} <= {"a rule"}
    return list(found.to_pylist())


def test_a_prediction_stands_beside_what_was_recorded() -> None:
    """Under the variant that the other recording ran; what one side lacks is no count there."""
    measures = [
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
    ]
    rows = keyed(
        judged([("a", "a", "old"), ("a", "b", "new")], measures=measures),
        ("predicted_from", "recorded_in", "metric"),
    )
    of = itemgetter("variant", "predicted", "recorded", "baseline", *COUNTS)
    assert {key: of(r) for key, r in rows.items()} == {
        ("a", "a", "wait"): ("old", 20.0, 21.0, 0.5, 7, 2),
        ("a", "b", "wait"): ("new", 10.0, 12.0, 0.5, 7, 2),
        ("a", "b", "only predicted"): ("new", 3.0, 0.0, 0.5, 7, 2),
        ("a", "b", "only predicted wait"): ("new", 3.0, None, 0.5, 7, 2),
        ("a", "b", "only recorded"): ("new", 0.0, 4.0, None, 0, 0),
        ("a", "b", "only recorded wait"): ("new", None, 4.0, None, 0, 0),
    }


def test_what_is_known_beforehand_is_demanded_of_self_checks_only() -> None:
    shares = [("a", "share", 0.75, 7, 2), ("b", "share", None, 7, 2), ("c", "share", 1.0, 7, 2)]
    pairs = [("a", "a", "old"), ("a", "b", "new"), ("b", "b", "new")]
    rows = judged(pairs, [Tolerance(Kind.SELF_CHECK, "share", None, 0.3)], shares=shares)
    of = itemgetter(
        "predicted_from", "recorded_in", "predicted", "recorded", "baseline", *COUNTS, "passed"
    )
    assert [*map(of, rows)] == [
        ("a", "a", 0.75, 1.0, None, 7, 2, True),
        ("b", "b", None, 1.0, None, 7, 2, False),
    ]


def test_two_runs_of_the_same_thing_show_the_noise() -> None:
    """Those whose brokers ran the same protocol, and that predict nothing of each other."""
    waits = {"a": 21.0, "b": 12.0, "c": 5.0}
    rows = judged(
        [("a", "a", "old"), ("b", "b", "old"), ("c", "c", "new"), ("a", "c", "new")],
        measures=[(name, RECORDED, "wait", "ms", wait) for name, wait in waits.items()],
        pairs=[("a", "b"), ("b", "a"), ("a", "c"), ("b", "c"), ("a", "a")],
    )
    of = itemgetter("predicted_from", "recorded_in", "predicted", "recorded", "error", "passed")
    assert [of(r) for r in rows if r["kind"] == Kind.TWO_RUNS] == [
        ("a", "b", 21.0, 12.0, 9.0, None),
        ("b", "a", 12.0, 21.0, -9.0, None),
    ]


def test_kinds_are_apart_and_little_data_is_marked() -> None:
    demands = [Tolerance(kind, kind, "old", 0.0) for kind in (Kind.BOUND, Kind.SELF_CHECK)]
    rows = judged(
        [("a", "a", "old"), ("a", "b", "old")],
        demands,
        measures=[("b", RECORDED, "wait", "ms", 12.0)],
        shares=[("a", Kind.BOUND, 1.0, 20, 10), ("a", Kind.SELF_CHECK, 1.0, 20, 9)],
        steady={"a": SteadyPhase(0, 10_000_000), "b": SteadyPhase(0, 9_999_999)},
    )
    assert {r["metric"]: (r["kind"], r["is_enough"]) for r in rows} == {
        Kind.BOUND: (Kind.BOUND, True),
        Kind.SELF_CHECK: (Kind.SELF_CHECK, False),
        "wait": (Kind.OTHER_CLUSTER, False),
    }


TOLERANCES = (
    Tolerance(Kind.SELF_CHECK, "either", None, 1.0, 0.1),
    Tolerance(Kind.OTHER_CLUSTER, "either", None, 2.0, 0.5),
    Tolerance(Kind.SELF_CHECK, "absolute", "v", 1.0),
    Tolerance(Kind.SELF_CHECK, "absolute", "w", 3.0),
    Tolerance(Kind.SELF_CHECK, "relative", "v", None, 0.1),
)
#: recorded_in, variant, metric, predicted, recorded; the tolerance and whether it passes.
CASES: list[tuple[str, str, str, float | None, float | None, float | None, bool | None]] = [
    # The larger of the two: 1 ms of a small value, a tenth of a large one.
    ("a", "v", "either", 6.0, 5.0, 1.0, True),
    ("a", "w", "either", 6.5, 5.0, 1.0, False),
    ("a", "v", "either", 18.0, 20.0, 2.0, True),
    ("a", "v", "either", 17.5, 20.0, 2.0, False),
    ("a", "v", "either", -22.5, -20.0, 2.0, False),
    ("b", "w", "either", 6.5, 5.0, 2.5, True),
    ("b", "w", "absolute", 6.5, 5.0, None, None),
    ("a", "v", "absolute", 100.5, 100.0, 1.0, True),
    ("a", "v", "absolute", 102.0, 100.0, 1.0, False),
    ("a", "w", "absolute", 102.0, 100.0, 3.0, True),
    ("a", "x", "absolute", 102.0, 100.0, None, None),
    ("a", "v", "relative", 109.0, 100.0, 10.0, True),
    ("a", "v", "relative", 0.5, 0.0, 0.0, False),
    ("a", "v", "relative", 0.0, 0.0, 0.0, True),
    # Nothing is predicted where something was recorded: a miss.
    ("a", "v", "relative", None, 100.0, 10.0, False),
    ("a", "v", "absolute", None, None, 1.0, False),
    # Relative to what nobody knows: no demand.
    ("a", "v", "relative", 100.0, None, None, None),
    ("a", "v", "no such metric", 1.0, 1.0, None, None),
]


def verdicts(rows: Rows, scale: str = "NULL", is_judged: bool = True) -> list[Row]:
    """In the order of what is shown: recorded_in, variant, metric, predicted, recorded."""
    shown = [(*row, f"{n:03d}", is_judged) for n, row in enumerate(rows)]
    found = judged([("a", "a", "v"), ("a", "b", "v")], TOLERANCES, scale=scale, shown=shown)
    return sorted(found, key=itemgetter("group_value"))


def test_what_passes() -> None:
    found = verdicts([case[:5] for case in CASES])
    assert [(r["tolerance"], r["passed"]) for r in found] == [case[5:] for case in CASES]
    for r, (*_, predicted, recorded, _, _) in zip(found, CASES, strict=True):
        error = None if None in (predicted, recorded) else predicted - recorded
        relative = error / recorded if error is not None and recorded else None
        assert (r["error"], r["relative_error"]) == (error, relative)
        assert (r["recording"], r["predicted"], r["recorded"]) == ("a", predicted, recorded)


def test_a_scale_replaces_recorded_and_what_is_not_judged_has_no_verdict() -> None:
    rows = [("a", "v", "relative", predicted, 1.0) for predicted in (5.0, 15.0)]
    of = itemgetter("error", "tolerance", "passed")
    assert [*map(of, verdicts(rows, scale="100"))] == [(4.0, 10.0, True), (14.0, 10.0, False)]
    assert [*map(of, verdicts(rows, is_judged=False))] == [(4.0, None, None), (14.0, None, None)]


@pytest.mark.parametrize("steps", RULES, ids=lambda steps: steps.name)
def test_every_demand_is_made_once_and_demands_something(steps: Any) -> None:
    """A metric with two tolerances would be judged twice; one without a limit never."""
    tolerances = steps.judgement.tolerances
    demands = Counter((t.metric, t.variant, t.kind == Kind.OTHER_CLUSTER) for t in tolerances)
    assert set(demands.values()) == {1}
    of_one, of_all = ({d[::2] for d in demands if (d[1] is None) is any_} for any_ in (False, True))
    assert not of_one & of_all
    for tolerance in tolerances:
        limits = {tolerance.absolute, tolerance.relative} - {None}
        assert limits
        assert min(limits) >= 0


JUDGEMENTS = {steps.name: steps.judgement for steps in RULES}


def test_without_rows_there_are_none() -> None:
    """All rules over empty tables: what an ingest of no such request leaves."""
    rows = prediction_accuracy(engine_on({}), JUDGEMENTS, {}, [("a", "a"), ("a", "b")])
    assert (rows.num_rows, rows.schema) == (0, PredictionAccuracy.arrow_schema)


def of_bytes(
    before: str, after: str, predicted: float, error: float, **more: Any
) -> dict[str, Any]:
    kind = Kind.SELF_CHECK if before == after else Kind.OTHER_CLUSTER
    usual = {
        "rule": "incremental_fetch",
        "variant": "full",
        "metric": "fetch_bytes",
        "group_kind": "client_kind",
    }
    held = {"predicted_from": before, "recorded_in": after, "predicted": predicted, "error": error}
    return usual | held | {"kind": kind, "is_enough": True} | more


def test_the_largest_errors_are_of_other_clusters_where_one_was_predicted() -> None:
    rows = [
        of_bytes("a", "a", 100.0, 90.0),
        of_bytes("a", "b", 100.0, -5.0),
        of_bytes("b", "a", 20.0, 2.0),
        of_bytes("b", "a", 20.0, 19.0, is_enough=False),
        of_bytes("b", "a", 20.0, 19.0, metric="no headline"),
        of_bytes("b", "a", 20.0, 19.0, rule="another"),
        of_bytes("a", "a", 50.0, 4.0, variant="incremental"),
    ]
    found = largest(rows, rule_steps("incremental_fetch"))
    assert found == {
        ("full", "fetch_bytes"): (Kind.OTHER_CLUSTER, 0.0, 0.1, 2),
        ("incremental", "fetch_bytes"): (Kind.SELF_CHECK, 0.0, 0.08, 1),
    }
    read = tomllib.loads(text({"one": found}))["one"]
    assert read["full"]["fetch_bytes"] == {
        "absolute": 0.0,
        "relative": 0.1,
        "of": "other_cluster",
        "count": 2,
    }
