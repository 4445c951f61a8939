"""What a check prints."""

import json
from dataclasses import replace

from kip_replay.pipelines.quality.results import Outcome, Result, summary
from kip_replay.pipelines.rule_files import Severity


def failure(severity: Severity, **example: object) -> Result:
    kept = (json.dumps(example),)
    return Result("one", "log", "requests", "no_hole", None, severity, False, "", 3, 9,
                  "no id lacks", kept)  # fmt: skip


def outcome(*failures: Result) -> Outcome:
    """Of two recordings, with one result that is met."""
    met = replace(failure(Severity.CRITICAL), success=True)
    return Outcome(("one", "two"), [met, *failures], "/w", "/w/docs/index.html")


def test_long_lists_endless_strings_and_terminal_codes_are_harmless() -> None:
    assert "  and 10 more" in summary(outcome(*[failure(Severity.WARNING)] * 40))
    hostile = failure(Severity.WARNING, client_id="\x1b[2J" + "x" * 500)
    printed = "\n".join(summary(outcome(hostile)))
    assert "\x1b" not in printed
    assert "\\x1b[2J" in printed
    assert "x" * 100 not in printed
