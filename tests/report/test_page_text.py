"""The text of a whole page: every sentence and every figure, as a reader sees it.

``page.txt`` is what it was; whoever changes words or figures on purpose writes it anew, and reads
the difference: ``PYTHONPATH=tests:tests/report python -m test_text``.
"""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

from report_examples import acks_check, check, html, logs, recording, report_of, silent

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.report.data import Report
from kip_replay.pipelines.rules.hwm_parking.figures import Protocol
from kip_replay.pipelines.rules.lowest_acked_offset.words import SEEN

GOLDEN = Path(__file__).with_name("page.txt")
#: What is not read, what begins a line, what is a cell, and all other tags.
MARKUP = (
    (r"(?s)<(style|script).*?</\1>", ""),
    (r'<li class="(alert|warning)">', r"\n\1: "),
    (r"<(p|h\d|li|tr|summary|figcaption|dt|pre|nav)\b[^>]*>", "\n"),
    (r"</[^>]*>", ""),
    (r"<t[dh]\b[^>]*>", " | "),
    (r"<[^>]*>", " "),
)


def reported() -> Report:
    """Two recordings that are compared, one with damaged logs, and one that says nothing."""
    seen = replace(check(), rule="lowest_acked_offset", metric=SEEN)
    rate = {"metric": "produces_per_second", "tolerance": None, "passed": None}
    checks = (
        check(),
        replace(check(), group_value="voter", passed=False, error=-30.0),
        replace(check(), recorded_in="two", kind=Kind.OTHER_CLUSTER, is_enough=False),
        acks_check("one", "one", passed=False),
        replace(acks_check("one", "one"), **rate),
        seen,
    )
    at = datetime(2026, 11, 20, 20, 0, tzinfo=UTC)
    found = {"recording": "one", "node_id": 1}
    hole = {**found, "number": 1, "evidence": "session_epoch", "lines_missing": 7}
    clock = {**found, "reference_id": 2, "is_compared": True, "clocks": "differ"}
    bad = replace(
        logs(lines_read=13, damage=["ends in the middle"]),
        gaps=[hole | {"after_at": at, "before_at": at + timedelta(seconds=1.5)}],
        clocks=[clock | {"offset_earliest_ms": 4950.4, "offset_latest_ms": 5050.1}],
    )
    failed = {"table_name": "fetches", "expectation": "no_hole", "severity": "warning"}
    made = report_of(recording(), recording("two", Protocol.WITH), silent(), checks=checks)
    return replace(
        made,
        logs=[bad, *made.logs[1:]],
        failures={"one": [{**failed, "says": "there is none", "failing_rows": 3}]},
        clusters={"one": [{"recording": "one", "cluster_id": "an-id"}]},
    )


def text() -> str:
    """The text, but for what the page says of every recording."""
    page = html(reported()).partition('<h2 id="method"')[0].replace("\n", " ")
    for tag, text in MARKUP:
        page = re.sub(tag, text, page)
    lines = (" ".join(line.split()) for line in unescape(page).split("\n"))
    return "\n".join(filter(None, lines)) + "\n"


def test_the_page_says_what_it_said() -> None:
    assert text().splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    GOLDEN.write_text(text(), encoding="utf-8")
