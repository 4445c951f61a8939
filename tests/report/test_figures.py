"""Each figure of a decision on the samples, computed again from the outcome tables in plain Python;
and what the slowest requests name, looked up in the lines of the logs."""

import gzip
import json
import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from recorded_logs import folder_of

from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.pipelines.folders import rule_pages
from kip_replay.pipelines.report.marks import shown
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
        else:
            wanted = [tables.rate(figure, rule, variant) for variant in variants]
        for found, again in zip((before, after), wanted, strict=True):
            assert found == (None if again is None else pytest.approx(again, rel=1e-9)), figure
        assert low is None or low <= after - before <= high


# --- the slowest ----------------------------------------------------------------------------------

Line = dict[str, Any]
IN = r"\((\S+:\d+)\)"
#: Stamps are whole milliseconds.
SLACK_MS = 1.5


@cache
def lines_of(name: str, file: str) -> Sequence[str]:
    return gzip.decompress(Path(folder_of(name), file).read_bytes()).decode().splitlines()


def line(name: str, source: str) -> Line:
    """The line that 'file:line' names, with when it came and was built, ms of its day."""
    file, _, number = source.rpartition(":")
    text = lines_of(name, file)[int(number) - 1]
    found: Line = json.loads(text[text.index("{") : text.rindex("}") + 1])
    hours, minutes, seconds = text[12:24].replace(",", ".").split(":")
    stamp = (int(hours) * 60 + int(minutes)) * 60_000 + float(seconds) * 1000
    found["came"] = stamp - found["totalTimeMs"]
    found["built"] = stamp - found["sendTimeMs"] - found["responseQueueTimeMs"]
    return found


class Slow(NamedTuple):
    """A row of a table of slow requests, as the page has it."""

    ms: float
    node: str
    client: str
    topic: str
    why: str
    source: str


def slowest(database: Database, rule: str, name: str) -> list[Slow]:
    [spec] = [it for it in rule_pages()[rule]["show"] if "file and line" in it.get("columns", ())]
    found = shown(database, spec, recording=name)
    assert found
    rows = []
    for cells in found["cells"]:
        of = dict(zip(found["columns"], cells, strict=True))
        about = (of[name][1] for name in ("node", "client"))
        topic = of["topic"][1] if "topic" in of else ""
        rows.append(Slow(of["ms"][0], *about, topic, of["why"][1], of["file and line"][1]))
    assert len(rows) == 20
    assert [row.ms for row in rows] == sorted((row.ms for row in rows), reverse=True)
    return rows


def partition(of: Line) -> Line:
    """The only one of a FETCH of the metadata log."""
    [topic] = of["topics"] if "topics" in of else of["responses"]
    found: Line = topic["partitions"][0]
    return found


def named(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text)
    assert match, text
    return match.groups()


def test_produces_waited_for_the_followers_that_are_named(database: Database) -> None:
    name = "acks-slow-follower"
    for row in slowest(database, "min_isr_acks", name):
        produce = line(name, row.source)
        assert produce["totalTimeMs"] == row.ms
        assert produce["requestHeader"]["clientId"] == row.client
        follower, offset, source, after = named(
            rf"Follower (\d+) had it last: its FETCH of offset (\d+) {IN} came after ([\d.]+) ms",
            row.why,
        )
        fetch = line(name, source)
        assert f"broker-{follower}-" in fetch["requestHeader"]["clientId"]
        assert f'"fetchOffset": {offset},' in json.dumps(fetch["request"])
        assert abs(fetch["came"] - produce["came"] - float(after)) <= SLACK_MS
        topic, at = named(r"^(\S+)-\d+(?: and \d+ more)? at offset (\d+):", row.why)
        assert topic == row.topic
        assert int(offset) > int(at)


def test_replicas_learned_by_the_fetches_that_are_named(database: Database) -> None:
    name = "acks-slow-follower"
    for row in slowest(database, "hwm_parking", name):
        fetch = line(name, row.source)
        [moved_to] = map(int, named(r"^High watermark (\d+) of controller", row.why))
        [offset] = map(int, named(r"The FETCH of offset (\d+) that brought it", row.why))
        assert partition(fetch["request"])["fetchOffset"] == offset
        assert partition(fetch["response"])["highWatermark"] >= moved_to
        if found := re.search(rf"with (\d+|none) {IN}", row.why):
            before = line(name, found[2])
            high_watermark = partition(before["response"])["highWatermark"]
            assert high_watermark == (-1 if found[1] == "none" else int(found[1])) < moved_to
            assert before["built"] < fetch["built"]


def test_writes_were_stale_at_the_broker_whose_lines_are_named(database: Database) -> None:
    name = "metadata-4.0"
    for row in slowest(database, "lowest_acked_offset", name):
        write = line(name, row.source)
        api, offset = named(r"^(\w+) of topic \S+ \(offset (\d+)\) at", row.why)
        assert write["requestHeader"]["requestApiKeyName"] == api
        assert row.topic in json.dumps(write["request"])
        after, source = named(rf"returned (-?[\d.]+) ms after the response {IN}", row.why)
        fetch = line(name, source)
        assert partition(fetch["response"])["highWatermark"] > int(offset)
        assert abs(fetch["built"] - write["built"] - float(after)) <= SLACK_MS
        shown_at, source = named(r"shows it, at offset (\d+), is (\S+)\.", row.why)
        beat = line(name, source)["request"]
        assert (str(beat["brokerId"]), beat["currentMetadataOffset"]) == (row.node, int(shown_at))
        assert int(shown_at) >= int(offset)
