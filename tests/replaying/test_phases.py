"""The steady phase, also of logs that begin or end in the middle of normal work."""

from pathlib import Path

from constructed import BEGIN, at
from put_rows import Row, put, row

from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.replaying.states import log_spans, steady_phases
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import BrokerHeartbeats, IngestedFiles
from kip_replay.replay.records import SteadyPhase

TIMES = ("first_received_at", "last_completed_at")


def logs(*spans: tuple[int, float, float]) -> list[Row]:
    """First and last request of each node's log: node, and when both were received and over."""
    return [
        row(IngestedFiles, "r", requests=1, node_id=node, **{TIMES[0]: at(a), TIMES[1]: at(b)})
        for node, a, b in spans
    ]


def beat(
    broker: int, second: float, *, fenced: bool = False, stops: bool = False, error: int = 0
) -> Row:
    """A heartbeat with the response of controller 1."""
    times = {"received_at": at(second), "built_at": at(second)}
    flags = {"is_fenced": fenced, "want_shut_down": stops, "error_code": error}
    return row(BrokerHeartbeats, "r", node_id=1, broker_id=broker, **times, **flags)


def seconds(span: SteadyPhase) -> tuple[float, ...]:
    begin_us = round(BEGIN.timestamp() * 1e6)
    return tuple((at_us - begin_us) / 1e6 for at_us in span)


def phase(warehouse: Path, requests: list[Row], beats: list[Row]) -> tuple[float, ...]:
    """Seconds from the begin of the log to that and to the end of the steady phase."""
    engine = Local(Warehouse(warehouse))
    put(engine.warehouse, "test", {IngestedFiles: requests, BrokerHeartbeats: beats})
    return seconds(steady_phases(engine, ["r"])["r"])


def test_steady_is_from_the_last_first_unfencing_to_the_first_wish_to_stop(tmp_path: Path) -> None:
    beats = [
        beat(13, 65.5),  # joins a running cluster
        beat(11, 1, fenced=True),
        beat(11, 3),
        beat(12, 4, error=41),
        beat(12, 5),
        beat(11, 20, fenced=True),
        beat(11, 30),
        beat(12, 50, stops=True),
        beat(11, 60, stops=True),
    ]
    assert phase(tmp_path, logs((1, 0, 90)), beats) == (5, 50)


def test_a_log_without_a_begin_or_end_is_bounded_by_the_active_controllers(tmp_path: Path) -> None:
    found = phase(tmp_path, logs((1, 10, 40), (11, 0, 90)), [beat(11, 12, fenced=True)])
    assert found == (10, 40.000001)


def test_without_heartbeats_the_logs_bound_the_phase(tmp_path: Path) -> None:
    assert phase(tmp_path, logs((1, 10, 40), (11, 5, 30)), []) == (5, 40.000001)


def test_without_requests_there_is_no_phase(tmp_path: Path) -> None:
    assert steady_phases(Local(Warehouse(tmp_path)), ["r"]) == {}


def test_the_span_of_a_log_is_that_of_all_nodes(tmp_path: Path) -> None:
    engine = Local(Warehouse(tmp_path))
    put(engine.warehouse, "test", {IngestedFiles: logs((1, 10, 40), (11, 5, 30))})
    assert seconds(log_spans(engine, ["r"])["r"]) == (5, 40.000001)
