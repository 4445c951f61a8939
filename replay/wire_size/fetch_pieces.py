"""FETCH v4-v18 in pieces, one number each: for whoever follows a session by its changes.

Theory
------
The functions of ``fetch`` count whole messages. A replay that knows what changed between two of
them need not list 100,000 partitions again: a message is the sum of its pieces, and only few of
them depend on others (the prefix of an array on its length). For a version, with
``pieces = fetch_pieces(version)``::

    request  = pieces.request_fixed_bytes(...)
             + pieces.topics_prefix_bytes(topics) + sum(pieces.topic_bytes(name, partitions))
             + sum(pieces.request_partition_bytes(...))
             + pieces.forgotten_prefix_bytes(topics) + sum(pieces.forgotten_topic_bytes(...))
    response = pieces.response_fixed_bytes(...)
             + pieces.topics_prefix_bytes(topics) + sum(pieces.topic_bytes(name, partitions))
             + sum(pieces.response_partition_bytes(...))

``fixed`` is frame, header and what every message has. A topic is a run of adjacent partitions of
one topic: the same topic twice, with another between, is two. Names are lengths of their UTF-8 in
bytes and count up to v12; from v13 on topics go by id, whatever name is given.

The proof is a test: sums of pieces are what ``fetch`` counts, which Kafka's and kio's serializers
count too. Source: ``FetchRequest.json``, ``FetchResponse.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from .encoding import HIGH_WATERMARK_TAG_BYTES, UUID_BYTES, unsigned_varint_bytes
from .fetch import (
    CURRENT_LEADER_TAG_BYTES,
    DIRECTORY_ID_TAG_BYTES,
    EPOCH_END_OFFSET_TAG_BYTES,
    FETCH_VERSIONS,
    REPLICA_STATE_TAG_BYTES,
)
from .frame import CORRELATION_ID_BYTES, FRAME_BYTES, REQUEST_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

_PARTITION_INDEX_BYTES = 4


@dataclass(frozen=True, slots=True)
class FetchPieces:
    """Sizes in bytes of what a FETCH of one version is made of. Made by ``fetch_pieces``."""

    version: int
    is_flexible: bool
    topics_go_by_id: bool
    #: Of a request's partition without tagged fields.
    request_partition_plain_bytes: int
    #: Of a response's partition without aborted transactions, records and tagged fields.
    response_partition_plain_bytes: int

    # --- both ways

    def topics_prefix_bytes(self, topics: int) -> int:
        """What stands before the topics of a message: their number."""
        return self._array_prefix(topics)

    def topic_bytes(self, name_bytes: int, partitions: int) -> int:
        """A topic less its ``partitions``: name or id, their number, tags."""
        name = UUID_BYTES if self.topics_go_by_id else self._string(name_bytes)
        return name + self._array_prefix(partitions) + self.is_flexible

    def topics_bytes(self, topics: Iterable[tuple[int, int]]) -> int:
        """All topics of a message less their partitions, from (name bytes, partitions) of each."""
        sizes = [self.topic_bytes(name_bytes, partitions) for name_bytes, partitions in topics]
        return self.topics_prefix_bytes(len(sizes)) + sum(sizes)

    # --- request

    def request_fixed_bytes(
        self,
        client_id_bytes: int,
        *,
        rack_id_bytes: int = 0,
        cluster_id_bytes: int | None = None,
        has_replica_state: bool = False,
    ) -> int:
        """Frame, header and body of a request without its topics and forgotten topics.

        ``cluster_id_bytes`` is None where no cluster id is sent (consumers, replica fetchers).
        ``has_replica_state``: replica id or epoch is not -1; it counts from v15 on, before, every
        request has the 4 bytes of a replica id.
        """
        size = FRAME_BYTES + REQUEST_HEADER_BYTES + client_id_bytes + self.is_flexible
        size += 4 + 4 + 4 + 1  # maxWaitMs, minBytes, maxBytes, isolationLevel
        size += 4 * (self.version <= 14)  # replicaId
        size += 8 * (self.version >= 7)  # sessionId, sessionEpoch
        size += self._string(rack_id_bytes) if self.version >= 11 else 0
        if not self.is_flexible:
            return size
        cluster_id = 0 if cluster_id_bytes is None else _tagged(self._string(cluster_id_bytes))
        replica_state = REPLICA_STATE_TAG_BYTES * (self.version >= 15 and has_replica_state)
        return size + 1 + cluster_id + replica_state

    def request_partition_bytes(
        self, *, has_directory_id: bool = False, has_high_watermark: bool = False
    ) -> int:
        """A partition asked for. Each tagged field counts where the version has it.

        ``has_directory_id``: the replica's directory id is not zero (v17+). ``has_high_watermark``:
        the high watermark is not 2^63 - 1 (v18).
        """
        size = self.request_partition_plain_bytes
        size += DIRECTORY_ID_TAG_BYTES * (self.version >= 17 and has_directory_id)
        return size + HIGH_WATERMARK_TAG_BYTES * (self.version >= 18 and has_high_watermark)

    def forgotten_prefix_bytes(self, topics: int) -> int:
        """What stands before the forgotten topics, also where there are none (v7+)."""
        return self._array_prefix(topics) if self.version >= 7 else 0

    def forgotten_topic_bytes(self, name_bytes: int, partitions: int) -> int:
        """A topic of forgotten partitions, they included (v7+)."""
        if self.version < 7:
            return 0
        return self.topic_bytes(name_bytes, partitions) + _PARTITION_INDEX_BYTES * partitions

    def forgotten_bytes(self, topics: Iterable[tuple[int, int]]) -> int:
        """All that is forgotten, from (name bytes, partitions) of each topic."""
        sizes = [self.forgotten_topic_bytes(name, partitions) for name, partitions in topics]
        return self.forgotten_prefix_bytes(len(sizes)) + sum(sizes)

    # --- response

    def response_fixed_bytes(self, node_endpoints_tag_bytes: int = 0) -> int:
        """Frame, header and body of a response without its topics.

        ``node_endpoints_tag_bytes`` is the result of the method of that name.
        """
        size = FRAME_BYTES + CORRELATION_ID_BYTES + self.is_flexible
        size += 4 + (2 + 4) * (self.version >= 7)  # throttleTimeMs; errorCode, sessionId
        return size + self.is_flexible + node_endpoints_tag_bytes

    def response_partition_bytes(
        self,
        record_bytes: int | None,
        aborted_transactions: int | None = None,
        *,
        has_diverging_epoch: bool = False,
        has_current_leader: bool = False,
        has_snapshot_id: bool = False,
    ) -> int:
        """A partition answered. None is null: it takes what 0 takes."""
        aborted, records = aborted_transactions or 0, record_bytes or 0
        size = self.response_partition_plain_bytes
        size += self._array_prefix(aborted) + (16 + self.is_flexible) * aborted
        size += self._array_prefix(records) + records
        if self.is_flexible:
            size += EPOCH_END_OFFSET_TAG_BYTES * (has_diverging_epoch + has_snapshot_id)
            size += CURRENT_LEADER_TAG_BYTES * has_current_leader
        return size

    def node_endpoints_tag_bytes(self, endpoints: Iterable[tuple[int, int]]) -> int:
        """KIP-951's tagged ``nodeEndpoints`` (v16+), from (host bytes, rack bytes) of each."""
        if self.version < 16:
            return 0
        # nodeId, host, port, rack, number of tags
        sizes = [4 + self._string(host) + 4 + self._string(rack) + 1 for host, rack in endpoints]
        return _tagged(self._array_prefix(len(sizes)) + sum(sizes)) if sizes else 0

    # --- encodings

    def _array_prefix(self, n: int) -> int:
        return unsigned_varint_bytes(n + 1) if self.is_flexible else 4

    def _string(self, utf8_bytes: int) -> int:
        return (unsigned_varint_bytes(utf8_bytes + 1) if self.is_flexible else 2) + utf8_bytes


def _tagged(value_bytes: int) -> int:
    return 1 + unsigned_varint_bytes(value_bytes) + value_bytes


@lru_cache
def fetch_pieces(version: int) -> FetchPieces:
    """The pieces of a version. Raises ValueError where it is none of ``FETCH_VERSIONS``."""
    if version not in FETCH_VERSIONS:
        raise ValueError(
            f"FETCH v{version} is none of v{FETCH_VERSIONS[0]} to v{FETCH_VERSIONS[-1]}"
        )
    request_partition = _PARTITION_INDEX_BYTES + 8 + 4  # fetchOffset, partitionMaxBytes
    request_partition += 8 * (version >= 5)  # logStartOffset
    request_partition += 4 * (version >= 9)  # currentLeaderEpoch
    request_partition += (4 + 1) * (version >= 12)  # lastFetchedEpoch, number of tags
    # errorCode, highWatermark, lastStableOffset
    response_partition = _PARTITION_INDEX_BYTES + 2 + 8 + 8
    response_partition += 8 * (version >= 5)  # logStartOffset
    response_partition += 4 * (version >= 11)  # preferredReadReplica
    response_partition += version >= 12  # number of tags
    return FetchPieces(
        version=version,
        is_flexible=version >= 12,
        topics_go_by_id=version >= 13,
        request_partition_plain_bytes=request_partition,
        response_partition_plain_bytes=response_partition,
    )
