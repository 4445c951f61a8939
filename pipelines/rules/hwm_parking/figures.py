"""hwm_parking in the report: what the tables say of lag and traffic of the metadata log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kip_replay.pipelines.report.reading import counted, curves
from kip_replay.pipelines.report.values import (
    Curve,
    Doubt,
    Percentiles,
    Row,
    Rows,
    curve,
    doubts,
    in_sweep,
    of,
    percentiles,
)
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.rules import HWM_PARKING, WITH_KIP, WITHOUT_KIP, Completion

RULE = HWM_PARKING.name
ALL_REPLICAS, BROKERS, VOTERS = "all", "broker", "voter"
#: Up to this share of FETCHes (either way) a cluster counts as running one protocol.
MIXED_FROM = 0.01
_LAG = "high_watermark_lag"
#: The metrics that are drawn, and of which kind of group.
CURVES = ((_LAG, "replica_kind"),)
_ANSWERS = "answers"


class Protocol(Enum):
    """Whether the recorded cluster ran KIP-1166, told by what its FETCHes say."""

    WITHOUT = WITHOUT_KIP
    WITH = WITH_KIP
    MIXED = "mixed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Traffic:
    """FETCHes of the metadata log in the steady phase, summed over leaders."""

    fetches: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    unknown_sizes: int = 0
    span_s: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.fetches + other.fetches,
            self.request_bytes + other.request_bytes,
            self.response_bytes + other.response_bytes,
            self.unknown_sizes + other.unknown_sizes,
            max(self.span_s, other.span_s),
        )

    @property
    def fetches_per_second(self) -> float | None:
        """FETCHes / span; None without a span."""
        return self.fetches / self.span_s if self.span_s > 0 else None

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes of requests and responses / span; None without a span."""
        both = self.request_bytes + self.response_bytes
        return both / self.span_s if self.span_s > 0 else None


@dataclass(frozen=True)
class Figures:
    """What one variant gives, by kind of replica (all, broker, voter)."""

    lag: Mapping[str, Percentiles] = field(default_factory=dict)
    curve: Mapping[str, Curve] = field(default_factory=dict)
    traffic: Mapping[str, Traffic] = field(default_factory=dict)

    @property
    def total_traffic(self) -> Traffic | None:
        """Over all kinds of replicas; None where nothing was summed."""
        return sum(self.traffic.values(), Traffic()) if self.traffic else None


@dataclass(frozen=True)
class SweepPoint:
    """Both variants under one value of ``max_wait_ms``."""

    max_wait_ms: int
    without_kip: Figures
    with_kip: Figures


@dataclass(frozen=True)
class HwmParking:
    """All that is said of one recording; empty where its logs have no FETCH of the metadata log."""

    protocol: Protocol = Protocol.UNKNOWN
    protocol_share: float = 0.0
    max_wait_ms: tuple[int, int] | None = None
    figures: Mapping[str, Figures] = field(default_factory=dict)
    sweep: tuple[SweepPoint, ...] = ()
    metadata_fetches: int = 0
    judged_answers: int = 0
    unexplained_answers: int = 0
    doubts: tuple[Doubt, ...] = ()

    def of(self, variant: str) -> Figures:
        """The figures of a variant, empty where the tables have none."""
        return self.figures.get(variant, Figures())

    def source_of(self, variant: str) -> str:
        """Where the headline takes a protocol from: what was recorded where the cluster ran it."""
        return RECORDED if self.protocol.value == variant else variant

    @property
    def lag_kind(self) -> str:
        """Whose lag the headlines are about: brokers, else (no broker apart) the voters."""
        kinds = {kind for figures in self.figures.values() for kind in figures.lag}
        return BROKERS if BROKERS in kinds or VOTERS not in kinds else VOTERS

    @property
    def span_s(self) -> float:
        """Seconds of the steady phase; 0 where there was none."""
        spans = [t.span_s for f in self.figures.values() for t in f.traffic.values()]
        return max(spans, default=0.0)


# --- reading -------------------------------------------------------------------------------------


def queries() -> Mapping[str, str]:
    """The queries besides the summary tables."""
    answers = counted(
        "fetch_parking_outcomes",
        f"'{_ANSWERS}'",
        {
            "says": "replica_high_watermark IS NOT NULL",
            "unexplained": f"completion = '{Completion.UNEXPLAINED.value}'",
        },
    )
    advances = counted(
        "high_watermark_lag",
        "concat_ws(' ', 'advances', phase)",
        {"says": "false", "unexplained": "false"},
    )
    return {
        "curves": curves(RULE),
        "verdicts": f"{answers} UNION ALL {advances}",
        "max_wait": """
            SELECT recording, min(max_wait_ms) AS least, max(max_wait_ms) AS most
            FROM fetches WHERE is_cluster_metadata GROUP BY recording""",
    }


# --- rows to values ------------------------------------------------------------------------------


def from_rows(rows: Rows) -> HwmParking:
    """The values of one recording."""
    answers = of(rows["verdicts"], what=_ANSWERS, variant=RECORDED)
    judged = [row for row in answers if row["verdict"] != Verdict.NOT_APPLICABLE.value]
    share = sum(row["says"] for row in answers) / max(1, sum(row["n"] for row in answers))
    waits = rows["max_wait"]
    lags = of(rows["latencies"], metric=_LAG)
    return HwmParking(
        protocol=protocol_of(share) if answers else Protocol.UNKNOWN,
        protocol_share=share,
        max_wait_ms=(waits[0]["least"], waits[0]["most"]) if waits else None,
        figures=_figures(
            of(lags, parameter="none"), of(rows["bandwidth"], parameter="none"), rows["curves"]
        ),
        sweep=_sweep(lags, rows["bandwidth"]),
        metadata_fetches=sum(row["n"] for row in answers),
        judged_answers=sum(row["n"] for row in judged),
        unexplained_answers=sum(row["unexplained"] for row in judged),
        doubts=doubts(rows["verdicts"]),
    )


def protocol_of(share: float) -> Protocol:
    """The protocol of a cluster of whose FETCHes this share says a high watermark (v18)."""
    if share <= MIXED_FROM:
        return Protocol.WITHOUT
    return Protocol.WITH if share >= 1 - MIXED_FROM else Protocol.MIXED


def _figures(
    lags: Sequence[Row], traffic: Sequence[Row], curves: Sequence[Row]
) -> dict[str, Figures]:
    variants = sorted({row["variant"] for row in (*lags, *traffic)})
    return {
        variant: Figures(
            lag={row["group_value"]: percentiles(row) for row in of(lags, variant=variant)},
            curve=_curves(of(curves, variant=variant)),
            traffic=_traffic(of(traffic, variant=variant)),
        )
        for variant in variants
    }


def _curves(rows: Sequence[Row]) -> dict[str, Curve]:
    kinds = sorted({row["group_value"] for row in rows})
    return {kind: curve(of(rows, group_value=kind)) for kind in kinds}


def _traffic(rows: Sequence[Row]) -> dict[str, Traffic]:
    found: dict[str, Traffic] = {}
    for row in rows:
        asked = row["direction"] == "request"
        part = Traffic(
            # Each FETCH is counted once: with its request.
            fetches=row["requests"] if asked else 0,
            request_bytes=row["bytes"] if asked else 0,
            response_bytes=0 if asked else row["bytes"],
            unknown_sizes=row["unknown_size_requests"],
            span_s=row["span_s"],
        )
        found[row["client_kind"]] = found.get(row["client_kind"], Traffic()) + part
    return dict(sorted(found.items()))


def _sweep(lags: Sequence[Row], traffic: Sequence[Row]) -> tuple[SweepPoint, ...]:
    swept_lags, swept_traffic = in_sweep(lags, "max_wait_ms"), in_sweep(traffic, "max_wait_ms")
    points = []
    for value in sorted({*swept_lags, *swept_traffic}):
        figures = _figures(swept_lags.get(value, []), swept_traffic.get(value, []), [])
        points.append(
            SweepPoint(
                value,
                figures.get(WITHOUT_KIP, Figures()),
                figures.get(WITH_KIP, Figures()),
            )
        )
    return tuple(points)
