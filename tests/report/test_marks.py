"""What a specification and its rows become: once for each mark, and where a curve has its elbow."""

import random
from typing import Any

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kip_replay.pipelines.report import marks
from kip_replay.pipelines.report.logs import EXAMPLE_CHARACTERS, REJECTED
from kip_replay.pipelines.report.marks import Chart, Line, Mark, elbow, shown


def block(mark: str, query: str, **spec: Any) -> marks.Block | None:
    with duckdb.connect() as database:
        of = {"mark": mark, "name": "n", "note": "o", "query": query, **spec}
        return shown(database, of, recording="r", before="acks_all")


def test_lines_are_in_the_order_of_variants_and_mark_the_elbow() -> None:
    query = """SELECT * FROM (VALUES
        ('someday', 'p50', 8, 5, NULL), ('acks_all', 'p50', 16, 3, NULL),
        ('acks_all', 'p50', 8, 9.5e0, NULL), ('recorded', 'p99', 8, 7, 1),
        ('recorded', 'p99', 16, 1, 2), ('recorded', 'p99', 32, NULL, 3),
        ('recorded', 'p99', 64, 0, 100), ('acks_all', NULL, 8, NULL, NULL)
    ) AS of(line, figure, x, y, price)"""
    found = block("lines", query, x="slots", y="ms", x_scale="log", elbow="elbow: {} slots")
    assert found == Chart(
        *("n", "o"),
        "recorded, 99 %: 7.0 to 0.0; acks=all, median: 9.5 to 3.0; someday, median: 5.0 to 5.0.",
        *("slots", "ms"),
        [
            Line("recorded, 99 %", "recorded", [8, 16, 32, 64], [7, 1, None, 0]),
            Line("acks=all, median", "without", [8, 16], [9.5, 3]),
            Line("someday, median", "other", [8], [5]),
        ],
        [Mark(16, "elbow", "elbow: 16 slots")],
        "log",
        has_points=True,
    )
    nowhere = "SELECT 'a' AS line, NULL AS figure, 8 AS x, 1 AS y, NULL AS price"
    assert block("lines", nowhere, x="slots", y="ms") is None


# --- the elbow ------------------------------------------------------------------------------------

costs = st.integers(0, 1000).map(float)
sweeps = st.dictionaries(st.integers(0, 2000), st.tuples(costs, costs), max_size=8)


@pytest.mark.property
@given(sweeps, st.randoms(), st.sampled_from([0.25, 2.0, 64.0]), st.sampled_from([0.5, 8.0]))
def test_an_elbow_lies_between_ends_and_knows_no_units(
    points: dict[int, tuple[float, float]], dice: random.Random, width: float, height: float
) -> None:
    at = elbow(points)
    assert at is None or min(points.values())[0] < points[at][0] < max(points.values())[0]
    assert elbow(dict(dice.sample([*points.items()], len(points)))) == at
    assert elbow({v: (x * width, y * height) for v, (x, y) in points.items()}) == at
    assert elbow({**points, 5000: (None, 1.0), 6000: (1.0, None)}) == at


@pytest.mark.property
@given(st.integers(1, 1000), st.integers(-1000, 1000), st.lists(costs, unique=True))
def test_neither_a_straight_line_nor_a_flat_one_has_an_elbow(
    base: int, slope: int, places: list[float]
) -> None:
    assert elbow({at: (x, base + slope * x) for at, x in enumerate(places)}) is None
    assert elbow({at: (x, 1000.0 - at % 2 * 99) for at, x in enumerate(places)}) is None


@pytest.mark.property
@given(st.integers(1, 99), st.integers(1, 99))
@example(1, 1)
def test_the_elbow_of_a_bent_line_is_its_bend(x: int, y: int) -> None:
    """Below the chord of (0, 100) and (100, 0) if the bend is; the same seen from either axis."""
    bent = {1: (0.0, 100.0), 2: (float(x), float(y)), 3: (100.0, 0.0)}
    assert elbow(bent) == (2 if x + y < 90 else None)
    assert elbow({at: (y, x) for at, (x, y) in bent.items()}) == elbow(bent)


# --- what was checked, and what was not read ------------------------------------------------------


def test_of_rejected_lines_few_and_their_heads_are_shown() -> None:
    query = """CREATE TABLE rejected_lines AS SELECT 'r' AS recording, 'bad_json' AS reason,
        1 AS node_id, 'a.log' AS source_file, n AS line_number, 'id' || n AS line_id,
        repeat('x', 900) AS line, 5000 AS line_bytes FROM range(10, 0, -1) AS of(n)"""
    with duckdb.connect() as database:
        database.execute(query)
        (found,) = marks.rows(database, REJECTED)
    assert (found["reason"], found["n"]) == ("bad_json", 10)
    assert [of["line_number"] for of in found["examples"]] == [1, 2, 3]
    assert {len(of["line"]) for of in found["examples"]} == {EXAMPLE_CHARACTERS}
