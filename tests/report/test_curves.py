"""Charts of sweeps: what they show, what was recorded among it, and where a curve has its knee."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from golden.naive_fetches import fetches_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka_model.log import replay_of
from kafka_model.world import World, log_of

from kip_replay.pipelines.page import curves
from kip_replay.pipelines.page.curves import knee
from kip_replay.pipelines.page.values import Percentiles, Traffic
from kip_replay.pipelines.page.view import Chart, Mark
from kip_replay.pipelines.rules.hwm_parking import curves as of_waits
from kip_replay.pipelines.rules.hwm_parking import figures as hwm_parking
from kip_replay.pipelines.rules.incremental_fetch import curves as of_slots
from kip_replay.pipelines.rules.incremental_fetch import figures as incremental_fetch
from kip_replay.pipelines.rules.lowest_acked_offset import curves as of_intervals
from kip_replay.pipelines.rules.lowest_acked_offset import figures as lowest_acked_offset
from kip_replay.pipelines.rules.min_isr_acks import curves as of_min_isr
from kip_replay.pipelines.rules.min_isr_acks import figures as min_isr_acks
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.incremental_fetch import IncrementalFetch
from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_EVICTIONS
from kip_replay.replay.outcomes import RECORDED

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


def test_what_a_hyperbola_costs_pays_up_to_its_knee() -> None:
    """Half the wait, twice the FETCHes: neither end is the best trade, and a scale decides none."""
    waits = (50, 100, 200, 400, 800)
    assert knee({wait: (1000 / wait, float(wait)) for wait in waits}) == 200


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
    replay = IncrementalFetch(11)
    out = [replay.feed(fetches_of("sessions-off", 11)), replay.finish()]
    evictions = [row for batch in out for row in batch.evictions.to_pylist()]
    assert peaks_of(evictions) == [(11, 5, 8)]


# --- what charts show


def named(charts: Iterable[Chart]) -> dict[str, dict[str, dict[float, float | None]]]:
    return {
        chart.name: {line.name: dict(zip(line.x, line.y, strict=True)) for line in chart.lines}
        for chart in charts
    }


def spread(p50: float, p99: float, count: int = 100) -> Percentiles:
    return Percentiles(count, 0, p50, p50, p99, p99)


def fetches(n: int) -> Traffic:
    return Traffic(n, n, 0, 0, n * 100, n * 200, span_s=10.0)


#: Median and 99 %, and FETCHes in 10 s, by wait; None is the recorded 500 ms.
WAITS = {100: (150.0, 240.0, 500), 200: (160.0, 400.0, 300), None: (330.0, 490.0, 150)}


def parked(**more: Any) -> hwm_parking.Figures:
    lag = {
        ("high_watermark_lag", variant, "replica_kind", "broker", at): spread(p50 / by, p99 / by)
        for variant, by in ((WITHOUT_KIP, 1), (WITH_KIP, 100))
        for at, (p50, p99, _) in WAITS.items()
    }
    lag["high_watermark_lag", RECORDED, "replica_kind", "broker", None] = spread(331.0, 491.0)
    sent = {
        (variant, "broker", at): fetches(n)
        for variant in (WITHOUT_KIP, WITH_KIP)
        for at, (_, _, n) in WAITS.items()
    }
    waits = [{"least": 500, "most": 500}]
    usual = {"spreads": lag, "traffic": sent, "rows": {"max_wait": waits}}
    return hwm_parking.Figures("one", None, **(usual | more))


def test_waits_stand_against_lag_and_fetches_the_recorded_one_among_them() -> None:
    lag, rate = of_waits.charts(parked())
    assert named([lag])["Lag of brokers"] == {
        "without KIP-1166, median": {100: 150.0, 200: 160.0, 500: 330.0},
        "without KIP-1166, 99 %": {100: 240.0, 200: 400.0, 500: 490.0},
        "with KIP-1166, median": {100: 1.5, 200: 1.6, 500: 3.3},
        "with KIP-1166, 99 %": {100: 2.4, 200: 4.0, 500: 4.9},
        "recorded, median": {500: 331.0},
        "recorded, 99 %": {500: 491.0},
    }
    assert named([rate])["FETCHes a second"]["without KIP-1166"] == {100: 50, 200: 30, 500: 15}
    for chart in (lag, rate):
        assert (chart.x_scale, chart.has_points) == ("log", True)
        assert [(mark.x, mark.kind) for mark in chart.marks] == [(500, "recorded"), (200, "knee")]
        assert chart.marks[1].text in chart.described
    assert "without KIP-1166, median: 150.0 at 100 to 330.0 at 500" in lag.described
    assert lag.note.endswith("; below the knee little less for many more FETCHes")


def test_fetches_that_waited_for_different_times_have_no_place_on_the_axis() -> None:
    lag, _ = of_waits.charts(parked(rows={"max_wait": [{"least": 100, "most": 500}]}))
    assert {x for line in lag.lines for x in line.x} == {100, 200}
    assert [mark.x for mark in lag.marks] == [100, 500]


@pytest.mark.parametrize(
    ("kind", "charts"),
    [
        (hwm_parking.Figures, of_waits.charts),
        (incremental_fetch.Figures, of_slots.charts),
        (min_isr_acks.Figures, of_min_isr.charts),
        (lowest_acked_offset.Figures, of_intervals.charts),
    ],
)
def test_nothing_swept_is_nothing_to_draw(kind: type[Any], charts: Any) -> None:
    assert charts(kind("empty")) == []


def test_few_values_make_no_knee() -> None:
    few = parked().spreads
    few = {key: replace(of, count=curves.LEAST_VALUES - 1) for key, of in few.items()}
    assert of_waits.knee(parked()) == 200
    assert of_waits.knee(parked(spreads=few)) is None
    assert not any("knee" in chart.note for chart in of_waits.charts(parked(spreads=few)))


def cached(**rows: list[dict[str, Any]]) -> incremental_fetch.Figures:
    """Slots of a broker that held 20 sessions, three in one shard."""
    sizes = {0: 9000, 8: 5000, 16: 2000, 32: 1000, None: 1000}
    traffic = {("incremental", "follower", at): fetches(n) for at, n in sizes.items()}
    lost = {0: (90, 0), 8: (40, 5), 16: (3, 0), 32: (0, 0)}
    events = [
        {"variant": "incremental", "at": at, "event": name, "n": n}
        for at, of in lost.items()
        for name, n in zip(("refused", "evicted"), of, strict=True)
    ]
    usual = {
        "events": events,
        "peaks": [
            {"node_id": 11, "peak_sessions": 20, "slots": 24},
            {"node_id": 12, "peak_sessions": 7, "slots": 8},
        ],
        "in_force": [{"in_force": 12}],
    }
    return incremental_fetch.Figures("one", None, traffic=traffic, rows=usual | rows)


def test_slots_have_their_knee_where_the_last_session_gets_one() -> None:
    size, lost = of_slots.charts(cached())
    (bytes_at,) = named([size])["Bytes a second besides records"].values()
    # 12 slots are 8, one in each shard; 24 are enough for all.
    assert bytes_at == {0: 270e3, 8: 150e3, 12: 150e3, 16: 60e3, 24: 30e3, 32: 30e3}
    assert named([lost])["Sessions without a slot"] == {
        "refused": {0: 90, 8: 40, 12: 40, 16: 3, 24: 0, 32: 0},
        "evicted": {0: 0, 8: 5, 12: 5, 16: 0, 24: 0, 32: 0},
    }
    assert lost.note == "at most 20 sessions at once, on broker 11"
    marks = [
        Mark(12, "recorded", "as recorded: 12"),
        Mark(24, "knee", "knee: 24 slots are enough for all"),
    ]
    assert [*size.marks] == [*lost.marks] == marks


def test_sessions_from_before_the_log_are_told_of() -> None:
    _, lost = of_slots.charts(cached(not_counted=[{"n": 3}]))
    assert lost.note.endswith("; 3 sessions that began before the log not counted")
    assert lost.marks[1].text == "knee: 24 slots are enough for those counted"


def test_a_hole_that_hides_shards_leaves_no_knee() -> None:
    hidden = cached(peaks=[{"node_id": 11, "peak_sessions": 20, "slots": None}])
    assert hidden.fewest_slots is None
    size, _ = of_slots.charts(hidden)
    assert [mark.kind for mark in size.marks] == ["recorded"]
    assert 12 in size.lines[0].x


def acked(refused: Mapping[int | None, int], in_force: tuple[int, int]) -> min_isr_acks.Figures:
    waits = {1: (1.0, 50.0, 300.0), 2: (11.0, 110.0, 250.0), 3: (240.0, 320.0, 0.0)}
    waits[4] = waits[3]
    variant, group = "acks_min_insync_replicas", ("all", "all")
    at_values = {**waits, None: waits[in_force[0]]}
    spreads = {}
    for at, (p50, p99, exposed) in at_values.items():
        spreads["produce_latency", variant, *group, at] = spread(p50, p99)
        spreads["exposure", variant, *group, at] = spread(exposed, exposed)
    least, most = in_force
    swept = [
        {"at": at, "n": 8, "refused": refused.get(at, 0), "least": at or least, "most": at or most}
        for at in at_values
    ]
    return min_isr_acks.Figures("one", None, spreads, rows={"swept": swept})


def test_min_insync_replicas_stand_against_waits_and_exposure() -> None:
    (chart,) = of_min_isr.charts(acked({3: 2, 4: 8}, (2, 2)))
    lines = named([chart])["Wait against exposure"]
    assert lines["wait, 99 %"] == {1: 50.0, 2: 110.0, 3: 320.0}
    assert lines["exposure, 99 %"] == {1: 300.0, 2: 250.0, 3: 0.0}
    # 4 refuses all: there is no wait to draw.
    assert [(mark.x, mark.kind, mark.text) for mark in chart.marks] == [
        (2, "recorded", "as recorded: 2"),
        (2, "knee", "knee: 2"),
        (3, "refused", "with 3, 25.0 % are refused"),
        (4, "refused", "with 4, 100 % are refused"),
    ]


def test_topics_of_different_min_insync_replicas_are_marked_and_not_drawn_as_one() -> None:
    (chart,) = of_min_isr.charts(acked({}, (1, 3)))
    assert [mark.x for mark in chart.marks if mark.kind == "recorded"] == [1, 3]


def beating(in_force: Sequence[int] = (2000,), count: int = 100) -> lowest_acked_offset.Figures:
    waits = {100: 370.0, 500: 820.0, 1000: 1760.0, 4000: 6500.0, None: 3300.0}
    group = ("all", "all")
    spreads = {
        ("read_after_write", variant, *group, at): spread(p50 - less, 2 * p50, count)
        for variant, less in (("lowest_acked_offset", 0), (WITHOUT_KIP, 0), (WITH_KIP, 150))
        for at, p50 in waits.items()
        if at is not None or variant == "lowest_acked_offset"
    }
    cadence = [{"brokers": 3, "per_second": 1.7, "interval_ms": 2010}]
    rows = {"cadence": cadence, "in_force": [{"in_force": ms} for ms in in_force]}
    return lowest_acked_offset.Figures("one", None, spreads, rows=rows)


def test_intervals_stand_against_read_after_write_and_heartbeats() -> None:
    wait, rate = of_intervals.charts(beating())
    lines = named([wait])["Read-after-write"]
    # What the cluster ran is drawn once.
    assert [*lines] == [
        "without KIP-1166, median",
        "without KIP-1166, 99 %",
        "with KIP-1166, median",
        "as recorded, median",
        "as recorded, 99 %",
    ]
    assert lines["without KIP-1166, median"] == {100: 370, 500: 820, 1000: 1760, 4000: 6500}
    assert lines["as recorded, median"] == {2000: 3300}
    assert named([rate])["Heartbeats a second"] == {
        "heartbeats": {100: 30, 500: 6, 1000: 3, 4000: 0.75},
        "as recorded": {2000: 1.7},
    }
    assert [(mark.x, mark.kind) for mark in wait.marks] == [(2000, "recorded"), (500, "knee")]


def test_an_interval_that_no_broker_described_is_measured() -> None:
    assert beating(()).interval_ms == beating((1000, 2000)).interval_ms == 2010
    assert of_intervals.knee(beating(count=9)) is None
