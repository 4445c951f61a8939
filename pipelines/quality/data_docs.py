"""Data Docs as one page that needs nothing from the network.

Great Expectations' own pages fetch styles, fonts and scripts from other servers, and are blank
without them. So only its tables are taken, with a small style; a policy forbids the rest.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from kip_replay.pipelines.quality.failing_rows import Result
from kip_replay.pipelines.quality.suites import Severity

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Data quality</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; }
td, th { border: 1px solid #ccc; padding: .35em .6em; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
pre { background: #f4f4f4; margin: .3em 0; padding: .5em; white-space: pre-wrap; }
h5, .cooltip { display: none; }
.critical { color: #b00020; font-weight: bold; }
.warning { color: #8a5a00; font-weight: bold; }
.text-success::before { content: "met"; }
.text-danger::before, .text-warning::before { color: #b00020; content: "failed"; }
</style></head><body><h1>Data quality</h1>
"""


def publish(page: Path, sections: Mapping[str, str], results: Sequence[Result]) -> None:
    """Writes the page: what came of each recording and suite, then each suite's section."""
    of: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for each in results:
        of[each.finding.recording, each.finding.expectation.suite].append(each)
    heads, parts, rows = "", "", ""
    for name, section in ((html.escape(suite), section) for suite, section in sections.items()):
        heads += f'<th><a href="#{name}">{name}</a></th>'
        parts += f'<h2 id="{name}">{name}</h2>{section}'
    for recording in sorted({each.finding.recording for each in results}):
        cells = "".join(f"<td>{_verdict(of[recording, suite])}</td>" for suite in sections)
        rows += f"<tr><td>{html.escape(recording)}</td>{cells}</tr>\n"
    table = f"<table><tr><th>recording</th>{heads}</tr>\n{rows}</table>"
    page.parent.mkdir(exist_ok=True)
    fresh = page.with_suffix(".new")
    fresh.write_text(f"{_HEAD}{table}{parts}</body></html>\n", encoding="utf-8")
    fresh.replace(page)


def _verdict(results: Sequence[Result]) -> str:
    failed = [each.finding.expectation.severity for each in results if not each.success]
    text = f"{len(results) - len(failed)} of {len(results)} met"
    for severity in sorted({*failed}, key=[*reversed(Severity)].index):
        text += f', <span class="{severity}">{failed.count(severity)} {severity}</span>'
    return text
