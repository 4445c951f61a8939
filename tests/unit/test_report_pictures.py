"""Pictures: well-formed, within their frame, labelled where nothing else is."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from kip_replay.pipelines.report.pictures import Bar, Line, band, bars, distribution, tag
from kip_replay.pipelines.report.values import Curve


def curve(*ms: float) -> Curve:
    return Curve(ms[0], tuple((value, (n + 1) / len(ms)) for n, value in enumerate(ms)))


def lines(*curves: Curve) -> list[Line]:
    names = ("without", "with", "recorded")
    return [
        Line(name, f"{name} KIP-1166", found, found.points[len(found.points) // 2][0])
        for name, found in zip(names, curves, strict=False)
    ]


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


SLOW = curve(8.0, 100.0, 250.0, 330.0, 450.0, 490.0, 500.0)
FAST = curve(0.1, 0.5, 1.2, 2.0, 7.0, 26.0, 45.0)


def test_distribution_is_one_image_with_title_and_description() -> None:
    root = parsed(distribution("lag-0", lines(SLOW, FAST), "ms", "title", "description"))
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "lag-0-title lag-0-desc"
    assert [root[0].text, root[1].text] == ["title", "description"]


@pytest.mark.parametrize(
    "curves",
    [
        (SLOW, FAST, SLOW),
        (FAST, FAST, FAST),
        (curve(0.0, 0.0, 0.0), SLOW),
        (curve(5.0),),
        (curve(0.001, 90_000.0),),
        (),
    ],
)
def test_distribution_stays_in_its_frame(curves: tuple[Curve, ...]) -> None:
    root = parsed(distribution("lag-0", lines(*curves), "ms", "title", "description"))
    _, _, width, height = map(float, (root.get("viewBox") or "").split())

    for path in root.iter("path"):
        numbers = re.findall(r"([MHV])([\d.]+)(?: ([\d.]+))?", path.get("d") or "")
        assert numbers
        for command, first, second in numbers:
            limit = height if command == "V" else width
            assert 0 <= float(first) <= limit
            assert not second or 0 <= float(second) <= height
    for text in root.iter("text"):
        assert 0 <= float(text.get("x") or -1) <= width
        assert 0 <= float(text.get("y") or -1) <= height


def test_labels_neither_cover_lines_nor_each_other() -> None:
    root = parsed(distribution("lag-0", lines(SLOW, FAST), "ms", "title", "description"))
    swatches = [e for e in root.iter("line") if (e.get("class") or "").startswith("line ")]

    tops = [(float(s.get("x1") or 0), float(s.get("y1") or 0)) for s in swatches]
    assert len(tops) == 2
    (x1, y1), (x2, y2) = tops
    assert abs(y1 - y2) >= 30 or abs(x1 - x2) >= 100


def test_lines_differ_without_colour_by_class() -> None:
    root = parsed(distribution("n", lines(SLOW, FAST, SLOW), "ms", "t", "d"))
    classes = [path.get("class") or "" for path in root.iter("path")]
    of_lines = [name for name in classes if name.startswith("line ")]
    assert of_lines == ["line without", "line with", "line recorded"]


def test_bars_are_as_long_as_their_values() -> None:
    rows = [
        Bar("without", "without", (("brokers", 9.0), ("controllers", 6.0))),
        Bar("with", "with", (("brokers", 18.0), ("controllers", 12.0))),
    ]
    root = parsed(bars("n", rows, "/s", "t", "d"))
    widths = [float(rect.get("width") or 0) for rect in root.iter("rect")]
    assert widths[2] / widths[0] == pytest.approx(2.0, rel=0.03)
    assert [t.text for t in root.iter("text") if "/s" in (t.text or "")] == ["15.0 /s", "30.0 /s"]


@pytest.mark.parametrize("rows", [[], [Bar("with", "with", (("brokers", 0.0),))]])
def test_bars_of_nothing(rows: list[Bar]) -> None:
    parsed(bars("n", rows, "/s", "t", "d"))


@pytest.mark.parametrize(
    ("error", "tolerance", "shapes"),
    [
        (0.5, 1.0, ["circle"]),
        (-30.0, 1.0, ["polygon"]),
        (1.0, 0.0, ["polygon"]),
        (0.0, 0.0, ["circle"]),
        (None, 1.0, []),
    ],
)
def test_band_shows_the_error_against_the_tolerance(
    error: float | None, tolerance: float, shapes: list[str]
) -> None:
    root = parsed(band(error, tolerance, error is not None))
    assert [e.tag for e in root if e.tag in {"circle", "polygon"}] == shapes


def test_text_and_attributes_are_escaped() -> None:
    nasty = "\"'><script>\u202e"
    assert parsed(tag("text", nasty, class_=nasty)).text == "\"'><script>\\u202e"
    assert parsed(tag("text", nasty, class_=nasty)).get("class") == "\"'><script>\\u202e"
