"""What scripts make of the page, in Chromium: drawn, zoomed, filtered, and nothing else."""

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import chart_page
import pytest
from browser import Browser

ONE, TWO = "#page-1", "#page-2"
#: Pixels of a canvas; of a copy, since Chromium complains where one is read twice.
PIXELS = """const pixels = canvas => {
  const {width, height} = canvas;
  const copy = new OffscreenCanvas(width, height).getContext('2d', {willReadFrequently: true});
  copy.drawImage(canvas, 0, 0);
  return copy.getImageData(0, 0, width, height).data;
};"""
#: For each chart that is shown, the share of its pixels that are not the page's.
INKED = f"""(() => {{ {PIXELS}
  return [...document.querySelectorAll('.page:not([hidden]) canvas')].map(canvas => {{
    const data = pixels(canvas);
    return data.filter((value, i) => i % 4 === 3 && value > 0).length / (data.length / 4);
  }});
}})()"""
#: Colours in the first chart that is shown, as in '0,95,176'.
COLOURS = f"""(() => {{ {PIXELS}
  const data = pixels(document.querySelector('.page:not([hidden]) canvas')), found = new Set();
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] === 255) found.add([...data.slice(i, i + 3)].join());
  return [...found];
}})()"""
#: The least x that is seen in each chart of the group: the cursor is moved there.
SEEN_FROM = """[...document.querySelectorAll('#page-1 [data-x=time] .plot')].map(plot => {
  plot.dispatchEvent(new KeyboardEvent('keydown', {key: 'Home'}));
  return plot.closest('figure').querySelector('.at').textContent;
})"""
ROWS = "[...document.querySelectorAll('#page-1 .slowest tbody tr')].filter(row => !row.hidden)"
CHOOSE = "{it.value = value; it.dispatchEvent(new Event('input'))}"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return chart_page.written(tmp_path_factory.mktemp("page"))


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Callable[..., Browser]]:
    """Opens the page; whatever a test does with it, nothing is loaded and nothing complained of."""

    def open_page(fragment: str = ONE, width: int = 1280) -> Browser:
        browser.open(page, fragment, width)
        return browser

    yield open_page
    assert browser.messages == []
    assert browser.requests == []


def drawn_colours(pdf: bytes) -> set[tuple[float, ...]]:
    """Colours of all lines of a PDF; canvases are printed as lines, not as pixels."""
    found = set()
    for stream in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        with suppress(zlib.error):  # fonts
            for colour in re.findall(rb"([\d.]+ [\d.]+ [\d.]+) RG", zlib.decompress(stream)):
                found.add(tuple(round(float(part), 2) for part in colour.split()))
    return found


def test_a_chart_inside_what_is_folded_is_drawn_when_it_opens(
    opened: Callable[..., Browser],
) -> None:
    browser = opened()
    folded = "document.querySelector('#page-1 details:not([open]):has(.plot)')"
    browser.run(f"window.folded = {folded}")
    assert browser.run("folded.querySelectorAll('canvas').length") == 0
    browser.run("folded.open = true; folded.scrollIntoView()")
    browser.settle()
    assert browser.run("folded.querySelectorAll('canvas').length") > 0
    assert all(share > 0.01 for share in browser.run(INKED))


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("fragment", [ONE, TWO])
def test_nothing_is_wider_than_the_window(
    opened: Callable[..., Browser], width: int, fragment: str
) -> None:
    browser = opened(fragment, width)
    browser.run("document.querySelectorAll('details').forEach(it => { it.open = true })")
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth") <= width
    wide = "[...document.querySelectorAll('canvas')].map(it => it.getBoundingClientRect().right)"
    assert all(right <= width for right in browser.run(wide))


def test_dragging_zooms_all_charts_of_a_group_and_a_double_click_shows_all_again(
    opened: Callable[..., Browser],
) -> None:
    browser = opened()
    before = browser.run(SEEN_FROM)
    box = "document.querySelector('.u-over').getBoundingClientRect()"
    x, y, width = browser.run(f"(({{x, y, width}}) => [x, y, width])({box})")
    middle = x + width / 2, y + 40
    to = x + width * 0.75, y + 40
    browser.mouse(("Moved", *middle), ("Pressed", *middle), ("Moved", *to), ("Released", *to))
    browser.settle()
    assert before == ["2026-11-22 16:00:00"] * 2
    assert browser.run(SEEN_FROM) == ["2026-11-22 16:10:00"] * 2
    browser.run("document.querySelector('.u-over').dispatchEvent(new MouseEvent('dblclick'))")
    browser.settle()
    assert browser.run(SEEN_FROM) == before


def test_keys_move_the_cursor_and_zoom(opened: Callable[..., Browser]) -> None:
    browser = opened()
    browser.run("document.querySelector('.plot').focus()")
    browser.press("Home", "ArrowRight")
    spoken = browser.run("document.querySelector('.spoken[aria-live]').textContent")
    assert spoken.startswith("2026-11-22 16:00:05, recorded 5")
    values = "document.querySelector('figure.chart').querySelectorAll('.legend .value')"
    shown = browser.run(f"[...{values}].map(it => it.textContent)")
    assert len(shown) == 4
    assert all(re.fullmatch(r"\d+\.?\d*", value) for value in shown)
    browser.press("End", "+", "+")
    assert browser.run(SEEN_FROM)[0] > "2026-11-22 16:10"
    browser.press("0")
    assert browser.run(SEEN_FROM)[0] == "2026-11-22 16:00:00"


def test_zero_has_its_place_on_a_log_axis(opened: Callable[..., Browser]) -> None:
    browser = opened()
    charts = "[...document.querySelectorAll('#page-1 figure.chart')]"
    sweep = f"{charts}.find(it => it.querySelector('.x-name').textContent === 'slots')"
    browser.run(f"{sweep}.scrollIntoView()")
    browser.settle()
    browser.run(f"{sweep}.querySelector('.plot').focus()")
    seen = []
    for key in ("Home", "ArrowRight"):
        browser.press(key)
        seen.append(browser.run(f"{sweep}.querySelector('.at').textContent"))
    assert seen == ["0", "8"]


def test_a_point_between_gaps_is_seen(opened: Callable[..., Browser]) -> None:
    browser = opened(TWO)
    assert {"0,114,178", "0,128,92"} <= {*browser.run(COLOURS)}  # --series-0 and -2


def test_buttons_zoom_for_those_without_mouse_or_keyboard(opened: Callable[..., Browser]) -> None:
    browser = opened()
    before = browser.run(SEEN_FROM)
    for name, seen in (
        ("Show all", before[0]),
        ("Zoom in", "2026-11-22 16:00"),
        ("Zoom out", before[0]),
    ):
        browser.run(f"document.querySelector('[aria-label=\"{name}\"]').click()")
        browser.settle()
        assert browser.run(SEEN_FROM)[0].startswith(seen)


def test_an_event_is_named_where_the_cursor_is(opened: Callable[..., Browser]) -> None:
    browser = opened()
    browser.run("document.querySelector('.plot').focus()")
    browser.press("Home", *["ArrowRight"] * 26)
    assert browser.run("document.querySelector('.tip').textContent") == "◆ isr on node 1"
    assert "isr on node 1" in browser.run(
        "document.querySelector('.spoken[aria-live]').textContent"
    )
    listed = browser.run("document.querySelector('.marks').textContent")
    assert "2026-11-22 16:02:10 isr on node 1" in " ".join(listed.split())


def test_a_line_can_be_hidden(opened: Callable[..., Browser]) -> None:
    browser = opened()
    before = browser.run(INKED)
    browser.run("document.querySelector('.legend button').click()")
    browser.settle()
    assert browser.run("document.querySelector('.legend button').ariaPressed") == "false"
    after = browser.run(INKED)
    assert after[0] < before[0]
    assert after[1:] == before[1:]


def test_rows_are_filtered_and_counted(opened: Callable[..., Browser]) -> None:
    browser = opened()
    count = "document.querySelector('#page-1 .slowest [aria-live]').textContent"
    assert browser.run(count) == "20 shown"
    node, client, topic = (f"document.querySelectorAll('.filters select')[{i}]" for i in range(3))
    options = browser.run(f"[...{topic}.options].map(it => it.text)")
    assert options == ["all", "none", "orders", "payments"]
    for select, value in ((node, "1"), (client, "0")):
        browser.run(f"(([it, value]) => {CHOOSE})([{select}, '{value}'])")
    names = f"{ROWS}.map(row => [row.cells[1].textContent, row.cells[2].textContent])"
    assert browser.run(names) == [["2", "producer-0"]] * 2
    assert browser.run(count) == "2 of 20 shown"
    for select in (node, client):
        browser.run(f"(([it, value]) => {CHOOSE})([{select}, ''])")
    words = "document.querySelector('.filters input')"
    browser.run(f"(([it, value]) => {CHOOSE})([{words}, 'OFFSET 1017'])")
    assert browser.run(f"{ROWS}.map(row => row.cells[5].textContent)") == ["broker-2.log:1231"]


def test_rows_are_sorted_by_pressing_a_head(opened: Callable[..., Browser]) -> None:
    browser = opened()
    longest = browser.run(f"{ROWS}.map(row => +row.cells[0].dataset.of)")
    assert longest == sorted(longest, reverse=True)
    head = "document.querySelectorAll('#page-1 .slowest th')[{}]"
    browser.run(head.format(0) + ".querySelector('button').click()")
    assert browser.run(head.format(0) + ".ariaSort") == "ascending"
    assert browser.run(f"{ROWS}.map(row => +row.cells[0].dataset.of)") == longest[::-1]
    browser.run(head.format(5) + ".querySelector('button').click()")
    assert browser.run(head.format(0) + ".ariaSort") is None
    sources = browser.run(f"{ROWS}.map(row => row.cells[5].textContent)")
    assert sources == sorted(sources)


def test_one_page_is_shown_at_a_time(opened: Callable[..., Browser]) -> None:
    browser = opened("")
    shown = "[...document.querySelectorAll('.page')].map(it => !it.hidden)"
    current = "document.querySelector('[aria-current]').hash"
    assert browser.run(shown) == [True, False]
    browser.run("document.querySelector('nav a[href=\"#page-2\"]').click()")
    browser.settle()
    assert browser.run(shown) == [False, True]
    assert browser.run(current) == TWO


def test_hostile_names_stay_text(opened: Callable[..., Browser]) -> None:
    browser = opened(TWO)
    names = [name[:119] for name in chart_page.HOSTILE]
    assert browser.run("document.querySelectorAll('img, section script:not([type])').length") == 0
    text = browser.run("document.getElementById('page-2').textContent")
    assert text.count(names[0]) > 10
    assert text.count(names[2]) > 10
    assert "\u202e" not in text
    browser.run("document.querySelector('#page-2 .plot').focus()")
    browser.press("Home")
    tip = browser.run("document.querySelector('#page-2 .tip').textContent")
    assert tip == f"● {names[0]}"
    client = "document.querySelectorAll('#page-2 .filters select')[1].options"
    options = browser.run(f"[...{client}].map(it => it.text)")
    assert {names[0], names[2], names[3][:60]} < {*options}


def test_no_script_runs_but_the_page_s_own(browser: Browser, page: Path) -> None:
    browser.open(page)
    made = "Object.assign(document.createElement('script'), {textContent: 'window.ran = true'})"
    browser.run(f"document.body.append({made})")
    browser.settle()
    assert browser.run("window.ran") is None
    assert "Content Security Policy" in browser.messages[0]


def test_what_is_printed_has_every_chart_in_light_colours(browser: Browser, page: Path) -> None:
    browser.dark(True)
    browser.open(page, ONE, height=200)
    colours = drawn_colours(browser.pdf())
    browser.dark(False)
    assert browser.messages == []
    light = [(0, 0x72, 0xB2), (0x2B, 0x7F, 0xB8), (0x6B, 0x3F, 0xA0)]  # --series-0, -5, --other
    assert {tuple(round(part / 255, 2) for part in colour) for colour in light} <= colours
    assert (0.62, 0.83, 1.0) not in colours  # what --series-5 is in the dark


def test_without_scripts_the_page_says_the_same_in_words(browser: Browser, page: Path) -> None:
    browser.scripts(False)
    try:
        browser.open(page)
    finally:
        browser.scripts(True)
    shown = "[...document.querySelectorAll('{}')].map(it => it.checkVisibility())"
    assert browser.run(shown.format(".page")) == [True, True]
    assert browser.run(shown.format("#page-1 .described"))[0]
    assert not any(browser.run(shown.format(".drawing")))
    text = browser.run("document.body.innerText")
    assert chart_page.latency().described in text
    assert "The follower on node 2 had fetched offset 1000" in text
    assert not browser.run("document.querySelectorAll('.filters, .copy, th button').length")


def test_what_is_to_be_pasted_is_selected_where_nothing_can_be_copied(
    opened: Callable[..., Browser],
) -> None:
    browser = opened()
    browser.run("document.querySelector('.copy').click()")
    browser.settle()
    assert browser.run("document.querySelector('.copy').textContent") in {"Copied", "Selected"}
