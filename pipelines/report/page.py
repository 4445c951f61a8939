"""The page: values in, one self-contained HTML file out; the same values give the same bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from kip_replay.pipelines.code_archive import code_root
from kip_replay.pipelines.report import accuracy, logs_view, words
from kip_replay.pipelines.report.data import Report, read_report
from kip_replay.pipelines.report.view import Section
from kip_replay.pipelines.rules.hwm_parking import section as hwm_parking_section
from kip_replay.pipelines.rules.incremental_fetch import section as incremental_fetch_section
from kip_replay.pipelines.rules.lowest_acked_offset import section as lowest_acked_offset_section
from kip_replay.pipelines.rules.min_isr_acks import section as min_isr_acks_section
from kip_replay.pipelines.warehouse.tables import Warehouse

#: What the file is called where nobody says otherwise: ``<warehouse>/report.html``.
REPORT_NAME = "report.html"
_TEMPLATE = "template.html.j2"
_SECTIONS = {
    part.RULE: part.section
    for part in (
        hwm_parking_section,
        incremental_fetch_section,
        min_isr_acks_section,
        lowest_acked_offset_section,
    )
}


def write_report(
    warehouse: Warehouse,
    recordings: Sequence[str],
    path: Path,
    kafka_versions: Mapping[str, str] | None = None,
    mark: str | None = None,
) -> Path:
    """Writes the report on recordings of a warehouse to ``path`` and returns it.

    The file is there whole or not at all. ``kafka_versions``: what manifests say, by recording.
    ``mark``: a fingerprint of all that the page follows from; a page that ends with it is left.
    Raises UserError if a recording or a table is not in the warehouse.
    """
    end = "" if mark is None else f"<!-- {mark} -->\n"
    if mark is not None and path.is_file() and path.read_text(encoding="utf-8").endswith(end):
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
        loader=jinja2.FileSystemLoader(code_root() / "pipelines" / "report"),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATE).render(_page(report))


def _shown(value: object) -> object:
    """What a {{ }} prints: logs may hold characters that would hide or reorder text."""
    if value is None:
        return words.NOT_KNOWN
    if isinstance(value, str) and not isinstance(value, Markup):
        return words.visible(value)
    return value


def _page(report: Report) -> dict[str, Any]:
    sections = [_SECTIONS[rule](report) for rule in report.rules]
    return {
        "title": _title(sections),
        "recordings": words.count(len(report.recordings), "recording"),
        "sections": sections,
        "accuracy": accuracy.view(report.checks, [(s.rule, s.question) for s in sections]),
        "logs": logs_view.view(report.recordings),
    }


def _title(sections: Sequence[Section]) -> str:
    """The page's headline: the answer where there is one question, else what the questions are."""
    if len(sections) == 1:
        return sections[0].answer.striptags()
    number = {2: "two", 3: "three", 4: "four"}.get(len(sections), str(len(sections)))
    return f"What {number} changes to Kafka’s protocol would do to your cluster"
