"""What a check says on the terminal, and pages that need nothing from elsewhere."""

from __future__ import annotations

from kip_replay.pipelines.quality.data_docs import mended
from kip_replay.pipelines.quality.suites import Severity
from kip_replay.pipelines.quality.words import Failure, Outcome, summary


def failure(severity: Severity, **example: object) -> Failure:
    """A failure with this example."""
    return Failure("one", "bronze", "requests", "no_hole", severity, "no id lacks", 3, example)


def outcome(*failures: Failure) -> Outcome:
    """Of two recordings."""
    return Outcome(("one", "two"), 80, failures, "/w", "/w/data_docs/index.html")


def test_nothing_failed() -> None:
    good = outcome(failure(Severity.INFO), failure(Severity.WARNING))
    assert not good.is_critical
    assert summary(outcome()) == [
        "quality: 80 expectations of 2 recordings; failed: 0 critical, 0 warning, 0 info",
        "  data docs: /w/data_docs/index.html",
    ]


def test_the_worst_comes_first_and_says_where() -> None:
    bad = outcome(failure(Severity.WARNING), failure(Severity.CRITICAL, node_id=11, line=None))
    assert bad.is_critical
    assert summary(bad)[1:4] == [
        "  critical in one: requests, no_hole: 3 failing rows; expected: no id lacks",
        "    such as: node_id 11, line null",
        "  warning in one: requests, no_hole: 3 failing rows; expected: no id lacks",
    ]
    assert "  failing rows: /w/quality_failures" in summary(bad)


def test_info_is_counted_and_not_listed() -> None:
    said = summary(outcome(failure(Severity.INFO)))
    assert said[0].endswith("1 info")
    assert not any("no_hole" in line for line in said)


def test_a_long_list_is_cut_and_says_so() -> None:
    assert "  and 10 more" in summary(outcome(*[failure(Severity.WARNING)] * 40))


def test_terminal_codes_and_endless_strings_of_a_log_are_harmless() -> None:
    told = "\n".join(summary(outcome(failure(Severity.WARNING, client_id="\x1b[2J" + "x" * 500))))
    assert "\x1b" not in told
    assert "\\x1b[2J" in told
    assert "x" * 100 not in told


def test_a_page_loses_what_is_fetched_and_what_runs() -> None:
    page = mended(
        '<html><head><link rel="stylesheet" href="https://cdn/x.css"><script src="//cdn"></script>'
        '</head><body onload="go()"><script>go()</script><img src="https://cdn/i.png">'
        "<p>kept</p></body></html>"
    )
    assert "<p>kept</p>" in page
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert "cdn" not in page
    assert "go()" not in page
