"""Errors and coverage of intervals, of figures made by hand."""

import tomllib
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from constructed import rule_steps

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.analysis.intervals import Figure, rates
from kip_replay.pipelines.ingest.recording import Recording, load_recordings
from kip_replay.replay.outcomes import RECORDED
from tools.accuracy import largest, text
from tools.coverage import Name, coverage, halves, page
from tools.printed import DOCS

RULE = "incremental_fetch"
BYTES = Name(RULE, "fetch_bytes", "bytes")
SAMPLES = DOCS.parent / "data" / "samples"


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
        ("full", "fetch_bytes"): (Kind.OTHER_CLUSTER, 0.0, 0.1, 2),
        ("incremental", "fetch_bytes"): (Kind.SELF_CHECK, 0.0, 0.08, 1),
    }
    read = tomllib.loads(text(found))
    assert read["full"]["fetch_bytes"] == {
        "absolute": 0.0,
        "relative": 0.1,
        "of": "other_cluster",
        "count": 2,
    }


def amount(*of_blocks: int) -> Figure:
    """Bytes a second of 10 FETCHes in each of 16 blocks of 4 s."""
    sizes, seconds = np.array((of_blocks * 16)[:16]), np.full(16, 4.0)
    of = partial(rates, [(sizes, seconds)])
    return Figure(of, np.full(16, 10), seconds, is_sum=True)


def recording(name: str) -> Recording:
    [one] = load_recordings([SAMPLES / "sessions-on"])
    return replace(one, name=name)


def test_halves_and_recordings_of_one_workload_predict_each_other() -> None:
    steady, faster = amount(100, 120), amount(200, 220)
    found = {
        ("a", BYTES): {"full": steady, RECORDED: steady},
        ("b", BYTES): {"full": faster, RECORDED: faster},
    }
    rows = [row("a", "a", 1.0, 0.0), row("b", "b", 1.0, 0.0), row("a", "b", 100.0, 20.0)]
    both = [recording("a"), recording("b")]
    held = list(coverage(found, rows, both, ["c", "d"]))
    one_other = [(one.how, one.pair, one.holds) for one in held if one.what == "figures"]
    assert one_other == [
        *[("halves", ("a", "a"), True)] * 2,
        ("one workload", ("a", "b"), False),
        *[("halves", ("b", "b"), True)] * 2,
    ]
    assert [one.pair for one in held if one.what == "differences"] == [("a", "a"), ("b", "b")]
    # How far predictions are off, others say.
    wide = coverage(found, [*rows, row("c", "d", 100.0, 99.0)], both, ["c", "d"])
    assert all(one.holds for one in wide)
    printed = page(held)
    assert "| incremental_fetch | bytes | 4 of 4 | 0 of 1 |  | 2 of 2 |  |  |" in printed
    assert "Of the intervals of figures, 4 of 5 hold, 80.0%." in printed


def test_what_a_change_saves_is_held_against_what_it_saved_there() -> None:
    """Recording b's brokers ran fetch sessions, those of a none."""
    full, few, fewer = amount(100, 120), amount(50, 60), amount(20, 30)
    found = {
        ("a", BYTES): {RECORDED: full, "full": full, "incremental": few},
        ("b", BYTES): {RECORDED: fewer, "full": full, "incremental": fewer},
    }
    runs = [row("a", "a", 1.0, 0.0), row("b", "b", 1.0, 0.0, variant="incremental")]
    rows = [*runs, row("a", "b", 1.0, 0.0, variant="incremental")]
    held = coverage(found, rows, [recording("a"), recording("b")], [])
    across = [(one.what, one.holds) for one in held if one.how == "one workload"]
    assert across == [("figures", False), ("figures", True), ("differences", False)]


def test_workloads_are_halved_as_a_whole() -> None:
    every = load_recordings([*SAMPLES.iterdir()])
    one, other = ({of.name for of in half} for half in halves(every))
    assert len(one) + len(other) == len(every)
    pair = {"sessions-on", "sessions-off"}
    assert pair <= one or pair <= other
