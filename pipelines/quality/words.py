"""The end of a check, in plain words: what failed, where, and how to look at it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kip_replay.pipelines.quality.suites import Expectation, Severity
from kip_replay.replay.tables import QUALITY_FAILURES

#: The worst first.
_ORDER = tuple(reversed(Severity))
_VALUE_CHARACTERS_MAX = 80
_FAILED_LINES_MAX = 30


@dataclass(frozen=True)
class Result:
    """What came of an expectation in a recording.

    ``rows_checked``: rows of the recording in the expectation's table. ``kept``: the first failing
    rows as JSON, in the order of their text.
    """

    recording: str
    expectation: Expectation
    rows_checked: int = 0
    failing_rows: int = 0
    kept: tuple[str, ...] = ()

    @property
    def success(self) -> bool:
        return self.failing_rows == 0

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Recording, suite, table and name, which no other result has."""
        return (self.recording, *self.expectation.place)


@dataclass(frozen=True)
class Outcome:
    """What a check came to: a result for each recording and expectation."""

    recordings: Sequence[str]
    results: Sequence[Result]
    warehouse: str
    data_docs: str | None = None

    @property
    def failures(self) -> list[Result]:
        failed = [each for each in self.results if not each.success]
        return sorted(failed, key=lambda each: (_ORDER.index(_severity(each)), each.place))

    @property
    def is_critical(self) -> bool:
        return any(_severity(each) == Severity.CRITICAL for each in self.failures)


def summary(outcome: Outcome) -> list[str]:
    """Lines for the terminal; what is merely worth knowing is counted and not listed."""
    severities = [_severity(each) for each in outcome.failures]
    failed = ", ".join(f"{severities.count(severity)} {severity}" for severity in _ORDER)
    checked = f"{len(outcome.results)} expectations of {len(outcome.recordings)} recordings"
    lines = [f"quality: {checked}; failed: {failed}"]
    loud = [each for each in outcome.failures if _severity(each) != Severity.INFO]
    for failure in loud[:_FAILED_LINES_MAX]:
        lines += _lines(failure)
    if len(loud) > _FAILED_LINES_MAX:
        lines.append(f"  and {len(loud) - _FAILED_LINES_MAX} more")
    if loud:
        lines.append(f"  failing rows: {outcome.warehouse}/{QUALITY_FAILURES.name}")
    if outcome.data_docs:
        lines.append(f"  data docs: {outcome.data_docs}")
    return lines


def _severity(result: Result) -> Severity:
    return result.expectation.severity


def _lines(failure: Result) -> Iterator[str]:
    expectation, count = failure.expectation, failure.failing_rows
    where = f"{expectation.severity} in {failure.recording}: {expectation.table}"
    rows = f"{count} failing row{'' if count == 1 else 's'}"
    yield f"  {where}, {expectation.name}: {rows}; expected: {expectation.says}"
    if failure.kept:
        first = json.loads(failure.kept[0])
        shown = ", ".join(f"{name} {_value(value)}" for name, value in first.items())
        yield f"    such as: {shown}"


def _value(value: object) -> str:
    """One line of printable text: a log's strings may hold anything, terminal codes too."""
    text = "null" if value is None else str(value)
    printable = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    cut = "..." if len(printable) > _VALUE_CHARACTERS_MAX else ""
    return printable[:_VALUE_CHARACTERS_MAX] + cut
