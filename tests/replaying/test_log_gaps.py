"""Gaps in logs: none in what real nodes wrote, and those that are cut into it."""

import gzip
from collections.abc import Collection
from datetime import timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from small_logs import folder_of, write_recording

from kip_replay.pipelines.engines import Inputs
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.log_gaps import find_log_gaps, gap_sentences, gaps_in, log_gaps
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import LogGaps
from kip_replay.replay.tables import TABLES

#: A quiet cluster, elections, a node that is stopped for a while, consumers of many brokers.
RECORDINGS = ("metadata-4.0", "failover-4.0", "freeze-4.1", "sessions-on", "sessions-off")
RECORDINGS += ("two-fetchers",)
VOTERS = (1, 2, 3)
DATABASE = duckdb.connect()
DATABASE.execute("SET GLOBAL TimeZone = 'UTC'")
_OF_LINES = ("requests", "fetches", "broker_heartbeats", "produces")
#: What became of the lines that are left, as ``ingested_files``.
_FILES = """
    SELECT recording, node_id, count(*) AS requests, min(received_at) AS first_received_at,
        max(completed_at) AS last_completed_at FROM requests GROUP BY ALL"""


class Logs(Local):
    """The lines of one recording, less those that a test takes out, or with other numbers."""

    def __init__(self, warehouse: Warehouse, recording: str) -> None:
        super().__init__(warehouse)
        self._recording = recording
        self._lines = {name: warehouse.rows(TABLES[name], [recording]) for name in _OF_LINES}
        self._begins_at = self.one("SELECT epoch_us(min(received_at)) FROM requests")

    def rows(self, text: Text, recordings: Collection[str], inputs: Inputs) -> pa.Table:
        return super().rows(text, [self._recording], {**inputs, **self._lines})

    def gaps(self, empty: int | None = None) -> list[dict[str, Any]]:
        file = f"SELECT '{self._recording}' AS recording, {empty}::INT AS node_id, 0 AS requests"
        files = _FILES if empty is None else f"{_FILES} UNION ALL BY NAME {file}"
        self._lines["ingested_files"] = self._table(files)
        found = gaps_in(self, {self._recording: VOTERS})
        spans = [(gap["after_at"], gap["before_at"]) for gap in found]
        assert all(after <= before for after, before in spans if after and before)
        return sorted(found, key=itemgetter("node_id", "after_at"))

    def without(self, lines: str) -> list[dict[str, Any]]:
        for table in _OF_LINES:
            self._lines[table] = self._table(f"SELECT * FROM {table} WHERE NOT ({lines})")
        return self.gaps()

    def replace(self, column: str, by: str) -> None:
        for table in _OF_LINES:
            if column in self._lines[table].column_names:
                query = f"SELECT * REPLACE (({by}) AS {column}) FROM {table}"
                self._lines[table] = self._table(query)

    def reject(self, request_id: str) -> list[dict[str, Any]]:
        line = f"SELECT *, request_id AS line_id FROM requests WHERE request_id = '{request_id}'"
        self._lines["rejected_lines"] = self._table(line)
        return self.without(f"request_id = '{request_id}'")

    def second(self, at_s: float) -> str:
        return f"make_timestamptz({self._begins_at + round(at_s * 1e6)})"

    def cut(self, from_s: float, until_s: float, nodes: str = "true") -> list[dict[str, Any]]:
        """Without the lines of some nodes that were written between two moments."""
        times = f"completed_at BETWEEN {self.second(from_s)} AND {self.second(until_s)}"
        return self.without(f"{nodes} AND {times}")

    def spans(self, gaps: list[dict[str, Any]], from_s: float, until_s: float) -> list[bool]:
        """Whether each gap that was found is about where a cut was."""
        begin, end = (self.one(f"SELECT {self.second(at)}") for at in (from_s, until_s))
        wide = timedelta(seconds=2.6)  # a heartbeat interval, and the response
        return [
            begin - wide < gap["after_at"] <= begin and end <= gap["before_at"] < end + wide
            for gap in gaps
        ]

    def one(self, query: str) -> Any:
        ((value,),) = (row.values() for row in self._table(query).to_pylist())
        return value

    def _table(self, query: str) -> pa.Table:
        with DATABASE.cursor() as session:
            for name, rows in self._lines.items():
                session.register(name, rows)
            return session.sql(query).to_arrow_table()


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    warehouse = Warehouse(tmp_path_factory.mktemp("gaps"))
    ingest([load_recording(folder_of(name)) for name in RECORDINGS], Local(warehouse), say=str)
    return warehouse


FOLLOWER = "FROM fetches WHERE replica_id = 13 AND NOT is_cluster_metadata AND node_id = 11"
OBSERVER = "FROM fetches WHERE replica_id = 13 AND is_cluster_metadata"
VOTER = "FROM fetches WHERE replica_id = 1 AND is_cluster_metadata"
HEARTBEATS = "FROM broker_heartbeats WHERE broker_id = 13"
FETCHER = "FROM fetches WHERE client_id = 'broker-13-fetcher-1' AND node_id = 11"


@pytest.mark.parametrize(
    ("recording", "lines", "node_id"),
    [
        ("sessions-on", FOLLOWER, 11),
        ("sessions-on", HEARTBEATS, 2),
        ("metadata-4.0", OBSERVER, 2),
        ("metadata-4.0", VOTER, 2),
        ("two-fetchers", FETCHER, 11),
    ],
)
def test_log_without_any_line_of_a_kind(
    warehouse: Warehouse, recording: str, lines: str, node_id: int
) -> None:
    """No number is skipped: others show that these lines were written."""
    found = Logs(warehouse, recording).without(f"request_id IN (SELECT request_id {lines})")
    assert [(gap["node_id"], gap["evidence"]) for gap in found] == [(node_id, "filtered")]


#: Beginnings of logs: requests are in flight, or wait for a broker that stands still.
IN_FLIGHT = [("metadata-4.0", 3.3), ("sessions-on", 30.6), ("freeze-4.1", 30), ("freeze-4.1", 40)]


@pytest.mark.parametrize(("recording", "begin_s"), [*((of, 0) for of in RECORDINGS), *IN_FLIGHT])
def test_what_nodes_wrote_has_no_gap(warehouse: Warehouse, recording: str, begin_s: float) -> None:
    """Whatever was completed before the logs began."""
    assert Logs(warehouse, recording).cut(0, begin_s) == []


@pytest.mark.parametrize(
    ("recording", "node", "begin_s", "seconds"),
    [
        ("metadata-4.0", 2, 30, 2),
        ("metadata-4.0", 2, 40, 10),
        # The API_VERSIONS of a connection is missing, the request that waited for it is not.
        ("metadata-4.0", 2, 3, 0.235),
        ("metadata-4.0", 11, 35, 2),
        ("metadata-4.0", 12, 45, 10),
        ("failover-4.0", 1, 20, 2),
        ("failover-4.0", 13, 30, 2),
        ("freeze-4.1", 2, 25, 2),
        ("sessions-on", 2, 22, 2),
        ("sessions-on", 11, 28, 2),
        ("sessions-off", 2, 20, 2),
        ("sessions-off", 11, 28, 2),
    ],
)
def test_a_gap_in_the_log_of_a_node_is_found_where_it_is(
    warehouse: Warehouse, recording: str, node: int, begin_s: float, seconds: float
) -> None:
    logs = Logs(warehouse, recording)
    found = logs.cut(begin_s, begin_s + seconds, f"node_id = {node}")
    assert {gap["node_id"] for gap in found} == {node}
    assert logs.spans(found, begin_s, begin_s + seconds) == [True]
    assert found[0]["lines_missing"] > 1


def test_a_gap_in_all_logs_is_one_in_each_that_anything_rests_on(
    warehouse: Warehouse,
) -> None:
    logs = Logs(warehouse, "metadata-4.0")
    found = logs.cut(30, 34)
    assert [gap["node_id"] for gap in found] == [2, 11, 12, 13]
    assert logs.spans(found, 30, 34) == [True] * 4


def test_a_missing_line_of_a_fetch_session(warehouse: Warehouse) -> None:
    logs = Logs(warehouse, "sessions-on")
    line = "SELECT request_id FROM fetches WHERE session_epoch = 20 AND replica_id < 0"
    lost = logs.without(f"request_id IN ({line} ORDER BY received_at LIMIT 1)")
    assert "session_epoch" in lost[0]["evidence"]
    assert [gap["lines_missing"] for gap in lost] == [1]


@pytest.mark.parametrize(
    ("node", "span_s", "ends", "evidence"),
    [
        *((node, (0, 40), "after_at", "begins_late") for node in (2, 11)),
        (2, (50, 500), "before_at", "ends_early"),
    ],
)
def test_a_log_that_begins_after_others_or_ends_while_its_node_leads(
    warehouse: Warehouse, node: int, span_s: tuple[int, int], ends: str, evidence: str
) -> None:
    (gap,) = Logs(warehouse, "metadata-4.0").cut(*span_s, f"node_id = {node}")
    assert (gap["node_id"], gap[ends], gap["evidence"]) == (node, None, evidence)


@pytest.mark.parametrize(("node", "evidence"), [(1, []), (2, ["logger_off"]), (12, ["logger_off"])])
def test_a_node_without_a_log(warehouse: Warehouse, node: int, evidence: list[str]) -> None:
    """A voter by the manifest, a broker by its heartbeats. That of a standby may be empty."""
    logs = Logs(warehouse, "metadata-4.0")
    (gap,) = logs.without(f"node_id = {node}")
    assert (gap["node_id"], gap["after_at"], gap["before_at"]) == (node, None, None)
    assert gap["evidence"] == "no_log"
    assert [gap["evidence"] for gap in logs.gaps(empty=node)] == evidence


def test_clocks_that_differ_are_no_gaps(warehouse: Warehouse) -> None:
    """Of clients of several brokers, whose requests are looked for on other nodes."""
    logs = Logs(warehouse, "sessions-off")
    for time in ("received_at", "completed_at"):
        logs.replace(time, f"{time} + to_seconds(60 * (node_id = 12)::INT)")
    assert logs.gaps() == []


def test_session_epochs_that_go_on_at_1_are_no_gap(warehouse: Warehouse) -> None:
    logs = Logs(warehouse, "sessions-on")
    later = "session_epoch - 20 * (session_epoch > 20)::INT"
    logs.replace("session_epoch", f"{later} + 2147483627 * (session_epoch BETWEEN 2 AND 20)::INT")
    assert logs.gaps() == []


@pytest.mark.parametrize(
    ("column", "node", "replica"),
    [("correlation_id", 2, 1), ("correlation_id", 11, 12), ("session_epoch", 11, 12)],
)
def test_a_damaged_number_is_one_missing_line(
    warehouse: Warehouse, column: str, node: int, replica: int
) -> None:
    """It is beyond all others, where time runs back: what it skips was never sent."""
    logs = Logs(warehouse, "metadata-4.0")
    ids = f"FROM fetches WHERE node_id = {node} AND replica_id = {replica}"
    damaged = logs.one(f"SELECT any_value(request_id) {ids} AND {column} = 60")
    beyond = logs.one(f"SELECT max({column}) + 100 {ids}")
    at = logs.one(f"SELECT completed_at FROM requests WHERE request_id = '{damaged}'")
    logs.replace(column, f"CASE WHEN request_id = '{damaged}' THEN {beyond} ELSE {column} END")
    (gap,) = logs.gaps()
    assert gap["after_at"] < at < gap["before_at"] < gap["after_at"] + timedelta(seconds=2)
    assert (gap["evidence"], gap["lines_missing"]) == (column, 1)


@pytest.mark.parametrize(
    "damage",
    [
        "fetch_offset := p.fetch_offset + 500",
        "fetch_offset := p.fetch_offset - 10",
        "current_leader_epoch := 7",
        "current_leader_epoch := 2147483647",
        "current_leader_epoch := 0",
        "last_fetched_epoch := 0",
    ],
)
def test_a_line_that_contradicts_those_around_it_counts_as_missing(
    warehouse: Warehouse, damage: str
) -> None:
    logs = Logs(warehouse, "metadata-4.0")
    of = "FROM fetches WHERE is_cluster_metadata AND replica_id = 11"
    damaged = logs.one(f"SELECT request_id {of} ORDER BY received_at LIMIT 1 OFFSET 100")
    at = logs.one(f"SELECT completed_at FROM fetches WHERE request_id = '{damaged}'")
    logs.replace(
        "request_partitions",
        f"CASE WHEN request_id = '{damaged}' THEN"
        f" list_transform(request_partitions, lambda p: struct_update(p, {damage}))"
        " ELSE request_partitions END",
    )
    (gap,) = logs.gaps()
    assert gap["after_at"] < at < gap["before_at"] < gap["after_at"] + timedelta(seconds=3)
    assert "contradiction" in gap["evidence"]
    (sentence,) = gap_sentences([{**gap, "number": 1}])
    assert "lines contradict each other between 2026-" in sentence


def test_fetches_of_a_connection_are_in_the_order_of_their_ids_where_stamps_have_another(
    warehouse: Warehouse,
) -> None:
    logs = Logs(warehouse, "metadata-4.0")
    of = """FROM (
        SELECT request_id, received_at, lead(received_at) OVER (ORDER BY received_at) AS next_at
        FROM fetches WHERE node_id = 2 AND is_cluster_metadata AND replica_id = 11)
        ORDER BY received_at LIMIT 1 OFFSET 50"""
    crossed, next_us = (logs.one(f"SELECT {x} {of}") for x in ("request_id", "epoch_us(next_at)"))
    at = f"make_timestamptz({next_us + 19})"
    logs.replace(
        "received_at", f"CASE WHEN request_id = '{crossed}' THEN {at} ELSE received_at END"
    )
    assert logs.gaps() == []


def test_what_a_producer_sent_before_its_last_response_is_missing_where_it_sent_it(
    warehouse: Warehouse,
) -> None:
    """Ids 3 and 5 to 7 were sent to node 12; 3 before 12 had responded to 2."""
    logs = Logs(warehouse, "metadata-4.0")
    lines = """(11, 1, 30.1, 30.4), (12, 2, 30.2, 30.9), (11, 4, 30.6, 31.0), (11, 8, 35.7, 35.8),
        (12, 9, 36.0, 36.1), (11, 10, 37.5, 37.6)"""
    logs._lines["requests"] = logs._table(f"""
        FROM requests UNION ALL
        SELECT * EXCLUDE (node, n, begin, finish) REPLACE ('load' AS client_id,
            'to ' || node AS connection, node AS node_id,
            'apache-kafka-java' AS software_name, n AS correlation_id, 'load ' || n AS request_id,
            {logs.second(0)} + to_milliseconds((begin * 1000)::BIGINT) AS received_at,
            {logs.second(0)} + to_milliseconds((finish * 1000)::BIGINT) AS completed_at)
        FROM (FROM requests WHERE api_name = 'METADATA' LIMIT 1),
            (VALUES {lines}) AS sent(node, n, begin, finish)""")
    assert [(gap["node_id"], gap["lines_missing"]) for gap in logs.gaps()] == [(12, 4)]


def test_a_forwarded_request_accounts_for_an_id_that_its_connection_skips(
    warehouse: Warehouse,
) -> None:
    """The broker's ENVELOPE has that id, and its line the id of the broker's client."""
    logs = Logs(warehouse, "metadata-4.0")
    line = "SELECT request_id FROM broker_heartbeats WHERE broker_id = 12 ORDER BY received_at"
    forwarded, lost = (logs.one(f"{line} LIMIT 1 OFFSET {n}") for n in (10, 12))
    logs.replace("is_forwarded", f"request_id = '{forwarded}'")
    logs.replace(
        "correlation_id", f"CASE WHEN request_id = '{forwarded}' THEN 3 ELSE correlation_id END"
    )
    assert logs.gaps() == []
    (gap,) = logs.without(f"request_id = '{lost}'")
    assert (gap["node_id"], gap["evidence"], gap["lines_missing"]) == (2, "correlation_id", 1)


@pytest.mark.parametrize("later_s", [0, 2])
def test_a_replica_whose_fetch_timed_out_asks_another_node_and_then_again(
    warehouse: Warehouse, later_s: int
) -> None:
    """KafkaRaftClient ignores the response then; sooner than after 2 s it does not."""
    logs = Logs(warehouse, "metadata-4.0")
    of = """FROM (
        SELECT request_partitions[1].fetch_offset AS fetch_offset, received_at,
            response_partitions[1].record_bytes AS record_bytes,
            lead(request_id) OVER by_time AS other, lead(request_id, 2) OVER by_time AS again,
            lead(received_at, 2) OVER by_time AS again_at,
            lead(response_partitions[1].record_bytes, 2) OVER by_time AS bytes_again
        FROM fetches WHERE node_id = 2 AND is_cluster_metadata AND replica_id = 11
        WINDOW by_time AS (ORDER BY received_at))
        WHERE record_bytes > 0 AND bytes_again > 0 ORDER BY received_at LIMIT 1 OFFSET 50"""
    other, again = logs.one(f"SELECT other {of}"), logs.one(f"SELECT again {of}")
    offset, again_us = (
        logs.one(f"SELECT {x} {of}") for x in ("fetch_offset", "epoch_us(again_at)")
    )
    logs.replace("node_id", f"CASE WHEN request_id = '{other}' THEN 3 ELSE node_id END")
    logs.replace(
        "request_partitions",
        f"CASE WHEN request_id = '{again}' THEN list_transform(request_partitions,"
        f" lambda p: struct_update(p, fetch_offset := {offset}::BIGINT))"
        " ELSE request_partitions END",
    )
    is_later = f"(received_at >= make_timestamptz({again_us}))::INT"
    for time in ("completed_at", "received_at"):
        logs.replace(time, f"{time} + to_seconds({later_s} * {is_later})")
    found = [gap["evidence"] for gap in logs.gaps() if gap["node_id"] == 2]
    assert found == ([] if later_s else ["contradiction"])


def test_a_rejected_line_where_the_clock_is_set_back_is_a_gap(warehouse: Warehouse) -> None:
    logs = Logs(warehouse, "metadata-4.0")
    line = "FROM requests WHERE node_id = 12 AND line_number = 400"
    at = logs.one(f"SELECT epoch_us(completed_at) {line}")
    for time in ("received_at", "completed_at"):
        is_after = f"node_id = 12 AND {time} > make_timestamptz({at})"
        logs.replace(time, f"{time} - to_seconds(3 * ({is_after})::INT)")
    gaps = logs.reject(logs.one(f"SELECT request_id {line}"))
    assert {gap["node_id"] for gap in gaps} == {12}
    assert any("rejected_line" in gap["evidence"] for gap in gaps)


def test_a_rejected_line_at_the_end_of_a_rotated_file_is_a_gap(warehouse: Warehouse) -> None:
    logs = Logs(warehouse, "metadata-4.0")
    logs.replace("source_file", "source_file || (node_id = 12 AND line_number <= 400)::INT")
    line = "FROM requests WHERE node_id = 12 AND line_number = 400"
    at = logs.one(f"SELECT completed_at {line}")
    (gap,) = logs.reject(logs.one(f"SELECT request_id {line}"))
    assert gap["node_id"] == 12
    assert gap["after_at"] <= at <= gap["before_at"]
    assert "rejected_line" in gap["evidence"]


def test_increments_find_what_one_go_finds(tmp_path: Path) -> None:
    """And what a warehouse holds, a replay reads and the terminal says."""
    source = folder_of("metadata-4.0")
    logs = {
        node: gzip.decompress((source / name).read_bytes()).splitlines(keepends=True)[:400]
        for node, name in {2: "controller-2.log.gz", 11: "broker-11.log.gz"}.items()
    }
    for lines in logs.values():
        lines[119] = lines[119][:300] + b"\n"  # rejected, and the last of the first part
    found = []
    for parts in (1, 3):
        warehouse = Warehouse(tmp_path / f"in {parts}")
        for part in range(1, parts + 1):
            files = {
                f"{node}.log": b"".join([*lines[:220], *lines[260:]][: 360 * part // parts])
                for node, lines in logs.items()
            }
            recording = write_recording(tmp_path / "cut", files, {2: "2.log", 11: "11.log"})
            ingest([recording], Local(warehouse), say=str)
            find_log_gaps(Local(warehouse), {"cut": (2,)}, is_final=False)
        grown = log_gaps(warehouse, ["cut"])
        find_log_gaps(Local(warehouse), {"cut": (2,)}, is_final=True)
        assert log_gaps(warehouse, ["cut"]) == grown
        rows = warehouse.rows(LogGaps, ["cut"]).to_pylist()
        found.append((grown, gap_sentences(rows)))
    assert found[0] == found[1]
    gaps, sentences = found[0]
    assert {gap.node_id for gap in gaps["cut"]} >= {2, 11, 12}
    assert any("rejected_line" in each for each in sentences)
    assert any("lines or more are missing between 2026-" in each for each in sentences)
