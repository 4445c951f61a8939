"""min_isr_acks in the report: how long producers wait, what they are answered, what that risks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kip_replay.pipelines.report.reading import PLAIN, counted, curves
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
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.rules import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS, MIN_ISR_ACKS

RULE = MIN_ISR_ACKS.name
VARIANTS = (RECORDED, ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS)
_LATENCY, _REQUEST_LATENCY, _EXPOSURE = "produce_latency", "produce_request_latency", "exposure"
#: The metrics that are drawn, and of which kind of group.
CURVES = ((_LATENCY, "all"), (_EXPOSURE, "all"))
#: What is answered under each variant, by column of the outcomes.
_ERRORS = {
    RECORDED: "recorded_error",
    ACKS_ALL: "acks_all_error",
    ACKS_MIN_INSYNC_REPLICAS: "min_isr_error",
}
#: Rows for leaders at most, those with the most answers first.
MOST_LEADERS = 12


@dataclass(frozen=True)
class Leader:
    """Latencies of the partitions that one broker leads, by variant, and their exposure."""

    node_id: int
    latency: Mapping[str, Percentiles]
    exposure: Percentiles | None = None


@dataclass(frozen=True)
class MinIsrPoint:
    """acks=min.insync.replicas if it were this number for every topic."""

    min_insync_replicas: int
    latency: Percentiles | None
    exposure: Percentiles | None


@dataclass(frozen=True)
class MinIsrAcks:
    """All that is said of one recording; empty where its logs have no PRODUCE.

    ``produced``: partitions of PRODUCEs, ``waited`` of them with acks=all. ``latency``: by variant,
    per partition with acks=all; ``exposure``: of every partition. ``errors``: how often each error
    code is answered, by variant, with acks=all.
    """

    produced: int = 0
    waited: int = 0
    latency: Mapping[str, Percentiles] = field(default_factory=dict)
    request_latency: Mapping[str, Percentiles] = field(default_factory=dict)
    exposure: Percentiles | None = None
    curves: Mapping[str, Curve] = field(default_factory=dict)
    exposure_curve: Curve | None = None
    leaders: tuple[Leader, ...] = ()
    sweep: tuple[MinIsrPoint, ...] = ()
    errors: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()


# --- reading -------------------------------------------------------------------------------------


def queries() -> Mapping[str, str]:
    """The queries besides the summary tables."""
    errors = [
        f"""
        SELECT recording, '{variant}' AS of, {column} AS code, count(*) AS n
        FROM produce_ack_outcomes WHERE {PLAIN} AND acks = -1 AND {column} != 0
        GROUP BY recording, {column}"""
        for variant, column in _ERRORS.items()
    ]
    return {
        "curves": curves(RULE),
        "verdicts": counted("produce_ack_outcomes", "'partitions'", {"waited": "acks = -1"}),
        "errors": " UNION ALL ".join(errors),
    }


# --- rows to values ------------------------------------------------------------------------------


def from_rows(rows: Rows) -> MinIsrAcks:
    """The values of one recording."""
    every = of(rows["latencies"], parameter="none")
    exposed = of(every, metric=_EXPOSURE, group_kind="all")
    exposure_points = of(rows["curves"], metric=_EXPOSURE)
    produced = of(rows["verdicts"], variant=ACKS_MIN_INSYNC_REPLICAS)
    return MinIsrAcks(
        produced=sum(row["n"] for row in produced),
        waited=sum(row["waited"] for row in produced),
        latency=_by_variant(of(every, metric=_LATENCY, group_kind="all")),
        request_latency=_by_variant(of(every, metric=_REQUEST_LATENCY, group_kind="all")),
        exposure=percentiles(exposed[0]) if exposed else None,
        curves=_curves(of(rows["curves"], metric=_LATENCY)),
        exposure_curve=curve(exposure_points) if exposure_points else None,
        leaders=_leaders(of(every, group_kind="node_id")),
        sweep=_sweep(rows["latencies"]),
        errors=_codes(rows["errors"]),
        doubts=doubts(rows["verdicts"]),
    )


def _by_variant(rows: Sequence[Row]) -> dict[str, Percentiles]:
    return {row["variant"]: percentiles(row) for row in sorted(rows, key=lambda r: r["variant"])}


def _curves(rows: Sequence[Row]) -> dict[str, Curve]:
    variants = sorted({row["variant"] for row in rows})
    return {variant: curve(of(rows, variant=variant)) for variant in variants}


def _leaders(rows: Sequence[Row]) -> tuple[Leader, ...]:
    found = []
    for node in {row["group_value"] for row in rows}:
        mine = of(rows, group_value=node)
        exposed = of(mine, metric=_EXPOSURE)
        latency = _by_variant(of(mine, metric=_LATENCY))
        if latency:
            found.append(Leader(int(node), latency, percentiles(exposed[0]) if exposed else None))
    busiest = sorted(found, key=lambda one: (-_answers(one), one.node_id))[:MOST_LEADERS]
    return tuple(sorted(busiest, key=lambda one: one.node_id))


def _answers(leader: Leader) -> int:
    return max(found.count + found.unknown for found in leader.latency.values())


def _sweep(rows: Sequence[Row]) -> tuple[MinIsrPoint, ...]:
    everyone = of(rows, group_kind="all", variant=ACKS_MIN_INSYNC_REPLICAS)
    points = []
    for value, found in in_sweep(everyone, "min_insync_replicas").items():
        latency, exposure = of(found, metric=_LATENCY), of(found, metric=_EXPOSURE)
        points.append(
            MinIsrPoint(
                value,
                percentiles(latency[0]) if latency else None,
                percentiles(exposure[0]) if exposure else None,
            )
        )
    return tuple(points)


def _codes(rows: Sequence[Row]) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for row in sorted(rows, key=lambda r: (r["of"], r["code"])):
        found.setdefault(row["of"], {})[row["code"]] = row["n"]
    return found
