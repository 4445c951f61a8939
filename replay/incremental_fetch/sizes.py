"""A FETCH as a variant sends it, and its bytes on the wire: frame, header and body.

Only the lists differ between variants; the rest of a message (client id, rack, node endpoints) is
the recorded one's. FETCHes below v7 know no sessions and are counted at v7, as if upgraded.
"""

from functools import lru_cache

import pyarrow as pa

from ..kafka.messages import FETCH, request_bytes, response_bytes
from ..kafka.messages.columns import Ints
from ..kafka.messages.sizes import TopicTotals, fetch_pieces
from ..log_tables import Fetches
from .lists import Partitions
from .recorded import SESSION_VERSION, RecordedFetch


def counted_version(api_version: int) -> int:
    """Returns the version whose bytes are counted."""
    return max(api_version, SESSION_VERSION)


class FetchSizes:
    """Sizes of a FETCH's request and response, whatever they list.

    Of names, their lengths in UTF-8 count: they are those of a FETCH with other names.
    """

    def __init__(
        self,
        version: int,
        client_id_bytes: int,
        rack_id_bytes: int,
        cluster_id_bytes: int | None,
        has_replica_state: bool,
        node_endpoints: tuple[tuple[int, int], ...],
    ) -> None:
        self._pieces = pieces = fetch_pieces(version)
        endpoints = [{"host": "h" * host, "rack": "r" * rack} for host, rack in node_endpoints]
        row = {
            "api_version": version,
            "client_id": "c" * client_id_bytes,
            "rack_id": "r" * rack_id_bytes,
            "cluster_id": None if cluster_id_bytes is None else "c" * cluster_id_bytes,
            "replica_id": 0 if has_replica_state else -1,
            "max_wait_ms": 0,
            "error_code": 0,
            "node_endpoints": endpoints,
        }
        rows = [row, row | {"node_endpoints": []}]
        batch = pa.RecordBatch.from_pylist(rows, Fetches.arrow_schema)
        #: No topics.
        self.nothing = pieces.topics_bytes(TopicTotals())
        # Topics and forgotten topics are counted by themselves.
        self._request: int = request_bytes(FETCH, batch)[0].as_py() - 2 * self.nothing
        responses: list[int] = response_bytes(FETCH, batch).to_pylist()
        self._response = responses[0] - self.nothing
        #: A session error, which lists nothing.
        self.error_response = responses[1]

    def topics(self, topics: TopicTotals) -> int:
        return self._pieces.topics_bytes(topics)

    def request(self, topics: TopicTotals, partitions: int, forgotten_bytes: int) -> int:
        """Counts a request, whose partitions have no tagged fields."""
        size = self._request + self._pieces.topics_bytes(topics) + forgotten_bytes
        return size + partitions * self._pieces.request_partition_bytes

    def response(self, topics: TopicTotals, partitions: int, more_bytes: int) -> int:
        """Counts a response; ``more_bytes`` is what partitions take beyond empty ones."""
        size = self._response + self._pieces.topics_bytes(topics) + more_bytes
        return size + partitions * self._pieces.response_partition_bytes

    def forgotten(self, numbering: Partitions, partitions: Ints) -> int:
        """Counts the list of partitions that a request forgets, in order."""
        if not len(partitions):
            return self.nothing
        topics = numbering.totals(numbering.topic_of[partitions])
        return self._pieces.topics_bytes(topics) + 4 * len(partitions)


_sizes = lru_cache(maxsize=4096)(FetchSizes)


def sizes_of(row: RecordedFetch) -> FetchSizes:
    """Sizes of a FETCH like this one."""
    return _sizes(
        counted_version(row.api_version),
        utf8(row.client_id),
        utf8(row.rack_id),
        None if row.cluster_id is None else utf8(row.cluster_id),
        row.replica_id != -1 or row.replica_epoch != -1,
        tuple((utf8(host), utf8(rack)) for host, rack in row.node_endpoints),
    )


def utf8(text: str | None) -> int:
    return len((text or "").encode())
