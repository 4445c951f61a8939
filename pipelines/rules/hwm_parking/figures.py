"""hwm_parking in the report: how late replicas know of commits, and the metadata log's traffic."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from kip_replay.pipelines.page.reading import counted
from kip_replay.pipelines.page.values import Percentiles, Row, RuleFigures, both, medians
from kip_replay.replay.hwm_parking import RULE, WITH_KIP, WITHOUT_KIP, Completion
from kip_replay.replay.outcomes import RECORDED, Verdict

BROKERS, VOTERS = "broker", "voter"
LAG = "high_watermark_lag"
#: Up to this share of FETCHes (either way) a cluster counts as running one protocol.
MIXED_FROM = 0.01
#: With at least this share of the lag left, a protocol makes no difference worth a headline.
NO_DIFFERENCE = 0.9
_RESPONSES = "responses"
_EXPLAINED = {
    "has_high_watermark": "replica_high_watermark IS NOT NULL",
    "unexplained": f"completion = '{Completion.UNEXPLAINED.value}'",
}
_VERDICTS = counted("fetch_parking_outcomes", f"'{_RESPONSES}'", _EXPLAINED)
_PHASES = "concat_ws(' ', 'advances', phase)"
_ADVANCES = counted("high_watermark_lag", _PHASES, dict.fromkeys(_EXPLAINED, "false"))


class Protocol(Enum):
    """Whether the recorded cluster ran KIP-1166, by the fields of its FETCHes."""

    WITHOUT = WITHOUT_KIP
    WITH = WITH_KIP
    MIXED = "mixed"
    UNKNOWN = "unknown"


def protocol_of(share: float) -> Protocol:
    """The protocol of a cluster if this share of its FETCHes has a high watermark (v18)."""
    if share <= MIXED_FROM:
        return Protocol.WITHOUT
    return Protocol.WITH if share >= 1 - MIXED_FROM else Protocol.MIXED


@dataclass(frozen=True)
class Figures(RuleFigures):
    """FETCHes of the metadata log; what the cluster ran is recorded, the other is replayed."""

    NAME = RULE
    SWEEP = "max_wait_ms"
    CURVES = HEADLINES = ((LAG, "replica_kind"),)
    TRAFFIC_ERRORS: ClassVar[Mapping[str, str]] = {
        "fetches": "fetches_per_second",
        "bytes": "fetch_bytes_per_second",
    }
    QUERIES: ClassVar[Mapping[str, str]] = {
        "verdicts": f"{_VERDICTS} UNION ALL {_ADVANCES}",
        "max_wait": """
            SELECT recording, min(max_wait_ms) AS least, max(max_wait_ms) AS most
            FROM fetches WHERE is_cluster_metadata GROUP BY recording""",
    }

    @property
    def responses(self) -> list[Row]:
        """Recorded responses to FETCHes, counted by verdict."""
        return self.found("verdicts", what=_RESPONSES, variant=RECORDED)

    @property
    def judged(self) -> tuple[int, int]:
        """Recorded responses that no rule explains, and all to which the rule applies."""
        rows = [r for r in self.responses if r["verdict"] != Verdict.NOT_APPLICABLE.value]
        return sum(row["unexplained"] for row in rows), sum(row["n"] for row in rows)

    @property
    def protocol_share(self) -> float:
        have = sum(row["has_high_watermark"] for row in self.responses)
        return float(have / max(1, sum(row["n"] for row in self.responses)))

    @property
    def protocol(self) -> Protocol:
        return protocol_of(self.protocol_share) if self.responses else Protocol.UNKNOWN

    @property
    def max_wait_ms(self) -> tuple[int, int] | None:
        return next(((row["least"], row["most"]) for row in self.found("max_wait")), None)

    @property
    def lag_kind(self) -> str:
        """Whose lag the headlines are about: brokers, else (no broker apart) the voters."""
        kinds = {group for metric, _, _, group, at in self.spreads if metric == LAG and at is None}
        return BROKERS if BROKERS in kinds or VOTERS not in kinds else VOTERS

    def lag(self, variant: str, of: str | None = None, at: int | None = None) -> Percentiles | None:
        """The lag of a kind of replica, by default the headlines'."""
        return self.spread(LAG, variant, "replica_kind", of or self.lag_kind, at)

    @property
    def sources(self) -> tuple[str, str]:
        """Where to read without and with the KIP: what was recorded if the cluster ran it."""
        without, with_kip = (
            RECORDED if self.protocol.value == variant else variant
            for variant in (WITHOUT_KIP, WITH_KIP)
        )
        return without, with_kip

    @property
    def lags(self) -> tuple[Percentiles, Percentiles] | None:
        return both(*map(self.lag, self.sources))

    @property
    def medians(self) -> tuple[float, float] | None:
        return medians(*self.lags) if self.lags else None

    @property
    def makes_a_difference(self) -> bool:
        """The KIP takes a tenth or more off the median."""
        return self.medians is not None and self.medians[1] < NO_DIFFERENCE * self.medians[0]

    @property
    def fetches_per_second(self) -> tuple[float, float] | None:
        return both(*(self.rates(source).fetches for source in self.sources))

    @property
    def bytes_per_second(self) -> tuple[float, float] | None:
        return both(*(self.rates(source).bytes for source in self.sources))
