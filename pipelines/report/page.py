"""The page and the other formats: values in, text out; the same values give the same bytes."""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from kip_replay.pipelines.report import words
from kip_replay.pipelines.rule_files import rule_pages
from kip_replay.pipelines.storage import Place

HERE = Path(__file__).parent
#: What the file is called by default: ``<warehouse>/report.html``.
REPORT_NAME = "report.html"
TITLE = "What a protocol change would do to your Kafka cluster"
#: What a report can be: templates on the pages' values, but for JSON, which is these.
FORMATS = ("html", "json", "text", "openmetrics")
_SCRIPTS = ("uplot/uPlot.iife.min.js", "charts.js", "page.js")
#: Of a page what is only drawn.
_DRAWN = ("sections", "blocks", "bands", "pictures")


def is_current(path: Place, fingerprint: str) -> bool:
    """Returns whether the page there was written with this fingerprint."""
    return path.is_file() and path.read_bytes().endswith(_end(fingerprint).encode())


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


def render(pages: Sequence[Mapping[str, Any]], form: str = "html") -> str:
    """The pages in one of ``FORMATS``."""
    if form == "json":
        recordings = [{name: page[name] for name in page if name not in _DRAWN} for page in pages]
        return json.dumps({"recordings": recordings}, indent=1) + "\n"
    pages = [{**page, "id": f"recording-{number}"} for number, page in enumerate(pages, start=1)]
    headlines = [
        (page, rule, advised, role, effect)
        for page in pages
        for rule, advised in page["rules"].items()
        for role, effects in (("gain", [advised["gain"]]), ("price", advised["price"]))
        for effect in effects
        if effect
    ]
    # The first of those of one client: it may fetch with sessions and without.
    findings = {
        (page["recording"], it["code"], it["subject"], it["detail"]): it
        for page in pages
        for it in reversed(page["findings"])
    }
    values = {"findings": findings, "headlines": headlines, "assets": assets()}
    values |= {"title": TITLE, "stated": rule_pages()}
    template = _environment().get_template(f"report.{form}.j2")
    return template.render(values, pages=pages)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=lambda name: name is not None and "html" in name,
        finalize=_finalized,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: list[Callable[..., str]] = [words.state, words.number, words.in_unit, words.change]
    filters += [words.within, label]
    environment.filters |= {filter.__name__: filter for filter in filters}
    environment.tests["known"] = words.is_known
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment


def _finalized(value: object) -> object:
    """Prints a {{ }}: logs may hold characters that would hide or reorder text."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return words.visible(value)
    return words.NOT_KNOWN if value is None else value


def label(value: object) -> str:
    """A quoted value of a label of OpenMetrics."""
    text = words.visible("" if value is None else str(value))
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@cache
def assets() -> Mapping[str, str]:
    """``tags`` of the page's scripts, the ``hashes`` that CSP allows them by, and ``styles``."""
    licence, *texts = (
        (HERE / name).read_text(encoding="utf-8") for name in ("uplot/LICENSE", *_SCRIPTS)
    )
    texts[0] = f"/*!\n{licence}*/\n{texts[0]}"
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in texts]
    styles = ((HERE / name).read_text("utf-8") for name in ("style.css", "uplot/uPlot.min.css"))
    return {
        "tags": Markup("\n".join(f"<script>{text}</script>" for text in texts)),
        "hashes": " ".join(f"'sha256-{digest.decode()}'" for digest in digests),
        "styles": Markup("\n".join(styles)),
    }
