"""Rows of tables to the report's values, without Spark: rows are anything with columns by name."""

from __future__ import annotations

from typing import Any

from kip_replay.pipelines.report import accuracy
from kip_replay.pipelines.report.values import Doubt, curve, doubts, in_sweep
from kip_replay.pipelines.rules.hwm_parking import figures as hwm_parking
from kip_replay.pipelines.rules.incremental_fetch import figures as incremental_fetch
from kip_replay.pipelines.rules.lowest_acked_offset import figures as lowest_acked_offset
from kip_replay.pipelines.rules.min_isr_acks import figures as min_isr_acks
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.rules import WITH_KIP, WITHOUT_KIP

Row = dict[str, Any]


def row(variant: str, parameter: str = "none", value: str = "none", **more: Any) -> Row:
    return {"variant": variant, "parameter": parameter, "parameter_value": value, **more}


def latency(variant: str, metric: str, p50: float | None, **more: Any) -> Row:
    shape = {"group_kind": "all", "group_value": "all", "count": 20, "unknown_count": 1}
    high = {f"{p}_ms": p50 for p in ("p50", "p90", "p95", "p99", "p999", "max")}
    return row(variant, **{"metric": metric, **shape, **high, **more})


def traffic(variant: str, direction: str, **more: Any) -> Row:
    sizes = {"requests": 60, "partitions": 120, "bytes": 6000, "record_bytes": 0}
    kind = {"client_kind": "follower", "unknown_size_requests": 1, "span_s": 60.0}
    return row(variant, **{"direction": direction, **sizes, **kind, **more})


def verdict(variant: str, n: int, said: str = "replayed", **more: Any) -> Row:
    return row(variant, what="what", verdict=said, reason=None, n=n, **more)


def test_a_curve_rises_in_the_order_of_its_values() -> None:
    rows = [
        {"from_us": 300, "value_us": 500, "up_to": 3, "total": 4},
        {"from_us": 100, "value_us": 200, "up_to": 1, "total": 4},
    ]
    assert curve(rows).start_ms == 0.1
    assert curve(rows).points == ((0.2, 0.25), (0.5, 0.75))


def test_doubts_leave_out_what_was_replayed_and_add_up_variants() -> None:
    rows = [verdict("full", 9), verdict("full", 2, "unknown"), verdict("full", 3, "unknown")]
    assert doubts(rows) == (Doubt("what", "unknown", "", {"full": 5}),)


def test_sweeps_are_in_the_order_of_numbers() -> None:
    rows = [row("v", "slots", value) for value in ("16", "8", "128")] + [row("v")]
    assert list(in_sweep(rows, "slots")) == [8, 16, 128]


def test_metadata_fetches_without_a_high_watermark_are_those_of_old_brokers() -> None:
    answers = {"what": "answers", "says": 0, "unexplained": 2}
    rows = {
        "verdicts": [{**verdict(RECORDED, 100), **answers}],
        "max_wait": [{"least": 500, "most": 500}],
        "latencies": [
            latency(v, "high_watermark_lag", p50, group_value="broker", group_kind="replica_kind")
            for v, p50 in ((WITHOUT_KIP, 330.0), (WITH_KIP, None))
        ],
        "bandwidth": [
            traffic(v, way, client_kind="broker", parameter=p, parameter_value=value)
            for v in (WITHOUT_KIP, WITH_KIP)
            for way in ("request", "response")
            for p, value in (("none", "none"), ("max_wait_ms", "100"))
        ],
        "curves": [],
    }
    found = hwm_parking.from_rows(rows)

    assert found.protocol is hwm_parking.Protocol.WITHOUT
    assert (found.metadata_fetches, found.unexplained_answers) == (100, 2)
    assert found.of(WITH_KIP).lag["broker"].p50 is None
    total = found.of(WITH_KIP).total_traffic
    assert total is not None
    assert (total.fetches_per_second, total.bytes_per_second) == (1.0, 200.0)
    assert [point.max_wait_ms for point in found.sweep] == [100]


def test_sessions_add_up_over_brokers_and_directions() -> None:
    both = [
        traffic(variant, way, parameter=parameter, parameter_value=value, record_bytes=records)
        for variant, parameter, value in (
            ("full", "none", "none"),
            ("incremental", "none", "none"),
            ("incremental", "session_slots", "8"),
        )
        for _broker in range(2)
        for way, records in (("request", 0), ("response", 1500))
    ]
    events = [
        row("incremental", event="created", n=3),
        row("incremental", "session_slots", "8", event="evicted", n=2),
        row("incremental", "session_slots", "0", event="refused", n=7),
    ]
    counts = {"incremental": 0, "equal": 5, "compared": 6}
    verdicts = [
        {**verdict(RECORDED, 130), **counts},
        {**verdict("incremental", 126), **counts, "incremental": 100},
        {**verdict("incremental", 4, "unknown"), **counts, "equal": 0, "compared": 0},
    ]
    found = incremental_fetch.from_rows({"verdicts": verdicts, "bandwidth": both, "events": events})

    full = found.of("full")
    assert full is not None
    assert (full.fetches, full.answers, full.unknown_sizes) == (120, 120, 4)
    assert full.request_partitions_mean == full.response_partitions_mean == 2.0
    assert full.bytes_per_second == 400.0
    assert full.overhead_per_second == 350.0
    # Whether sessions were used is told by what was recorded, not by what was replayed.
    assert not found.uses_sessions
    assert (found.fetches, found.equal, found.compared) == (130, 5, 6)
    assert found.unknown == {"incremental": 4}
    assert found.events == {"created": 3}
    assert [(p.slots, p.events) for p in found.sweep] == [(0, {"refused": 7}), (8, {"evicted": 2})]


def test_waits_of_producers_and_leaders() -> None:
    variants = (RECORDED, "acks_all", "acks_min_insync_replicas")
    rows = {
        "latencies": [
            *(latency(v, "produce_latency", 10.0) for v in variants),
            *(
                latency(v, "produce_latency", 10.0, group_kind="node_id", group_value=node)
                for v in variants
                for node in ("11", "9")
            ),
            latency("acks_min_insync_replicas", "exposure", 5.0),
            latency(
                "acks_min_insync_replicas",
                "produce_latency",
                1.0,
                parameter="min_insync_replicas",
                parameter_value="1",
            ),
        ],
        "verdicts": [
            {**verdict("acks_min_insync_replicas", 50), "waited": 40},
            {**verdict("acks_min_insync_replicas", 2, "unknown"), "waited": 2},
        ],
        "errors": [{"of": RECORDED, "code": 19, "n": 3}, {"of": "acks_all", "code": 7, "n": 1}],
        "curves": [],
    }
    found = min_isr_acks.from_rows(rows)

    assert (found.produced, found.waited) == (52, 42)
    assert set(found.latency) == {*variants}
    assert found.exposure is not None
    assert found.exposure.p50 == 5.0
    assert [leader.node_id for leader in found.leaders] == [9, 11]
    assert [(p.min_insync_replicas, p.exposure) for p in found.sweep] == [(1, None)]
    assert found.errors == {RECORDED: {19: 3}, "acks_all": {7: 1}}


def test_writes_by_variant_api_and_interval() -> None:
    every = ("stale_window", "read_after_write")
    rows = {
        "latencies": [
            *(latency("lowest_acked_offset", metric, 100.0) for metric in every),
            latency("finest_evidence", "stale_window", 40.0),
            *(
                latency(
                    "lowest_acked_offset",
                    "stale_window",
                    100.0,
                    group_kind="api_name",
                    group_value=api,
                    count=count,
                )
                for api, count in (("ALTER_CONFIGS", 3), ("CREATE_TOPICS", 30))
            ),
            latency(
                WITH_KIP,
                "read_after_write",
                50.0,
                parameter="broker_heartbeat_interval_ms",
                parameter_value="500",
            ),
        ],
        "verdicts": [verdict("lowest_acked_offset", 7), verdict("finest_evidence", 7)],
        "heartbeats": [{"n": 10, "recorded": 190, "replayed": 270}],
        "curves": [],
    }
    found = lowest_acked_offset.from_rows(rows)

    assert found.writes == 7
    assert set(found.by_variant) == {"lowest_acked_offset", "finest_evidence"}
    assert found.by_variant["finest_evidence"].read_after_write is None
    assert list(found.by_api) == ["CREATE_TOPICS", "ALTER_CONFIGS"]
    assert [(p.interval_ms, [*p.by_variant]) for p in found.sweep] == [(500, [WITH_KIP])]
    assert found.heartbeats.replayed_bytes - found.heartbeats.recorded_bytes == 80


def test_checks_are_ordered_by_rule_then_pair() -> None:
    names = ("rule", "predicted_from", "recorded_in")
    found = [
        ("min_isr_acks", "b", "b"),
        ("hwm_parking", "b", "a"),
        ("hwm_parking", "b", "b"),
        ("hwm_parking", "a", "a"),
    ]
    rest = dict.fromkeys(accuracy.Check.__dataclass_fields__) | dict.fromkeys(
        ("variant", "metric", "group_kind", "group_value"), ""
    )
    rows = [{**rest, **dict(zip(names, of_one, strict=True))} for of_one in found]
    checks = accuracy.checks(rows, ["hwm_parking", "min_isr_acks"], ["a", "b"])

    assert [(c.rule, c.predicted_from, c.recorded_in) for c in checks] == [
        ("hwm_parking", "a", "a"),
        ("hwm_parking", "b", "b"),
        ("hwm_parking", "b", "a"),
        ("min_isr_acks", "b", "b"),
    ]


def test_sentences_on_no_checks() -> None:
    assert accuracy.sentence([]) == "No prediction was held against a recording."
    assert accuracy.baseline_sentence([]) is None
