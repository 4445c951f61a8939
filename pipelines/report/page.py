"""The page: values in, one self-contained HTML file out; the same values give the same bytes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from kip_replay.pipelines.report import accuracy, logs, registered, words
from kip_replay.pipelines.report.data import Report, read_report
from kip_replay.pipelines.report.view import Section
from kip_replay.pipelines.warehouse.tables import Warehouse

#: What the file is called by default: ``<warehouse>/report.html``.
REPORT_NAME = "report.html"
#: Sentences on what is the matter with logs, at the head of the page.
MOST_WARNINGS = 20


def write_report(
    warehouse: Warehouse,
    recordings: Sequence[str],
    path: Path,
    kafka_versions: Mapping[str, str] | None = None,
    fingerprint: str | None = None,
) -> Path:
    """Writes the report on recordings of a warehouse to ``path`` and returns it.

    The file is there whole or not at all. ``kafka_versions``: what manifests say, by recording.
    ``fingerprint``: of all that the page follows from; a page that ends with it is left as it is.
    Raises UserError if a recording or a table is not in the warehouse.
    """
    end = "" if fingerprint is None else f"<!-- {fingerprint} -->\n"
    if (
        fingerprint is not None
        and path.is_file()
        and path.read_text(encoding="utf-8").endswith(end)
    ):
        return path
    page = render(read_report(warehouse, recordings, kafka_versions)) + end
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(page, encoding="utf-8", newline="\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def render(report: Report) -> str:
    """The page as HTML."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_finalized,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"with_code": _with_code, "amount": words.count}
    environment.filters |= {"number": words.number, "shortened": words.shortened}
    sections: list[Section] = [
        steps.section(
            report.figures[steps.name], [c for c in report.checks if c.rule == steps.name]
        )
        for steps in registered.rules()
        if steps.name in report.figures
    ]
    return environment.get_template("template.html.j2").render(
        title=_title(sections),
        recordings=words.count(len(report.logs), "recording"),
        sections=sections,
        warnings=[warning for of in report.logs for warning in of.warnings][:MOST_WARNINGS],
        accuracy=accuracy.view(report.checks, [(s.prose.rule, s.prose.question) for s in sections]),
        logs=logs.view(report.logs),
    )


def _finalized(value: object) -> object:
    """What a {{ }} prints: logs may hold characters that would hide or reorder text."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return words.visible(value)
    return words.NOT_KNOWN if value is None else value


def _with_code(text: str) -> Markup:
    return Markup(re.sub("`(.*?)`", r"<code>\1</code>", str(escape(text))))


def _title(sections: Sequence[Section]) -> str:
    """The page's headline: the answer where there is one question, else what the questions are."""
    if len(sections) == 1:
        return sections[0].answer.striptags()
    number = {2: "two", 3: "three", 4: "four"}.get(len(sections), str(len(sections)))
    return f"What {number} changes to Kafka’s protocol would do to your cluster"
