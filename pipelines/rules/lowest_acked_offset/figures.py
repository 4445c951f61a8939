"""lowest_acked_offset in the report: when metadata writes are applied everywhere, who knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kip_replay.pipelines.report.reading import PLAIN, counted
from kip_replay.pipelines.report.values import Percentiles, RuleFigures, medians
from kip_replay.replay.lowest_acked_offset import (
    ESTIMATED,
    FINEST_EVIDENCE,
    HEARTBEAT_INTERVAL,
    LOWEST_ACKED,
    RULE,
)

STALE, READ_AFTER_WRITE = "stale_window", "read_after_write"
#: Rows for APIs at most, those with the most writes first.
MOST_APIS = 12


@dataclass(frozen=True)
class Figures(RuleFigures):
    """Metadata writes and heartbeats."""

    NAME = RULE
    SWEEP = HEARTBEAT_INTERVAL
    CURVES = HEADLINES = ((STALE, "all"), (READ_AFTER_WRITE, "all"))
    QUERIES: ClassVar[Mapping[str, str]] = {
        "verdicts": counted("metadata_write_outcomes", "'writes'"),
        "heartbeats": f"""
            SELECT recording, count(*) AS n, sum(response_bytes) AS recorded,
                sum(replayed_response_bytes) AS replayed
            FROM heartbeat_outcomes
            WHERE {PLAIN} AND variant = '{LOWEST_ACKED}' AND response_bytes IS NOT NULL
                AND replayed_response_bytes IS NOT NULL
            GROUP BY recording""",
    }

    @property
    def writes(self) -> int:
        return self.tally("n", variant=LOWEST_ACKED)

    @property
    def estimated(self) -> Percentiles | None:
        """The stale window as estimated from when brokers learned of commits."""
        return self.spread(STALE, ESTIMATED)

    @property
    def readable(self) -> Percentiles | None:
        """From a write's request until every broker has applied it, as estimated."""
        return self.spread(READ_AFTER_WRITE, ESTIMATED)

    @property
    def finest(self) -> Percentiles | None:
        """What the finest evidence there is of each broker leaves of it, at most."""
        return self.spread(STALE, FINEST_EVIDENCE)

    @property
    def stale(self) -> Percentiles | None:
        """What heartbeats leave of it, at most."""
        return self.spread(STALE, LOWEST_ACKED)

    @property
    def read_after_write(self) -> Percentiles | None:
        """From a write's request until its broker knows that it is applied everywhere."""
        return self.spread(READ_AFTER_WRITE, LOWEST_ACKED)

    @property
    def medians(self) -> tuple[float, float] | None:
        """The median stale window, estimated or else at most, and the median read-after-write."""
        return medians(self.window, self.read_after_write)

    @property
    def is_estimated(self) -> bool:
        """The stale window is an estimate, and not only a bound."""
        return self.estimated is not None and self.estimated.p50 is not None

    @property
    def window(self) -> Percentiles | None:
        """The stale window as estimated; else the finest bound of it."""
        return self.estimated if self.is_estimated else self.finest or self.stale

    def variants(self, *, swept: bool) -> set[str]:
        """The variants of a sweep, or those without one."""
        found = ((variant, at) for _, variant, kind, _, at in self.spreads if kind == "all")
        return {variant for variant, at in found if (at is not None) == swept}

    def of_api(self, api: str) -> list[Percentiles | None]:
        """The stale window, estimated and at most, and read-after-write of an API's writes."""
        wanted = (STALE, ESTIMATED), (STALE, LOWEST_ACKED), (READ_AFTER_WRITE, LOWEST_ACKED)
        return [self.spread(*metric, "api_name", api) for metric in wanted]

    @property
    def apis(self) -> list[str]:
        """APIs that write, those with the most writes first."""
        wanted = LOWEST_ACKED, "api_name", None
        names = {name for _, v, kind, name, at in self.spreads if (v, kind, at) == wanted}

        def writes(api: str) -> int:
            return next((spread.values for spread in self.of_api(api) if spread), 0)

        return sorted(names, key=lambda name: (-writes(name), name))[:MOST_APIS]
