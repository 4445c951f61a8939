"""What scripts make of the page, in Chromium: drawn, zoomed, filtered, and nothing else."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import made_page
import pytest
from browser import Browser

from kip_replay.pipelines.warehouse.tables import Warehouse

Open = Callable[..., Browser]
WIDTHS = (360, 800, 1280)
ONE, TWO = "#recording-1-hwm_parking-details", "#recording-2-hwm_parking-details"
#: Colours and the share of pixels that are drawn on, of each canvas in an element. Of a copy, since
#: Chromium complains where a canvas is read twice.
DRAWN = """[...document.querySelectorAll('{} canvas')].map(canvas => {{
  const {{width, height}} = canvas;
  const copy = new OffscreenCanvas(width, height).getContext('2d', {{willReadFrequently: true}});
  copy.drawImage(canvas, 0, 0);
  const {{data}} = copy.getImageData(0, 0, width, height), found = new Set();
  let inked = 0;
  for (let i = 0; i < data.length; i += 4) {{
    if (data[i + 3]) inked++;
    if (data[i + 3] === 255) found.add([...data.slice(i, i + 3)].join());
  }}
  return [inked * 4 / data.length, [...found]];
}})"""
#: The least x that is seen in each chart of the group: the cursor is moved there.
SEEN_FROM = f"""[...document.querySelectorAll('{ONE} [data-x=time] .plot')].map(plot => {{
  plot.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Home'}}));
  return plot.closest('figure').querySelector('.at').textContent;
}})"""
ROWS = f"[...document.querySelectorAll('{ONE} .slowest tbody tr')].filter(row => !row.hidden)"
CHOOSE = "(([it, value]) => {{it.value = value; it.dispatchEvent(new Event('input'))}})([{}, '{}'])"
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


def colours(browser: Browser, within: str) -> set[str]:
    return {colour for _, found in browser.run(DRAWN.format(within)) for colour in found}


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
    folded = "document.querySelectorAll('details.fold:not([open]) canvas').length"
    assert browser.run(folded) == 0
    # All four KIPs of each recording are seen before anything is opened.
    shown = """[...document.querySelectorAll('.page')].map(page => {
      const seen = [...page.querySelectorAll('h3, summary .cell')].filter(
        it => it.checkVisibility() && it.getBoundingClientRect().right <= innerWidth);
      return seen.map(it => it.querySelector('.soft').textContent);
    })"""
    kips = {"KIP-1166", "KIP-227", "KIP-926", "Lowest acknowledged offset"}
    assert all({*seen} >= kips for seen in browser.run(shown))
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
        browser.run(f"document.querySelector('.overview a[href=\"{target}\"]').click()")
        browser.settle()
        assert -2 <= browser.run(TOP.format(target)) < 300
    assert browser.run("document.querySelector('#recording-2-min_isr_acks').checkVisibility()")
    assert not browser.run("document.querySelector('#recording-1-min_isr_acks').checkVisibility()")


def test_keys_and_buttons_move_zoom_and_name_what_is_there(opened: Open) -> None:
    browser = opened()
    browser.run(f"document.querySelector('{ONE} .plot').focus()")
    browser.press("Home", "ArrowRight")
    spoken = f"{ONE} .spoken[aria-live]"
    assert text(browser, spoken).startswith("2026-11-22 16:00:05, recorded 1")
    values = f"document.querySelector('{ONE} figure.chart').querySelectorAll('.legend .value')"
    shown = browser.run(f"[...{values}].map(it => it.textContent)")
    assert len(shown) == 4
    assert all(re.fullmatch(r"\d+\.?\d*", value) for value in shown)
    browser.press(*["ArrowRight"] * 25)
    assert text(browser, f"{ONE} .tip") == "◆ isr on node 1"
    assert "isr on node 1" in text(browser, spoken)
    assert "2026-11-22 16:02:10 isr on node 1" in text(browser, f"{ONE} .marks")
    browser.press("End", "+", "+")
    assert browser.run(SEEN_FROM)[0] > "2026-11-22 16:10"
    browser.press("0")
    for name, seen in (("Show all", ":00:00"), ("Zoom in", ":0"), ("Zoom out", ":00:00")):
        browser.run(f"document.querySelector('{ONE} [aria-label=\"{name}\"]').click()")
        browser.settle()
        assert browser.run(SEEN_FROM)[0].startswith(f"2026-11-22 16{seen}")


def test_rows_are_filtered_sorted_and_counted(opened: Open) -> None:
    browser = opened()
    count = f"{ONE} .slowest [aria-live]"
    assert text(browser, count) == "20 shown"
    selects = f"document.querySelectorAll('{ONE} .filters select')"
    options = browser.run(f"[...{selects}[2].options].map(it => it.text)")
    assert options == ["all", "none", "orders", "payments"]
    browser.run(CHOOSE.format(f"{selects}[0]", 1))
    browser.run(CHOOSE.format(f"{selects}[1]", 0))
    names = f"{ROWS}.map(row => [row.cells[1].textContent, row.cells[2].textContent])"
    assert browser.run(names) == [["2", "producer-0"]] * 2
    assert text(browser, count) == "2 of 20 shown"
    browser.run(CHOOSE.format(f"{selects}[0]", ""))
    browser.run(CHOOSE.format(f"{selects}[1]", ""))
    words = f"document.querySelector('{ONE} .filters input')"
    browser.run(CHOOSE.format(words, "OFFSET 1017"))
    assert browser.run(f"{ROWS}.map(row => row.cells[5].textContent)") == ["broker-2.log:1231"]
    browser.run(CHOOSE.format(words, ""))
    longest = browser.run(f"{ROWS}.map(row => +row.cells[0].dataset.of)")
    assert longest == sorted(longest, reverse=True)
    head = f"document.querySelectorAll('{ONE} .slowest th')"
    browser.run(f"{head}[0].querySelector('button').click()")
    assert browser.run(f"{head}[0].ariaSort") == "ascending"
    assert browser.run(f"{ROWS}.map(row => +row.cells[0].dataset.of)") == longest[::-1]
    browser.run(f"{head}[5].querySelector('button').click()")
    assert browser.run(f"{head}[0].ariaSort") is None
    found = browser.run(f"{ROWS}.map(row => row.cells[5].textContent)")
    assert found == sorted(found)


def test_hostile_names_stay_text(opened: Open) -> None:
    browser = opened(TWO)
    names = [name[:60] for name in made_page.HOSTILE]
    assert browser.run("document.querySelectorAll('img, section script:not([type])').length") == 0
    shown = text(browser, "#recording-2")
    assert min(shown.count(names[0][:-1]), shown.count(names[2])) > 10
    assert not {"\u202e", "\0"} & {*shown}
    assert {"0,95,176", "189,75,0"} <= colours(browser, TWO)  # points between gaps are seen
    browser.run(f"document.querySelector('{TWO} .plot').focus()")
    browser.press("Home")
    assert text(browser, f"{TWO} .tip") == "● </script></svg><script>alert(1)</script>\\u0000"
    options = f"document.querySelectorAll('{TWO} .filters select')[1].options"
    assert {names[2], names[3]} < {*browser.run(f"[...{options}].map(it => it.text)")}


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
    assert browser.run(shown.format("#recording-1 .described"))[0]
    assert not any(browser.run(shown.format(".drawing")))
    browser.run("document.querySelectorAll('details').forEach(it => { it.open = true })")
    read = browser.run("document.body.innerText")
    assert "Wait: 9 to 90." in read
    assert "Follower 2 had offset 1000 last." in read
    assert not browser.run("document.querySelectorAll('.filters, .copy, th button').length")
