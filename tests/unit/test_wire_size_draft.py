"""KIP-227's draft: sizes against a serializer written down from the page, field by field."""

from __future__ import annotations

import struct
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_messages import fetch_request, fetch_response, names, one_row

from kip_replay.replay import wire_size
from kip_replay.replay.log_tables import FETCHES
from kip_replay.replay.wire_size import IncrementalFetchPieces

# Integers of more than 8 bits are big-endian, as everywhere in Kafka.


def string(text: str) -> bytes:
    utf8 = text.encode()
    return struct.pack(">h", len(utf8)) + utf8


def array(elements: list[bytes]) -> bytes:
    return struct.pack(">i", len(elements)) + b"".join(elements)


def topic_array(partitions: list[dict[str, Any]], partition: Any) -> bytes:
    groups = groupby(partitions, key=lambda p: (p["topic_id"], p["topic"]))
    return array([string(topic) + array([partition(p) for p in g]) for (_, topic), g in groups])


def serialized_request(row: dict[str, Any], partition_id_is_string: bool) -> bytes:
    """IncrementalFetchRequest => uuid replica_id max_wait_time min_bytes isolation_level [topic]"""

    def partition(p: dict[str, Any]) -> bytes:
        """partition_id fetch_offset start_offset max_bytes"""
        index = p["partition"]
        partition_id = string(str(index)) if partition_id_is_string else struct.pack(">i", index)
        rest = (p["fetch_offset"], p["log_start_offset"], p["partition_max_bytes"])
        return partition_id + struct.pack(">qqi", *rest)

    fixed = (row["replica_id"], row["max_wait_ms"], row["min_bytes"], row["isolation_level"])
    return struct.pack(">qiiib", 99, *fixed) + topic_array(row["request_partitions"], partition)


def serialized_response(row: dict[str, Any]) -> bytes:
    """IncrementalFetchResponse => throttle_time_ms error_code uuid [topic]"""

    def partition(p: dict[str, Any]) -> bytes:
        """partition_header records; the header ends in [aborted_transaction]"""
        offsets = (p["high_watermark"], p["last_stable_offset"], p["log_start_offset"])
        header = struct.pack(">ihqqq", p["partition"], p["error_code"], *offsets)
        # producer_key first_offset
        header += array([struct.pack(">qq", 1, 2)] * (p["aborted_transactions"] or 0))
        records = b"r" * (p["record_bytes"] or 0)
        return header + struct.pack(">i", len(records)) + records

    fixed = struct.pack(">ihq", 0, row["error_code"], 99)
    return fixed + topic_array(row["response_partitions"], partition)


def framed(header: bytes, body: bytes) -> bytes:
    return struct.pack(">i", len(header) + len(body)) + header + body


def request_header(client_id: str | None) -> bytes:
    """api_key api_version correlation_id client_id; NULLABLE_STRING of null is -1."""
    fixed = struct.pack(">hhi", 42, 0, 7)
    return fixed + (struct.pack(">h", -1) if client_id is None else string(client_id))


def request_by_pieces(pieces: IncrementalFetchPieces, row: dict[str, Any]) -> int:
    size = pieces.request_fixed_bytes(len((row["client_id"] or "").encode()))
    for _, group in groupby(row["request_partitions"], key=lambda p: p["topic_id"]):
        run = list(group)
        size += pieces.topic_bytes(len(run[0]["topic"].encode()))
        size += sum(pieces.request_partition_bytes(p["partition"]) for p in run)
    return size


def response_by_pieces(pieces: IncrementalFetchPieces, row: dict[str, Any]) -> int:
    size = pieces.response_fixed_bytes()
    for _, group in groupby(row["response_partitions"], key=lambda p: p["topic_id"]):
        run = list(group)
        size += pieces.topic_bytes(len(run[0]["topic"].encode()))
        size += sum(
            pieces.response_partition_bytes(p["record_bytes"], p["aborted_transactions"])
            for p in run
        )
    return size


@pytest.mark.parametrize("partition_id_is_string", [False, True])
@settings(max_examples=60, deadline=None)
@given(row=fetch_request, client_id=st.none() | names)
def test_request(partition_id_is_string: bool, row: dict[str, Any], client_id: str | None) -> None:
    row = {**row, "client_id": client_id}
    batch = one_row(FETCHES.arrow_schema, row)
    option = {"partition_id_is_string": partition_id_is_string}
    body = serialized_request(row, **option)
    whole = framed(request_header(client_id), body)
    sizes = wire_size.incremental_fetch_request_body_bytes(batch, **option)
    assert sizes.to_pylist() == [len(body)]
    assert wire_size.incremental_fetch_request_bytes(batch, **option).to_pylist() == [len(whole)]
    assert request_by_pieces(IncrementalFetchPieces(**option), row) == len(whole)


@settings(max_examples=60, deadline=None)
@given(row=fetch_response)
def test_response(row: dict[str, Any]) -> None:
    batch = one_row(FETCHES.arrow_schema, row)
    body = serialized_response(row)
    whole = framed(struct.pack(">i", 7), body)
    assert wire_size.incremental_fetch_response_body_bytes(batch).to_pylist() == [len(body)]
    assert wire_size.incremental_fetch_response_bytes(batch).to_pylist() == [len(whole)]
    assert response_by_pieces(IncrementalFetchPieces(False), row) == len(whole)
    assert response_by_pieces(IncrementalFetchPieces(True), row) == len(whole)


def test_an_empty_incremental_fetch_is_its_fixed_part() -> None:
    """The draft's saving: 100,000 partitions that stand still cost nothing."""
    row = {"max_wait_ms": 500, "error_code": 0, "request_partitions": [], "response_partitions": []}
    batch = one_row(FETCHES.arrow_schema, row)
    request = wire_size.incremental_fetch_request_body_bytes(batch, partition_id_is_string=False)
    assert request.to_pylist() == [21 + 4]
    assert wire_size.incremental_fetch_response_body_bytes(batch).to_pylist() == [14 + 4]


def test_a_topic_without_a_name_cannot_be_counted() -> None:
    """Since v13 logs give ids only."""
    named, nameless = {"topic": "t", "partition": 0}, {"topic_id": "A" * 22, "partition": 0}
    rows = [[named], [named, nameless], [], [nameless]]
    sizes = {}
    for side, body in (("request", "max_wait_ms"), ("response", "error_code")):
        batch = pa.RecordBatch.from_pylist(
            [{f"{side}_partitions": row, body: 0} for row in [*rows, []]],
            pa.schema([FETCHES.arrow_schema.field(n) for n in (f"{side}_partitions", body)]),
        )
        batch = batch.set_column(1, body, pa.array([0, 0, 0, 0, None], pa.int32()))
        option = {"partition_id_is_string": True} if side == "request" else {}
        whole = getattr(wire_size, f"incremental_fetch_{side}_bytes")(batch, **option).to_pylist()
        sizes[side] = [size is not None for size in whole]
    # the last has no body
    expected = [True, False, True, False, False]
    assert sizes == {"request": expected, "response": expected}


def test_the_ordinary_response_gets_a_uuid() -> None:
    rows = [{"api_version": 17, "error_code": 0}, {"api_version": 17}, {"api_version": 3}]
    batch = pa.RecordBatch.from_pylist(
        rows, pa.schema([FETCHES.arrow_schema.field(n) for n in ("api_version", "error_code")])
    )
    (size, *others) = wire_size.fetch_response_with_draft_uuid_bytes(batch).to_pylist()
    uuid = struct.pack(">q", 99)
    assert size == wire_size.fetch_response_bytes(batch).to_pylist()[0] + len(uuid)
    assert others == [None, None]
    assert len(uuid) == wire_size.DRAFT_UUID_BYTES
