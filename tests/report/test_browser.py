"""What scripts make of the page, in Chromium: drawn, zoomed, filtered, and nothing else."""

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import made_page
import pytest
from browser import Browser
from small_logs import REPOSITORY

from kip_replay.pipelines.report.page import render
from kip_replay.pipelines.report.pages import read_pages
from kip_replay.pipelines.warehouse.tables import Warehouse

Open = Callable[..., Browser]
SAMPLES = sorted(path.name for path in (REPOSITORY / "data" / "samples").iterdir())
WIDTHS = (360, 800, 1280)
ONE, TWO = "#recording-1-hwm_parking", "#recording-2-hwm_parking"
#: Whether anything is drawn on a canvas of an element.
DRAWN = """[...document.querySelectorAll('{} .plot canvas')].some(canvas => canvas.getContext('2d')
  .getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean))"""
#: What the legends of the charts over time say of the place of the cursor.
PLACES = f"""[...document.querySelectorAll('{ONE} [data-x=UTC] .u-legend tr:first-child .u-value')]
  .map(it => it.textContent)"""
LONG = f"{ONE} .tabled"
#: Where an element begins, from the top of the window.
TOP = "document.querySelector('{}').getBoundingClientRect().top"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_page.written(tmp_path_factory.mktemp("page"))


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Open]:
    """Opens a page; whatever a test does with it, nothing is loaded and nothing complained of."""

    def open_page(fragment: str = ONE, width: int = 1280, path: Path = page) -> Browser:
        browser.open(path, fragment, width)
        return browser

    yield open_page
    assert browser.messages == []
    assert browser.requests == []


def text(browser: Browser, selector: str) -> str:
    return " ".join(browser.run(f"document.querySelector({selector!r}).textContent").split())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("of", ["made", "samples"])
def test_everything_is_drawn_and_nothing_is_wider_than_the_window(
    opened: Open, page: Path, of: str, width: int, request: pytest.FixtureRequest
) -> None:
    path = page
    if of == "samples":
        warehouse: Warehouse = request.getfixturevalue("samples")
        path = Path(warehouse.path, "report.html")
    browser = opened("", width, path)
    folded = "document.querySelectorAll('details:not([open]) canvas').length"
    assert browser.run(folded) == 0
    browser.run("document.querySelectorAll('details').forEach(it => { it.open = true })")
    browser.resize(width, 30_000)
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('canvas')].map(it => it.getBoundingClientRect().right)"
    assert all(right <= width for right in browser.run(wide))
    assert browser.run(folded.replace(":not([open])", "")) > 0


def test_a_click_on_a_recording_goes_there_and_opens_what_is_folded(opened: Open) -> None:
    browser = opened("", 800)
    browser.resize(800, 600)
    for target in ("#recording-2", "#recording-1", "#recording-1", "#recording-2-min_isr_acks"):
        browser.run("scrollTo(0, 0)")
        browser.run(f"document.querySelector('.recordings a[href=\"{target}\"]').click()")
        browser.settle()
        assert -2 <= browser.run(TOP.format(target)) < 300
    assert browser.run("document.querySelector('#recording-2-min_isr_acks').checkVisibility()")
    assert not browser.run("document.querySelector('#recording-1-min_isr_acks').checkVisibility()")


def test_what_is_under_the_cursor_is_named_and_a_drag_zooms(opened: Open) -> None:
    browser = opened()
    left, top, width = browser.run(
        "(({x, y, width}) => [x, y, width])"
        f"(document.querySelector('{ONE} .u-over').getBoundingClientRect())"
    )

    def mouse(share: float, kind: str = "mouseMoved", **more: Any) -> None:
        at = {"x": left + share * width, "y": top + 50}
        browser.call("Input.dispatchMouseEvent", type=kind, **at, **more)
        browser.settle()

    def to_the_start() -> str:
        mouse(0.01)
        mouse(0)
        [place, other] = browser.run(PLACES)
        assert place == other
        return str(place)

    button = {"button": "left", "clickCount": 1}
    assert to_the_start() == "2026-11-22 16:00:02 · node froze: 12"
    values = f"document.querySelector('{ONE} .u-legend').querySelectorAll('.u-value')"
    _, *shown = browser.run(f"[...{values}].map(it => it.textContent)")
    assert len(shown) == 4
    assert all(re.fullmatch(r"\d+\.?\d*", value) for value in shown)
    mouse(0.5, "mousePressed", **button)
    mouse(0.9, buttons=1)
    mouse(0.9, "mouseReleased", **button)
    assert "2026-11-22 16:09:50" < to_the_start() < "2026-11-22 16:10:10"
    browser.run(f"""document.querySelector('{ONE} .u-over')
      .dispatchEvent(new MouseEvent('dblclick', {{bubbles: true}}))""")
    browser.settle()
    assert to_the_start().startswith("2026-11-22 16:00:02")


def test_rows_are_sorted(opened: Open) -> None:
    browser = opened()
    rows = f"[...document.querySelectorAll('{LONG} tbody tr')]"
    longest = browser.run(f"{rows}.map(row => +row.cells[0].dataset.of)")
    assert longest == sorted(longest, reverse=True)
    head = f"document.querySelectorAll('{LONG} th')"
    for way in ("descending", "ascending"):
        browser.run(f"{head}[0].querySelector('button').click()")
        assert browser.run(f"{head}[0].ariaSort") == way
    assert browser.run(f"{rows}.map(row => +row.cells[0].dataset.of)") == longest[::-1]
    browser.run(f"{head}[5].querySelector('button').click()")
    assert browser.run(f"{head}[0].ariaSort") is None
    found = browser.run(f"{rows}.map(row => row.cells[5].textContent)")
    assert found == sorted(found)


def test_hostile_names_stay_text(opened: Open) -> None:
    browser = opened(TWO)
    names = made_page.HOSTILE
    assert browser.run("document.querySelectorAll('img, main script:not([type])').length") == 0
    shown = text(browser, "#recording-2")
    assert min(shown.count(names[0][:-1]), shown.count(names[2])) > 10
    assert not {"\u202e", "\0"} & {*shown}
    assert browser.run(DRAWN.format(TWO))
    over = f"document.querySelector('{TWO} .u-over')"
    event = "new MouseEvent('mousemove', {bubbles: true, clientX: rect.x, clientY: rect.y + 9})"
    browser.run(f"(rect => {over}.dispatchEvent({event}))({over}.getBoundingClientRect())")
    browser.settle()
    place = text(browser, f"{TWO} .u-legend .u-value")
    assert "· </script></svg><script>alert(1)</script>\\u0000" in place


def test_no_script_runs_but_the_page_s_own(browser: Browser, page: Path) -> None:
    browser.open(page)
    made = "Object.assign(document.createElement('script'), {textContent: 'window.ran = true'})"
    browser.run(f"document.body.append({made})")
    browser.settle()
    assert browser.run("window.ran") is None
    assert "Content Security Policy" in browser.messages[0]


def test_without_scripts_the_page_says_the_same_in_words(browser: Browser, page: Path) -> None:
    browser.scripts(False)
    try:
        browser.open(page)
    finally:
        browser.scripts(True)
    shown = "[...document.querySelectorAll('{}')].map(it => it.checkVisibility())"
    assert browser.run(shown.format(".page")) == [True, True]
    browser.run("document.querySelectorAll('details').forEach(it => { it.open = true })")
    assert all(browser.run(shown.format("#recording-1 .described")))
    assert not browser.run("document.querySelectorAll('canvas').length")
    read = browser.run("document.body.innerText")
    assert "recorded: 3.6 to 21.6 ms" in read
    assert "Follower 2 had offset 1000 last." in read
    assert not browser.run("document.querySelectorAll('.copy, th button').length")


#: The words that are seen in the window beside pictures, as an operator reads them.
WORDS = """(() => {
  const range = document.createRange(), found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (!node.parentElement.checkVisibility() || node.parentElement.closest(".pictures")) continue;
    for (const match of node.textContent.matchAll(/\\S+/g)) {
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const {width, top} = range.getBoundingClientRect();
      if (width && top < innerHeight) found.push(match[0]);
    }
  }
  return found;
})()"""


@pytest.mark.parametrize("names", [[SAMPLES[0]], [SAMPLES[-1]], SAMPLES], ids=len)
def test_the_first_screen_is_one(
    opened: Open, samples: Warehouse, tmp_path: Path, names: list[str]
) -> None:
    """Of one recording a state and pictures, then findings; at most 180 words, and 30 figures."""
    path = Path(samples.path, "report.html")
    if names != SAMPLES:
        path = tmp_path / "page.html"
        path.write_text(render(read_pages(samples, names)), encoding="utf-8")
    browser = opened("", 1200, path)
    browser.resize(1200, 900)
    words = browser.run(WORDS)
    figures = [word for word in words if word.lstrip("(−")[:1].isdigit()]
    assert len(words) <= 180
    assert 5 < len(figures) <= 30
    shown = "[...document.querySelectorAll('.pictures figure')].filter(it => it.checkVisibility())"
    pictures = browser.run(f"{shown}.map(it => it.getBoundingClientRect().bottom)")
    if names == SAMPLES:
        assert {"KIP-1166", "KIP-227"} <= {*words}
        assert not pictures
    else:
        assert len(pictures) >= 4
        assert max(pictures) < 750  # what stands out is seen as well
        assert browser.run(f"{shown}.slice(1).every(it => it.querySelector('[title]'))")
    printed = browser.call("Page.printToPDF", preferCSSPageSize=True)["data"]
    assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed))) == 1


def test_recordings_are_sorted_by_a_figure(opened: Open, samples: Warehouse) -> None:
    browser = opened("", 1200, Path(samples.path, "report.html"))
    names = (
        "[...document.querySelectorAll('.recordings tbody th')].map(it => it.textContent.trim())"
    )
    assert browser.run(names) == SAMPLES
    heads = "document.querySelectorAll('.recordings thead th button')"
    browser.run(f"{heads}[1].click()")
    assert browser.run(names)[::5] == ["acks-two-replicas", "metadata-4.0"]
    browser.run(f"{heads}[3].click()")  # what is not known is last
    assert browser.run(names)[-1] == "acks-two-replicas"
