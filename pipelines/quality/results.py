"""The end of a check, in plain words: what failed, where, and how to look at it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kip_replay.pipelines.printable import visible
from kip_replay.pipelines.rule_files import Severity
from kip_replay.replay.tables import QualityFailures, QualityResult

_ORDER: tuple[str, ...] = tuple(reversed(Severity))
_VALUE_CHARACTERS_MAX = 80
_FAILED_LINES_MAX = 30


class Result(QualityResult):
    """A row of quality_results, with the first rows that failed."""

    kept: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def identity(self) -> tuple[str, ...]:
        return tuple(getattr(self, name) for name in QualityResult.key)

    @property
    def place(self) -> tuple[str, str, str]:
        return (self.suite, self.table_name, self.expectation)

    @property
    def failure_rows(self) -> list[dict[str, Any]]:
        key = dict(zip(QualityResult.key, self.identity, strict=True))
        return [{**key, "number": n, "failing_row": row} for n, row in enumerate(self.kept, 1)]


@dataclass(frozen=True)
class QualityOutcome:
    """Holds the results of a check of recordings, and where the failing rows are."""

    recordings: Sequence[str]
    results: Sequence[Result]
    warehouse: str
    data_docs: str | None = None
    left_out: str = ""

    @property
    def failures(self) -> list[Result]:
        """The worst first."""
        failed = [result for result in self.results if not result.success]
        return sorted(failed, key=lambda result: (_ORDER.index(result.severity), *result.identity))

    @property
    def is_critical(self) -> bool:
        return any(failure.severity == Severity.CRITICAL for failure in self.failures)


def summary(outcome: QualityOutcome) -> list[str]:
    """Lines for the terminal."""
    severities = [failure.severity for failure in outcome.failures]
    failed = ", ".join(f"{severities.count(severity)} {severity}" for severity in _ORDER)
    names, failures = outcome.recordings, outcome.failures
    checked = f"{len(outcome.results)} expectations of "
    checked += names[0] if len(names) == 1 else f"{len(names)} recordings"
    lines = [f"quality: {checked}; failed: {failed}"]
    for failure in failures[:_FAILED_LINES_MAX]:
        lines += _lines(failure)
    if len(failures) > _FAILED_LINES_MAX:
        lines.append(f"  and {len(failures) - _FAILED_LINES_MAX} more")
    if failures:
        lines.append(f"  failing rows: {outcome.warehouse}/{QualityFailures.name}")
    if outcome.data_docs:
        lines.append(f"  data docs: {outcome.data_docs}")
    if outcome.left_out:
        lines.append(f"  left out: {outcome.left_out}: pip install 'kip-replay[quality]'")
    return lines


def _lines(failure: Result) -> Iterator[str]:
    count = failure.failing_rows
    rows = f"{count} failing row{'' if count == 1 else 's'}"
    where = f"{failure.severity} in {failure.recording}: {failure.table_name}"
    yield f"  {where}, {failure.expectation}: {rows}; expected: {failure.says}"
    if failure.kept:
        first = json.loads(failure.kept[0])
        values = ", ".join(f"{name} {_value(value)}" for name, value in first.items())
        yield f"    such as: {values}"


def _value(value: object) -> str:
    """One line of printable text: a log's strings may hold anything, terminal codes too."""
    printable = visible("null" if value is None else str(value))
    cut = "..." if len(printable) > _VALUE_CHARACTERS_MAX else ""
    return printable[:_VALUE_CHARACTERS_MAX] + cut
