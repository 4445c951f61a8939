"""What a check prints."""

import json
from dataclasses import replace

from kip_replay.pipelines.quality.suites import Severity
from kip_replay.pipelines.quality.words import Outcome, Result, summary


def failure(severity: Severity, **example: object) -> Result:
    """A failure with this example."""
    kept = (json.dumps(example),)
    return Result("one", "log", "requests", "no_hole", None, severity, False, "", 3, 9,
                  "no id lacks", kept)  # fmt: skip


def outcome(*failures: Result) -> Outcome:
    """Of two recordings, with one result that is met."""
    met = replace(failure(Severity.CRITICAL), success=True)
    return Outcome(("one", "two"), [met, *failures], "/w", "/w/docs/index.html")


def test_only_critical_failures_are_critical() -> None:
    good = outcome(failure(Severity.INFO), failure(Severity.WARNING))
    assert not good.is_critical
    assert summary(outcome()) == [
        "quality: 1 expectations of 2 recordings; failed: 0 critical, 0 warning, 0 info",
        "  data docs: /w/docs/index.html",
    ]


def test_the_worst_comes_first_and_says_where_and_info_is_only_counted() -> None:
    worst = failure(Severity.CRITICAL, node_id=11, line=None)
    bad = outcome(failure(Severity.INFO), failure(Severity.WARNING), worst)
    assert bad.is_critical
    printed = summary(bad)
    assert printed[0].endswith("1 critical, 1 warning, 1 info")
    assert printed[1:4] == [
        "  critical in one: requests, no_hole: 3 failing rows; expected: no id lacks",
        "    such as: node_id 11, line null",
        "  warning in one: requests, no_hole: 3 failing rows; expected: no id lacks",
    ]
    assert sum("no_hole" in line for line in printed) == 2
    assert "  failing rows: /w/quality_failures" in printed


def test_long_lists_endless_strings_and_terminal_codes_are_harmless() -> None:
    assert "  and 10 more" in summary(outcome(*[failure(Severity.WARNING)] * 40))
    hostile = failure(Severity.WARNING, client_id="\x1b[2J" + "x" * 500)
    printed = "\n".join(summary(outcome(hostile)))
    assert "\x1b" not in printed
    assert "\\x1b[2J" in printed
    assert "x" * 100 not in printed
