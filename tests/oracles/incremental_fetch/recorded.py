"""FETCHes of topic partitions as logged: what the replay of sessions reads.

A row is a FETCH, or it has ``topic_names`` and nothing else: then it tells which topic an id is of
(from FETCH v13 on, logs give only ids), and comes before the FETCHes that it is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from kip_replay.replay.log_tables import (
    FETCH_REQUEST_PARTITION,
    FETCH_RESPONSE_PARTITION,
    FETCHES,
    NODE_ENDPOINT,
)

#: Which partition: its topic's id, or the topic's name where the version has no ids, and its index.
PartitionKey = tuple[str, int]

#: Epochs of full FETCHes (``FetchMetadata``): one asks for a session, the other for none.
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
#: "No session" (``FetchMetadata.INVALID_SESSION_ID``).
NO_SESSION = 0
#: FETCH versions: sessions came with 7 (KIP-227), topic ids with 13.
SESSION_VERSION, TOPIC_ID_VERSION = 7, 13

FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
FETCH_SESSION_TOPIC_ID_ERROR = 106
SESSION_ERRORS = frozenset(
    {FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR}
)


class AskedPartition(NamedTuple):
    """A partition of a request: ``FETCH_REQUEST_PARTITION``."""

    topic_id: str | None
    topic: str | None
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: str | None
    high_watermark: int

    @property
    def key(self) -> PartitionKey:
        """Which partition it is."""
        return self.topic_id or self.topic or "", self.partition


class ToldPartition(NamedTuple):
    """A partition of a response: ``FETCH_RESPONSE_PARTITION``; -1 and 0 where there is no value."""

    topic_id: str | None
    topic: str | None
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    preferred_read_replica: int
    record_bytes: int | None
    aborted_transactions: int | None
    current_leader_id: int | None
    current_leader_epoch: int | None
    diverging_epoch: int | None
    diverging_end_offset: int | None
    snapshot_end_offset: int | None
    snapshot_epoch: int | None

    @property
    def key(self) -> PartitionKey:
        """Which partition it is."""
        return self.topic_id or self.topic or "", self.partition

    @property
    def has_records(self) -> bool:
        """It brings records: in a session it then goes to the end."""
        return (self.record_bytes or 0) > 0


class ForgottenPartition(NamedTuple):
    """A partition that a request takes out of its session."""

    topic_id: str | None
    topic: str | None
    partition: int

    @property
    def key(self) -> PartitionKey:
        """Which partition it is."""
        return self.topic_id or self.topic or "", self.partition


class NodeEndpoint(NamedTuple):
    """An element of nodeEndpoints (v16+)."""

    node_id: int
    host: str
    port: int
    rack: str | None


class TopicName(NamedTuple):
    """What a topic id stands for."""

    topic_id: str
    topic: str


class RecordedFetch(NamedTuple):
    """A FETCH of topic partitions. Times are microseconds since the epoch.

    ``request_partitions`` is None without a request body, and then sender and session are not
    known; ``error_code`` is None without a response. Of the sizes only variant ``recorded`` and
    ``equals_recorded`` know.
    """

    request_id: str
    api_version: int
    client_id: str | None
    connection: str | None
    replica_id: int
    replica_epoch: int
    received_us: int
    dequeued_us: int
    built_us: int
    session_id: int
    session_epoch: int
    rack_id: str | None
    cluster_id: str | None
    request_partitions: list[AskedPartition] | None
    forgotten_partitions: list[ForgottenPartition] | None
    throttle_ms: float | None
    error_code: int | None
    response_session_id: int | None
    response_partitions: list[ToldPartition] | None
    node_endpoints: list[NodeEndpoint] | None
    request_bytes: int | None
    response_bytes: int | None
    topic_names: list[TopicName] | None

    @property
    def is_follower(self) -> bool:
        """It is a replica's: its session is privileged."""
        return self.replica_id >= 0

    @property
    def has_sessions(self) -> bool:
        """The version has sessions."""
        return self.api_version >= SESSION_VERSION

    @property
    def is_full(self) -> bool:
        """It lists every partition (``FetchMetadata.isFull``)."""
        return not self.has_sessions or self.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)

    @property
    def is_logged_whole(self) -> bool:
        """Neither of its bodies is logged as ``""``."""
        return self.request_partitions is not None and self.error_code is not None

    @property
    def is_throttled(self) -> bool:
        """Its sender is over its quota: the answer is empty, and tells nothing (KIP-219)."""
        return not self.response_partitions and (self.throttle_ms or 0) > 0

    @property
    def record_bytes(self) -> int:
        """Records in the response."""
        return sum(told.record_bytes or 0 for told in self.response_partitions or ())


_NESTED: Mapping[str, tuple[pa.DataType, type]] = {
    "request_partitions": (pa.list_(FETCH_REQUEST_PARTITION), AskedPartition),
    "forgotten_partitions": (
        FETCHES.arrow_schema.field("forgotten_partitions").type,
        ForgottenPartition,
    ),
    "response_partitions": (pa.list_(FETCH_RESPONSE_PARTITION), ToldPartition),
    "node_endpoints": (pa.list_(NODE_ENDPOINT), NodeEndpoint),
    "topic_names": (
        pa.list_(pa.struct([("topic_id", pa.string()), ("topic", pa.string())])),
        TopicName,
    ),
}
_TEXT = {"request_id", "client_id", "connection", "rack_id", "cluster_id"}


#: Of a request that is not in the log: nobody's, and of no session.
_WITHOUT_REQUEST = {"replica_id": -1, "replica_epoch": -1, "session_id": 0, "session_epoch": -1}


def _type_of(name: str) -> pa.DataType:
    if name in _NESTED:
        return _NESTED[name][0]
    if name in _TEXT:
        return pa.string()
    return pa.float64() if name == "throttle_ms" else pa.int64()


#: Input of the replay: ``RecordedFetch``, a column per field.
INPUT_SCHEMA = pa.schema([(name, _type_of(name)) for name in RecordedFetch._fields])


def recorded_fetches(batch: pa.RecordBatch) -> Iterator[RecordedFetch]:
    """The rows of a batch of ``INPUT_SCHEMA``."""
    columns = [
        _lists(batch.column(name), _NESTED[name][1])
        if name in _NESTED
        else batch.column(name).fill_null(_WITHOUT_REQUEST[name]).to_pylist()
        if name in _WITHOUT_REQUEST
        else batch.column(name).to_pylist()
        for name in INPUT_SCHEMA.names
    ]
    return map(RecordedFetch._make, zip(*columns, strict=True))


def _lists(array: pa.ListArray, element: type) -> Iterator[list[tuple[object, ...]] | None]:
    """Each row's list of elements, None for null; decoded a column at a time, not a struct."""
    flat = array.flatten()
    make = element._make  # type: ignore[attr-defined]
    elements = list(map(make, zip(*(child.to_pylist() for child in flat.flatten()), strict=True)))
    lengths = array.value_lengths().to_pylist()
    start = 0
    for length in lengths:
        yield None if length is None else elements[start : start + length]
        start += length or 0
