"""The page: values in, one self-contained HTML file out; the same values give the same bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from kip_replay.pipelines.report import accuracy, charts, words
from kip_replay.pipelines.report.data import Report, read_report
from kip_replay.pipelines.report.formats import as_json, as_markdown
from kip_replay.pipelines.report.pages import Config, pages
from kip_replay.pipelines.report.view import Page
from kip_replay.pipelines.warehouse.tables import Warehouse

#: What the file is called by default: ``<warehouse>/report.html``.
REPORT_NAME = "report.html"
TITLE = "Changes to Kafka’s protocol, and what to do about them in your cluster"


def write_report(
    warehouse: Warehouse,
    recordings: Sequence[str],
    path: Path,
    config: Config,
    kafka_versions: Mapping[str, str] | None = None,
    fingerprint: str | None = None,
    form: str = "html",
) -> Path:
    """Writes the report on recordings of a warehouse to ``path`` and returns it.

    The file is there whole or not at all. ``config``: the limits of verdicts. ``kafka_versions``:
    what manifests say, by recording. ``fingerprint``: of all that a page follows from; a page that
    ends with it is left as it is. ``form``: of FORMATS.
    Raises UserError if a recording or a table is not in the warehouse.
    """
    end = "" if fingerprint is None else f"<!-- {fingerprint} -->\n"
    if (
        fingerprint is not None
        and path.is_file()
        and path.read_text(encoding="utf-8").endswith(end)
    ):
        return path
    report = read_report(warehouse, recordings, kafka_versions)
    page = text_of(report, config, form) + end
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(page, encoding="utf-8", newline="\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def text_of(report: Report, config: Config, form: str) -> str:
    """The report as HTML, JSON or Markdown."""
    return FORMATS[form](pages(report, config))


def render(pages: Sequence[Page]) -> str:
    """The report as HTML."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_finalized,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"with_code": _with_code, "amount": words.count}
    environment.filters |= charts.FILTERS
    environment.filters |= {"number": words.number, "shortened": words.shortened}
    return environment.get_template("template.html.j2").render(
        title=TITLE,
        recordings=words.count(sum(len(page.recordings) for page in pages), "recording"),
        pages=pages,
        every_prose=[section.prose for section in pages[0].sections] if pages else [],
        far=accuracy.FAR,
        scripts=charts.scripts(),
        chart_styles=charts.styles(),
        newline=Markup("\n"),
    )


def _finalized(value: object) -> object:
    """What a {{ }} prints: logs may hold characters that would hide or reorder text."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return words.visible(value)
    return words.NOT_KNOWN if value is None else value


def _with_code(text: str) -> Markup:
    return Markup(re.sub("`(.*?)`", r"<code>\1</code>", str(escape(text))))


#: What a report can be.
FORMATS: Mapping[str, Callable[[Sequence[Page]], str]] = {
    "html": render,
    "json": as_json,
    "markdown": as_markdown,
}
