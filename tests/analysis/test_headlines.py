"""What a run ends with: a block for each recording and rule, and predictions beside recordings."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pytest
from constructed import Row, arrow_table, at, row
from pyarrow import dataset

from kip_replay.pipelines.analysis.accuracy import Kind
from kip_replay.pipelines.analysis.headlines import (
    accuracy_line,
    accuracy_rows,
    headline_figures,
    headlines,
    side_by_side,
)
from kip_replay.pipelines.analysis.intervals import BLOCKS, Error
from kip_replay.pipelines.report import data, values
from kip_replay.pipelines.report.terminal import LEGEND
from kip_replay.pipelines.rules.min_isr_acks.figures import REACTING
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL, INCREMENTAL_DRAFT
from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_OUTCOMES
from kip_replay.replay.lowest_acked_offset import ESTIMATED, LOWEST_ACKED
from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.min_isr_acks.reasons import LOG_ENDED
from kip_replay.replay.min_isr_acks.tables import PRODUCE_CLOSED_LOOP_OUTCOMES
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.table import Table
from kip_replay.replay.tables import BANDWIDTH_SUMMARY, LATENCY_SUMMARY, PREDICTION_ACCURACY


def latency(
    rule: str, variant: str, metric: str, p50: float, group: str = "all", unknown: int = 0
) -> Row:
    what = {"rule": rule, "variant": variant, "metric": metric, "group_value": group}
    kind = "all" if group == "all" else "replica_kind"
    counts = {"group_kind": kind, "count": 100, "unknown_count": unknown}
    figures = {"p50_ms": p50, "p90_ms": p50 * 2, "p50_low_ms": p50 * 0.9, "p50_high_ms": p50 * 1.2}
    return row(LATENCY_SUMMARY, **what, **counts, **figures)


def traffic(rule: str, variant: str, kind: str, requests: int, partitions: int) -> list[Row]:
    """A minute of requests and responses of 100 bytes each, on each of two nodes; all is steady."""
    what = {"rule": rule, "variant": variant, "api_name": "FETCH", "client_kind": kind}
    counts = {"requests": requests, "partitions": requests * partitions, "bytes": requests * 100}
    blocks = {f"{name}_per_block": [of // BLOCKS] * BLOCKS for name, of in counts.items()}
    return [
        row(
            BANDWIDTH_SUMMARY,
            **what,
            **counts,
            **blocks,
            node_id=node,
            direction=direction,
            span_s=60.0,
        )
        for node in (1, 2)
        for direction in ("request", "response")
    ]


def check(rule: str, variant: str, metric: str, passed: bool | None, kind: str) -> Row:
    what = {"rule": rule, "variant": variant, "predicted_from": "r", "recorded_in": "s"}
    what |= {"kind": kind, "is_enough": passed is not False}
    group = {"metric": metric, "group_kind": "all", "group_value": "all", "unit": "ms"}
    figures = {"predicted": 12.5, "recorded": 12.0, "error": 0.5, "unknown_count": 0}
    tolerance = None if passed is None else 1.0
    return row(PREDICTION_ACCURACY, **what, **group, **figures, tolerance=tolerance, passed=passed)


def fetch(variant: str) -> Row:
    return row(FETCH_SESSION_OUTCOMES, rule="incremental_fetch", variant=variant, verdict="unknown")


def reaction(is_own: bool, reason: str | None) -> Row:
    what = {"rule": "min_isr_acks", "variant": ACKS_MIN_INSYNC_REPLICAS, "reason": reason}
    received_at = at(1) if is_own else at(5)
    return row(
        PRODUCE_CLOSED_LOOP_OUTCOMES, **what, is_own=is_own, recorded_received_at=received_at
    )


ROWS: dict[Table, list[Row]] = {
    BANDWIDTH_SUMMARY: [
        *(
            row
            for variant in (RECORDED, WITHOUT_KIP, WITH_KIP)
            for row in traffic("hwm_parking", variant, "broker", 64, 1)
        ),
        *(
            row
            for variant, partitions in ((FULL, 64), (INCREMENTAL, 3), (INCREMENTAL_DRAFT, 4))
            for kind, listed in (("follower", partitions), ("consumer", 1000))
            for row in traffic("incremental_fetch", variant, kind, 32, listed)
        ),
    ],
    LATENCY_SUMMARY: [
        *(
            latency("hwm_parking", variant, "high_watermark_lag", p50, group)
            for variant, p50 in ((RECORDED, 328.0), (WITHOUT_KIP, 329.0), (WITH_KIP, 1.2))
            for group in ("all", "broker", "voter")
        ),
        *(
            latency("min_isr_acks", variant, REACTING, p50, unknown=unknown)
            for variant, p50, unknown in (
                (RECORDED, 241.0, 0),
                (ACKS_ALL, 240.5, 2),
                (ACKS_MIN_INSYNC_REPLICAS, 13.5, 7),
            )
        ),
        latency("min_isr_acks", ACKS_MIN_INSYNC_REPLICAS, f"{REACTING}_sent_earliest", 13.0),
        latency("min_isr_acks", ACKS_MIN_INSYNC_REPLICAS, f"{REACTING}_sent_latest", 14.0),
        latency("min_isr_acks", ACKS_ALL, "produce_latency", 251.0),
        latency("min_isr_acks", ACKS_MIN_INSYNC_REPLICAS, "produce_latency", 20.5),
        latency("min_isr_acks", ACKS_MIN_INSYNC_REPLICAS, "exposure", 113.6, unknown=9),
        latency("lowest_acked_offset", LOWEST_ACKED, "stale_window", 1417.0),
        latency("lowest_acked_offset", ESTIMATED, "stale_window", 229.0, unknown=3),
        latency("lowest_acked_offset", ESTIMATED, "read_after_write", 281.0),
        latency("lowest_acked_offset", LOWEST_ACKED, "read_after_write", 3213.0, unknown=1),
        # A sweep is no headline.
        {
            **latency("lowest_acked_offset", LOWEST_ACKED, "read_after_write", 5.0),
            "parameter": "broker_heartbeat_interval_ms",
            "parameter_value": 100,
        },
    ],
    FETCH_SESSION_OUTCOMES: [fetch(INCREMENTAL), fetch(FULL)],
    PRODUCE_CLOSED_LOOP_OUTCOMES: [reaction(True, None), reaction(False, LOG_ENDED)],
    PREDICTION_ACCURACY: [
        check("min_isr_acks", ACKS_ALL, "closed_loop_latency_p50", False, Kind.OTHER_CLUSTER),
        check("incremental_fetch", INCREMENTAL, "fetch_bytes", None, Kind.SELF_CHECK),
        check("hwm_parking", WITH_KIP, "high_watermark_lag_p50", True, Kind.SELF_CHECK),
    ],
}


class Constructed(Warehouse):
    """A warehouse of these rows."""

    def exists(self, table: Table) -> bool:
        return True

    def _dataset(self, table: Table) -> dataset.Dataset:
        return dataset.dataset(arrow_table(table, ROWS.get(table, [])))

    def rows(self, table: Table, recordings: Collection[str]) -> pa.Table:
        return self._dataset(table).to_table(filter=dataset.field("recording").isin([*recordings]))


WAREHOUSE = Constructed("nowhere")


#: What predictions of another cluster were off by.
ERRORS = {(ACKS_MIN_INSYNC_REPLICAS, f"{REACTING}_p50"): Error(absolute=1.0, relative=0.2)}


@pytest.fixture(autouse=True)
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (data, values):
        monkeypatch.setattr(module, "errors", lambda rule: ERRORS)


def test_each_rule_has_a_block() -> None:
    lines = headlines(headline_figures(WAREHOUSE, ["r"]), ["r"])

    assert lines[:7] == [
        "hwm_parking on r: metadata FETCHes, and how late brokers learn",
        "                            recorded         without_kip_1166          with_kip_1166",
        "  FETCHes/s      2.13 [2.13 .. 2.13]      2.13 [2.13 .. 2.13]    2.13 [2.13 .. 2.13]",
        "  bytes/s           427 [427 .. 427]         427 [427 .. 427]       427 [427 .. 427]",
        "  p50 ms      328.0 [295.2 .. 393.6]   329.0 [296.1 .. 394.8]       1.2 [1.1 .. 1.4]",
        "  p90 ms     656.0 [not enough data]  658.0 [not enough data]  2.4 [not enough data]",
        "  p99 ms                     unknown                  unknown                unknown",
    ]
    assert lines[7] == "incremental_fetch on r: what FETCHes and responses carry"
    assert lines[9].split()[5:11] == ["64.00", "[64.00", "..", "64.00]", "3.00", "[3.00"]
    assert lines[11] == "  unknown: 1"
    # 1.35 and 2.7 ms by time alone, and what predictions of another cluster were off by.
    [reacting] = [line for line in lines if line.startswith("  acks_min_insync_replicas, if they")]
    assert "    13.5 [10.5 .. 17.3]   27.0 [not enough data]        7" in reacting
    assert "20.5 [18.4 .. 24.6]" in lines[18]
    assert lines[20:22] == [
        "    1 of 2 PRODUCEs (0.5 a second, as recorded) came on their own; the others may have"
        " been sent earlier or later: p50 13.0 to 14.0",
        "    the log ended before 1 of the responses",
    ]
    assert lines[23] == (
        "  stale window 229.0 [206.1 .. 274.8] / 458.0 [not enough data]   unknown: 3"
        " (at most, by heartbeats: 1,417.0 [1,275.3 .. 1,700.4] / 2,834.0 [not enough data])"
    )
    assert lines[25] == LEGEND
    assert len(lines) == 26


def test_nothing_takes_one_line_for_each_rule() -> None:
    lines = headlines(headline_figures(WAREHOUSE, ["nothing"]), ["nothing"])

    rules = ["hwm_parking", "incremental_fetch", "min_isr_acks", "lowest_acked_offset"]
    assert [line.split(" on nothing: no ")[0] for line in lines] == rules


def test_predictions_are_in_the_order_of_the_rules() -> None:
    rows = accuracy_rows(WAREHOUSE, ["r"], ["s"])

    assert [row["rule"] for row in rows] == ["hwm_parking", "incremental_fetch", "min_isr_acks"]
    assert accuracy_rows(WAREHOUSE, ["s"], ["r"]) == []
    assert accuracy_line(rows) == (
        "predictions: of another cluster, within tolerance 0 of 1;"
        " self-checks, within tolerance 1 of 1"
    )
    assert accuracy_line([]) == "predictions: none held against a recording"
    lines = side_by_side(rows)
    assert [line for line in lines if not line.startswith("  ")] == [
        "hwm_parking (variant with_kip_1166)",
        "incremental_fetch (variant incremental)",
        "min_isr_acks (variant acks_all)",
    ]
    verdicts = [line.split("  ", 1)[1].rsplit("0.5  ", 1)[1] for line in lines if " ms " in line]
    assert verdicts == ["1 yes", "not judged", "1 NO   little data"]
    assert side_by_side([]) == []
