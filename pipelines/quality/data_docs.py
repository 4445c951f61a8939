"""Data Docs that need nothing from the network, and an index in plain HTML.

Great Expectations' pages fetch styles, fonts and scripts from other servers, and its index is blank
without them. So each page loses whatever is fetched or executed, gets a small style of its own and
a policy that forbids the rest; the index is written here. The folder changes as a whole.
"""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kip_replay.pipelines.quality.suites import Severity

if TYPE_CHECKING:
    from kip_replay.pipelines.quality.validation import Result

_POLICY = (
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
)
_STYLE = """<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; }
td, th { border: 1px solid #ccc; padding: .35em .6em; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
pre { background: #f4f4f4; margin: .3em 0; padding: .5em; white-space: pre-wrap; }
.critical { color: #b00020; font-weight: bold; }
.warning { color: #8a5a00; font-weight: bold; }
nav, button, .cooltip, .modal { display: none; }
</style>"""
#: Scripts with what is in them; links and images, which are fetched.
_FETCHED = re.compile(
    r"<script\b.*?</script\s*>|<(?:link|img|iframe)\b[^>]*>", re.DOTALL | re.IGNORECASE
)
_HANDLERS = re.compile(r"""\son[a-z]+\s*=\s*("[^"]*"|'[^']*')""", re.IGNORECASE)


def run_name(place: int) -> str:
    """How the runs of the recording in this place are called: names may hold what paths can't."""
    return f"recording-{place + 1}"


def publish(fresh: Path, place: Path, results: Sequence[Result]) -> Path:
    """Mends the pages under ``fresh`` and puts them where the old ones were; returns the index."""
    pages = sorted(fresh.rglob("*.html"))
    for page in pages:
        page.write_text(mended(page.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.rmtree(fresh / "static", ignore_errors=True)
    (fresh / "index.html").write_text(_index(fresh, results), encoding="utf-8")
    if place.exists():
        shutil.rmtree(place)
    fresh.rename(place)
    return place / "index.html"


def mended(page: str) -> str:
    """The page without anything that is fetched or executed."""
    quiet = _HANDLERS.sub("", _FETCHED.sub("", page))
    return re.sub("<head>", f"<head>{_POLICY}{_STYLE}", quiet, count=1)


def _index(folder: Path, results: Sequence[Result]) -> str:
    recordings = list(dict.fromkeys(each.finding.recording for each in results))
    suites = list(dict.fromkeys(each.finding.expectation.suite for each in results))
    rows = []
    for place, recording in enumerate(recordings):
        cells = []
        for suite in suites:
            of_suite = [
                each
                for each in results
                if (each.finding.recording, each.finding.expectation.suite) == (recording, suite)
            ]
            pages = sorted((folder / "validations" / suite / run_name(place)).rglob("*.html"))
            link = pages[0].relative_to(folder).as_posix() if pages else ""
            cells.append(f'<td><a href="{html.escape(link)}">{_verdict(of_suite)}</a></td>')
        rows.append(f"<tr><td>{html.escape(recording)}</td>{''.join(cells)}</tr>")
    heads = "".join(
        f'<th><a href="expectations/{html.escape(suite)}.html">{html.escape(suite)}</a></th>'
        for suite in suites
    )
    return (
        f'<!DOCTYPE html><html lang="en"><head>{_POLICY}{_STYLE}<meta charset="utf-8">'
        "<title>Data quality</title></head><body><h1>Data quality</h1>"
        f"<table><tr><th>recording</th>{heads}</tr>{''.join(rows)}</table></body></html>\n"
    )


def _verdict(results: Sequence[Result]) -> str:
    failed = [each.finding.expectation.severity for each in results if not each.success]
    told = [
        f'<span class="{severity}">{failed.count(severity)} {severity}</span>'
        for severity in reversed(Severity)
        if severity in failed
    ]
    return f"{len(results) - len(failed)} of {len(results)} met" + "".join(f", {t}" for t in told)
