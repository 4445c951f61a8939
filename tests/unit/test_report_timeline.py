"""Charts over time: bounded, with gaps where nothing is known, and events merged into marks."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pytest
from constructed import BEGIN, Row, at, database, row

from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.pipelines.page.view import Line, Timeline
from kip_replay.pipelines.report.timeline import marks, timelines, traffic_timeline
from kip_replay.replay.hwm_parking.tables import HIGH_WATERMARK_LAG
from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_OUTCOMES
from kip_replay.replay.log_tables import CONFIGS, INGESTED_FILES, ISR_CHANGES, LOG_GAPS, REQUESTS
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

VIEWS = in_order(read_views(), TABLES)
LAGS, FETCH_BYTES = Timeline.of("hwm_parking"), Timeline.of("incremental_fetch")
#: Invisible or reordering in a page.
HOSTILE = "\u202ec<\x00"


@contextmanager
def session(
    tables: Mapping[Table, Sequence[Row]], span_s: float = 200
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A recording r of some length with these rows."""
    ingested = row(INGESTED_FILES, node_id=1, source_file="x", content_hash="x", requests=1)
    ingested |= {"first_received_at": at(0), "last_completed_at": at(span_s)}
    with database({INGESTED_FILES: [ingested], **tables}) as connection:
        create_views(connection, VIEWS)
        yield connection


def lag(second: float, lag_ms: float | None, variant: str = "with_kip_1166") -> Row:
    high_watermark = {"high_watermark": round(second * 1000), "phase": "steady"}
    replica = {"leader_id": 1, "leader_epoch": 1, "replica_id": 11, "is_voter": False}
    verdict = {"lag_ms": lag_ms, "verdict": "unknown" if lag_ms is None else "replayed"}
    of = {"rule": "hwm_parking", "variant": variant, "leader_at": at(second)}
    return row(HIGH_WATERMARK_LAG, **of, **high_watermark, **replica, **verdict)


def points(line: Line) -> dict[float, float | None]:
    """Values by second, of buckets of a second."""
    return {x - 0.5 - BEGIN.timestamp(): y for x, y in zip(line.x, line.y, strict=True)}


def test_latencies_over_time() -> None:
    rows = [lag(1.5, 4.0), lag(1.6, 2.0), lag(4, 8.0), lag(5, None), lag(20, 6.0)]
    rows += [lag(1 + number / 20, 300.0 + number, "without_kip_1166") for number in range(10)]
    moments = [30.0] * 5 + [31.0] * 4 + [32.0] * 4
    rows += [lag(at + n / 100, 0.5, "recorded") for n, at in enumerate(moments)]
    with session({HIGH_WATERMARK_LAG: rows}) as connection:
        [chart] = timelines(connection, LAGS, "r")
        assert timelines(connection, LAGS, "another") == []
    assert (chart.x_scale, chart.y_scale, chart.y_name) == ("time", "log", "ms")
    names = [f"{of} KIP-1166, median" for of in ("without", "with")]
    # Of few values there is no 99th percentile; nor where one point of three has one.
    names = ["recorded, median", names[0], "without KIP-1166, 99 %", names[1]]
    assert [line.name for line in chart.lines] == names
    assert [line.style for line in chart.lines] == ["recorded", "without", "without", "with"]
    assert [points(line)[1] for line in chart.lines[1:]] == [304, 308, 2]
    median = points(chart.lines[-1])
    # What is unknown is a gap, and so is a time without an advance, unless it is short.
    assert {x: y for x, y in median.items() if x < 21} == {1: 2, 4: 8, 5: None, 9: None, 20: 6}
    assert "with KIP-1166, median: 2.0\u00a0ms to 8.0\u00a0ms" in chart.described
    assert chart.note.endswith("a point is 1\u00a0s, 99 % of 5 values or more")


def test_rates_over_time() -> None:
    def fetch(second: float, **more: Any) -> Row:
        usual: Row = {"rule": "incremental_fetch", "variant": "full", "node_id": 11}
        usual |= {"client_kind": "follower", "dequeued_at": at(second)}
        usual |= {"request_bytes": 60, "response_bytes": 150, "record_bytes": 100}
        return row(FETCH_SESSION_OUTCOMES, **(usual | more))

    unknown = {"verdict": "unknown", "request_bytes": None, "response_bytes": None}
    rows = [fetch(1), fetch(1.2, client_kind="consumer"), fetch(3), fetch(3, **unknown)]
    with session({FETCH_SESSION_OUTCOMES: rows}) as connection:
        [chart] = timelines(connection, FETCH_BYTES, "r")
    [line] = chart.lines
    assert len(line.x) == 201
    assert [*points(line).values()][:5] == [0, 220, 0, None, 0]
    assert chart.y_scale == "number"


# --- bytes ----------------------------------------------------------------------------------------


def request(second: float, client_id: str | None, size: int | None, node_id: int = 11) -> Row:
    line = {"node_id": node_id, "source_file": "x", "line_number": 1, "client_id": client_id}
    times = {"received_at": at(second), "completed_at": at(second + 0.001)}
    sizes = {"has_response": True, "request_bytes": size, "response_bytes": size and 2 * size}
    return row(REQUESTS, api_name="FETCH", **line, **times, **sizes)


def test_bytes_of_the_biggest_clients_and_of_the_others() -> None:
    sizes = {f"client {number}": 100 * number for number in range(1, 9)}
    # A client may be called as the others are.
    names: dict[str | None, int] = {**sizes, None: 5000, HOSTILE: 4000, "others": 3000}
    rows = [request(1, name, size, 20 + place) for place, (name, size) in enumerate(names.items())]
    rows += [request(2, "client 8", None), request(3, "silent", 0)]
    with session({REQUESTS: rows}) as connection:
        charts = {chart.name: chart for chart in traffic_timeline(connection, "r")}
        assert traffic_timeline(connection, "another") == []
    total = sum(names.values())
    direction, node, got, sent = charts.values()
    assert [line.name for line in direction.lines] == ["responses: protocol", "requests: protocol"]
    assert [points(line)[1] for line in direction.lines] == [2 * total, total]
    of_clients = ["no client id", r"\u202ec<\u0000", "others"]
    of_clients += ["client 8", "client 7", "client 6", "others"]
    for chart, times in ((got, 2), (sent, 1)):
        assert [line.name for line in chart.lines] == of_clients
        assert sum(points(line)[1] or 0 for line in chart.lines) == times * total
        assert "without 2 of 26 requests and responses, whose size is not known" in chart.note
    assert len(node.lines) == 8
    assert node.lines[-1].name == "others"
    assert sum(points(line)[1] or 0 for line in node.lines) == 3 * total
    styles = [line.style for line in got.lines]
    assert styles == [line.style for line in sent.lines] == [f"series-{n}" for n in range(7)]


def test_a_hole_in_the_log_of_a_node_is_a_gap_of_its_line() -> None:
    rows = [request(second, "c", 100, node) for second in range(9) for node in (11, 12)]
    rows = [r for r in rows if not (r["node_id"] == 12 and 2 < r["received_at"].second < 7)]

    def hole(number: int, **bounds: Any) -> Row:
        return row(LOG_GAPS, node_id=12, number=number, evidence="connection", **bounds)

    gaps = [hole(1, after_at=at(2.5), before_at=at(6.5)), hole(2, after_at=at(8.5))]
    with session({REQUESTS: rows, LOG_GAPS: gaps}, 10) as connection:
        direction, node, *_ = traffic_timeline(connection, "r")
    lines = {line.name: [*points(line).values()] for line in node.lines}
    assert lines["node 11"] == [300] * 9 + [0, 0]
    assert lines["node 12"] == [300] * 3 + [None] * 3 + [0, 300, 300, None, None]
    assert direction.note.endswith(
        "holes in the logs of node 12 count nothing; a point is 1\u00a0s"
    )


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
