"""Sums of pieces are whole messages: what changes may be counted without listing what does not."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_messages import NO_HIGH_WATERMARK, fetch_request, fetch_response, names, one_row, topics

from kip_replay.replay.kafka.messages import (
    FETCH,
    FETCH_VERSIONS,
    FetchPieces,
    fetch_pieces,
    request_bytes,
    response_bytes,
)
from kip_replay.replay.log_tables import FETCHES

client_ids = st.none() | names | st.just("")


def utf8(text: str | None) -> int:
    return len((text or "").encode())


def runs(partitions: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """(name bytes, partitions) of each topic."""
    return [(utf8(name), len(group)) for _, name, group in topics(partitions)]


def request_by_pieces(pieces: FetchPieces, row: dict[str, Any]) -> int:
    cluster_id = row["cluster_id"]
    fixed = pieces.request_fixed_bytes(
        utf8(row["client_id"]),
        rack_id_bytes=utf8(row["rack_id"]),
        cluster_id_bytes=None if cluster_id is None else utf8(cluster_id),
        has_replica_state=(row["replica_id"], row["replica_epoch"]) != (-1, -1),
    )
    partitions = [
        pieces.request_partition_bytes(
            has_directory_id=p["replica_directory_id"] is not None,
            has_high_watermark=p["high_watermark"] != NO_HIGH_WATERMARK,
        )
        for p in row["request_partitions"]
    ]
    requested = pieces.topics_bytes(runs(row["request_partitions"])) + sum(partitions)
    return fixed + requested + pieces.forgotten_bytes(runs(row["forgotten_partitions"]))


def response_by_pieces(pieces: FetchPieces, row: dict[str, Any]) -> int:
    endpoints = [(utf8(e["host"]), utf8(e["rack"])) for e in row["node_endpoints"]]
    partitions = [
        pieces.response_partition_bytes(
            p["record_bytes"],
            p["aborted_transactions"],
            has_diverging_epoch=p["diverging_epoch"] is not None,
            has_current_leader=p["current_leader_id"] is not None,
            has_snapshot_id=p["snapshot_epoch"] is not None,
        )
        for p in row["response_partitions"]
    ]
    fixed = pieces.response_fixed_bytes(pieces.node_endpoints_tag_bytes(endpoints))
    return fixed + pieces.topics_bytes(runs(row["response_partitions"])) + sum(partitions)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@settings(max_examples=20, deadline=None)
@given(row=fetch_request, client_id=client_ids, data=st.data())
def test_request(version: int, row: dict[str, Any], client_id: str | None, data: Any) -> None:
    # a topic may come again after another
    requested = data.draw(st.permutations(row["request_partitions"]))
    row = {**row, "api_version": version, "client_id": client_id, "request_partitions": requested}
    expected = request_bytes(FETCH, one_row(FETCHES.arrow_schema, row))
    assert [request_by_pieces(fetch_pieces(version), row)] == expected.to_pylist()


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@settings(max_examples=20, deadline=None)
@given(row=fetch_response, data=st.data())
def test_response(version: int, row: dict[str, Any], data: Any) -> None:
    returned = data.draw(st.permutations(row["response_partitions"]))
    row = {**row, "api_version": version, "response_partitions": returned}
    expected = response_bytes(FETCH, one_row(FETCHES.arrow_schema, row))
    assert [response_by_pieces(fetch_pieces(version), row)] == expected.to_pylist()


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
@pytest.mark.parametrize("n", [0, 126, 127, 16_382, 16_383])
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
    assert fetch_pieces(12).request_partition_bytes(has_directory_id=True) == 33
    assert fetch_pieces(17).request_partition_bytes(has_directory_id=True) == 33 + 18
    both = fetch_pieces(18).request_partition_bytes(has_directory_id=True, has_high_watermark=True)
    assert both == 33 + 18 + 10
    # an empty response: 34, no aborted transactions, no records, no tags
    assert fetch_pieces(12).response_partition_bytes(None) == 34 + 1 + 1 + 1
