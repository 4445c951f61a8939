"""Sizes on the wire: Kafka's own counts, a version of our own, and what has no size."""

import csv
import gzip
import json
import struct
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from parsed_lines import parsed

from kip_replay.replay.kafka.messages import (
    APIS,
    BROKER_HEARTBEAT,
    FETCH,
    LOWEST_ACKNOWLEDGED_OFFSET_BYTES,
    PRODUCE,
    Api,
    records_field_bytes,
    request_bytes,
    response_bytes,
    schemas,
)
from kip_replay.replay.kafka.messages.encoding import unsigned_varint_bytes, varint_sizes
from kip_replay.replay.kafka.messages.layout import Struct, versions_of
from kip_replay.replay.log_tables import BROKER_HEARTBEATS, FETCHES, PRODUCES

#: Columns that typed rows have outside of the struct of their line.
SHARED = ("recording", "request_id", "node_id")
VIEWS = (
    ("fetch", FETCHES, FETCH),
    ("produce", PRODUCES, PRODUCE),
    ("broker_heartbeat", BROKER_HEARTBEATS, BROKER_HEARTBEAT),
)
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
def recorded() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = parsed(recorded_lines()).to_pylist()
    return rows


def test_recorded_sizes_are_kafkas_counts_and_frame_and_header(recorded: list[dict]) -> None:
    counts = kafkas_counts()
    names = {recorded[n - 1]["request"]["api_name"] for n in counts}
    assert names == {"FETCH", "PRODUCE", "BROKER_HEARTBEAT"}
    for number, (request_body, response_body) in counts.items():
        request = recorded[number - 1]["request"]
        client_id = (request["client_id"] or "").encode()
        # every recorded version is flexible: a byte for tags in both headers
        assert request["request_bytes"] == request_body + 4 + 10 + len(client_id) + 1, number
        expected = None if response_body == -1 else response_body + 4 + 4 + 1
        assert request["response_bytes"] == expected, number


def test_sizes_follow_from_the_typed_table_alone(recorded: list[dict]) -> None:
    for view, table, api in VIEWS:
        rows = [row[view] for row in recorded if row[view]]
        assert rows
        batch = pa.RecordBatch.from_pylist(rows, pa.schema([*table.without(*SHARED)]))
        for side, count in (("request", request_bytes), ("response", response_bytes)):
            sizes = [row[f"{side}_bytes"] for row in rows]
            assert count(api, batch.drop_columns([f"{side}_bytes"])).to_pylist() == sizes
            assert sizes == [row["request"][f"{side}_bytes"] for row in recorded if row[view]]


def test_other_apis_have_no_size(recorded: list[dict]) -> None:
    others = [row["request"] for row in recorded if not any(row[view] for view, _, _ in VIEWS)]
    assert {(row["request_bytes"], row["response_bytes"]) for row in others} == {(None, None)}


# A schema


def test_versions_as_kafka_writes_them() -> None:
    texts = ("3+", "0-12", "7", "none")
    expected = [range(3, 2**15), range(13), range(7, 8), range(0)]
    assert [versions_of(text) for text in texts] == expected


def varying_without_column(struct: Struct, row: pa.StructType) -> Iterator[str]:
    for field in struct.varying:
        index = row.get_field_index(field.column)
        inner = (field.partitions or field).struct
        if field.struct and not field.is_array:
            yield from varying_without_column(field.struct, row)
        elif index < 0:
            yield field.name
        elif inner and pa.types.is_list(row.field(index).type):
            yield from varying_without_column(inner, row.field(index).type.value_type)


def test_every_size_that_varies_has_its_column() -> None:
    for _, table, api in VIEWS:
        for message in (api.request, api.response):
            assert not [*varying_without_column(message.body, pa.struct([*table.arrow_schema]))]


def fetch_line(version: int, added: dict[str, object]) -> bytes:
    """A follower's FETCH of one partition, in which ``added`` stands."""
    api = {"requestApiKey": 1, "requestApiVersion": version, "requestApiKeyName": "FETCH"}
    topic = {"topicId": "AAAAAAAAAAAAAAAAAAAAAw"}
    sent = {"partition": 0, "fetchOffset": 5, "partitionMaxBytes": 9, **added}
    got = {"partitionIndex": 0, "errorCode": 0, "highWatermark": 5, "recordsSizeInBytes": 7}
    topics = [{**topic, "partitions": [sent]}]
    envelope = {
        "requestHeader": {**api, "correlationId": 7, "clientId": "c"},
        "request": {"maxWaitMs": 1, "minBytes": 1, "topics": topics, "forgottenTopicsData": []},
        "response": {
            "throttleTimeMs": 0,
            "errorCode": 0,
            "sessionId": 0,
            "responses": [{**topic, "partitions": [got]}],
        },
        "connection": "a:1-b:2-0-0",
        **dict.fromkeys(("totalTimeMs", "requestQueueTimeMs", "localTimeMs", "sendTimeMs"), 1.0),
        **dict.fromkeys(("remoteTimeMs", "responseQueueTimeMs"), 0.0),
    }
    text = json.dumps(envelope)
    stamp = "[2026-11-20 20:30:34,831] DEBUG"
    return f"{stamp} Completed request:{text} (kafka.request.logger)".encode()


def parsed_fetch(version: int, added: dict[str, object]) -> dict[str, Any]:
    (row,) = parsed([fetch_line(version, added)]).to_pylist()
    assert row["fetch"]["request_bytes"] == row["request"]["request_bytes"]
    return dict(row["fetch"])


TAGGED = {"type": "int32", "default": "-1", "taggedVersions": "19+", "tag": 2}
UUID = {"name": "Id", "type": "uuid", "versions": "19+"}


@pytest.mark.parametrize(
    ("entry", "value", "more_bytes"),
    [
        ({"type": "int64"}, 7, 8),
        (TAGGED, 7, 2 + 4),
        (TAGGED, -1, 0),
        ({"type": "string"}, "größe", 1 + 7),
        ({"type": "[]int32"}, [1, 2], 1 + 2 * 4),
        ({"type": "[]Copy", "fields": [UUID]}, [{"id": "AAAAAAAAAAAAAAAAAAAAAw"}], 18),
    ],
)
def test_a_new_version_is_one_entry(
    monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any], value: object, more_bytes: int
) -> None:
    unknown = parsed_fetch(19, {"madeUp": value})
    before = parsed_fetch(18, {})
    assert (unknown["request_bytes"], unknown["response_bytes"]) == (None, None)

    request, response = deepcopy((schemas.FETCH_REQUEST, schemas.FETCH_RESPONSE))
    request["validVersions"] = response["validVersions"] = "4-19"
    topics = next(field for field in request["fields"] if field["name"] == "Topics")
    topics["fields"][-1]["fields"].append({"name": "MadeUp", "versions": "19+", **entry})
    monkeypatch.setitem(cast(dict, APIS), FETCH.key, Api.of(request, response))

    fetch = parsed_fetch(19, {"madeUp": value})
    assert fetch["request_bytes"] == before["request_bytes"] + more_bytes
    assert fetch["response_bytes"] == before["response_bytes"]
    sizes = {"api_version": 19, "request_bytes": None, "response_bytes": None}
    assert fetch | sizes == unknown == before | sizes


# Encodings


@pytest.mark.parametrize(
    ("value", "size"),
    [(0, 1), (127, 1), (128, 2), (16383, 2), (16384, 3), (2**21, 4), (2**28, 5), (2**32 - 1, 5)],
)
def test_unsigned_varint(value: int, size: int) -> None:
    assert unsigned_varint_bytes(value) == size
    assert varint_sizes(np.array([value]))[0] == size


def test_records_field_counts_its_length_plus_one() -> None:
    assert [records_field_bytes(n) for n in (0, 126, 127, 16383)] == [1, 127, 129, 16386]


def fetch_rows(**columns: list[object]) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    schema = FETCHES.arrow_schema
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
    assert response_bytes(BROKER_HEARTBEAT, heartbeats).to_pylist() == [len(today), None]
    assert len(draft) - len(today) == LOWEST_ACKNOWLEDGED_OFFSET_BYTES == 8
