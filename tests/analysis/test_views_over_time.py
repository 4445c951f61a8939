"""Views over time: buckets cover a recording; sessions at a time; views that read views."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from constructed import Row, at, row, viewed

from kip_replay.pipelines.analysis.views import in_order, read_views
from kip_replay.replay.incremental_fetch.outcomes import (
    SessionCacheEvent,
)
from kip_replay.replay.log_tables import Requests
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES


def logged(recording: str, span_s: float, first_s: float = 0.0) -> Row:
    times = {"received_at": at(first_s), "completed_at": at(first_s + span_s)}
    return row(Requests, recording=recording, node_id=1, **times)


def rows_of(tables: Mapping[Table, Sequence[Row]], query: str) -> list[Row]:
    with viewed(tables) as session:
        found: list[Row] = session.sql(query).to_arrow_table().to_pylist()
        return found


# --- buckets --------------------------------------------------------------------------------------


WIDTHS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400)
SPANS = (0.0, 0.5, 59, 239, 239.5, 240, 241, 479, 3600, 10 * 86_400, 4 * 366 * 86_400, 1e9)


def test_the_least_width_that_240_buckets_are_enough_for() -> None:
    bounds = {
        f"{first} {span}": (at(first), at(first + span))
        for first in (0.0, 0.999_999, 1234.5)
        for span in SPANS
    }
    requests = [logged(name, *map(float, reversed(name.split()))) for name in bounds]
    found = rows_of({Requests: requests}, "FROM time_buckets")
    assert len(found) == len(bounds)
    for r in found:
        begin, end = bounds[r["recording"]]
        width = timedelta(seconds=r["bucket_s"])
        assert r["first_at"] <= begin < r["first_at"] + width
        assert r["last_at"] <= end < r["last_at"] + width
        assert (r["last_at"] - r["first_at"]) / width + 1 == r["buckets"] <= 240
        assert r["first_at"].timestamp() % r["bucket_s"] == 0
        for tried in (*WIDTHS, 604_800):
            if tried < r["bucket_s"]:
                begun, ended = (moment.timestamp() // tried for moment in (begin, end))
                assert ended - begun + 1 > 240


# --- sessions -------------------------------------------------------------------------------------


def event(second: float, key: str, what: str, slots: int | None = None) -> Row:
    sweep = {} if slots is None else {"parameter": "session_slots", "parameter_value": slots}
    of: Row = {"rule": "incremental_fetch", "variant": "incremental", "node_id": 11, **sweep}
    happened: Row = {"session_key": key, "event": what, "event_at": at(second)}
    return row(SessionCacheEvent, **of, **happened)


def test_peak_sessions() -> None:
    replayed = [
        *(event(second, f"s{second}", "created") for second in (1, 2, 5, 6)),
        event(3, "s1", "closed"),
        event(4, "s2", "closed"),
        event(1, "s1", "created", 8),
        # It takes the slot of the other: one is open at any time.
        event(2, "s1", "evicted", 8),
        event(2, "s2", "created", 8),
        event(3, "s3", "refused", 8),
    ]
    tables = {SessionCacheEvent: replayed}
    found = rows_of(tables, "FROM peak_sessions ORDER BY variant, slots NULLS FIRST")
    names = ("variant", "slots", "sessions", "peak_sessions", "peak_at", "evicted")
    assert [[r[name] for name in names] for r in found] == [
        ["incremental", None, 4, 2, at(2), 0],
        ["incremental", 8, 2, 1, at(1), 1],
    ]


# --- views that read views ------------------------------------------------------------------------


def test_without_its_tables_a_view_is_left_out_and_those_that_read_it() -> None:
    names = {view.name for view in in_order(read_views(), TABLES.keys() - {"produces"})}
    assert not names & {"produced_partitions", "findings"}
    assert "consumer_lag" in names
