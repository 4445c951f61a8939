"""Errors and coverage of intervals, of figures made by hand."""

import tomllib
from typing import Any

import numpy as np
from constructed import rule_steps

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.analysis.intervals import BLOCKS
from kip_replay.pipelines.page.values import Traffic
from kip_replay.replay.outcomes import RECORDED
from tools.accuracy import largest, text
from tools.coverage import Amount, Figure, Found, Latencies, coverage, page

RULE = "incremental_fetch"
BYTES = Figure(RULE, "fetch_bytes", "bytes", is_traffic=True)


def row(before: str, after: str, predicted: float, error: float, **more: Any) -> dict[str, Any]:
    kind = Kind.SELF_CHECK if before == after else Kind.OTHER_CLUSTER
    usual = {"rule": RULE, "variant": "full", "metric": "fetch_bytes", "group_kind": "client_kind"}
    held = {"predicted_from": before, "recorded_in": after, "predicted": predicted, "error": error}
    return usual | held | {"kind": kind, "is_enough": True} | more


def test_the_largest_errors_are_of_other_clusters_where_one_was_predicted() -> None:
    rows = [
        row("a", "a", 100.0, 90.0),
        row("a", "b", 100.0, -5.0),
        row("b", "a", 20.0, 2.0),
        row("b", "a", 20.0, 19.0, is_enough=False),
        row("b", "a", 20.0, 19.0, metric="no headline"),
        row("b", "a", 20.0, 19.0, rule="another"),
        row("a", "a", 50.0, 4.0, variant="incremental"),
    ]
    found = largest(rows, rule_steps(RULE))
    assert found == {
        ("full", "fetch_bytes"): (Kind.OTHER_CLUSTER, 5.0, 0.1, 2),
        ("incremental", "fetch_bytes"): (Kind.SELF_CHECK, 4.0, 0.08, 1),
    }
    read = tomllib.loads(text(found))
    assert read["full"]["fetch_bytes"] == {
        "absolute": 5.0,
        "relative": 0.1,
        "of": "other_cluster",
        "count": 2,
    }


def amount(*of_blocks: int) -> Amount:
    """Bytes of 10 FETCHes in each of 16 blocks of 4 s."""
    size = (of_blocks * BLOCKS)[:BLOCKS]
    fetches = (10,) * BLOCKS
    traffic = Traffic(fetches=160, span_s=64.0, per_block=(fetches, fetches, size))
    return Amount(traffic, "bytes")


def test_halves_and_recordings_of_one_workload_predict_each_other() -> None:
    steady, faster = amount(100, 120), amount(200, 220)
    found: Found = {
        ("a", "full", BYTES): steady,
        ("a", RECORDED, BYTES): steady,
        ("b", RECORDED, BYTES): faster,
        ("b", "full", BYTES): faster,
    }
    rows = [row("a", "a", 1.0, 0.0), row("b", "b", 1.0, 0.0), row("a", "b", 100.0, 20.0)]
    held = list(coverage(found, rows, ()))
    # What one predicted of the other says nothing of how far predictions of the two may be off.
    assert [(one.how, one.pair, one.holds) for one in held] == [
        ("halves", ("a", "a"), True),
        ("one workload", ("a", "b"), False),
        ("halves", ("b", "b"), True),
    ]
    other_pair = row("c", "d", 100.0, 99.0)
    wide = list(coverage(found, [*rows, other_pair], ()))
    assert [one.holds for one in wide] == [True, True, True]
    printed = page(held)
    assert "| incremental_fetch | bytes | 2 of 2 | 0 of 1 | 0 of 0 | 2 of 3 |" in printed
    assert "Of all 3 intervals, 66.7% hold" in printed


def test_a_half_of_latencies_has_the_blocks_of_its_time() -> None:
    values = np.arange(1, 9)
    unknown = np.zeros(BLOCKS, np.int64)
    unknown[[0, 15]] = 1, 20
    series = Latencies(values, values, np.ones(8, np.int64), unknown, 500, 4.0)
    first, second = series.half(False), series.half(True)
    # Blocks 0 to 8 and 15 have values, known or not: the later five begin with the fifth.
    assert first
    assert first.value == 3.0
    assert first.unknown.sum() == 1
    assert second
    assert second.values.tolist() == [5, 6, 7, 8]
    assert second.unknown.sum() == 20
    assert second.sampling is None
