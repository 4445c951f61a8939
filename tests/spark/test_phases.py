"""The steady phase, also of logs that begin or end in the middle of normal work."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.phases import steady_phases

_REQUEST = "recording string, node_id int, received_at timestamp, completed_at timestamp"
_HEARTBEAT = (
    "recording string, node_id int, broker_id int, error_code int, is_fenced boolean, "
    "want_shut_down boolean, received_at timestamp, built_at timestamp"
)
_BEGIN = datetime(2026, 11, 20, tzinfo=UTC)


def at(second: float) -> datetime:
    return _BEGIN + timedelta(seconds=second)


def logs(spark: SparkSession, *spans: tuple[int, float, float]) -> DataFrame:
    """First and last request of each node's log."""
    rows = [
        row
        for node, first, last in spans
        for row in (("r", node, at(first), at(first)), ("r", node, at(last), at(last)))
    ]
    return spark.createDataFrame(rows, _REQUEST)


def heartbeats(spark: SparkSession, *rows: tuple[int, float, bool, bool, int]) -> DataFrame:
    """(broker, second, is_fenced, want_shut_down, error_code), all asked of controller 1."""
    answered = [
        ("r", 1, broker, error, fenced, stops, at(second), at(second))
        for broker, second, fenced, stops, error in rows
    ]
    return spark.createDataFrame(answered, _HEARTBEAT)


def phase(requests: DataFrame, beats: DataFrame) -> tuple[float, float]:
    """Seconds from the begin of the log at which the steady phase begins and ends."""
    bounds = [F.unix_micros(name) for name in ("steady_from", "steady_until")]
    [row] = steady_phases(requests, beats).select(*bounds).collect()
    since, until = ((micros - _BEGIN.timestamp() * 1e6) / 1e6 for micros in row)
    return since, until


def test_steady_is_from_the_last_first_unfencing_to_the_first_wish_to_stop(
    spark: SparkSession,
) -> None:
    beats = heartbeats(
        spark,
        (11, 1, True, False, 0),
        (11, 3, False, False, 0),
        (12, 4, False, False, 41),
        (12, 5, False, False, 0),
        (11, 20, True, False, 0),
        (11, 30, False, False, 0),
        (12, 50, False, True, 0),
        (11, 60, False, True, 0),
    )
    assert phase(logs(spark, (1, 0, 90)), beats) == (5, 50)


def test_a_log_without_a_begin_or_end_is_bounded_by_the_active_controllers(
    spark: SparkSession,
) -> None:
    beats = heartbeats(spark, (11, 12, True, False, 0))
    found = phase(logs(spark, (1, 10, 40), (11, 0, 90)), beats)
    assert found == (10, 40.000001)


def test_without_heartbeats_the_logs_bound_the_phase(spark: SparkSession) -> None:
    assert phase(logs(spark, (1, 10, 40), (11, 5, 30)), heartbeats(spark)) == (5, 40.000001)
