"""FETCH: the versions that can be counted, and its tagged fields of fixed size."""

from typing import Final

from .layout import FETCH

FETCH_VERSIONS: Final = FETCH.request.versions
_LATEST: Final = FETCH_VERSIONS[-1]
_REQUEST, _RESPONSE = FETCH.request.body, FETCH.response.body

#: KIP-1166's high watermark of a partition (v18).
HIGH_WATERMARK_TAG_BYTES: Final = _REQUEST["Topics.Partitions.HighWatermark"].tag_bytes(_LATEST)
DIRECTORY_ID_TAG_BYTES: Final = _REQUEST["Topics.Partitions.ReplicaDirectoryId"].tag_bytes(_LATEST)
CURRENT_LEADER_TAG_BYTES: Final = _RESPONSE["Responses.Partitions.CurrentLeader"].tag_bytes(_LATEST)
#: Of a diverging epoch and, the same, of a snapshot id.
EPOCH_END_OFFSET_TAG_BYTES: Final = _RESPONSE["Responses.Partitions.SnapshotId"].tag_bytes(_LATEST)
