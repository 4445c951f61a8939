"""What scripts make of the page, in Chromium: drawn, zoomed, filtered, and nothing else."""

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
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


def drawn_colours(pdf: bytes) -> set[tuple[float, ...]]:
    """Colours of all lines of a PDF; canvases are printed as lines, not as pixels."""
    found = set()
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        with suppress(zlib.error):  # fonts
            for colour in re.findall(rb"([\d.]+ [\d.]+ [\d.]+) RG", zlib.decompress(stream)):
                found.add(tuple(round(float(part), 2) for part in colour.split()))
    return found


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


def test_dragging_zooms_all_charts_of_a_group_and_a_double_click_shows_all_again(
    opened: Open,
) -> None:
    browser = opened()
    before = browser.run(SEEN_FROM)
    over = f"document.querySelector('{ONE} .u-over')"
    box = f"{over}.getBoundingClientRect()"
    x, y, width = browser.run(f"(({{x, y, width}}) => [x, y, width])({box})")
    middle, to = (x + width / 2, y + 40), (x + width * 0.75, y + 40)
    browser.mouse(("Moved", *middle), ("Pressed", *middle), ("Moved", *to), ("Released", *to))
    browser.settle()
    assert before == ["2026-11-22 16:00:00"] * 2
    assert browser.run(SEEN_FROM) == ["2026-11-22 16:10:00"] * 2
    browser.run(f"{over}.dispatchEvent(new MouseEvent('dblclick'))")
    browser.settle()
    assert browser.run(SEEN_FROM) == before


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


def test_zero_has_its_place_on_a_log_axis(opened: Open) -> None:
    browser = opened()
    sweep = f"document.querySelector('{ONE} figure.chart[data-x=log]')"
    browser.run(f"{sweep}.scrollIntoView()")
    browser.settle()
    browser.run(f"{sweep}.querySelector('.plot').focus()")
    seen = []
    for key in ("Home", "ArrowRight"):
        browser.press(key)
        seen.append(browser.run(f"{sweep}.querySelector('.at').textContent"))
    assert seen == ["0", "8"]


def test_a_line_can_be_hidden(opened: Open) -> None:
    browser = opened()
    before = browser.run(DRAWN.format(ONE))
    browser.run(f"document.querySelector('{ONE} .legend button').click()")
    browser.settle()
    assert browser.run(f"document.querySelector('{ONE} .legend button').ariaPressed") == "false"
    after = browser.run(DRAWN.format(ONE))
    assert after[0][0] < before[0][0]
    assert after[1:] == before[1:]


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
    assert {"0,114,178", "0,128,92"} <= colours(browser, TWO)  # points between gaps are seen
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


def test_dark_pages_are_printed_in_light_colours(opened: Open) -> None:
    light, dark = "0,95,176", "113,183,255"  # --with
    browser = opened()
    assert light in colours(browser, ONE)
    browser.dark(True)
    browser.resize(1280, 300)
    assert dark in colours(browser, ONE)
    assert light not in colours(browser, ONE)
    printed = drawn_colours(browser.pdf())
    browser.dark(False)
    of = [tuple(round(int(part) / 255, 2) for part in each.split(",")) for each in (light, dark)]
    assert of[0] in printed
    assert of[1] not in printed


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


def test_what_is_to_be_pasted_is_copied_or_selected(opened: Open) -> None:
    browser = opened("")
    browser.run("document.querySelector('.copy').click()")
    browser.settle()
    assert text(browser, ".copy") in {"Copied", "Selected"}
