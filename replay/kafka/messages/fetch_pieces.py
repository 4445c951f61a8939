"""FETCH in single numbers: for replays that follow a session by its changes.

Theory
------
``sizes`` counts whole messages. A replay that knows what changed between two of them need not list
100,000 partitions again: a message is a sum, and few of its terms depend on others (the prefix of
an array on its length). For a version, with ``pieces = fetch_pieces(version)``::

    request  = pieces.request_fixed_bytes(...)
             + pieces.topics_prefix_bytes(topics) + sum(pieces.topic_bytes(name, partitions))
             + sum(pieces.request_partition_bytes(...))
             + pieces.forgotten_prefix_bytes(topics) + sum(pieces.forgotten_topic_bytes(...))
    response = pieces.response_fixed_bytes(...)
             + pieces.topics_prefix_bytes(topics) + sum(pieces.topic_bytes(name, partitions))
             + sum(pieces.response_partition_bytes(...))

``fixed`` is frame, header and what every message has. A topic is a run of adjacent partitions of
one topic: the same topic twice, with another between, is two. Names are lengths of their UTF-8 in
bytes and count up to v12; from v13 on topics go by id, whatever name is given. The tests hold the
sums equal to ``sizes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from .encoding import unsigned_varint_bytes
from .fetch import FETCH_VERSIONS
from .layout import FETCH
from .sizes import CORRELATION_ID_BYTES, FRAME_BYTES, REQUEST_HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .layout import Field

_REQUEST, _RESPONSE = FETCH.request.body, FETCH.response.body
_REQUEST_PARTITION = _REQUEST["Topics.Partitions"]
_RESPONSE_PARTITION = _RESPONSE["Responses.Partitions"]
_FORGOTTEN = _REQUEST["ForgottenTopicsData"]


@dataclass(frozen=True)
class FetchPieces:
    """Sizes in bytes of what a FETCH of one version is made of. Made by ``fetch_pieces``."""

    version: int

    @cached_property
    def is_flexible(self) -> bool:
        """Whether lengths are varints and fields may be tagged (KIP-482)."""
        return self.version in _REQUEST.flexible

    @cached_property
    def topics_go_by_id(self) -> bool:
        """Whether a topic has its id instead of its name."""
        return self.version in _REQUEST["Topics.TopicId"].versions

    @cached_property
    def request_partition_plain_bytes(self) -> int:
        """A partition of a request without tagged fields."""
        return _REQUEST_PARTITION.plain_bytes(self.version)

    # --- both ways

    def topics_prefix_bytes(self, topics: int) -> int:
        """What stands before the topics of a message: their number."""
        return self._array_prefix(topics)

    def topic_bytes(self, name_bytes: int, partitions: int) -> int:
        """A topic less its ``partitions``: name or id, their number, tags."""
        name = 0 if self.topics_go_by_id else self._string(name_bytes)
        plain = _REQUEST["Topics"].plain_bytes(self.version)
        return plain + name + self._array_prefix(partitions)

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
        size += _REQUEST.plain_bytes(self.version)
        if self._has(_REQUEST["RackId"]):
            size += self._string(rack_id_bytes)
        if self._has(_REQUEST["ClusterId"]) and cluster_id_bytes is not None:
            size += _tagged(self._string(cluster_id_bytes))
        return size + has_replica_state * _REQUEST["ReplicaState"].tag_bytes(self.version)

    def request_partition_bytes(
        self, *, has_directory_id: bool = False, has_high_watermark: bool = False
    ) -> int:
        """A partition requested. Each tagged field counts where the version has it.

        ``has_directory_id``: the replica's directory id is not zero (v17+). ``has_high_watermark``:
        the high watermark is not 2^63 - 1 (v18+).
        """
        size = self.request_partition_plain_bytes
        partition = _REQUEST_PARTITION.struct
        assert partition is not None
        size += has_directory_id * partition["ReplicaDirectoryId"].tag_bytes(self.version)
        return size + has_high_watermark * partition["HighWatermark"].tag_bytes(self.version)

    def forgotten_prefix_bytes(self, topics: int) -> int:
        """What stands before the forgotten topics, also where there are none (v7+)."""
        return self._array_prefix(topics) if self._has(_FORGOTTEN) else 0

    def forgotten_bytes(self, topics: Iterable[tuple[int, int]]) -> int:
        """All that is forgotten (v7+), from (name bytes, partitions) of each topic."""
        if not self._has(_FORGOTTEN):
            return 0
        partition = _REQUEST["ForgottenTopicsData.Partitions"].plain_bytes(self.version)
        listed = list(topics)
        return self.topics_bytes(listed) + sum(partition * n for _, n in listed)

    # --- response

    def response_fixed_bytes(self, node_endpoints_tag_bytes: int = 0) -> int:
        """Frame, header and body of a response without its topics.

        ``node_endpoints_tag_bytes`` is the result of the method of that name.
        """
        size = FRAME_BYTES + CORRELATION_ID_BYTES + self.is_flexible
        return size + _RESPONSE.plain_bytes(self.version) + node_endpoints_tag_bytes

    def response_partition_bytes(
        self,
        record_bytes: int | None,
        aborted_transactions: int | None = None,
        *,
        has_diverging_epoch: bool = False,
        has_current_leader: bool = False,
        has_snapshot_id: bool = False,
    ) -> int:
        """A partition returned. None is null: it takes what 0 takes."""
        partition = _RESPONSE_PARTITION.struct
        assert partition is not None
        aborted, records = aborted_transactions or 0, record_bytes or 0
        size = partition.plain_bytes(self.version)
        size += self._array_prefix(aborted)
        size += aborted * partition["AbortedTransactions"].plain_bytes(self.version)
        size += self._array_prefix(records) + records
        size += has_diverging_epoch * partition["DivergingEpoch"].tag_bytes(self.version)
        size += has_current_leader * partition["CurrentLeader"].tag_bytes(self.version)
        return size + has_snapshot_id * partition["SnapshotId"].tag_bytes(self.version)

    def node_endpoints_tag_bytes(self, endpoints: Iterable[tuple[int, int]]) -> int:
        """KIP-951's tagged ``nodeEndpoints`` (v16+), from (host bytes, rack bytes) of each."""
        field = _RESPONSE["NodeEndpoints"]
        plain = field.plain_bytes(self.version)
        sizes = [plain + self._string(host) + self._string(rack) for host, rack in endpoints]
        if not sizes or not self._has(field):
            return 0
        return _tagged(self._array_prefix(len(sizes)) + sum(sizes))

    # --- encodings

    def _has(self, field: Field) -> bool:
        return self.version in field.versions

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
    return FetchPieces(version)
