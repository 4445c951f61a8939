"""A FETCH as a variant sends it, and its bytes on the wire: frame, header and body.

Only the lists differ between variants; the rest of a message (client id, rack, node endpoints) is
the recorded one's. FETCHes below v7 know no sessions and are counted at v7, as if upgraded.
"""

from functools import lru_cache

from ..kafka.messages.encoding import Ints
from ..kafka.messages.sizes import TopicTotals, fetch_pieces
from .lists import Partitions
from .recorded import SESSION_VERSION, Endpoint, RecordedFetch


def counted_version(api_version: int) -> int:
    """Returns the version whose bytes are counted."""
    return max(api_version, SESSION_VERSION)


class FetchSizes:
    """Sizes of a FETCH's request and response, whatever they list."""

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
            utf8(client_id),
            rack_id_bytes=utf8(rack_id),
            cluster_id_bytes=None if cluster_id is None else utf8(cluster_id),
            has_replica_state=has_replica_state,
        )
        endpoints = [(utf8(host), utf8(rack)) for host, rack in node_endpoints]
        self._response = pieces.response_fixed_bytes(endpoints)
        #: No topics.
        self.nothing = pieces.topics_bytes(TopicTotals())
        #: A session error, which lists nothing.
        self.error_response = pieces.response_fixed_bytes() + self.nothing

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
        row.client_id,
        row.rack_id,
        row.cluster_id,
        row.replica_id != -1 or row.replica_epoch != -1,
        row.node_endpoints,
    )


def utf8(text: str | None) -> int:
    return len((text or "").encode())
