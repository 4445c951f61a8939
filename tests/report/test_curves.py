"""Charts of sweeps: where a curve has its knee, how many slots are enough, what is not drawn."""

import random
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from golden.recorded import events_of, fed
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka_model.log import replay_of
from kafka_model.world import World, log_of
from report_examples import acks, fetch, hwm, lowest, peak, silent

from kip_replay.pipelines.page import curves
from kip_replay.pipelines.page.curves import knee
from kip_replay.pipelines.page.view import Chart
from kip_replay.pipelines.rules.hwm_parking import curves as of_waits
from kip_replay.pipelines.rules.incremental_fetch import curves as of_slots
from kip_replay.pipelines.rules.incremental_fetch import figures as incremental_fetch
from kip_replay.pipelines.rules.lowest_acked_offset import curves as of_intervals
from kip_replay.pipelines.rules.min_isr_acks import curves as of_min_isr
from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_EVICTIONS

# --- the knee

costs = st.integers(0, 1000).map(float)
sweeps = st.dictionaries(st.integers(0, 2000), st.tuples(costs, costs), max_size=8)


@pytest.mark.property
@given(sweeps, st.randoms(), st.sampled_from([0.25, 2.0, 64.0]), st.sampled_from([0.5, 8.0]))
def test_a_knee_lies_between_ends_and_knows_no_units(
    points: dict[int, tuple[float, float]], dice: random.Random, width: float, height: float
) -> None:
    at = knee(points)
    assert at is None or min(points.values())[0] < points[at][0] < max(points.values())[0]
    shuffled = dict(dice.sample([*points.items()], len(points)))
    assert knee(shuffled) == at
    assert knee({v: (x * width, y * height) for v, (x, y) in points.items()}) == at
    assert knee({**points, 5000: (None, 1.0), 6000: (1.0, None)}) == at


@pytest.mark.property
@given(st.integers(1, 1000), st.integers(-1000, 1000), st.lists(costs, unique=True))
def test_neither_a_straight_line_nor_a_flat_one_has_a_knee(
    base: int, slope: int, places: list[float]
) -> None:
    assert knee({at: (x, base + slope * x) for at, x in enumerate(places)}) is None
    nearly = {at: (x, 1000.0 - at % 2 * 99) for at, x in enumerate(places)}
    assert knee(nearly) is None


@pytest.mark.property
@given(st.integers(1, 99), st.integers(1, 99))
@example(1, 1)
def test_the_knee_of_a_bent_line_is_its_bend(x: int, y: int) -> None:
    """Below the chord of (0, 100) and (100, 0) if the bend is; the same seen from either axis."""
    bent = {1: (0.0, 100.0), 2: (float(x), float(y)), 3: (100.0, 0.0)}
    assert knee(bent) == (2 if x + y < 90 else None)
    assert knee({at: (y, x) for at, (x, y) in bent.items()}) == knee(bent)


# --- how many slots are enough


def peaks_of(evictions: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """(node, most sessions at once, fewest slots) by the SQL of the report."""
    rows = [{**row, "recording": "one"} for row in evictions]
    schema = pa.schema(
        [field.with_nullable(True) for field in FETCH_SESSION_EVICTIONS.arrow_schema]
    )
    with duckdb.connect() as database:
        database.register("fetch_session_evictions", pa.Table.from_pylist(rows, schema))
        found = database.execute(incremental_fetch.Figures.QUERIES["peaks"]).fetchall()
    return [row[1:] for row in found]


@pytest.mark.property
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_with_the_fewest_slots_nothing_is_lost_and_with_eight_fewer_something(
    seed: int, clients: int
) -> None:
    world = World(random.Random(seed), clients, steps=60)
    log = [log_of(world.moments, world.names, 0)]
    ((_, peak, slots),) = peaks_of(replay_of(log, (), world.names).evictions)
    assert peak <= slots
    rows = replay_of(log, (slots - 8, slots), world.names)
    assert {event["event"] for event in rows.events(slots)} <= {"created", "closed"}
    assert {event["event"] for event in rows.events(slots - 8)} & {"refused", "evicted"}


@pytest.mark.golden
def test_eight_slots_are_enough_for_a_broker_of_a_recording() -> None:
    """Five sessions at once, one to a shard."""
    events = events_of("sessions-off", "incremental_fetch")[11]
    replayed = fed("incremental_fetch", events, 11)
    assert peaks_of(replayed[FETCH_SESSION_EVICTIONS.name]) == [(11, 5, 8)]


# --- what charts show, where it is not what ``page.txt`` has


def charts(one: Any, **rows: list[dict[str, Any]]) -> list[Chart]:
    """Those of figures with other rows."""
    modules = {"hwm_parking": of_waits, "incremental_fetch": of_slots}
    modules |= {"min_isr_acks": of_min_isr, "lowest_acked_offset": of_intervals}
    found: list[Chart] = modules[one.NAME].charts(replace(one, rows={**one.rows, **rows}))  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("one", silent(), ids=lambda one: one.NAME)
def test_nothing_swept_is_nothing_to_draw(one: Any) -> None:
    assert charts(one) == []


def test_fetches_that_waited_for_different_times_have_no_place_on_the_axis() -> None:
    lag, _ = charts(hwm(), max_wait=[{"least": 100, "most": 500}])
    assert {x for line in lag.lines for x in line.x} == {100, 200}
    assert [mark.x for mark in lag.marks] == [100, 500]


def test_few_values_make_no_knee() -> None:
    few = {key: replace(of, count=curves.LEAST_VALUES - 1) for key, of in hwm().spreads.items()}
    assert of_waits.knee(hwm()) == 200
    assert of_waits.knee(replace(hwm(), spreads=few)) is None


def test_sessions_from_before_the_log_are_told_of() -> None:
    _, lost = charts(fetch(), not_counted=[{"n": 3}])
    assert lost.note.endswith("; 3 sessions that began before the log not counted")
    assert lost.marks[1].text == "knee: 16 slots are enough for those counted"


def test_a_hole_that_hides_shards_leaves_no_knee() -> None:
    size, _ = charts(fetch(), peaks=[peak(12) | {"slots": None}])
    assert [mark.kind for mark in size.marks] == ["recorded"]
    assert 12 in size.lines[0].x


def test_topics_of_different_min_insync_replicas_are_marked_and_not_drawn_as_one() -> None:
    (chart,) = charts(acks(), swept=[{"at": None, "n": 8, "refused": 0, "least": 1, "most": 3}])
    assert [mark.x for mark in chart.marks if mark.kind == "recorded"] == [1, 3]


def test_an_interval_that_brokers_describe_is_not_measured() -> None:
    described = charts(lowest(), in_force=[{"in_force": 2000}])[0]
    differing = charts(lowest(), in_force=[{"in_force": ms} for ms in (1000, 2000)])[0]
    assert [described.marks[0].x, differing.marks[0].x] == [2000, 2010]
