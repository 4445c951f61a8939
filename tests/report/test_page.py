"""The page and its other formats: self-contained, and text from logs stays text."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_page import HOSTILE, TEXT, pages

from kip_replay.jobs import _steps
from kip_replay.pipelines.report.page import HERE, assets, is_current, render, write_page
from kip_replay.pipelines.report.words import visible


class Parsed(HTMLParser):
    """Elements with the names of their attributes, attribute values, and the text between."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.structure: list[tuple[str, ...]] = []
        self.values: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.structure.append((tag, *(name for name, _ in attrs)))
        self.values += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        self.structure.append((f"/{tag}",))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def html() -> str:
    return render(pages())


def test_hostile_text_comes_out_as_visible_text(html: str) -> None:
    hostile, harmless = Parsed(html), Parsed(render(pages("x")))
    assert hostile.structure == harmless.structure
    assert sum(visible(TEXT) in text for text in hostile.texts) >= 10
    assert not any(name.startswith("on") for name, _ in hostile.values)
    assert not set(html) & set("\0\u202e\u200f")


def test_elements_are_closed_in_order_and_links_lead_somewhere(html: str) -> None:
    parsed = Parsed(html)
    open_elements: list[str] = []
    for tag, *_ in parsed.structure:
        if tag.startswith("/"):
            assert open_elements.pop() == tag[1:]
        elif tag not in {"meta", "link", "input", "br"}:
            open_elements.append(tag)
    assert open_elements == []
    ids = [value for name, value in parsed.values if name == "id"]
    assert len(ids) == len(set(ids))
    targets = {v for name, v in parsed.values if name in {"href", "src", "srcset", "data"}}
    kips = {v for v in targets if v.startswith("https://cwiki.apache.org/confluence/display/")}
    assert len(kips) == 4
    assert targets - kips - {"data:,"} <= {f"#{id}" for id in ids}


def test_nothing_is_loaded_from_anywhere_and_scripts_are_allowed_by_hash(html: str) -> None:
    styles = "".join(re.findall("(?s)<style>.*?</style>", html))
    assert not re.search(r"@import|url\(", styles)
    assert "default-src 'none'" in html
    elements = {tag for tag, *_ in Parsed(html).structure}
    assert not elements & {"iframe", "object", "embed", "img", "base"}
    texts = re.findall("<script>(.*?)</script>", html, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    assert assets()["hashes"] == " ".join(f"'sha256-{digest}'" for digest in digests)
    assert "The MIT License" in texts[0]
    for text in texts:
        assert not re.search(r"innerHTML|\beval\(|Function\(|fetch\(|XMLHttp|import\(", text)


def test_uplot_is_the_one_of_its_release() -> None:
    """Of the npm package uplot 1.6.32."""
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (HERE / "uplot").iterdir()
    }
    assert digests == {
        "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
        "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    }


@pytest.mark.parametrize("text", ["a\0b\tc\n", "\u202eabc\u2069\ufeff\u200b", "\ud800"])
def test_what_is_invisible_is_written_out(text: str) -> None:
    assert visible(f"Größe ≥ 日本{text}").isprintable()
    assert visible(f"Größe ≥ 日本{text}").startswith("Größe ≥ 日本")


def test_hostile_text_stays_text_in_json_and_a_terminal() -> None:
    read = render(pages(), "json")
    assert json.loads(read)["recordings"][1]["recording"] == TEXT
    assert read.isascii()
    assert "".join(render(pages(), "text").splitlines()).isprintable()


#: A sample of both formats: a name, labels whose values escape \ and ", and a number.
SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\} (-?[\d.e+-]+)')


def test_metrics_are_of_the_text_format_and_openmetrics() -> None:
    """As strictly as node_exporter's parser, and OpenMetrics where that asks for more."""
    *lines, end, last = render(pages(), "openmetrics").split("\n")
    assert (end, last) == ("# EOF", "")
    families, samples, kinds = list[str](), list[str](), list[str]()
    for line in lines:
        if line.startswith("# "):
            _, kind, name, value = line.split(" ", 3)
            if kind == "TYPE":
                families.append(name)
                kinds = []
            kinds.append(kind)
            assert kind in ("TYPE", "UNIT", "HELP")
            assert value == "gauge" if kind == "TYPE" else name == families[-1]
            assert kind != "UNIT" or name.endswith("_" + value)
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == families[-1]
            assert len({*kinds}) == len(kinds), "twice of a family"
            samples.append(match[1] + match[2])
    assert len({*families}) == len(families)
    of_sample = [sample for sample in samples if "acks-slow-follower" in sample]
    assert len({*of_sample}) == len(of_sample) > 20
    assert any(HOSTILE[2].replace('"', '\\"') in sample for sample in samples)
    assert 'side="before"} 0.246541' in "\n".join(lines)


def test_a_page_is_there_whole_with_its_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    assert not is_current(path, "a")
    write_page(path, "text\n", "a")
    assert (is_current(path, "a"), is_current(path, "b")) == (True, False)
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def test_it_follows_from_all_that_makes_a_page() -> None:
    names = {path.name for path in _steps.REPORT.files}
    assert {"report.html.j2", "page.js", "style.css", "uPlot.iife.min.js"} <= names
    assert {"page.toml", "outcomes.sql", "views.sql", "overview.toml"} <= names
    assert not any("__pycache__" in str(path) for path in _steps.REPORT.files)
