"""What the slowest requests name, looked up in the lines of the logs."""

import gzip
import json
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


@pytest.fixture(scope="module")
def database(samples: Warehouse) -> Iterator[duckdb.DuckDBPyConnection]:
    with samples.database(["acks-slow-follower", "metadata-4.0"]) as connection:
        create_views(connection, in_order(read_views(), TABLES))
        yield connection


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
        assert f"Follower {follower} had the batch last: its FETCH of offset {offset} (" in why


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
