"""FETCH in single numbers: for replays that follow a session by its changes.

``sizes`` counts whole messages. A replay that knows what changed between two of them need not list
100,000 partitions again: a message is a sum, and few of its terms depend on others (the prefix of
an array on its length). A request is its fixed part, topics and partitions, and, from v7 on, topics
and partitions (an INT32 each) that are forgotten; a response is its fixed part, topics and
partitions. The tests hold the sums equal to ``sizes``.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from .encoding import UUID_BYTES, unsigned_varint_bytes
from .layout import FETCH
from .sizes import CORRELATION_ID_BYTES, FRAME_BYTES, REQUEST_HEADER_BYTES

_REQUEST, _RESPONSE = FETCH.request.body, FETCH.response.body
#: Versions that can be counted, and tagged fields of fixed size.
FETCH_VERSIONS: Final = FETCH.request.versions
_LATEST: Final = FETCH_VERSIONS[-1]

#: KIP-1166's high watermark of a partition (v18).
HIGH_WATERMARK_TAG_BYTES: Final = _REQUEST["Topics.Partitions.HighWatermark"].tag_bytes(_LATEST)
DIRECTORY_ID_TAG_BYTES: Final = _REQUEST["Topics.Partitions.ReplicaDirectoryId"].tag_bytes(_LATEST)
CURRENT_LEADER_TAG_BYTES: Final = _RESPONSE["Responses.Partitions.CurrentLeader"].tag_bytes(_LATEST)
#: Of a diverging epoch and, the same, of a snapshot id.
EPOCH_END_OFFSET_TAG_BYTES: Final = _RESPONSE["Responses.Partitions.SnapshotId"].tag_bytes(_LATEST)


class TopicTotals(NamedTuple):
    """Sums what the topics of a list of partitions take on the wire, at any FETCH version.

    Adjacent partitions of one topic travel under one topic; a topic that is in two places is
    written twice (``FetchRequest.Builder``, ``FetchResponse.toMessage``). So only the *runs* of a
    list matter, through four sums: their number, the bytes of what their topics go by and of the
    varints before it, and the bytes of the varints before their partitions.
    """

    runs: int = 0
    utf8_bytes: int = 0
    varint_bytes: int = 0
    length_varint_bytes: int = 0


class FetchPieces:
    """Sizes in bytes of what a FETCH of one version is made of. Made by ``fetch_pieces``."""

    def __init__(self, version: int) -> None:
        self.version = version
        #: Lengths are varints and fields may be tagged (KIP-482).
        self.is_flexible = version in _REQUEST.flexible
        self.topics_go_by_id = version in _REQUEST["Topics.TopicId"].versions
        #: Of partitions without records, aborted transactions and tagged fields.
        self.request_partition_bytes = _REQUEST["Topics.Partitions"].plain_bytes(version)
        plain = _RESPONSE["Responses.Partitions"].plain_bytes(version)
        self.response_partition_bytes = plain + 2 * self._array_prefix(0)
        #: Sessions list the same few topics again and again.
        self.topics_bytes = lru_cache(4096)(self._topics_bytes)

    def _topics_bytes(self, topics: TopicTotals) -> int:
        runs = topics.runs
        if not self.is_flexible:
            return 4 + runs * (2 + 4) + topics.utf8_bytes
        names = topics.utf8_bytes + topics.varint_bytes
        if self.topics_go_by_id:
            names = UUID_BYTES * runs
        return self._array_prefix(runs) + names + topics.length_varint_bytes + runs

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
        if self.version in _REQUEST["RackId"].versions:
            size += self._string(rack_id_bytes)
        if self.version in _REQUEST["ClusterId"].versions and cluster_id_bytes is not None:
            size += _tagged(self._string(cluster_id_bytes))
        return size + has_replica_state * _REQUEST["ReplicaState"].tag_bytes(self.version)

    def response_fixed_bytes(self, endpoints: Iterable[tuple[int, int]] = ()) -> int:
        """Frame, header and body of a response without its topics."""
        size = FRAME_BYTES + CORRELATION_ID_BYTES + self.is_flexible
        size += _RESPONSE.plain_bytes(self.version)
        field = _RESPONSE["NodeEndpoints"]
        plain = field.plain_bytes(self.version)
        sizes = [plain + self._string(host) + self._string(rack) for host, rack in endpoints]
        if sizes and self.version in field.versions:
            size += _tagged(self._array_prefix(len(sizes)) + sum(sizes))
        return size

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
