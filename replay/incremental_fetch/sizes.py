"""What one FETCH takes on the wire as each variant lists it: frame, header and body.

Only the lists differ between variants; the rest of a message (client id, rack, node endpoints) is
the recorded one's. FETCHes below v7 know no sessions and are counted at v7, as if upgraded.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kip_replay.replay.kafka.messages.encoding import Ints
from kip_replay.replay.kafka.messages.fetch import DIRECTORY_ID_TAG_BYTES, HIGH_WATERMARK_TAG_BYTES
from kip_replay.replay.kafka.messages.fetch_pieces import fetch_pieces
from kip_replay.replay.kafka.messages.incremental_fetch_draft import IncrementalFetchPieces

from .partitions import UNKNOWN, Partitions
from .recorded import SESSION_VERSION, Endpoint, RecordedFetch
from .topics import TopicTotals

_NOTHING_TAGGED = (0, 0)


def counted_version(api_version: int) -> int:
    """The version whose bytes are counted."""
    return max(api_version, SESSION_VERSION)


class FetchSizes:
    """Sizes of a FETCH's request and response for whatever lists.

    Lists are given by what their topics take, how many partitions there are, and what these take
    beyond plain ones.
    """

    def __init__(
        self,
        version: int,
        client_id: str | None,
        rack_id: str | None,
        cluster_id: str | None,
        has_replica_state: bool,
        node_endpoints: tuple[Endpoint, ...],
    ) -> None:
        self._pieces = pieces = fetch_pieces(version)
        self._request = pieces.request_fixed_bytes(
            _utf8(client_id),
            rack_id_bytes=_utf8(rack_id),
            cluster_id_bytes=None if cluster_id is None else _utf8(cluster_id),
            has_replica_state=has_replica_state,
        )
        self._asked = pieces.request_partition_plain_bytes
        self._directory_id = DIRECTORY_ID_TAG_BYTES * (version >= 17)
        self._high_watermark = HIGH_WATERMARK_TAG_BYTES * (version >= 18)
        endpoints = [(_utf8(e.host), _utf8(e.rack)) for e in node_endpoints]
        self._response = pieces.response_fixed_bytes(pieces.node_endpoints_tag_bytes(endpoints))
        self._told = pieces.response_partition_bytes(0)
        self._nothing_forgotten = pieces.forgotten_prefix_bytes(0)
        #: A session error, which lists nothing.
        self.error_response = pieces.response_fixed_bytes() + pieces.topics_prefix_bytes(0)

    def request(
        self,
        topics: TopicTotals,
        partitions: int,
        tagged: tuple[int, int] = _NOTHING_TAGGED,
        forgotten_bytes: int | None = None,
    ) -> int:
        """A request; of its partitions ``tagged`` have a directory id and a high watermark."""
        size = self._request + topics.bytes_at(self._pieces) + partitions * self._asked
        if tagged != _NOTHING_TAGGED:
            size += tagged[0] * self._directory_id + tagged[1] * self._high_watermark
        return size + (self._nothing_forgotten if forgotten_bytes is None else forgotten_bytes)

    def response(self, topics: TopicTotals, partitions: int, more_bytes: int) -> int:
        """A response; ``more_bytes`` is what partitions take beyond those that bring nothing."""
        topics_bytes = topics.bytes_at(self._pieces)
        return self._response + topics_bytes + partitions * self._told + more_bytes

    def forgotten(self, numbering: Partitions, partitions: list[int]) -> int:
        """The list of partitions that a request forgets, in order."""
        topics = _runs(numbering.topic_of[partitions])
        return self._pieces.forgotten_bytes(
            (int(numbering.topic_utf8_bytes[topic]), length) for topic, length in topics
        )


_sizes = lru_cache(maxsize=4096)(FetchSizes)


def sizes_of(row: RecordedFetch) -> FetchSizes:
    """Sizes of a FETCH like this one."""
    return _sizes(
        counted_version(row.api_version),
        row.client_id,
        row.rack_id,
        row.cluster_id,
        row.replica_id != -1 or row.replica_epoch != -1,
        row.node_endpoints,
    )


class DraftSizes:
    """Sizes of the draft's two messages, which go by topic names."""

    def __init__(self, partition_id_is_string: bool, numbering: Partitions) -> None:
        self._pieces = IncrementalFetchPieces(partition_id_is_string)
        self._numbering = numbering
        self._told = self._pieces.response_partition_bytes(0)

    def request(self, client_id: str | None, partitions: Ints, by_id: bool) -> int | None:
        """Partitions asked for, by number; None where a topic's name is not known."""
        topics = self._topics(self._numbering.topic_of[partitions], by_id)
        if topics is None:
            return None
        asked = self._pieces.request_partition_bytes
        listed = (
            sum(map(asked, self._numbering.index_of[partitions].tolist()))
            if self._pieces.partition_id_is_string
            else len(partitions) * asked(0)
        )
        return self._pieces.request_fixed_bytes(_utf8(client_id)) + topics + listed

    def response(self, topics_told: Ints, more_bytes: int, by_id: bool) -> int | None:
        """Partitions told, of these topics; ``more_bytes`` is of records and transactions."""
        topics = self._topics(topics_told, by_id)
        if topics is None:
            return None
        return (
            self._pieces.response_fixed_bytes()
            + topics
            + len(topics_told) * self._told
            + more_bytes
        )

    def _topics(self, topics: Ints, by_id: bool) -> int | None:
        if not len(topics):
            return 0
        runs = topics
        if len(topics) > 1:
            runs = topics[np.append(0, np.flatnonzero(topics[1:] != topics[:-1]) + 1)]
        names = self._numbering.name_bytes(by_id)[runs]
        if np.count_nonzero(names == UNKNOWN):
            return None
        return len(runs) * self._pieces.topic_bytes(0) + int(np.add.reduce(names))


def _runs(topics: Ints) -> list[tuple[int, int]]:
    """Topic and length of each run of equal ones."""
    if not len(topics):
        return []
    starts = np.append(0, np.flatnonzero(topics[1:] != topics[:-1]) + 1)
    lengths = np.diff(starts, append=len(topics))
    return list(zip(topics[starts].tolist(), lengths.tolist(), strict=True))


def _utf8(text: str | None) -> int:
    return len((text or "").encode())
