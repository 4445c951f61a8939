"""The end of a check, in plain words: what failed, where, and how to look at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kip_replay.pipelines.quality.suites import Severity
from kip_replay.replay.schema import QUALITY_FAILURES

#: The worst first.
_ORDER = tuple(reversed(Severity))
_VALUE_CHARACTERS_MAX = 80
_FAILED_LINES_MAX = 30


@dataclass(frozen=True)
class Failure:
    """An expectation that failed in a recording, with its first failing row."""

    recording: str
    suite: str
    table_name: str
    expectation: str
    severity: Severity
    says: str
    failing_rows: int
    example: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a check came to: ``results`` is how many expectations were looked at."""

    recordings: Sequence[str]
    results: int
    failures: Sequence[Failure]
    warehouse: str
    data_docs: str | None = None

    @property
    def is_critical(self) -> bool:
        """Whether a critical expectation failed."""
        return any(each.severity == Severity.CRITICAL for each in self.failures)


def summary(outcome: Outcome) -> list[str]:
    """Lines for the terminal; what is merely worth knowing is counted and not listed."""
    counts = {
        severity: sum(each.severity == severity for each in outcome.failures) for severity in _ORDER
    }
    failed = ", ".join(f"{count} {severity}" for severity, count in counts.items())
    lines = [
        f"quality: {outcome.results} expectations of {len(outcome.recordings)} recordings; "
        f"failed: {failed}"
    ]
    loud = sorted(
        (each for each in outcome.failures if each.severity != Severity.INFO),
        key=lambda each: (_ORDER.index(each.severity), each.recording),
    )
    for failure in loud[:_FAILED_LINES_MAX]:
        lines += _told(failure)
    if len(loud) > _FAILED_LINES_MAX:
        lines.append(f"  and {len(loud) - _FAILED_LINES_MAX} more")
    if loud:
        lines.append(f"  failing rows: {outcome.warehouse}/{QUALITY_FAILURES.name}")
    if outcome.data_docs:
        lines.append(f"  data docs: {outcome.data_docs}")
    return lines


def _told(failure: Failure) -> Iterator[str]:
    rows = "1 failing row" if failure.failing_rows == 1 else f"{failure.failing_rows} failing rows"
    yield (
        f"  {failure.severity} in {failure.recording}: {failure.table_name}, "
        f"{failure.expectation}: {rows}; expected: {failure.says}"
    )
    shown = ", ".join(f"{name} {_value(value)}" for name, value in failure.example.items())
    if shown:
        yield f"    such as: {shown}"


def _value(value: object) -> str:
    """One line of printable text: a log's strings may hold anything, terminal codes too."""
    text = "null" if value is None else str(value)
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    if len(printable) > _VALUE_CHARACTERS_MAX:
        return printable[:_VALUE_CHARACTERS_MAX] + "..."
    return printable
