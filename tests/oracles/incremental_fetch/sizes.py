"""What one FETCH takes on the wire as each variant lists it: frame, header and body.

Only the lists differ between variants; the rest of a message (client id, rack, node endpoints) is
the recorded one's. FETCHes below v7 know no sessions and are counted at v7, as if upgraded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from kip_replay.replay.kafka.messages.fetch_pieces import FetchPieces, fetch_pieces
from kip_replay.replay.kafka.messages.incremental_fetch_draft import IncrementalFetchPieces

from .recorded import (
    SESSION_VERSION,
    AskedPartition,
    PartitionKey,
    RecordedFetch,
    ToldPartition,
)
from .runs import TopicRuns
from .session import RequestLists

_NO_HIGH_WATERMARK = 2**63 - 1


def counted_version(api_version: int) -> int:
    """The version whose bytes are counted."""
    return max(api_version, SESSION_VERSION)


def topics_of(keys: Iterable[PartitionKey]) -> list[tuple[str, int]]:
    """Topic and length of each run of adjacent partitions of one topic."""
    return [(topic, sum(1 for _ in run)) for topic, run in groupby(keys, key=lambda key: key[0])]


class FetchSizes:
    """Sizes of one FETCH's request and response for whatever lists."""

    def __init__(self, row: RecordedFetch) -> None:
        pieces = fetch_pieces(counted_version(row.api_version))
        self._pieces: FetchPieces = pieces
        self._request = pieces.request_fixed_bytes(
            _utf8(row.client_id),
            rack_id_bytes=_utf8(row.rack_id),
            cluster_id_bytes=None if row.cluster_id is None else _utf8(row.cluster_id),
            has_replica_state=row.replica_id != -1 or row.replica_epoch != -1,
        )
        endpoints = [(_utf8(e.host), _utf8(e.rack)) for e in row.node_endpoints or ()]
        self._response = pieces.response_fixed_bytes(pieces.node_endpoints_tag_bytes(endpoints))
        self._error = pieces.response_fixed_bytes() + pieces.topics_prefix_bytes(0)
        self._nothing_forgotten = pieces.forgotten_prefix_bytes(0)

    @property
    def version(self) -> int:
        """The version that is counted."""
        return self._pieces.version

    @property
    def unchanged_partition_bytes(self) -> int:
        """A partition in a full response that brings nothing."""
        return self._pieces.response_partition_bytes(0)

    @property
    def plain_partition_bytes(self) -> int:
        """A partition in a full request, as clients and replica fetchers send it."""
        return self._pieces.request_partition_plain_bytes

    def asked_bytes(self, asked: AskedPartition) -> int:
        """A partition in a request."""
        return self._pieces.request_partition_bytes(
            has_directory_id=asked.replica_directory_id is not None,
            has_high_watermark=asked.high_watermark != _NO_HIGH_WATERMARK,
        )

    def told_bytes(self, told: ToldPartition) -> int:
        """A partition in a response."""
        return self._pieces.response_partition_bytes(
            told.record_bytes,
            told.aborted_transactions,
            has_diverging_epoch=told.diverging_epoch is not None,
            has_current_leader=told.current_leader_id is not None,
            has_snapshot_id=told.snapshot_epoch is not None,
        )

    def request(self, lists: RequestLists) -> int:
        """A request that lists these partitions."""
        size = self._request + self._topics(asked.key for asked in lists.partitions)
        size += sum(map(self.asked_bytes, lists.partitions))
        forgotten = [(_utf8(topic), n) for topic, n in topics_of(lists.forgotten)]
        return size + self._pieces.forgotten_bytes(forgotten)

    def response(self, told: Sequence[ToldPartition]) -> int:
        """A response that lists these partitions."""
        size = self._response + self._topics(partition.key for partition in told)
        return size + sum(map(self.told_bytes, told))

    def error_response(self) -> int:
        """A session error, which lists nothing."""
        return self._error

    def request_of_all(self, runs: TopicRuns, partitions: int, tagged_bytes: int) -> int:
        """A full request: ``tagged_bytes`` is what its partitions take beyond plain ones."""
        size = self._request + self._nothing_forgotten + self._runs(runs)
        return size + partitions * self.plain_partition_bytes + tagged_bytes

    def response_of_all(
        self, runs: TopicRuns, partitions: int, told: Iterable[ToldPartition]
    ) -> int:
        """A full response of so many partitions, of which ``told`` are not plainly unchanged."""
        unchanged = self.unchanged_partition_bytes
        size = self._response + self._runs(runs) + partitions * unchanged
        return size + sum(self.told_bytes(t) - unchanged for t in told)

    def response_of_listed(
        self, keys: Iterable[PartitionKey], told: Iterable[ToldPartition]
    ) -> int:
        """The same, of partitions in a given order."""
        listed = list(keys)
        unchanged = self.unchanged_partition_bytes
        size = self._response + self._topics(listed) + len(listed) * unchanged
        return size + sum(self.told_bytes(t) - unchanged for t in told)

    def _runs(self, runs: TopicRuns) -> int:
        runs.count_at(self._pieces.version)
        return self._pieces.topics_prefix_bytes(len(runs)) + runs.topics_bytes

    def _topics(self, keys: Iterable[PartitionKey]) -> int:
        return _topics_bytes(self._pieces, keys)


def _topics_bytes(pieces: FetchPieces, keys: Iterable[PartitionKey]) -> int:
    return pieces.topics_bytes((_utf8(topic), n) for topic, n in topics_of(keys))


def draft_request_bytes(
    pieces: IncrementalFetchPieces,
    row: RecordedFetch,
    listed: Sequence[AskedPartition],
    name_of: Callable[[str], str | None],
) -> int | None:
    """The draft's IncrementalFetchRequest; None where a topic's name is not known."""
    topics = _draft_topics(pieces, [asked.key for asked in listed], name_of)
    if topics is None:
        return None
    partitions = sum(pieces.request_partition_bytes(asked.partition) for asked in listed)
    return pieces.request_fixed_bytes(_utf8(row.client_id)) + topics + partitions


def draft_response_bytes(
    pieces: IncrementalFetchPieces,
    told: Sequence[ToldPartition],
    name_of: Callable[[str], str | None],
) -> int | None:
    """The draft's IncrementalFetchResponse; None where a topic's name is not known."""
    topics = _draft_topics(pieces, [partition.key for partition in told], name_of)
    if topics is None:
        return None
    partitions = sum(
        pieces.response_partition_bytes(p.record_bytes, p.aborted_transactions) for p in told
    )
    return pieces.response_fixed_bytes() + topics + partitions


def _draft_topics(
    pieces: IncrementalFetchPieces,
    keys: Sequence[PartitionKey],
    name_of: Callable[[str], str | None],
) -> int | None:
    names = [name_of(topic) for topic, _ in topics_of(keys)]
    known = [name for name in names if name is not None]
    if len(known) < len(names):
        return None
    return sum(pieces.topic_bytes(_utf8(name)) for name in known)


def _utf8(text: str | None) -> int:
    return len((text or "").encode())
