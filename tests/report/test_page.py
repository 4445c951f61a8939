"""The page and its other formats: self-contained, and text from logs stays text."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import Mock

import mistune
import pytest
from made_page import TEXT, pages

from kip_replay.jobs import _steps
from kip_replay.pipelines.report.formats import as_json, as_markdown, as_text
from kip_replay.pipelines.report.page import is_current, render, write_page
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
        elif tag not in {"meta", "link", "input"}:
            open_elements.append(tag)
    assert open_elements == []
    ids = [value for name, value in parsed.values if name == "id"]
    assert len(ids) == len(set(ids))
    targets = {v for name, v in parsed.values if name in {"href", "src", "srcset", "data"}}
    labels = {v for name, v in parsed.values if name == "aria-labelledby"}
    assert targets - {"data:,"} <= {f"#{id}" for id in ids}
    assert labels <= set(ids)


def test_nothing_is_loaded_from_anywhere(html: str) -> None:
    styles = "".join(re.findall("(?s)<style>.*?</style>", html))
    assert not re.search(r"@import|url\(", styles)
    assert "default-src 'none'" in html
    elements = {tag for tag, *_ in Parsed(html).structure}
    assert not elements & {"iframe", "object", "embed", "img", "base", "form"}


def test_hostile_text_stays_text_in_markdown_json_and_a_terminal() -> None:
    def parsed(text: str) -> Parsed:
        plugins = ["table", "strikethrough", "url", "task_lists"]
        markdown = mistune.create_markdown(escape=False, plugins=plugins)
        return Parsed(str(markdown(as_markdown(pages(text)))))

    hostile = parsed(TEXT)
    assert hostile.structure == parsed("x").structure
    assert not {"a", "img", "em", "del", "script"} & {tag for tag, *_ in hostile.structure}
    read = json.loads(as_json(pages()))
    assert read["recordings"][1]["recording"] == TEXT
    assert as_json(pages()).isascii()
    assert "".join(as_text(pages())).isprintable()


def test_a_page_is_there_whole_with_its_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    assert not is_current(path, "a")
    write_page(path, "text\n", "a")
    assert (is_current(path, "a"), is_current(path, "b"), is_current(path, None)) == (1, 0, 0)
    assert [each.name for each in path.parent.iterdir()] == ["report.html"]


def test_it_follows_from_all_that_makes_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(_steps, "code_of", lambda modules, texts: f"{read.extend(texts)}")
    done = Mock(**{"lineage.return_value.get.return_value": "done"})
    assert _steps.report_fingerprint(["one"], done, {})
    names = {Path(each).name for each in read}
    assert {"template.html.j2", "page.js", "charts.css", "uPlot.iife.min.js"} <= names
    assert {"page.toml", "facts.sql", "slow_produces.sql", "reasons.toml"} <= names
    assert not any("__pycache__" in each for each in read)
    unknown = Mock(**{"lineage.return_value.get.return_value": None})
    assert _steps.report_fingerprint(["one"], unknown, {}) is None
