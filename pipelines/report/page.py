"""The page: values in, one self-contained HTML file out; the same values give the same bytes."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from kip_replay.pipelines.folders import rule_pages
from kip_replay.pipelines.report import charts, words
from kip_replay.pipelines.report.formats import as_json, as_markdown
from kip_replay.pipelines.report.marks import Bars, Chart, Slowest
from kip_replay.pipelines.report.pages import Page
from kip_replay.pipelines.storage import Place

#: What the file is called by default: ``<warehouse>/report.html``.
REPORT_NAME = "report.html"
TITLE = "What a protocol change would do to your Kafka cluster"


def is_current(path: Place, fingerprint: str | None) -> bool:
    """Returns whether the page there was written with this fingerprint; of None, none was."""
    if fingerprint is None or not path.is_file():
        return False
    return path.read_bytes().endswith(_end(fingerprint).encode())


def write_page(path: Place, text: str, fingerprint: str | None = None) -> None:
    """Writes a report, whole or not at all. ``fingerprint``: of what the page follows from."""
    if not isinstance(path, Path):
        path.write_text(text + _end(fingerprint))
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text + _end(fingerprint), encoding="utf-8", newline="\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _end(fingerprint: str | None) -> str:
    return "" if fingerprint is None else f"<!-- {fingerprint} -->\n"


def render(pages: Sequence[Page]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_finalized,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"amount": words.count, "mark": _mark} | charts.FILTERS
    environment.filters |= {"number": words.number, "shortened": words.shortened}
    return environment.get_template("template.html.j2").render(
        title=TITLE,
        pages=pages,
        stated=rule_pages(),
        scripts=charts.scripts(),
        chart_styles=charts.styles(),
        newline=Markup("\n"),
    )


def _mark(block: object) -> str:
    """Names the macro that shows it."""
    kinds = {Chart: "chart", Bars: "bars", Slowest: "slowest"}
    return kinds.get(type(block), "table")


def _finalized(value: object) -> object:
    """Prints a {{ }}: logs may hold characters that would hide or reorder text."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return words.visible(value)
    return words.NOT_KNOWN if value is None else value


#: What a report can be.
FORMATS: Mapping[str, Callable[[Sequence[Page]], str]] = {
    "html": render,
    "json": as_json,
    "markdown": as_markdown,
}
