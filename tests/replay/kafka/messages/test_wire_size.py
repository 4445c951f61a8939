"""Sizes on the wire: Kafka's own counts, a version of our own, and what has no size."""

import csv
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from parsed_lines import LINES, REQUEST_LOG, line_of, parsed

from kip_replay.replay.kafka.messages import (
    APIS,
    BROKER_HEARTBEAT,
    FETCH,
    PRODUCE,
    Api,
    request_bytes,
    response_bytes,
    schemas,
)
from kip_replay.replay.log_tables import BrokerHeartbeats, Fetches, Produces

#: Columns that typed rows have outside of the struct of their line.
SHARED = ("recording", "request_id", "node_id")
VIEWS = (
    ("fetch", Fetches, FETCH),
    ("produce", Produces, PRODUCE),
    ("broker_heartbeat", BrokerHeartbeats, BROKER_HEARTBEAT),
)


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    return parsed(LINES)


def test_recorded_sizes_are_kafkas_counts_and_frame_and_header(recorded: list[dict]) -> None:
    lines = (REQUEST_LOG / "body_sizes.csv").read_text().splitlines()
    names = set()
    for row in csv.DictReader(lines):
        number, request_body, response_body = map(int, row.values())
        request = recorded[number - 1]["request"]
        names.add(request["api_name"])
        client_id = (request["client_id"] or "").encode()
        # every recorded version is flexible: a byte for tags in both headers
        assert request["request_bytes"] == request_body + 4 + 10 + len(client_id) + 1, number
        expected = None if response_body == -1 else response_body + 4 + 4 + 1
        assert request["response_bytes"] == expected, number
    assert names == {"FETCH", "PRODUCE", "BROKER_HEARTBEAT"}


def test_sizes_follow_from_the_typed_table_alone(recorded: list[dict]) -> None:
    for view, table, api in VIEWS:
        rows = [row[view] for row in recorded if row[view]]
        assert rows
        batch = pa.RecordBatch.from_pylist(rows, pa.schema([*table.without(*SHARED)]))
        for side, count in (("request", request_bytes), ("response", response_bytes)):
            sizes = [row[f"{side}_bytes"] for row in rows]
            assert count(api, batch.drop_columns([f"{side}_bytes"])).to_pylist() == sizes
            assert sizes == [row["request"][f"{side}_bytes"] for row in recorded if row[view]]


# A schema


def parsed_fetch(version: int, added: dict[str, object]) -> dict[str, Any]:
    """A follower's FETCH of one partition, in which ``added`` stands."""
    topic = {"topicId": "AAAAAAAAAAAAAAAAAAAAAw"}
    sent = {"partition": 0, "fetchOffset": 5, "partitionMaxBytes": 9, **added}
    got = {"partitionIndex": 0, "errorCode": 0, "highWatermark": 5, "recordsSizeInBytes": 7}
    topics = [{**topic, "partitions": [sent]}]
    request = {"maxWaitMs": 1, "minBytes": 1, "topics": topics, "forgottenTopicsData": []}
    response = {"throttleTimeMs": 0, "errorCode": 0, "sessionId": 0}
    response |= {"responses": [{**topic, "partitions": [got]}]}
    (row,) = parsed([line_of(("FETCH", 1, version), request, response)])
    assert row["fetch"]["request_bytes"] == row["request"]["request_bytes"]
    return dict(row["fetch"])


TAGGED = "int32 19+ default=-1 taggedVersions=19+ tag=2"
UUIDS = [{"id": "AAAAAAAAAAAAAAAAAAAAAw"}]


@pytest.mark.parametrize(
    ("entry", "value", "more_bytes"),
    [
        ("int64 19+", 7, 8),
        (TAGGED, 7, 2 + 4),
        (TAGGED, -1, 0),
        ("string 19+", "größe", 1 + 7),
        ("[]int32 19+", [1, 2], 1 + 2 * 4),
        ("[]Copy 19+\n        Id uuid 19+", UUIDS, 18),
    ],
)
def test_a_new_version_is_one_entry(
    monkeypatch: pytest.MonkeyPatch, entry: str, value: object, more_bytes: int
) -> None:
    unknown = parsed_fetch(19, {"madeUp": value})
    before = parsed_fetch(18, {})
    assert (unknown["request_bytes"], unknown["response_bytes"]) == (None, None)

    newer = schemas.FETCH.replace("validVersions=4-18", "validVersions=4-19")
    newer = newer.replace("  ForgottenTopicsData", f"      MadeUp {entry}\n  ForgottenTopicsData")
    monkeypatch.setitem(cast(dict, APIS), FETCH.key, Api.parsed(newer))

    fetch = parsed_fetch(19, {"madeUp": value})
    assert fetch["request_bytes"] == before["request_bytes"] + more_bytes
    assert fetch["response_bytes"] == before["response_bytes"]
    sizes = {"api_version": 19, "request_bytes": None, "response_bytes": None}
    assert fetch | sizes == unknown == before | sizes


# Encodings


def fetch_rows(**columns: list[object]) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    schema = Fetches.arrow_schema
    arrays = [pa.array(columns.get(f.name, [None] * rows), f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def requested(**fields: object) -> dict[str, object]:
    return {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partition": 0, "fetch_offset": 0, **fields}


def test_unknown_versions_and_missing_bodies_have_no_size() -> None:
    batch = fetch_rows(
        api_version=[3, 19, 17, 17, None],
        max_wait_ms=[1, 1, None, 1, 1],
        error_code=[0, 0, 0, None, 0],
    )
    requests = request_bytes(FETCH, batch)
    responses = response_bytes(FETCH, batch)
    assert pc.is_valid(requests).to_pylist() == [False, False, False, True, False]
    assert pc.is_valid(responses).to_pylist() == [False, False, True, False, False]
    # Also where the first version is 0.
    schema = pa.schema([("api_version", pa.int32()), ("broker_id", pa.int32())])
    versions = [{"api_version": v, "broker_id": 1} for v in (0, 2, 3, None)]
    sizes = request_bytes(BROKER_HEARTBEAT, pa.RecordBatch.from_pylist(versions, schema))
    assert pc.is_valid(sizes).to_pylist() == [True, True, False, False]


def test_sizes_of_a_slice_are_the_slice_of_the_sizes() -> None:
    partitions = [[requested()] * n for n in (1, 2, 3, 4)]
    batch = fetch_rows(api_version=[17] * 4, max_wait_ms=[1] * 4, request_partitions=partitions)
    whole = request_bytes(FETCH, batch).to_pylist()
    assert request_bytes(FETCH, batch.slice(1, 2)).to_pylist() == whole[1:3]
    for of_side in (request_bytes, response_bytes):
        assert of_side(FETCH, batch.slice(0, 0)).to_pylist() == []
