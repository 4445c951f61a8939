"""What the browser gets of charts, bars and slow requests: short, without text, and allowed."""

import base64
import hashlib
import json
import math
import random
import re
from html import unescape

import pytest

from kip_replay.pipelines.page.view import Bar, Bars, Chart, Line, Mark, Slow, Slowest
from kip_replay.pipelines.report import charts

_BEGIN = 1_795_363_200.0


def chart(*lines: Line, **more: object) -> Chart:
    return Chart("name", "note", "described", "x", "y", lines, **more)  # type: ignore[arg-type]


def figures(it: Chart) -> dict[str, list[object]]:
    return json.loads(charts.figures(it))  # type: ignore[no-any-return]


def test_uplot_is_the_one_of_its_release() -> None:
    """Of the npm package uplot 1.6.32."""
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (charts.HERE / "uplot").iterdir()
    }
    assert digests == {
        "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
        "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    }


def test_each_script_is_allowed_by_its_hash_and_none_reaches_outside() -> None:
    tags, hashes = charts.scripts()
    texts = re.findall("<script>(.*?)</script>", tags, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    assert hashes == " ".join(f"'sha256-{digest}'" for digest in digests)
    assert "The MIT License" in texts[0]
    for text in texts:
        assert not re.search(r"innerHTML|\beval\(|Function\(|fetch\(|XMLHttp|import\(", text)


def test_a_chart_of_240_points_and_four_lines_takes_less_than_6_kb() -> None:
    noise = random.Random(0)
    times = [_BEGIN + 5 * i for i in range(240)]
    for scale in (0.01, 1.0, 100.0, 1e6):
        lines = [
            Line(f"line {i}", "with", times, [noise.lognormvariate(3, 1) * scale for _ in times])
            for i in range(4)
        ]
        assert len(charts.figures(chart(*lines, x_scale="time"))) < 6000


def test_times_are_runs_of_buckets() -> None:
    times = [_BEGIN + 2.5 + 5 * i for i in (*range(50), *range(60, 70), 100)]
    line = Line("line", "with", times, [1.0] * len(times))
    other = Line("other", "with", [_BEGIN + 2.5, _BEGIN + 7.5], [1.0, None])
    found = figures(chart(line, other, line, x_scale="time"))
    assert found["x"] == [
        {"from": _BEGIN + 2.5, "step": 5, "runs": [0, 50, 60, 10, 100, 1]},
        {"at": [_BEGIN + 2.5, _BEGIN + 7.5]},
    ]
    assert [axis for axis, _ in found["y"]] == [0, 1, 0]  # type: ignore[misc]
    assert found["y"][1] == [1, [1, None]]


def test_gaps_are_null_and_of_one_x_the_last_is_kept() -> None:
    line = Line("line", "with", [1, 2, 2, 4.5], [1.0, 2.0, None, math.nan])
    found = figures(chart(line))
    assert found["x"] == [{"at": [1, 2, 4.5]}]
    assert found["y"] == [[0, [1, None, None]]]
    line = Line("line", "with", [3, 1], [0.25, -0.0])  # in any order
    assert figures(chart(line, y_scale="share"))["y"] == [[0, [0, 0.25]]]


@pytest.mark.parametrize(("least", "edge"), [(3.0, 1), (1.0, 0.1), (0.00251, 0.001)])
def test_zero_stands_at_the_edge_of_a_log_axis(least: float, edge: float) -> None:
    line = Line("line", "with", [0.0, 0.0, least, 250.0], [0.1, 0.2, 0.5, 1.0])
    found = figures(chart(line, x_scale="log", y_scale="share", is_stepped=True))
    assert found["x"] == [{"at": [edge, least, 250]}]
    assert found["y"] == [[0, [0.2, 0.5, 1.0]]]
    assert found["zero"] == edge
    marked = figures(
        chart(Line("line", "", [least], [1.0]), x_scale="log", marks=[Mark(0, "", "")])
    )
    assert marked["marks"] == [[edge, "●"]]
    assert figures(chart(line))["zero"] is None


def test_figures_hold_no_text_of_logs_nor_what_would_end_their_element() -> None:
    hostile = "</script><!-- & \u2028"
    line = Line(hostile, hostile, [1.0], [2.0])
    text = charts.figures(chart(line, marks=[Mark(1.0, hostile, hostile)]))
    assert not set("<>&\u2028") & set(text)
    assert hostile not in unescape(text)
    assert json.loads(text)["marks"] == [[1, "●"]]


def test_small_charts_have_a_table_large_ones_have_none() -> None:
    one = Line("one", "with", [_BEGIN, _BEGIN + 0.25], [12.5, None])
    two = Line("two", "with", [_BEGIN + 0.25], [0.00456])
    assert charts.table(chart(one, two, x_scale="time")) == [
        ("2026-11-22 16:00:00", ["12.5", "–"]),
        ("2026-11-22 16:00:00.250", ["–", "0.0046"]),
    ]
    shares = chart(Line("one", "with", [1, 2], [0.5, 1.0]), y_scale="share")
    assert [cells for _, cells in charts.table(shares)] == [["50.00\u00a0%"], ["100.00\u00a0%"]]
    many = Line("many", "with", list(range(41)), [1.0] * 41)
    assert charts.table(chart(many)) == []


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1234567.0, "B/s", "1.2 MB/s"),
        (0.0, "B/s", "0 B/s"),
        (1234.5, "1/s", "1,234 1/s"),
        (12.34, "ms", "12.3 ms"),
        (2.0, "", "2"),
        (0.00123, "ms", "0.0012 ms"),
        (0.0, "ms", "0 ms"),
        (None, "ms", "–"),
        (math.inf, "B", "–"),
    ],
)
def test_amounts_have_as_many_digits_as_matter(value: float | None, unit: str, text: str) -> None:
    assert charts.amount(value, unit).replace("\u00a0", " ") == text


def test_bars_share_one_scale_and_parts_keep_their_place() -> None:
    bars = [Bar("a", "with", [("x", 3.0), ("y", 1.0)]), Bar("b", "", [("y", 2.0)])]
    long, short = charts.stacks(Bars("name", "note", "described", "ms", bars))
    assert long.total == "4\u00a0ms"
    assert long.parts == [("x", "3\u00a0ms", 75.0, 0), ("y", "1\u00a0ms", 25.0, 1)]
    assert short.parts == [("y", "2\u00a0ms", 50.0, 1)]
    (nothing,) = charts.stacks(Bars("", "", "", "ms", [Bar("a", "with", [("x", 0.0)])]))
    assert nothing.parts == [("x", "0\u00a0ms", 0.0, 0)]


def test_long_names_and_sentences_are_cut() -> None:
    slow = Slow(1234.56, "1", "w" * 10_000, "t", "s" * 2000, "f:1")
    (row,) = charts.slow_rows(Slowest("", "", [slow]))
    assert [len(cell) for cell in row] == [7, 5, 1, 120, 1, 1000, 3]
    (bar,) = charts.stacks(Bars("", "", "", "B", [Bar("w" * 121, "", [("w" * 121, 1.0)])]))
    assert bar.name == bar.parts[0][0] == "w" * 119 + "…"


@pytest.mark.parametrize("scale", [1e-14, 1e-7, 0.001, 1.0, 1000.0, 1e9, 1e15])
def test_figures_of_large_charts_are_right_to_half_of_their_third_digit(scale: float) -> None:
    noise = random.Random(1)
    y = [noise.uniform(-2, 2) * scale for _ in range(100)]
    ((_, found),) = figures(chart(Line("line", "with", list(range(100)), y)))["y"]  # type: ignore[misc]
    assert found == pytest.approx(y, rel=0.00501, abs=1e-20)
