"""min_isr_acks in the report: how long producers wait, which errors they get, what is exposed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kip_replay.pipelines.page.reading import AT, PLAIN, counted
from kip_replay.pipelines.page.values import Percentiles, RuleFigures, both, known, medians
from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS, RULE
from kip_replay.replay.min_isr_acks.reasons import LOG_ENDED, NOT_ENOUGH_REPLICAS
from kip_replay.replay.outcomes import RECORDED, Verdict

VARIANTS = (RECORDED, ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS)
LATENCY, REQUEST_LATENCY, EXPOSURE = "produce_latency", "produce_request_latency", "exposure"
#: Of a cluster whose producers react; the others are of each PRODUCE as it arrived.
REACTING = "closed_loop_latency"
#: The error of each variant, by column of the outcomes.
_ERRORS = dict(zip(VARIANTS, ("recorded_error", "acks_all_error", "min_isr_error"), strict=True))
#: Rows for leaders at most, those with the most responses first.
MOST_LEADERS = 12


@dataclass(frozen=True)
class Figures(RuleFigures):
    """PRODUCEs; latencies are those with acks=all, per partition if not per request."""

    NAME = RULE
    SWEEP = "min_insync_replicas"
    CURVES = ((REACTING, "all"), (EXPOSURE, "all"))
    HEADLINES = (*CURVES, (LATENCY, "all"), (f"{REACTING}_sent_latest", "all"))
    QUERIES: ClassVar[Mapping[str, str]] = {
        "verdicts": counted("produce_ack_outcomes", "'partitions'", {"waited": "acks = -1"}),
        "errors": " UNION ALL ".join(
            f"""
            SELECT recording, '{variant}' AS variant, {column} AS code, count(*) AS n
            FROM produce_ack_outcomes WHERE {PLAIN} AND acks = -1 AND {column} != 0
            GROUP BY recording, {column}"""
            for variant, column in _ERRORS.items()
        ),
        "swept": f"""
            SELECT recording, {AT}, count(*) AS n,
                count(*) FILTER (min_isr_error = {NOT_ENOUGH_REPLICAS}) AS refused,
                min(min_insync_replicas) AS least, max(min_insync_replicas) AS most
            FROM produce_ack_outcomes
            WHERE parameter IN ('none', '{SWEEP}') AND acks = -1 AND verdict = '{Verdict.REPLAYED}'
            GROUP BY ALL""",
        "arrivals": f"""
            SELECT recording, count(*) AS n, count(*) FILTER (is_own) AS own,
                   count(*) FILTER (reason = '{LOG_ENDED}') AS after_the_log,
                   n * 1e6 / nullif(max(epoch_us(recorded_received_at))
                       - min(epoch_us(recorded_received_at)), 0) AS per_second
            FROM produce_closed_loop_outcomes WHERE variant = '{ACKS_MIN_INSYNC_REPLICAS}'
            GROUP BY recording""",
    }

    @property
    def produced(self) -> int:
        """Partitions of PRODUCEs."""
        return self.tally("n", variant=ACKS_MIN_INSYNC_REPLICAS)

    @property
    def waited(self) -> int:
        """Those of them with acks=all."""
        return self.tally("waited", variant=ACKS_MIN_INSYNC_REPLICAS)

    def exposure(self, at: int | None = None) -> Percentiles | None:
        return self.spread(EXPOSURE, ACKS_MIN_INSYNC_REPLICAS, at=at)

    def refused(self, at: int | None = None) -> float:
        """The share of partitions of PRODUCEs with acks=all that NOT_ENOUGH_REPLICAS refuses."""
        rows = self.found("swept", at=at)
        return float(sum(r["refused"] for r in rows) / max(1, sum(r["n"] for r in rows)))

    @property
    def in_force(self) -> list[int]:
        """The least and the most of min.insync.replicas that PRODUCEs with acks=all found."""
        rows = self.found("swept", at=None)
        return sorted({row[end] for row in rows for end in ("least", "most")} - {None})

    @property
    def waits(self) -> tuple[Percentiles, Percentiles] | None:
        """How long producers that react wait with acks=all and with acks=min.insync.replicas."""
        return both(*(self.spread(REACTING, variant) for variant in VARIANTS[1:]))

    @property
    def waits_at_most(self) -> tuple[Percentiles, Percentiles] | None:
        """The same, and what acks=min.insync.replicas takes at most, where brokers were cold."""
        latest = self.spread(f"{REACTING}_sent_latest", ACKS_MIN_INSYNC_REPLICAS)
        return both(self.spread(REACTING, ACKS_ALL), latest)

    @property
    def sent_at_other_times(self) -> tuple[float, float] | None:
        """The least and the most of the median with acks=min.insync.replicas, whenever producers
        sent what the log leaves open."""
        ends = ("", "_sent_earliest", "_sent_latest")
        found = [self.spread(f"{REACTING}{end}", ACKS_MIN_INSYNC_REPLICAS) for end in ends]
        all_known = known(spread.p50 for spread in known(found))
        return (min(all_known), max(all_known)) if all_known else None

    @property
    def medians(self) -> tuple[float, float] | None:
        return medians(*self.waits) if self.waits else None

    @property
    def leaders(self) -> list[str]:
        """Node ids of the brokers with the most responses."""
        values: dict[str, int] = {}
        for (metric, _, kind, node, at), spread in self.spreads.items():
            if (metric, kind, at) == (REACTING, "node_id", None):
                values[node] = max(values.get(node, 0), spread.values)
        busiest = sorted(values, key=lambda node: (-values[node], int(node)))
        return sorted(busiest[:MOST_LEADERS], key=int)
