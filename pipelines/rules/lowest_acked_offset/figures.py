"""lowest_acked_offset in the report: when metadata writes are applied everywhere, who knows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kip_replay.pipelines.page.reading import PLAIN, broker_config, counted
from kip_replay.pipelines.page.values import Percentiles, RuleFigures, medians
from kip_replay.replay.lowest_acked_offset import (
    ESTIMATED,
    FINEST_EVIDENCE,
    HEARTBEAT_INTERVAL,
    LOWEST_ACKED,
    RULE,
)

STALE, READ_AFTER_WRITE = "stale_window", "read_after_write"
#: The brokers' config that sweeps vary.
INTERVAL = "broker.heartbeat.interval.ms"
#: Rows for APIs at most, those with the most writes first.
MOST_APIS = 12


@dataclass(frozen=True)
class Figures(RuleFigures):
    NAME = RULE
    SWEEP = HEARTBEAT_INTERVAL
    CURVES = HEADLINES = ((STALE, "all"), (READ_AFTER_WRITE, "all"))
    QUERIES: ClassVar[Mapping[str, str]] = {
        "verdicts": counted("metadata_write_outcomes", "'writes'"),
        "cadence": f"""
            WITH gaps AS (
                SELECT recording, broker_id, epoch_us(received_at) AS at_us,
                    at_us - lag(epoch_us(built_at)) OVER (
                        PARTITION BY recording, broker_id ORDER BY received_at, request_id
                    ) AS gap_us
                FROM heartbeat_outcomes WHERE {PLAIN} AND variant = '{LOWEST_ACKED}')
            SELECT recording, count(DISTINCT broker_id) AS brokers,
                count(*) * 1e6 / nullif(max(at_us) - min(at_us), 0) AS per_second,
                quantile_disc(gap_us, 0.5) // 10000 * 10 AS interval_ms
            FROM gaps GROUP BY recording""",
        "in_force": broker_config(INTERVAL),
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
        """From a write's request until every broker shows it, as estimated."""
        return self.spread(READ_AFTER_WRITE, ESTIMATED)

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
        """The stale window as estimated; else the finest bound that evidence leaves of it."""
        return (
            self.estimated
            if self.is_estimated
            else self.spread(STALE, FINEST_EVIDENCE) or self.stale
        )

    @property
    def interval_ms(self) -> int | None:
        """The interval of recorded heartbeats: as brokers returned it to DESCRIBE_CONFIGS, else the
        median from a response to the next heartbeat, cut to 10 ms."""
        described = self.found("in_force")
        if len(described) == 1:
            return int(described[0]["in_force"])
        return next((row["interval_ms"] for row in self.found("cadence")), None)

    def heartbeats_per_second(self, at: int | None = None) -> float | None:
        """Of all brokers: as recorded, or if each sent one every ``at`` ms."""
        rates = (
            row["per_second"] if at is None else row["brokers"] * 1000 / at
            for row in self.found("cadence")
        )
        return next(rates, None)

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
