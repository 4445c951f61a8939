"""What the browser gets of charts, bars and slow requests: short, without text, and allowed."""

import base64
import hashlib
import json
import re
from html import unescape

import pytest

from kip_replay.pipelines.report import charts, words
from kip_replay.pipelines.report.marks import Bar, Bars, Chart, Line, Mark, Slow, Slowest


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


def test_figures_hold_no_text_of_logs_nor_what_would_end_their_element() -> None:
    hostile = "</script><!-- & \u2028"
    line, marks = Line(hostile, hostile, [1.0], [2.0]), [Mark(1.0, hostile, hostile)]
    text = charts.figures(Chart("name", "note", "described", "x", "y", [line], marks))
    assert not set("<>&\u2028") & set(text)
    assert hostile not in unescape(text)
    assert json.loads(text)["marks"] == [[1, "●"]]


def test_long_names_and_sentences_are_cut() -> None:
    slow = Slow(1234.56, "1", "w" * 10_000, "t", "s" * 2000, "f:1")
    (row,) = charts.slow_rows(Slowest("", "", [slow]))
    assert [len(cell) for cell in row] == [7, 5, 1, 120, 1, 1000, 3]
    (bar,) = charts.stacks(Bars("", "", "B", [Bar("w" * 121, "", [("w" * 121, 1.0)])]))
    assert bar.name == bar.parts[0][0] == "w" * 119 + "…"


@pytest.mark.parametrize(
    ("found", "printed"),
    [
        (words.visible("Größe ≥ 日本"), "Größe ≥ 日本"),
        (words.visible("a\0b\tc\n"), "a\\u0000b\\u0009c\\u000a"),
        (words.visible("\u202eabc\u2069\ufeff\u200b"), "\\u202eabc\\u2069\\ufeff\\u200b"),
        (words.visible("\ud800"), "\\ud800"),
    ],
)
def test_names_as_printed(found: str, printed: str) -> None:
    assert found.replace(words.SPACE, " ") == printed
