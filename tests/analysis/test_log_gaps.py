"""Holes in logs: none in what real nodes wrote, and those that are cut into it."""

import gzip
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duckdb import DuckDBPyConnection
from recorded_logs import folder_of
from small_logs import write_recording

from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.gap_words import gap_sentences
from kip_replay.pipelines.replaying.log_gaps import find_log_gaps, gaps_in, log_gaps
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import LOG_GAPS

#: A quiet cluster, elections, a node that is stopped for a while, consumers of many brokers.
RECORDINGS = ("metadata-4.0", "failover-4.0", "freeze-4.1", "sessions-on", "sessions-off")
VOTERS = (1, 2, 3)
_OF_LINES = ("requests", "fetches", "broker_heartbeats")
#: What became of the lines that are left, for ``ingested_files``.
_FILES = """
    CREATE OR REPLACE VIEW ingested_files AS
    SELECT recording, node_id, count(*) AS requests, min(received_at) AS first_received_at,
        max(completed_at) AS last_completed_at FROM requests GROUP BY ALL"""


class Logs:
    """The lines of one recording, less those that a test takes out."""

    def __init__(self, database: DuckDBPyConnection, recording: str) -> None:
        self._database = database
        database.execute(f"SET VARIABLE of = '{recording}'")
        self.without("false")
        (self._begins_at,) = self._one("SELECT epoch_us(min(received_at)) FROM requests")

    def without(self, lines: str) -> list[dict[str, Any]]:
        for table in _OF_LINES:
            self._database.execute(
                f"CREATE OR REPLACE TEMP VIEW {table} AS FROM _{table} WHERE NOT ({lines})"
                " AND recording = getvariable('of')"
            )
        self._database.execute(_FILES.replace("VIEW", "TEMP VIEW"))
        return gaps_in(self._database, VOTERS)

    def second(self, at_s: float) -> str:
        return f"make_timestamptz({self._begins_at + round(at_s * 1e6)})"

    def cut(self, from_s: float, until_s: float, nodes: str = "true") -> list[dict[str, Any]]:
        """Without the lines of some nodes that were written between two moments."""
        times = f"completed_at BETWEEN {self.second(from_s)} AND {self.second(until_s)}"
        return self.without(f"{nodes} AND {times}")

    def spans(self, gaps: list[dict[str, Any]], from_s: float, until_s: float) -> list[bool]:
        """Whether each hole that was found is about where a cut was."""
        begin, end = (self._one(f"SELECT {self.second(at)}")[0] for at in (from_s, until_s))
        wide = timedelta(seconds=2.6)  # a heartbeat interval, and the response
        return [
            begin - wide < gap["after_at"] <= begin and end <= gap["before_at"] < end + wide
            for gap in gaps
        ]

    def _one(self, query: str) -> tuple[Any, ...]:
        (found,) = self._database.sql(query).to_arrow_table().to_pylist()
        return tuple(found.values())


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBPyConnection]:
    warehouse = Warehouse(tmp_path_factory.mktemp("gaps"))
    recordings = [load_recording(folder_of(name)) for name in RECORDINGS]
    ingest(recordings, Local(warehouse), say=str)
    with warehouse.database() as tables:
        for name in _OF_LINES:
            tables.execute(f"CREATE TABLE held_{name} AS FROM {name}")
        for name in _OF_LINES:
            tables.unregister(f"_{name}")
            tables.execute(f"CREATE VIEW _{name} AS FROM held_{name}")
        yield tables


@pytest.mark.parametrize("recording", RECORDINGS)
def test_what_nodes_wrote_has_no_hole(database: DuckDBPyConnection, recording: str) -> None:
    assert Logs(database, recording).without("false") == []


@pytest.mark.parametrize(
    ("recording", "node", "begin_s", "seconds"),
    [
        ("metadata-4.0", 2, 30, 2),
        ("metadata-4.0", 2, 40, 10),
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
def test_a_hole_in_the_log_of_a_node_is_found_where_it_is(
    database: DuckDBPyConnection, recording: str, node: int, begin_s: float, seconds: float
) -> None:
    logs = Logs(database, recording)
    found = logs.cut(begin_s, begin_s + seconds, f"node_id = {node}")
    assert {gap["node_id"] for gap in found} == {node}
    assert logs.spans(found, begin_s, begin_s + seconds) == [True]
    assert found[0]["lines_missing"] > 1


def test_a_hole_in_all_logs_is_one_in_each_that_anything_rests_on(
    database: DuckDBPyConnection,
) -> None:
    logs = Logs(database, "metadata-4.0")
    found = logs.cut(30, 34)
    assert [gap["node_id"] for gap in found] == [2, 11, 12, 13]
    assert logs.spans(found, 30, 34) == [True] * 4


def test_a_missing_line_of_a_fetch_session(database: DuckDBPyConnection) -> None:
    logs = Logs(database, "sessions-on")
    line = "SELECT request_id FROM _fetches WHERE session_epoch = 20 AND replica_id < 0"
    lost = logs.without(f"request_id IN ({line} ORDER BY received_at LIMIT 1)")
    assert "session_epoch" in lost[0]["evidence"]
    assert [gap["lines_missing"] for gap in lost] == [1]


@pytest.mark.parametrize("node", [2, 11])
def test_a_log_that_begins_while_its_node_runs_after_others(
    database: DuckDBPyConnection, node: int
) -> None:
    logs = Logs(database, "metadata-4.0")
    (gap,) = logs.cut(0, 40, f"node_id = {node}")
    assert (gap["node_id"], gap["after_at"], gap["evidence"]) == (node, None, "begins_late")


def test_a_leader_whose_log_ends_while_it_leads(database: DuckDBPyConnection) -> None:
    (gap,) = Logs(database, "metadata-4.0").cut(50, 500, "node_id = 2")
    assert (gap["node_id"], gap["before_at"], gap["evidence"]) == (2, None, "ends_early")


@pytest.mark.parametrize("node", [1, 12])
def test_a_node_without_a_log(database: DuckDBPyConnection, node: int) -> None:
    """A voter by the manifest, a broker by its heartbeats."""
    (gap,) = Logs(database, "metadata-4.0").without(f"node_id = {node}")
    assert (gap["node_id"], gap["after_at"], gap["before_at"]) == (node, None, None)
    assert gap["evidence"] == "no_log"


def test_clocks_that_differ_are_no_holes(database: DuckDBPyConnection) -> None:
    """Of clients of several brokers, whose requests are looked for on other nodes."""
    Logs(database, "sessions-off")
    late = "REPLACE (received_at + to_seconds(60 * (node_id = 12)::INT) AS received_at,"
    late += " completed_at + to_seconds(60 * (node_id = 12)::INT) AS completed_at)"
    for table in _OF_LINES:
        database.execute(
            f"CREATE OR REPLACE TEMP VIEW {table} AS"
            f" SELECT * {late} FROM _{table} WHERE recording = 'sessions-off'"
        )
    assert gaps_in(database, VOTERS) == []


def test_increments_find_what_one_go_finds(tmp_path: Path) -> None:
    """And what a warehouse holds, a replay reads and the terminal says."""
    source = folder_of("metadata-4.0")
    logs = {
        node: gzip.decompress((source / name).read_bytes()).splitlines(keepends=True)[:400]
        for node, name in {2: "controller-2.log.gz", 11: "broker-11.log.gz"}.items()
    }
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
            find_log_gaps(warehouse, {"cut": (2,)}, is_final=False)
        grown = log_gaps(warehouse, ["cut"])
        find_log_gaps(warehouse, {"cut": (2,)}, is_final=True)
        assert log_gaps(warehouse, ["cut"]) == grown
        rows = warehouse.rows(LOG_GAPS, ["cut"]).to_pylist()
        found.append((grown, gap_sentences(rows)))
    assert found[0] == found[1]
    gaps, sentences = found[0]
    assert {gap.node_id for gap in gaps["cut"]} >= {2, 11}
    assert any("lines or more are missing between 2026-" in each for each in sentences)
