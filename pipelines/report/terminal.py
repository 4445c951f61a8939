"""Figures for lines of a terminal, which sections of rules share."""

from __future__ import annotations

from kip_replay.pipelines.report.values import Percentiles


def ms(spread: Percentiles | None, percentile: str) -> str:
    """A percentile in milliseconds, or 'unknown'."""
    value = getattr(spread, percentile) if spread else None
    return "unknown" if value is None else f"{value:,.1f}"


def median_and_p90(spread: Percentiles | None) -> str:
    return f"{ms(spread, 'p50')} / {ms(spread, 'p90')}"


def unknowns(spread: Percentiles | None) -> str:
    """How many values are unknown, where some are."""
    return f"   unknown: {spread.unknown}" if spread and spread.unknown else ""
