"""The steady phase, also of logs that begin or end in the middle of normal work."""

from collections.abc import Collection
from typing import cast

from constructed import BEGIN, Row, at, database, row
from duckdb import DuckDBPyConnection

from kip_replay.pipelines.replaying.phases import steady_phases
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import BROKER_HEARTBEATS, INGESTED_FILES


class Constructed:
    """What ``steady_phases`` asks a warehouse for."""

    def __init__(self, requests: list[Row], beats: list[Row]) -> None:
        self._tables = {INGESTED_FILES: requests, BROKER_HEARTBEATS: beats}

    def database(self, recordings: Collection[str]) -> DuckDBPyConnection:
        assert [*recordings] == ["r"]
        return database(self._tables)


TIMES = ("first_received_at", "last_completed_at")


def logs(*spans: tuple[int, float, float]) -> list[Row]:
    """First and last request of each node's log: node, and when both were received and over."""
    file = {"source_file": "log", "content_hash": "", "requests": 1}
    return [
        row(INGESTED_FILES, **file, node_id=node, **dict(zip(TIMES, map(at, times), strict=True)))
        for node, *times in spans
    ]


def beat(
    broker: int, second: float, *, fenced: bool = False, stops: bool = False, error: int = 0
) -> Row:
    """A heartbeat with the response of controller 1."""
    times = {"received_at": at(second), "built_at": at(second)}
    flags = {"is_fenced": fenced, "want_shut_down": stops, "error_code": error}
    return row(BROKER_HEARTBEATS, node_id=1, broker_id=broker, **times, **flags)


def phase(requests: list[Row], beats: list[Row]) -> tuple[float, ...]:
    """Seconds from the begin of the log to that and to the end of the steady phase."""
    found = steady_phases(cast(Warehouse, Constructed(requests, beats)), ["r"])
    begin_us = round(BEGIN.timestamp() * 1e6)
    return tuple((at_us - begin_us) / 1e6 for at_us in found["r"])


def test_steady_is_from_the_last_first_unfencing_to_the_first_wish_to_stop() -> None:
    beats = [
        beat(11, 1, fenced=True),
        beat(11, 3),
        beat(12, 4, error=41),
        beat(12, 5),
        beat(11, 20, fenced=True),
        beat(11, 30),
        beat(12, 50, stops=True),
        beat(11, 60, stops=True),
    ]
    assert phase(logs((1, 0, 90)), beats) == (5, 50)


def test_a_log_without_a_begin_or_end_is_bounded_by_the_active_controllers() -> None:
    found = phase(logs((1, 10, 40), (11, 0, 90)), [beat(11, 12, fenced=True)])
    assert found == (10, 40.000001)


def test_without_heartbeats_the_logs_bound_the_phase() -> None:
    assert phase(logs((1, 10, 40), (11, 5, 30)), []) == (5, 40.000001)


def test_without_requests_there_is_no_phase() -> None:
    assert steady_phases(cast(Warehouse, Constructed([], [])), ["r"]) == {}
