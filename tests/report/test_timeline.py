"""Charts over time: bounded, with gaps where nothing is known, and events merged into marks."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pytest
from constructed import BEGIN, Row, at, row, viewed

from kip_replay.pipelines.folders import rule_pages
from kip_replay.pipelines.report.marks import Chart, Line
from kip_replay.pipelines.report.timeline import marks, timelines
from kip_replay.replay.hwm_parking.outcomes import HIGH_WATERMARK_LAG
from kip_replay.replay.incremental_fetch.outcomes import FETCH_SESSION_OUTCOMES
from kip_replay.replay.log_tables import CONFIGS, ISR_CHANGES, LOG_GAPS, REQUESTS
from kip_replay.replay.table import Table

#: Invisible or reordering in a page.
HOSTILE = "\u202ec<\x00"


@contextmanager
def session(
    tables: Mapping[Table, Sequence[Row]], span_s: float = 200
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A recording r of some length with these rows."""
    long = row(REQUESTS, node_id=1, received_at=at(0), completed_at=at(span_s))
    with viewed({**tables, REQUESTS: [long, *tables.get(REQUESTS, ())]}) as connection:
        yield connection


def lag(second: float, lag_ms: float | None, variant: str = "with_kip_1166") -> Row:
    high_watermark = {"high_watermark": round(second * 1000), "phase": "steady"}
    replica = {"leader_id": 1, "leader_epoch": 1, "replica_id": 11, "is_voter": False}
    verdict = {"lag_ms": lag_ms, "verdict": "unknown" if lag_ms is None else "replayed"}
    of = {"rule": "hwm_parking", "variant": variant, "leader_at": at(second)}
    return row(HIGH_WATERMARK_LAG, **of, **high_watermark, **replica, **verdict)


def charts(connection: duckdb.DuckDBPyConnection, rule: str, of: str = "r") -> list[Chart]:
    stated = rule_pages()[rule]
    return timelines(connection, stated["timelines"], of, {"recorded", *stated["variants"]})


def points(line: Line) -> dict[float, float | None]:
    """Values by second, of buckets of a second."""
    return {x - 0.5 - BEGIN.timestamp(): y for x, y in zip(line.x, line.y, strict=True)}


def test_latencies_over_time() -> None:
    rows = [lag(1.5, 4.0), lag(1.6, 2.0), lag(4, 8.0), lag(5, None), lag(20, 6.0)]
    rows += [lag(1 + number / 20, 300.0 + number, "without_kip_1166") for number in range(10)]
    moments = [30.0] * 10 + [31.0] * 4 + [32.0] * 4
    rows += [lag(at + n / 100, 0.5, "recorded") for n, at in enumerate(moments)]
    with session({HIGH_WATERMARK_LAG: rows}) as connection:
        [chart] = charts(connection, "hwm_parking")
        assert charts(connection, "hwm_parking", "another") == []
    assert (chart.x_scale, chart.y_scale, chart.y_name) == ("time", "log", "ms")
    names = [f"{of} KIP-1166, median" for of in ("without", "with")]
    # Of few values there is no 90th percentile; nor where one point of three has one.
    names = ["recorded, median", names[0], "without KIP-1166, 90 %", names[1]]
    assert [line.name for line in chart.lines] == names
    assert [line.style for line in chart.lines] == ["recorded", "without", "without", "with"]
    assert [points(line)[1] for line in chart.lines[1:]] == [304, 308, 2]
    median = points(chart.lines[-1])
    # What is unknown is a gap, and so is a time without an advance, unless it is short.
    assert {x: y for x, y in median.items() if x < 21} == {1: 2, 4: 8, 5: None, 9: None, 20: 6}
    assert "with KIP-1166, median: 2.0\u00a0ms to 8.0\u00a0ms" in chart.described
    assert chart.note.endswith("a point is 1\u00a0s, 90 % of 10 values or more")


def test_rates_over_time() -> None:
    def fetch(second: float, **more: Any) -> Row:
        usual: Row = {"rule": "incremental_fetch", "variant": "full", "node_id": 11}
        usual |= {"client_kind": "follower", "dequeued_at": at(second)}
        usual |= {"request_bytes": 60, "response_bytes": 150, "record_bytes": 100}
        return row(FETCH_SESSION_OUTCOMES, **(usual | more))

    unknown = {"verdict": "unknown", "request_bytes": None, "response_bytes": None}
    rows = [fetch(1), fetch(1.2, client_kind="consumer"), fetch(3), fetch(3, **unknown)]
    with session({FETCH_SESSION_OUTCOMES: rows}) as connection:
        [chart] = charts(connection, "incremental_fetch")
    [line] = chart.lines
    assert len(line.x) == 201
    assert [*points(line).values()][:5] == [0, 220, 0, None, 0]
    assert chart.y_scale == "number"


# --- events ---------------------------------------------------------------------------------------


def isr(second: float, partition: int, replicas: list[int]) -> Row:
    of = {"node_id": 1, "source": "ALTER_PARTITION", "topic": HOSTILE, "partition": partition}
    leader = {"leader_id": 11, "leader_epoch": 1, "isr": replicas, "error_code": 0}
    return row(ISR_CHANGES, built_at=at(second), **of, **leader)


def test_events_of_a_kind_that_come_together_are_one_mark() -> None:
    changes = [isr(1, number, [11, 12, 13]) for number in range(14)]
    changes += [isr(5.1 + number / 100, number, [11]) for number in range(14)]
    changes.append(isr(8, 3, [11, 12]))
    hole = row(LOG_GAPS, node_id=12, number=1, evidence="no_log")  # nobody knows when
    with session({ISR_CHANGES: changes, LOG_GAPS: [hole]}) as connection:
        found = marks(connection, "r", 1)
    assert [(mark.x - BEGIN.timestamp(), mark.kind, mark.text) for mark in found] == [
        (pytest.approx(5.1), "isr", "ISR of 14 partitions shrank: without 12 and 13"),
        (8, "isr", r"ISR of \u202ec<\u0000-3 grew: with 12"),
    ]


def test_marks_are_bounded() -> None:
    by = {"node_id": 1, "source": "INCREMENTAL_ALTER_CONFIGS", "error_code": 0}
    by |= {"resource_type": "topic", "name": "retention.ms", "operation": "set"}
    seconds = range(1000)
    changes = [row(CONFIGS, resource_name=f"t{s}", built_at=at(s), **by) for s in seconds]
    line = {"node_id": 1, "source_file": "x", "line_number": 1, "is_forwarded": False}
    senders = [row(REQUESTS, request_id=change["request_id"], **line) for change in changes]
    with session({CONFIGS: changes, REQUESTS: senders}, 1000) as connection:
        found = marks(connection, "r", 5)
        assert marks(connection, "another", 5) == []
    assert 50 <= len(found) <= 100
    assert found[0].text.startswith("10 config changes: topic t0: set retention.ms")
    assert sum(int(mark.text.split(" ")[0]) for mark in found) == 1000
