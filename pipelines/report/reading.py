"""SQL that the rules' parts of the report share: every query sums up, whatever a log's length."""

from __future__ import annotations

from collections.abc import Mapping

#: No sweep.
PLAIN = "parameter = 'none'"


def curves(rule: str) -> str:
    """The distributions that a rule has drawn."""
    return f"SELECT * FROM latency_curves WHERE rule = '{rule}'"


def counted(table: str, what: str, also: Mapping[str, str] | None = None) -> str:
    """How many outcomes have each verdict and reason, sweeps left out.

    ``what``: SQL for what a row is of. ``also``: conditions; how many rows meet each.
    """
    counts = [f", count(*) FILTER ({met}) AS {name}" for name, met in (also or {}).items()]
    return f"""
        SELECT recording, variant, {what} AS what, verdict, reason, count(*) AS n{"".join(counts)}
        FROM {table} WHERE {PLAIN} GROUP BY recording, variant, {what}, verdict, reason"""
