"""Sums of pieces are whole messages: full FETCHes replayed have the sizes that were recorded."""

import struct
from collections.abc import Iterable
from itertools import cycle
from typing import Any

import pytest
from fetch_logs import NodeEndpoint, Request, Response, fetched, replay_of, requested, returned
from hypothesis import assume, given
from hypothesis import strategies as st
from wire_messages import fetch_request, fetch_response, names, topics

from kip_replay.replay.incremental_fetch.draft import (
    REQUEST_BYTES,
    REQUEST_PARTITION_BYTES,
    RESPONSE_BYTES,
    RESPONSE_PARTITION_BYTES,
    TOPIC_BYTES,
)
from kip_replay.replay.incremental_fetch.outcomes import FULL
from kip_replay.replay.records import RECORDED

#: What a pair has in common, and errors: those that are not read are returned behind the others.
OF_A_PAIR = {"topic_id", "topic", "partition", "error_code"}
#: What only FETCHes of the metadata log have of a partition that they request.
TAGGED = {"replica_directory_id", "high_watermark"}
Pair = tuple[dict[str, Any], dict[str, Any]]


def check(pairs: list[Pair], versions: Iterable[int], **others: Any) -> None:
    """A full FETCH of partitions as requested and returned."""
    for version in versions:
        by = "topic_id" if version >= 13 else "topic"
        asked, told = (
            [make(pair[0][by], n, **fields(pair[side], left_out)) for n, pair in enumerate(pairs)]
            for side, make, left_out in ((0, requested, TAGGED), (1, returned, set[str]()))
        )
        request, response = Request(0, 0, asked, [], version), Response(0, 0, told)
        replayed = replay_of([[fetched(1, request, response, **others)]])
        (full,), (recorded,) = replayed.variant(FULL), replayed.variant(RECORDED)
        for name in ("request_bytes", "response_bytes", "request_partitions", "record_bytes"):
            assert full[name] == recorded[name]


def fields(partition: dict[str, Any], left_out: set[str]) -> dict[str, Any]:
    return {n: value for n, value in partition.items() if n not in OF_A_PAIR | left_out}


@given(request=fetch_request, response=fetch_response, client_id=st.none() | names, data=st.data())
def test_full_fetch(
    request: dict[str, Any], response: dict[str, Any], client_id: str | None, data: Any
) -> None:
    # a topic may come again after another
    asked = data.draw(st.permutations(request["request_partitions"]))
    told = data.draw(st.permutations(response["response_partitions"]))
    assume(asked)  # who fetches nothing sends nothing
    sender = ("replica_id", "replica_epoch", "rack_id", "cluster_id")
    others: dict[str, Any] = {name: request[name] for name in sender} | {"client_id": client_id}
    endpoints = [NodeEndpoint(**endpoint) for endpoint in response["node_endpoints"]]
    pairs = zip(asked, cycle(told or [{}]), strict=False)
    check([*pairs], range(7, 19), node_endpoints=endpoints, **others)


@pytest.mark.parametrize("n", [126, 127, 16_383])
@pytest.mark.parametrize("kind", ["topics", "partitions"])
def test_prefixes_of_long_arrays(n: int, kind: str) -> None:
    of = range(n) if kind == "topics" else [7] * n
    pairs: list[Pair] = [({"topic_id": f"{t:022}", "topic": f"{t:04}"}, {}) for t in of]
    check(pairs, (11, 12, 17))


# --- KIP-227's draft, as a serializer written down from the page has it ---------------------------

# Integers of more than 8 bits are big-endian, as everywhere in Kafka.


def string(text: str) -> bytes:
    utf8 = text.encode()
    return struct.pack(">h", len(utf8)) + utf8


def array(elements: list[bytes]) -> bytes:
    return struct.pack(">i", len(elements)) + b"".join(elements)


def topic_array(partitions: list[dict[str, Any]], partition: Any) -> bytes:
    of_topics = topics(partitions)
    return array([string(topic) + array([*map(partition, run)]) for _, topic, run in of_topics])


def serialized_request(row: dict[str, Any]) -> bytes:
    """IncrementalFetchRequest => uuid replica_id max_wait_time min_bytes isolation_level [topic]"""

    def partition(p: dict[str, Any]) -> bytes:
        """partition_id fetch_offset start_offset max_bytes"""
        values = (p["fetch_offset"], p["log_start_offset"], p["partition_max_bytes"])
        return struct.pack(">iqqi", p["partition"], *values)

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


def topics_bytes(partitions: list[dict[str, Any]]) -> int:
    return sum(TOPIC_BYTES + len(topic.encode()) for _, topic, _ in topics(partitions))


@given(row=fetch_request, client_id=st.none() | names)
def test_request(row: dict[str, Any], client_id: str | None) -> None:
    # api_key api_version correlation_id client_id; NULLABLE_STRING of null is -1.
    header = struct.pack(">hhi", 42, 0, 7)
    header += struct.pack(">h", -1) if client_id is None else string(client_id)
    whole, listed = framed(header, serialized_request(row)), row["request_partitions"]
    size = REQUEST_BYTES + len((client_id or "").encode()) + topics_bytes(listed)
    assert size + REQUEST_PARTITION_BYTES * len(listed) == len(whole)


@given(row=fetch_response)
def test_response(row: dict[str, Any]) -> None:
    """A partition's records and aborted transactions come beside what is fixed."""
    whole, listed = (
        framed(struct.pack(">i", 7), serialized_response(row)),
        row["response_partitions"],
    )
    brought = sum((p["record_bytes"] or 0) + 16 * (p["aborted_transactions"] or 0) for p in listed)
    size = RESPONSE_BYTES + topics_bytes(listed) + brought
    assert size + RESPONSE_PARTITION_BYTES * len(listed) == len(whole)
