"""Sums of pieces are whole messages: what changes may be counted without listing what does not."""

import base64
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_messages import NO_HIGH_WATERMARK, fetch_request, fetch_response, names, one_row, topics

from kip_replay.replay.kafka.messages import (
    FETCH,
    HIGH_WATERMARK_TAG_BYTES,
    request_bytes,
    response_bytes,
)
from kip_replay.replay.kafka.messages.fetch_pieces import (
    CURRENT_LEADER_TAG_BYTES,
    DIRECTORY_ID_TAG_BYTES,
    EPOCH_END_OFFSET_TAG_BYTES,
    FETCH_VERSIONS,
    FetchPieces,
    TopicTotals,
    fetch_pieces,
)
from kip_replay.replay.log_tables import FETCHES

client_ids = st.none() | names | st.just("")


def utf8(text: str | None) -> int:
    return len((text or "").encode())


def varint(n: int) -> int:
    return max(1, (n.bit_length() + 6) // 7)


def topics_bytes(pieces: FetchPieces, partitions: list[dict[str, Any]]) -> int:
    runs = [(utf8(name), len(group)) for _, name, group in topics(partitions)]
    totals = TopicTotals(
        len(runs),
        sum(name for name, _ in runs),
        sum(varint(name + 1) for name, _ in runs),
        sum(varint(n + 1) for _, n in runs),
    )
    return pieces.topics_bytes(totals)


def request_by_pieces(pieces: FetchPieces, row: dict[str, Any]) -> int:
    cluster_id, partitions = row["cluster_id"], row["request_partitions"]
    size = pieces.request_fixed_bytes(
        utf8(row["client_id"]),
        rack_id_bytes=utf8(row["rack_id"]),
        cluster_id_bytes=None if cluster_id is None else utf8(cluster_id),
        has_replica_state=(row["replica_id"], row["replica_epoch"]) != (-1, -1),
    )
    size += topics_bytes(pieces, partitions) + len(partitions) * pieces.request_partition_bytes
    if pieces.version >= 7:
        forgotten = row["forgotten_partitions"]
        size += topics_bytes(pieces, forgotten) + 4 * len(forgotten)
    if pieces.version >= 17:
        directories = sum(p["replica_directory_id"] is not None for p in partitions)
        size += directories * DIRECTORY_ID_TAG_BYTES
    if pieces.version >= 18:
        high_watermarks = sum(p["high_watermark"] != NO_HIGH_WATERMARK for p in partitions)
        size += high_watermarks * HIGH_WATERMARK_TAG_BYTES
    return size


def response_by_pieces(pieces: FetchPieces, row: dict[str, Any]) -> int:
    endpoints = [(utf8(e["host"]), utf8(e["rack"])) for e in row["node_endpoints"]]
    partitions = row["response_partitions"]
    size = pieces.response_fixed_bytes(endpoints) + topics_bytes(pieces, partitions)
    for p in partitions:
        records, aborted = p["record_bytes"] or 0, p["aborted_transactions"] or 0
        size += pieces.response_partition_bytes + records + 16 * aborted
        if pieces.is_flexible:
            size += varint(records + 1) - 1 + varint(aborted + 1) - 1 + aborted
            size += EPOCH_END_OFFSET_TAG_BYTES * (p["diverging_epoch"] is not None)
            size += CURRENT_LEADER_TAG_BYTES * (p["current_leader_id"] is not None)
            size += EPOCH_END_OFFSET_TAG_BYTES * (p["snapshot_epoch"] is not None)
    return size


@given(row=fetch_request, client_id=client_ids, data=st.data())
def test_request(row: dict[str, Any], client_id: str | None, data: Any) -> None:
    # a topic may come again after another
    requested = data.draw(st.permutations(row["request_partitions"]))
    row = {**row, "client_id": client_id, "request_partitions": requested}
    batch = every_version(row)
    expected = [request_by_pieces(fetch_pieces(version), row) for version in FETCH_VERSIONS]
    assert request_bytes(FETCH, batch).to_pylist() == expected


@given(row=fetch_response, data=st.data())
def test_response(row: dict[str, Any], data: Any) -> None:
    row = {**row, "response_partitions": data.draw(st.permutations(row["response_partitions"]))}
    batch = every_version(row)
    expected = [response_by_pieces(fetch_pieces(version), row) for version in FETCH_VERSIONS]
    assert response_bytes(FETCH, batch).to_pylist() == expected


def every_version(row: dict[str, Any]) -> pa.RecordBatch:
    rows = [one_row(FETCHES.arrow_schema, {**row, "api_version": v}) for v in FETCH_VERSIONS]
    return pa.concat_batches(rows)


def plain(topic: int, partition: int) -> dict[str, Any]:
    """A partition of an incremental request and of its response at once."""
    return {
        "topic_id": base64.urlsafe_b64encode(topic.to_bytes(16, "big"))[:22].decode(),
        "topic": f"{topic:04d}",
        "partition": partition,
        "high_watermark": NO_HIGH_WATERMARK,
        "record_bytes": 0,
        **dict.fromkeys(("replica_directory_id", "aborted_transactions", "diverging_epoch")),
        **dict.fromkeys(("current_leader_id", "snapshot_epoch")),
    }


@pytest.mark.parametrize("version", [11, 12, 17])
@pytest.mark.parametrize("n", [126, 127, 16_383])
@pytest.mark.parametrize("kind", ["topics", "partitions"])
def test_prefixes_of_long_arrays(version: int, n: int, kind: str) -> None:
    partitions = [plain(i, 0) if kind == "topics" else plain(7, i) for i in range(n)]
    sides = ("request_partitions", "forgotten_partitions", "response_partitions")
    client = {"client_id": "broker-12-fetcher-0", "replica_id": 12, "replica_epoch": 5}
    fixed = {"cluster_id": None, "rack_id": "", "max_wait_ms": 500, "error_code": 0}
    row = client | fixed | dict.fromkeys(sides, partitions)
    row |= {"api_version": version, "node_endpoints": []}
    # Without what no size depends on: building it is most of the time.
    schema = pa.schema([f for f in FETCHES.arrow_schema if not pa.types.is_timestamp(f.type)])
    batch = one_row(schema, row)
    pieces = fetch_pieces(version)
    assert request_bytes(FETCH, batch).to_pylist() == [request_by_pieces(pieces, row)]
    assert response_bytes(FETCH, batch).to_pylist() == [response_by_pieces(pieces, row)]


@pytest.mark.parametrize("version", [-1, 3, 19])
def test_no_pieces_of_a_version_without_sizes(version: int) -> None:
    assert {fetch_pieces(v).version for v in FETCH_VERSIONS} == set(range(4, 19))
    with pytest.raises(ValueError, match=f"FETCH v{version} is none of v4 to v18"):
        fetch_pieces(version)


def test_a_follower_requests_with_33_bytes_a_partition() -> None:
    """The figure of a replica fetcher since v12, and what v17 and v18 may add to it."""
    assert fetch_pieces(12).request_partition_bytes == 33
    assert fetch_pieces(17).request_partition_bytes == 33
    assert (DIRECTORY_ID_TAG_BYTES, HIGH_WATERMARK_TAG_BYTES) == (18, 10)
    # an empty response: 34, no aborted transactions, no records, no tags
    assert fetch_pieces(12).response_partition_bytes == 34 + 1 + 1 + 1
