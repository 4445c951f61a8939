"""Each figure of a decision on the samples, computed again from the outcome tables in plain Python;
and what the slowest requests name, looked up in the lines of the logs."""

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from small_logs import folder_of

from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.pipelines.report.marks import rows, table
from kip_replay.pipelines.rule_files import rule_pages
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

Database = duckdb.DuckDBPyConnection

pytestmark = pytest.mark.golden
SAMPLES = ["acks-slow-follower", "acks-two-replicas", "metadata-4.0", "metadata-4.1"]
SAMPLES += ["sessions-off", "sessions-on"]
#: Where each latency is, and of which rows: {} is the variant.
LATENCIES = {
    "high_watermark_lag_of_changes_p50": "SELECT lag_ms FROM high_watermark_lag WHERE NOT is_voter "
    "AND is_change AND verdict <> 'not_applicable' AND phase = 'steady' AND variant = '{}'",
    "high_watermark_lag_at_any_moment_p50": "SELECT (epoch_us(learned_at) - greatest(moment, "
    "CASE WHEN is_hwm_aware THEN epoch_us(leader_at) END)) / 1000 FROM high_watermark_lag "
    "JOIN {moments} AND moment <= epoch_us(coalesce(learned_at, leader_at)) "
    "WHERE NOT is_voter AND verdict <> 'not_applicable' AND variant = '{}'",
    "stale_window_at_any_moment_p50": "SELECT (epoch_us(shown_at) - greatest(moment, "
    "epoch_us(committed_at))) / 1000 FROM shown_everywhere "
    "JOIN {moments} AND moment <= epoch_us(learned_at) WHERE variant = '{}'",
    "closed_loop_latency_p50": "SELECT latency_ms FROM produce_closed_loop_outcomes "
    "WHERE variant = '{}'",
    "closed_loop_latency_sent_latest_p50": "SELECT latency_sent_latest_ms "
    "FROM produce_closed_loop_outcomes WHERE variant = '{}'",
    "exposure_p90": "SELECT exposure_ms FROM produce_ack_outcomes WHERE variant = '{}' "
    "AND (verdict = 'unknown' OR verdict = 'replayed' AND min_isr_error = 0)",
    "stale_window_p50": "SELECT stale_window_ms FROM metadata_write_outcomes "
    "WHERE verdict <> 'not_applicable' AND variant = '{}' AND {steady_received}",
    "read_after_write_p50": "SELECT read_after_write_ms FROM metadata_write_outcomes "
    "WHERE verdict <> 'not_applicable' AND variant = '{}' AND {steady_received}",
}
FETCHES = {"hwm_parking": "fetch_parking_outcomes", "incremental_fetch": "fetch_session_outcomes"}


class Tables:
    """One recording's tables; the steady phase by its heartbeats."""

    def __init__(self, database: Database, name: str) -> None:
        self._database, self.name = database, name
        unfenced = self.rows(
            "SELECT min(epoch_us(built_at)) FROM broker_heartbeats "
            "WHERE error_code = 0 AND NOT is_fenced AND recording = $r GROUP BY broker_id"
        )
        [(stopped,)] = self.rows(
            "SELECT min(epoch_us(received_at)) FROM broker_heartbeats "
            "WHERE want_shut_down AND recording = $r"
        )
        [(first, last)] = self.rows(
            "SELECT min(epoch_us(received_at)), max(epoch_us(completed_at)) + 1 FROM requests "
            "WHERE recording = $r"
        )
        self.begin = max((at for (at,) in unfenced), default=first)
        self.end = stopped or last
        self.span_s = (self.end - self.begin) / 1e6

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._database.execute(query, {"r": self.name}).fetchall()

    def outcomes(self, query: str, variant: str) -> list[tuple[Any, ...]]:
        steady = f"epoch_us(received_at) >= {self.begin} AND epoch_us(received_at) < {self.end}"
        each = f"unnest(range({-(-self.begin // 47000)}, {-(-self.end // 47000)})) * 47000"
        moments = f"(SELECT {each} AS moment) ON moment > epoch_us(previous_learned_at)"
        query = query.format(variant, steady_received=steady, moments=moments)
        return self.rows(f"{query} AND parameter = 'none' AND recording = $r")

    def latency(self, figure: str, variant: str) -> float | None:
        """The value at rank floor(share * (n - 1)); those that are unknown rank last."""
        if variant == "none":
            return 0.0
        found = self.outcomes(LATENCIES[figure], variant)
        ranked = sorted(math.inf if ms is None else round(ms, 3) for (ms,) in found)
        at = ranked[math.floor(int(figure[-2:]) / 100 * (len(ranked) - 1))]
        return at if math.isfinite(at) else None

    def rate(self, figure: str, rule: str, variant: str) -> float:
        """FETCHes of the steady phase that were replayed, and bytes; a response that was built
        after the phase has none in it."""
        found = self.outcomes(
            "SELECT request_bytes, response_bytes, epoch_us(built_at), epoch_us(dequeued_at) "
            f"FROM {FETCHES[rule]} WHERE variant = '{{}}' AND verdict = 'replayed'",
            variant,
        )
        own = [row for row in found if self.begin <= row[3] < self.end]
        if figure == "fetches_per_second":
            return len(own) / self.span_s
        sizes = (request + (response if at < self.end else 0) for request, response, at, _ in own)
        return sum(sizes) / self.span_s


@pytest.fixture(scope="module")
def database(samples: Warehouse) -> Iterator[duckdb.DuckDBPyConnection]:
    with samples.database(SAMPLES) as connection:
        create_views(connection, in_order(read_views(), TABLES))
        yield connection


@pytest.mark.parametrize("name", SAMPLES)
def test_figures_are_those_of_the_outcomes(name: str, database: Database) -> None:
    tables = Tables(database, name)
    rows = tables.rows(
        "SELECT rule, figure, before_variant, after_variant, before, after, low, high "
        "FROM headlines WHERE recording = $r"
    )
    assert len(rows) >= 6
    for rule, figure, *variants, before, after, low, high in rows:
        if figure in LATENCIES:
            wanted = [tables.latency(figure, variant) for variant in variants]
        elif rule == "closest_replica":
            wanted = [None, None]  # no broker of these has a rack
        else:
            wanted = [tables.rate(figure, rule, variant) for variant in variants]
        for found, again in zip((before, after), wanted, strict=True):
            assert found == (None if again is None else pytest.approx(again, rel=1e-9)), figure
        assert low is None or low <= after - before <= high


# --- the slowest ----------------------------------------------------------------------------------

Line = dict[str, Any]
#: Stamps are whole milliseconds.
SLACK_MS = 1.5


@cache
def lines_of(name: str, file: str) -> Sequence[str]:
    return gzip.decompress(Path(folder_of(name), file).read_bytes()).decode().splitlines()


def line(name: str, row: Line, of: str = "") -> Line:
    """The line that a row names, with when it came and was built, ms of its day."""
    text = lines_of(name, row[f"{of}source_file"])[row[f"{of}line_number"] - 1]
    found: Line = json.loads(text[text.index("{") : text.rindex("}") + 1])
    hours, minutes, seconds = text[12:24].replace(",", ".").split(":")
    stamp = (int(hours) * 60 + int(minutes)) * 60_000 + float(seconds) * 1000
    found["came"] = stamp - found["totalTimeMs"]
    found["built"] = stamp - found["sendTimeMs"] - found["responseQueueTimeMs"]
    return found


def slowest(database: Database, rule: str, name: str) -> Iterator[tuple[Line, str]]:
    """Rows of a rule's slowest, and why, as the page says it."""
    [spec] = [it for it in rule_pages()[rule]["show"] if "file and line" in it.get("columns", ())]
    read = rows(database, spec["query"], recording=name)
    assert len(read) == 20
    assert [row["ms"] for row in read] == sorted((row["ms"] for row in read), reverse=True)
    place = spec["columns"].index("why")
    cells = table(spec, read)["cells"]
    yield from ((row, of[place][1]) for row, of in zip(read, cells, strict=True))


def partition(of: Line) -> Line:
    """The only one of a FETCH of the metadata log."""
    [topic] = of["topics"] if "topics" in of else of["responses"]
    found: Line = topic["partitions"][0]
    return found


def test_produces_waited_for_the_followers_that_are_named(database: Database) -> None:
    name = "acks-slow-follower"
    for row, why in slowest(database, "min_isr_acks", name):
        produce, fetch = line(name, row), line(name, row, "last_follower_")
        assert produce["totalTimeMs"] == row["ms"]
        assert produce["requestHeader"]["clientId"] == row["client"]
        follower, offset = row["last_follower_id"], row["last_follower_offset"]
        assert f"broker-{follower}-" in fetch["requestHeader"]["clientId"]
        assert f'"fetchOffset": {offset},' in json.dumps(fetch["request"])
        assert abs(fetch["came"] - produce["came"] - row["last_follower_after_ms"]) <= SLACK_MS
        assert offset > row["base_offset"]
        assert why.startswith(f"{row['topic']}-{row['partition']}")
        assert f"Follower {follower} had it last: its FETCH of offset {offset} (" in why


def test_replicas_learned_by_the_fetches_that_are_named(database: Database) -> None:
    name = "acks-slow-follower"
    for row, why in slowest(database, "hwm_parking", name):
        fetch = line(name, row)
        assert partition(fetch["request"])["fetchOffset"] == row["fetch_offset"]
        assert partition(fetch["response"])["highWatermark"] >= row["high_watermark"]
        assert why.startswith(f"High watermark {row['high_watermark']} of controller ")
        if row["stale_line_number"] is not None:
            before = line(name, row, "stale_")
            known = partition(before["response"])["highWatermark"]
            assert known == row["stale_high_watermark"] < row["high_watermark"]
            assert before["built"] < fetch["built"]
            assert f"({row['stale_source_file']}:{row['stale_line_number']})" in why


def test_writes_were_stale_at_the_broker_whose_lines_are_named(database: Database) -> None:
    name = "metadata-4.0"
    for row, why in slowest(database, "lowest_acked_offset", name):
        write, fetch = line(name, row), line(name, row, "learned_")
        assert write["requestHeader"]["requestApiKeyName"] == row["api_name"]
        assert row["topic"] in json.dumps(write["request"])
        assert partition(fetch["response"])["highWatermark"] > row["metadata_offset"]
        assert abs(fetch["built"] - write["built"] - row["learned_after_ms"]) <= SLACK_MS
        beat = line(name, row, "shown_")["request"]
        assert (beat["brokerId"], beat["currentMetadataOffset"]) == (
            row["node"],
            row["shown_offset"],
        )
        assert row["shown_offset"] >= row["metadata_offset"]
        assert f"{row['api_name']} of topic {row['topic']} (offset {row['metadata_offset']})" in why
        assert f"shows it, at offset {row['shown_offset']}, is {row['shown_source_file']}:" in why
