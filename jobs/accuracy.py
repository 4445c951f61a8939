"""Prints docs/accuracy.md from prediction_accuracy: every prediction beside what brokers did."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from jobs._cli import Exit, Job, JobParser, run, say
from pipelines.headlines import accuracy_line, accuracy_rows, figure, measure_name

PARSER = JobParser(
    "accuracy",
    "Prints a page in Markdown of all judged predictions in the warehouse: prediction, recording, "
    "a naive guess, and whether the error is within its tolerance.",
    """  python -m jobs.accuracy --warehouse warehouse > docs/accuracy.md""",
)

_HEAD = """# How good the predictions are

Printed by `make accuracy` from the table `prediction_accuracy`; do not edit. A prediction is made
from one recording under the rule that another's brokers ran, and held against what those brokers
did. The naive guess is a constant: one FETCH per append and replica (two with KIP-1166), and a lag
as of a wait of 0 to 500 ms (none with it). Percentiles are those of the brokers, in the steady
phase. An outcome that is unknown counts as a miss.
"""


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page: a section for each pair of recordings."""
    judged = [row for row in rows if row["tolerance"] is not None]
    sections = groupby(judged, key=itemgetter("predicted_from", "recorded_in", "variant"))
    lines = [line for pair, of_pair in sections for line in _section(pair, list(of_pair))]
    return "\n".join([_HEAD, f"{accuracy_line(rows).capitalize()}.\n", *lines])


def _section(pair: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    before, after, variant = pair
    if before == after:
        yield f"## {after}, replayed as it ran ({variant})\n"
    else:
        yield f"## {after}, predicted from {before} ({variant})\n"
    yield "| figure | naive guess | predicted | recorded | error | tolerance | within |"
    yield "|---|--:|--:|--:|--:|--:|---|"
    for row in rows:
        cells = [figure(row[name]) for name in ("baseline", "predicted", "recorded", "error")]
        within = "yes" if row["passed"] else "**no**"
        unknown = f", {row['unknown_count']} unknown" if row["unknown_count"] else ""
        yield (
            f"| {measure_name(row)} | {' | '.join(cells)} | {row['tolerance']:.3g} "
            f"| {within}{unknown} |"
        )
    yield ""


def work(job: Job) -> Exit:
    """Prints the page."""
    say(page(accuracy_rows(job.warehouse())))
    return Exit.DONE


def main(argv: Sequence[str] | None = None) -> int:
    """The job; ``argv`` without the program's name."""
    return run(PARSER, work, argv)


if __name__ == "__main__":
    sys.exit(main())
