"""Figures for lines of a terminal, which sections of rules share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kip_replay.pipelines.analysis.intervals import Interval
from kip_replay.pipelines.report.values import Percentiles

#: What the brackets behind figures are.
LEGEND = "[low .. high]: where such a cluster's figure lies in nine of ten spans as long"


def ms(spread: Percentiles | None, percentile: str) -> str:
    """A percentile in milliseconds with its interval, or 'unknown'."""
    value = getattr(spread, percentile) if spread else None
    return (
        "unknown"
        if spread is None or value is None
        else _with(value, spread.intervals.get(percentile), 1)
    )


def rate(value: float | None, within: Interval | None, decimals: int) -> str:
    """A figure with its interval, or a dash."""
    return "-" if value is None else _with(value, within, decimals)


def _with(value: float, within: Interval | None, decimals: int) -> str:
    figure, *ends = (f"{of:,.{decimals}f}" for of in (value, *(within or ())))
    return f"{figure} [{' .. '.join(ends) or 'not enough data'}]"


def median_and_p90(spread: Percentiles | None) -> str:
    return f"{ms(spread, 'p50')} / {ms(spread, 'p90')}"


def unknowns(spread: Percentiles | None) -> str:
    """How many values are unknown, where some are."""
    return f"   unknown: {spread.unknown}" if spread and spread.unknown else ""


def table(heads: Sequence[str], rows: Mapping[str, Sequence[str]]) -> list[str]:
    """Lines of a table: names to the left, columns aligned to the right."""
    lines = [("", *heads), *((name, *cells) for name, cells in rows.items())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        f"  {name:<{widths[0]}}"
        + "".join(f"  {cell:>{wide}}" for cell, wide in zip(cells, widths[1:], strict=True))
        for name, *cells in lines
    ]
