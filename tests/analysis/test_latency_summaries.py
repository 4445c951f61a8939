"""Percentiles, means and curves of histograms equal plain arithmetic on the values."""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from constructed import Key, Micros, Row, assert_same, keyed, spread, written_rows
from hypothesis import given
from hypothesis import strategies as st

from kip_replay.pipelines.analysis.intervals import BLOCKS, Error
from kip_replay.pipelines.analysis.summaries import CURVE_POINTS, LatencySummaries, traffic_figures
from kip_replay.pipelines.warehouse.data_files import DataFile, TableFiles
from kip_replay.replay.records import SteadyPhase
from kip_replay.replay.tables import (
    LatencyCurves,
    LatencyHistograms,
    LatencySummary,
    PairedDifferences,
)

_NAMES = ("recording", "rule", "variant", "parameter", "parameter_value")
GROUP = (*_NAMES, "metric", "group_kind", "group_value")
LINE: Key = ("r", "rule", "v", "none", -1, "lag", "kind", "broker")
DRAWN = frozenset({("lag", "kind")})

#: Of each recording 32 blocks of two seconds.
SPANS = {name: SteadyPhase(0, BLOCKS * 2_000_000) for name in ("r", "s")}

Values = Mapping[Key, Sequence[Micros]]


def batches(values: Values, most_rows: int) -> Iterator[pa.RecordBatch]:
    """Rows of ``latency_histogram`` in batches that end anywhere; each value by itself."""
    rows = []
    # Variants of a group together.
    for key, of in sorted(values.items(), key=lambda each: (*each[0][3:], *each[0])):
        is_drawn = (key[3], key[5:7]) == ("none", next(iter(DRAWN)))
        blocks: dict[int, list[Row]] = defaultdict(list)
        for value, number in zip(of, cycle(range(BLOCKS)), strict=False):
            blocks[number if is_drawn else 0].append({"value_us": value, "occurs": 1})
        length = 2_000_000 if is_drawn else 0
        rows += [(*key, length, number, each) for number, each in sorted(blocks.items())]
    names = (*GROUP, "block_us", "block", "counts")
    schema = pa.schema([LatencyHistograms.arrow_schema.field(name) for name in names])
    named = [dict(zip(names, row, strict=True)) for row in rows]
    yield from pa.Table.from_pylist(named, schema).to_batches(most_rows)


def summed_up(
    values: Values, folder: Path, most_rows: int = 10_000
) -> tuple[dict[Key, Row], list[Row]]:
    """Rows of latency_summary by group, and of latency_curves."""
    files = written(values, folder, most_rows)
    summary, curves = (written_rows(folder, t, files) for t in (LatencySummary, LatencyCurves))
    return keyed(summary, GROUP), curves


def written(values: Values, folder: Path, most_rows: int = 10_000) -> list[DataFile]:
    files, errors = TableFiles(str(folder), "part"), {"rule": {("v", "lag_p50"): Error(300.0)}}
    return LatencySummaries(files, DRAWN, DRAWN, SPANS, errors)(batches(values, most_rows))


@given(
    values=st.dictionaries(
        st.sampled_from([LINE, (*LINE[:6], "all", "all"), ("s", *LINE[1:])]),
        st.lists(st.one_of(st.none(), st.integers(0, 10**7)), min_size=1, max_size=300),
        min_size=1,
    ),
    most_rows=st.integers(1, 50),
)
def test_every_figure_is_exact(values: dict[Key, list[Micros]], most_rows: int) -> None:
    with TemporaryDirectory() as folder:
        summary, _ = summed_up(values, Path(folder), most_rows)
    assert_same(summary, {key: spread(of) for key, of in values.items()})


def test_a_mean_is_of_integers_of_any_size(tmp_path: Path) -> None:
    """As floating point, the small one would be lost."""
    values = [*[2**50 + 1] * 2**10, 3]
    found = summed_up({LINE: values}, tmp_path)[0][LINE]
    assert found["mean_ms"] == sum(values) / len(values) / 1000


def test_points_of_a_curve_are_few_and_exact(tmp_path: Path) -> None:
    # Uneven values with ties, more of them than a curve has points; three are unknown.
    draw = random.Random(1)
    values = [100 * draw.randrange(1, 4000) for _ in range(997)]

    _, points = summed_up({LINE: [*values, None, None, None]}, tmp_path, 70)

    assert CURVE_POINTS * 0.9 < len(points) <= CURVE_POINTS
    assert all(tuple(point[name] for name in GROUP) == LINE for point in points)
    assert [point["total"] for point in points] == [1000] * len(points)
    assert (points[0]["from_us"], points[-1]["value_us"]) == (min(values), max(values))
    for before, point in pairwise([None, *points]):
        above = before["value_us"] if before else 0
        assert point["from_us"] == min(us for us in values if us > above)
        assert point["value_us"] in values
        assert point["up_to"] == sum(us <= point["value_us"] for us in values)
        # A slice of the ranks has half a per cent of them, or what it has has one value.
        ranks = point["up_to"] - (before["up_to"] if before else 0)
        most_common = max(Counter(us for us in values if above < us).values())
        assert ranks <= 1000 // CURVE_POINTS - 1 + most_common


def test_headlines_have_bounds(tmp_path: Path) -> None:
    draw = random.Random(1)
    values = [draw.randrange(1000, 9000) for _ in range(400)]
    others: list[Key] = [(*LINE[:3], "max_wait_ms", 100, *LINE[5:]), (*LINE[:6], "all", "all")]
    found = summed_up({**dict.fromkeys(others, values), LINE: values}, tmp_path)[0]
    for name in ("p50", "p90", "p99"):
        low, figure, high = (found[LINE][f"{name}{end}_ms"] for end in ("_low", "", "_high"))
        assert low < figure < high
        assert {found[key][f"{name}{end}_ms"] for key in others for end in ("_low", "_high")} == {
            None
        }


def test_variants_of_a_headline_are_compared_in_the_same_blocks(tmp_path: Path) -> None:
    draw = random.Random(1)
    values = [1000 * draw.randrange(1, 9000) for _ in range(250)]
    more: list[Micros] = [us + 2000 for us in values[:-1]]
    variants = {"recorded": values, "same": values, "v": [*more, None]}
    of = {(*LINE[:2], name, *LINE[3:]): each for name, each in variants.items()}
    rows = written_rows(tmp_path, PairedDifferences, written(of, tmp_path))
    found = keyed(rows, ("figure", "before_variant", "after_variant"))
    # 250 values have 2 beyond the 99th percentile.
    assert {key[0] for key in found} == {"p50", "p90"}
    assert len(found) == 12
    for figure in ("p50", "p90"):
        same = found[figure, "recorded", "same"]
        assert (same["low"], same["high"], same["unknown_count"]) == (0.0, 0.0, 0)
        row, back = found[figure, "recorded", "v"], found[figure, "v", "recorded"]
        assert (row["unit"], row["count"], row["unknown_count"]) == ("ms", 249, 1)
        assert row["low"] < row["after"] - row["before"] < row["high"]
        assert (back["low"], back["high"]) == (-row["high"], -row["low"])
    # The predicted error of the one, and next to no other: the values differ by 2 ms in each block.
    assert 590 < found["p50", "recorded", "v"]["high"] - found["p50", "recorded", "v"]["low"] < 700


def test_rates_are_of_all_nodes_and_of_the_seconds_that_their_logs_have() -> None:
    def row(node_id: int, direction: str, size: int, seconds: list[float]) -> Row:
        listed = {"requests": [10, 30], "partitions": [20, 100], "bytes": [size, size]}
        blocks = {f"{name}_per_block": of for name, of in (listed | {"seconds": seconds}).items()}
        more = {"client_kind": "follower", "variant": "v", "unknown_size_requests": node_id}
        return blocks | more | {"node_id": node_id, "direction": direction}

    spans = {1: [1.0, 4.0], 2: [4.0, 4.0]}  # of the first node's log something is missing
    ways = (("request", 100), ("response", 900))
    rows = [row(node, *way, seconds) for node, seconds in spans.items() for way in ways]
    found = {(g["group_value"], g["metric"]): of["v"] for g, of in traffic_figures(rows)}
    assert {key[0] for key in found} == {"all", "follower", "1", "2"}
    assert found["1", "fetches"].value == 40 / 5
    assert found["all", "fetches"].value == 40 / 5 + 40 / 8
    assert found["all", "bytes"].value == 2000 / 5 + 2000 / 8
    assert found["follower", "bytes"].unknown == 3
    assert found["all", "partitions"].value == 240 / (80 * (1 - 3 / 80))
    assert found["all", "fetches"].weighted(np.array([[1, 0]])).tolist() == [10 / 1 + 10 / 4]


def test_only_what_is_drawn_has_a_curve(tmp_path: Path) -> None:
    others: list[Key] = [
        (*LINE[:3], "max_wait_ms", 100, *LINE[5:]),  # a sweep
        (*LINE[:6], "all", "all"),
        (*LINE[:5], "another", "kind", "broker"),
    ]
    summary, points = summed_up({**{key: [5] for key in others}, LINE: [None]}, tmp_path)
    assert len(summary) == 4
    assert points == []
