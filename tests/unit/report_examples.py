"""Recordings with something to say on every rule, as plain values; no figure is a real one."""

from __future__ import annotations

from dataclasses import replace

from kip_replay.pipelines.report.accuracy import Check
from kip_replay.pipelines.report.data import RecordingReport, Report
from kip_replay.pipelines.report.logs import Logs, NodeRead, Rejected, RejectedLine
from kip_replay.pipelines.report.values import Curve, Doubt, Percentiles
from kip_replay.pipelines.rules.hwm_parking.figures import (
    Figures,
    HwmParking,
    Protocol,
    SweepPoint,
    Traffic,
)
from kip_replay.pipelines.rules.incremental_fetch.figures import (
    IncrementalFetch,
    SessionTraffic,
    SlotsPoint,
)
from kip_replay.pipelines.rules.lowest_acked_offset.figures import (
    HeartbeatBytes,
    IntervalPoint,
    LowestAckedOffset,
    Visibility,
)
from kip_replay.pipelines.rules.min_isr_acks.figures import Leader, MinIsrAcks, MinIsrPoint
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.rules import WITH_KIP, WITHOUT_KIP

TOLD = "lowest_acked_offset"


def spread(p50: float, unknown: int = 0, count: int = 100) -> Percentiles:
    return Percentiles(count, unknown, p50, p50 * 2, p50 * 3, p50 * 4, p50 * 5, p50 * 6)


def line(p50: float) -> Curve:
    return Curve(p50 / 3, ((p50, 0.5), (p50 * 6, 1.0)))


def figures(p50: float, fetches: int) -> Figures:
    traffic = Traffic(fetches, fetches * 160, fetches * 200, 0, 60.0)
    return Figures(
        lag={kind: spread(p50) for kind in ("all", "broker", "voter")},
        curve={kind: line(p50) for kind in ("broker", "voter")},
        traffic={"broker": traffic, "voter": traffic},
    )


def hwm_parking(own: Protocol = Protocol.WITHOUT) -> HwmParking:
    slow, fast = figures(328.2, 450), figures(1.2, 920)
    return HwmParking(
        protocol=own,
        protocol_share=1.0 if own is Protocol.WITH else 0.0,
        max_wait_ms=(500, 500),
        figures={
            RECORDED: fast if own is Protocol.WITH else slow,
            WITHOUT_KIP: slow,
            WITH_KIP: fast,
        },
        sweep=(SweepPoint(100, figures(120.0, 2000), figures(1.3, 3000)),),
        metadata_fetches=900,
        judged_answers=800,
        unexplained_answers=4,
        doubts=(Doubt("advances steady", "unknown", "the log ended", {RECORDED: 3}),),
    )


def sessions(listed: int, bytes_each: int) -> SessionTraffic:
    """600 FETCHes in a minute, of ``listed`` partitions and ``bytes_each`` bytes each way."""
    return SessionTraffic(
        fetches=600,
        answers=600,
        request_partitions=600 * listed,
        response_partitions=600 * listed,
        request_bytes=600 * bytes_each,
        response_bytes=600 * bytes_each + 60_000,
        record_bytes=60_000,
        span_s=60.0,
    )


def incremental_fetch() -> IncrementalFetch:
    full, few, draft = sessions(64, 2000), sessions(3, 150), sessions(4, 180)
    by_variant = {RECORDED: few, "full": full, "incremental": few, "incremental_draft": draft}
    none, some = {"refused": 40}, {"created": 12, "evicted": 2}
    return IncrementalFetch(
        uses_sessions=True,
        fetches=700,
        figures={v: {"follower": t, "consumer": t} for v, t in by_variant.items()},
        events={"created": 12},
        sweep=(
            SlotsPoint(0, {"follower": full, "consumer": full}, none),
            SlotsPoint(8, {"follower": few, "consumer": full}, some),
            SlotsPoint(16, {"follower": few, "consumer": few}, {"created": 12}),
        ),
        equal=590,
        compared=600,
        unknown={"full": 5, "incremental": 5},
        doubts=(
            Doubt("fetches", "unknown", "the session began before the log", {"full": 5}),
            Doubt("fetches", "not_applicable", "a session error was answered", {"full": 1}),
        ),
    )


def min_isr_acks() -> MinIsrAcks:
    latency = {
        RECORDED: spread(241.0),
        "acks_all": spread(240.5),
        "acks_min_insync_replicas": spread(13.5, unknown=2),
    }
    return MinIsrAcks(
        produced=300,
        waited=200,
        latency=latency,
        request_latency=latency,
        exposure=spread(113.6),
        curves={variant: line(found.p50 or 0.0) for variant, found in latency.items()},
        exposure_curve=line(113.6),
        leaders=(Leader(11, latency, spread(113.6)), Leader(12, latency)),
        sweep=(
            MinIsrPoint(1, spread(0.4), spread(230.0)),
            MinIsrPoint(2, spread(13.5, unknown=2), spread(113.6)),
            MinIsrPoint(3, spread(240.5), None),
        ),
        errors={RECORDED: {19: 7}, "acks_all": {19: 7}, "acks_min_insync_replicas": {19: 7}},
        doubts=(Doubt("partitions", "unknown", "the ISR is not in the log", {"acks_all": 2}),),
    )


def lowest_acked_offset() -> LowestAckedOffset:
    told = Visibility(spread(1417.0), spread(3213.0, unknown=1))
    finest = Visibility(spread(229.0), spread(700.0))
    return LowestAckedOffset(
        writes=120,
        by_variant={TOLD: told, "finest_evidence": finest},
        by_api={"CREATE_TOPICS": told, "INCREMENTAL_ALTER_CONFIGS": finest},
        curves={
            (TOLD, "stale_window"): line(1417.0),
            (TOLD, "read_after_write"): line(3213.0),
            ("finest_evidence", "stale_window"): line(229.0),
        },
        sweep=(
            IntervalPoint(
                100,
                {
                    WITHOUT_KIP: Visibility(spread(300.0), spread(400.0)),
                    WITH_KIP: Visibility(spread(60.0), spread(140.0)),
                },
            ),
            IntervalPoint(1000, {WITHOUT_KIP: Visibility(spread(900.0), spread(1500.0))}),
        ),
        heartbeats=HeartbeatBytes(10, 630, 710),
        doubts=(Doubt("writes", "unknown", "the log ended first", {TOLD: 1}),),
    )


def logs(name: str = "a.log") -> Logs:
    return Logs(
        logged_versions=("4.0.0",),
        nodes=(NodeRead(1, 1, 1000, 12, 10, 1, 1, "ab"),),
        rejected=(Rejected("bad_json", 1, (RejectedLine(1, name, 7, "line", 4),)),),
    )


def recording(name: str = "one", own: Protocol = Protocol.WITHOUT) -> RecordingReport:
    return RecordingReport(
        name, logs(), hwm_parking(own), incremental_fetch(), min_isr_acks(), lowest_acked_offset()
    )


def silent(name: str = "empty") -> RecordingReport:
    """A recording whose logs say nothing on any rule."""
    return RecordingReport(name, logs())


def check(name: str = "one", passed: bool | None = True, error: float = 0.8) -> Check:
    return Check(
        rule="hwm_parking",
        predicted_from=name,
        recorded_in=name,
        variant=WITHOUT_KIP,
        metric="high_watermark_lag_p50",
        group_kind="replica_kind",
        group_value="broker",
        unit="ms",
        baseline=250.0,
        predicted=329.0,
        recorded=328.2,
        error=error,
        tolerance=None if passed is None else 2.0,
        passed=passed,
        sample_count=627,
        unknown_count=3,
    )


def acks_check(before: str = "one", after: str = "two", passed: bool = True) -> Check:
    return replace(
        check(before, passed),
        rule="min_isr_acks",
        recorded_in=after,
        variant="acks_min_insync_replicas",
        metric="produce_latency_p50",
        group_kind="topic_partition",
        group_value="orders-3",
    )


def report(name: str = "one") -> Report:
    return Report((recording(name),), (check(name), acks_check(name, name)))
