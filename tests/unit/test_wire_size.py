"""Sizes on the wire: Kafka's own counts, its constants, and what has no size."""

from __future__ import annotations

import csv
import gzip
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kip_replay.replay import wire_size
from kip_replay.replay.log_tables import BROKER_HEARTBEATS, FETCHES, PRODUCES
from kip_replay.replay.request_log import LineParser
from kip_replay.replay.table import Table
from kip_replay.replay.wire_size.encoding import varint_sizes

#: Columns that typed rows have outside of the struct of their line.
SHARED = ("recording", "request_id", "node_id")
DATA = Path(__file__).parents[1] / "data" / "request_log"


def recorded_lines() -> list[bytes]:
    return gzip.decompress((DATA / "lines.log.gz").read_bytes()).splitlines()


def kafkas_counts() -> dict[int, tuple[int, int]]:
    with (DATA / "body_sizes.csv").open() as file:
        return {
            int(row["line"]): (int(row["request_body_bytes"]), int(row["response_body_bytes"]))
            for row in csv.DictReader(file)
        }


@pytest.fixture(scope="module")
def parsed() -> list[dict[str, object]]:
    batches = LineParser("r", 1, "UTC").parse(recorded_lines(), "lines.log")
    return pa.Table.from_batches(batches).to_pylist()


def test_recorded_sizes_are_kafkas_counts_and_frame_and_header(parsed: list[dict]) -> None:
    counts = kafkas_counts()
    assert {parsed[n - 1]["request"]["api_name"] for n in counts} == {
        "FETCH",
        "PRODUCE",
        "BROKER_HEARTBEAT",
    }
    for number, (request_body, response_body) in counts.items():
        request = parsed[number - 1]["request"]
        client_id = (request["client_id"] or "").encode()
        # every recorded version is flexible: a byte for tags in both headers
        assert request["request_bytes"] == request_body + 4 + 10 + len(client_id) + 1, number
        expected = None if response_body == -1 else response_body + 4 + 4 + 1
        assert request["response_bytes"] == expected, number


def test_typed_tables_tell_the_same_sizes(parsed: list[dict]) -> None:
    typed = [(row["request"], row["fetch"] or row["produce"]) for row in parsed]
    both = [(request, body) for request, body in typed if body]
    assert len(both) > 100
    for request, body in both:
        assert body["request_bytes"] == request["request_bytes"]
        assert body["response_bytes"] == request["response_bytes"]


@pytest.mark.parametrize(
    ("view", "table", "api"),
    [
        ("fetch", FETCHES, "fetch"),
        ("produce", PRODUCES, "produce"),
        ("broker_heartbeat", BROKER_HEARTBEATS, "broker_heartbeat"),
    ],
)
def test_sizes_follow_from_the_typed_table_alone(
    parsed: list[dict], view: str, table: Table, api: str
) -> None:
    rows = [row[view] for row in parsed if row[view]]
    assert rows
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([*table.without(*SHARED)]))
    for side in ("request", "response"):
        sizes = getattr(wire_size, f"{api}_{side}_bytes")(batch.drop_columns([f"{side}_bytes"]))
        assert sizes.to_pylist() == [row[f"{side}_bytes"] for row in rows]


def test_other_apis_have_no_size(parsed: list[dict]) -> None:
    for row in parsed:
        if not (row["fetch"] or row["produce"] or row["broker_heartbeat"]):
            assert row["request"]["request_bytes"] is None
            assert row["request"]["response_bytes"] is None


@pytest.mark.parametrize(
    ("value", "size"),
    [(0, 1), (127, 1), (128, 2), (16383, 2), (16384, 3), (2**21, 4), (2**28, 5), (2**32 - 1, 5)],
)
def test_unsigned_varint(value: int, size: int) -> None:
    assert wire_size.unsigned_varint_bytes(value) == size
    assert varint_sizes(np.array([value]))[0] == size


def test_records_field_counts_its_length_plus_one() -> None:
    assert [wire_size.records_field_bytes(n) for n in (0, 126, 127, 16383)] == [1, 127, 129, 16386]


def fetch_rows(**columns: list[object]) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    schema = FETCHES.arrow_schema
    arrays = [pa.array(columns.get(f.name, [None] * rows), f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def asked(**fields: object) -> dict[str, object]:
    return {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partition": 0, "fetch_offset": 0, **fields}


def test_high_watermark_tag_takes_ten_bytes_from_version_18_on() -> None:
    partitions = [[asked(high_watermark=h)] for h in (2**63 - 1, -1, 5)]
    for version, more in ((17, 0), (18, wire_size.HIGH_WATERMARK_TAG_BYTES)):
        batch = fetch_rows(
            api_version=[version] * 3, max_wait_ms=[500] * 3, request_partitions=partitions
        )
        default, unknown, known = wire_size.fetch_request_bytes(batch).to_pylist()
        assert unknown - default == known - default == more


def test_client_id_counts_utf8_bytes_and_null_none() -> None:
    batch = fetch_rows(api_version=[17] * 3, max_wait_ms=[1] * 3, client_id=[None, "", "größe"])
    sizes = wire_size.fetch_request_bytes(batch).to_pylist()
    assert np.subtract(sizes, sizes[0]).tolist() == [0, 0, 7]


def test_unknown_versions_and_missing_bodies_have_no_size() -> None:
    batch = fetch_rows(
        api_version=[3, 19, 17, 17, None],
        max_wait_ms=[1, 1, None, 1, 1],
        error_code=[0, 0, 0, None, 0],
    )
    requests = wire_size.fetch_request_bytes(batch)
    responses = wire_size.fetch_response_bytes(batch)
    assert pc.is_valid(requests).to_pylist() == [False, False, False, True, False]
    assert pc.is_valid(responses).to_pylist() == [False, False, True, False, False]


def test_sizes_of_no_rows_are_no_sizes() -> None:
    batch = fetch_rows(api_version=[])
    assert wire_size.fetch_request_bytes(batch).to_pylist() == []
    assert wire_size.fetch_response_bytes(batch).to_pylist() == []


def test_sizes_of_a_slice_are_the_slice_of_the_sizes() -> None:
    partitions = [[asked()] * n for n in (1, 2, 3, 4)]
    batch = fetch_rows(api_version=[17] * 4, max_wait_ms=[1] * 4, request_partitions=partitions)
    whole = wire_size.fetch_request_bytes(batch).to_pylist()
    assert wire_size.fetch_request_bytes(batch.slice(1, 2)).to_pylist() == whole[1:3]


def test_lowest_acknowledged_offset_is_a_plain_int64_after_the_other_fields() -> None:
    """The draft's schema, written out: every field in its order, then the empty tags."""
    fields = struct.pack(">ihbbb", 0, 0, True, False, False)
    header = struct.pack(">i", 7) + b"\0"
    today = struct.pack(">i", len(header) + len(fields) + 1) + header + fields + b"\0"
    lowest = struct.pack(">q", 42)
    draft = today[:-1] + lowest + b"\0"
    heartbeats = pa.RecordBatch.from_pylist(
        [{"api_version": 1, "error_code": 0}, {"api_version": 1, "error_code": None}],
        pa.schema([BROKER_HEARTBEATS.arrow_schema.field(n) for n in ("api_version", "error_code")]),
    )
    assert wire_size.broker_heartbeat_response_bytes(heartbeats).to_pylist() == [len(today), None]
    sizes = wire_size.broker_heartbeat_response_with_lowest_acknowledged_offset_bytes(heartbeats)
    assert sizes.to_pylist() == [len(draft), None]
    assert len(draft) - len(today) == wire_size.LOWEST_ACKNOWLEDGED_OFFSET_BYTES == 8
