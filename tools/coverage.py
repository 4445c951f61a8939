"""Prints docs/coverage.md: how often the intervals of headlines hold what another span shows.

python -m tools.coverage WAREHOUSE RECORDING...
"""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, permutations, product
from statistics import median
from typing import Any, NamedTuple

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.analysis.intervals import Error, interval
from kip_replay.pipelines.analysis.predictions import accuracy_rows
from kip_replay.pipelines.ingest.recording import Recording, load_recordings
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.outcomes import RECORDED
from tools.errors import largest
from tools.printed import DOCS
from tools.series import Figure, Found, Series, latencies, traffic

_PAGE = DOCS / "coverage.md"
_HEAD = """# How often intervals hold

Printed by `make docs`; do not edit. The interval of a headline is to hold what such a cluster shows
over another span as long, in nine cases of ten. Held against what came: the first half of each
recording predicts its second (*halves*); recordings of one workload (one `scenario` and `seed`)
predict each other, under the rule that the predicted one's brokers ran; so do, of what controllers
do, recordings of one kind (one `scenario` and Kafka's minor version). What no request log records
(when a write was everywhere, exposure) is held against what the replay gives of the other span.
The systematic error is that of predictions that have nothing to do with the recordings at hand.
*Width*: of the interval, relative to the figure, median.
"""
_STEPS = {steps.name: steps for steps in RULES}
#: Where nothing was judged.
_NO_ERROR = (Kind.SELF_CHECK, 0.0, 0.0, 0)

Pair = tuple[str, str]
Rows = Sequence[Mapping[str, Any]]


class Held(NamedTuple):
    how: str
    figure: Figure
    pair: Pair
    holds: bool
    width: float


def coverage(found: Found, rows: Rows, kinds: Collection[Pair]) -> Iterator[Held]:
    """All intervals held; ``kinds``: pairs of recordings of one kind."""
    ran = {(row["rule"], row["predicted_from"], row["recorded_in"]): row["variant"] for row in rows}
    judged = {(before, after) for _, before, after in ran}
    for figure, pair in product(sorted({key[2] for key in found}), sorted(judged | {*kinds})):
        before, after = pair
        is_of_kind = pair in kinds and _STEPS[figure.rule].judgement.of_controllers
        own = ran.get((figure.rule, *pair))
        if is_of_kind and not own:
            own = ran.get((figure.rule, after, after))
        recorded = found.get((after, RECORDED, figure))
        if own is None or not (recorded or is_of_kind or before == after):
            continue
        of_after = {variant for name, variant, of in found if (name, of) == (after, figure)}
        for variant in sorted({own} if recorded else of_after):
            one = found.get((before, variant, figure))
            other = recorded or found.get((after, variant, figure))
            if not (one and other):
                continue
            error = _error(rows, figure, variant, {*pair})
            if before == after:
                yield from _held("halves", figure, pair, one.half(False), other.half(True), error)
            else:
                how = "one kind" if is_of_kind else "one workload"
                yield from _held(how, figure, pair, one, other, error)


def _held(
    how: str, figure: Figure, pair: Pair, one: Series | None, other: Series | None, error: Error
) -> Iterator[Held]:
    if one and other and other.sampling and (bounds := interval(one.value, one.sampling, error)):
        width = (bounds.high - bounds.low) / one.value if one.value else 0.0
        yield Held(how, figure, pair, bounds.low <= other.value <= bounds.high, width)


def _error(rows: Rows, figure: Figure, variant: str, hidden: set[str]) -> Error:
    """The error of predictions that have nothing to do with the recordings at hand."""
    others = [row for row in rows if not {row["predicted_from"], row["recorded_in"]} & hidden]
    _, absolute, relative, _ = largest(others, _STEPS[figure.rule]).get(
        (variant, figure.metric), _NO_ERROR
    )
    return Error(relative=relative) if figure.is_traffic else Error(absolute, relative)


def of_less_time(found: Found) -> Iterator[str]:
    """A table of percentiles and traffic: what half the time leaves of intervals."""
    yield "## Half the time\n"
    yield "Of the same figures: how many have an interval in whole recordings and in their halves,"
    yield "and how wide that of a half is beside that of the whole (median).\n"
    yield "| figure | whole | half | width |"
    yield "|---|--:|--:|--:|"
    groups: dict[str, list[Series]] = {}
    for (_, _, figure), series in found.items():
        name = "traffic" if figure.is_traffic else figure.metric.rpartition("_")[2]
        groups.setdefault(name, []).append(series)
    for name, of in sorted(groups.items()):
        halves = [(one, one.half(second)) for one in of for second in (False, True)]
        whole = sum(one.sampling is not None for one in of)
        half = sum(part is not None and part.sampling is not None for _, part in halves)
        wider = [
            width / before
            for one, part in halves
            if part and (width := _width(part)) and (before := _width(one))
        ]
        times = f"{median(wider):.2f} x" if wider else "-"
        yield f"| {name} | {whole} of {len(of)} | {half} of {len(halves)} | {times} |"


def _width(series: Series) -> float | None:
    """Of the sampling error, relative to the figure."""
    sampling = series.sampling
    return (sampling.high - sampling.low) / series.value if sampling and series.value else None


def page(held: Sequence[Held], found: Found) -> str:
    """A table of rules and figures, the totals, and what half the time leaves."""
    hows = ("halves", "one workload", "one kind")
    lines = [_HEAD, "| rule | figure | halves | one workload | one kind | all | width |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|")

    def row(rule: str, name: str, of: Sequence[Held]) -> str:
        parts = [[one for one in of if one.how == how] for how in hows]
        cells = [f"{sum(one.holds for one in part)} of {len(part)}" for part in (*parts, of)]
        return f"| {' | '.join((rule, name, *cells))} | {median(one.width for one in of):.0%} |"

    def key(one: Held) -> tuple[str, str]:
        return one.figure.rule, one.figure.name

    ordered = sorted(held, key=key)
    lines += [row(*names, list(of)) for names, of in groupby(ordered, key)]
    for rule, of in groupby(ordered, lambda one: one.figure.rule):
        lines.append(row(rule, "all", list(of)))
    lines.append(row("all", "all", ordered))
    share = sum(one.holds for one in held) / len(held)
    lines.append(f"\nOf all {len(held)} intervals, {share:.1%} hold what they are held against.\n")
    return "\n".join([*lines, *of_less_time(found), ""])


def of_one_kind(recordings: Sequence[Recording]) -> set[Pair]:
    """Pairs of one scenario and one minor version of Kafka."""

    def kind(one: Recording) -> tuple[object, ...]:
        return one.extra.get("scenario"), (one.kafka_version or "").split(".")[:2]

    return {(a.name, b.name) for a, b in permutations(recordings, 2) if kind(a) == kind(b)}


def main(warehouse: Warehouse, recordings: Sequence[Recording]) -> None:
    names = [one.name for one in recordings]
    found = latencies(warehouse, names) | traffic(warehouse, names)
    rows = [row for row in accuracy_rows(warehouse, names) if row["kind"] != Kind.BOUND]
    held = list(coverage(found, rows, of_one_kind(recordings)))
    _PAGE.write_text(page(held, found), encoding="utf-8")


if __name__ == "__main__":
    main(Warehouse(sys.argv[1]), load_recordings(sys.argv[2:]))
