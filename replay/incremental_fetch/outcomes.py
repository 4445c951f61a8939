"""Outcomes of incremental_fetch: FETCHes of topic partitions, and what the session cache did.

A FETCH has bytes on the wire as a variant sends it: frame, header and body. Only the lists differ
between variants; the rest of a message (client id, rack, node endpoints) is the recorded one's.
FETCHes below v7 know no sessions and are counted at v7, as if upgraded.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from ..kafka.messages import FETCH, request_bytes, response_bytes
from ..kafka.messages.columns import Ints
from ..kafka.messages.sizes import TopicTotals, fetch_pieces
from ..log_tables import Fetches
from ..records import (
    NODE_ID,
    REASON,
    RECORDED,
    REQUEST_ID,
    VERDICT,
    Decided,
    OfVariant,
    Record,
    Variant,
    Verdict,
    WhatIf,
)
from ..table import At, Bool, Int, Long, RequiredInt, RequiredText, Text, column, key
from .lists import Partitions
from .recorded import SESSION_VERSION, RecordedFetch

NAME = "incremental_fetch"
FULL = "full"
INCREMENTAL = "incremental"
INCREMENTAL_DRAFT = "incremental_draft"
SESSION_SLOTS = "session_slots"


class ClientKind(StrEnum):
    FOLLOWER = "follower"
    CONSUMER = "consumer"
    CONSUMER_WITHOUT_SESSIONS = "consumer_without_sessions"


class FetchColumns(Record):
    """Columns of the recorded FETCH, which all its outcomes have."""

    request_id: RequiredText = REQUEST_ID
    attempt: RequiredInt = key("0; a FETCH that gets a session error is 0 and its retry 1")
    node_id: RequiredInt = NODE_ID
    session_key: Text = column("node, session id, first request; or node, client, connection")
    client_id: Text = column("clientId, null if the client sent none")
    client_kind: Text = column("follower, consumer or consumer_without_sessions")
    replica_id: Int = column("fetching replica, -1 for consumers")
    received_at: At = column("arrival")
    dequeued_at: At = column("the handler takes it")
    built_at: At = column("the response was built")


class Sent(
    Record, name="fetch_session_outcomes", rule=NAME, shares=(WhatIf, FetchColumns), eq=False
):
    """Every FETCH of topic partitions, recorded and as each variant has it.

    Null is what is not known, or not sent.
    """

    # Variants under which a FETCH comes out the same share one record; each has its row.
    equals_recorded: Bool = column("same lists and bytes, both ways; null: not comparable")
    verdict: Decided = VERDICT
    reason: Text = REASON
    api_version: Int = column("version that is counted")
    session_id: Int = column("sessionId of the request; null where it would be another one")
    session_epoch: Int = column("sessionEpoch of the request; the draft has none")
    is_full: Bool = column("lists every partition of the session")
    session_partitions: Int = column("partitions of the session after this request")
    request_partitions: Int = column("partitions listed in the request")
    response_partitions: Int = column("partitions listed in the response")
    forgotten_partitions: Int = column("partitions taken out of the session", default=0)
    added_partitions: Int = column("partitions new in the client's FETCH; null: not known")
    record_bytes: Long = column("records in the response")
    request_bytes: Long = column("on the wire: frame, header, body")
    response_bytes: Long = column("on the wire: frame, header, body")
    bytes_open: Long = column("bytes more that the request, and the response, may have", default=0)
    session_error: Int = column(
        "70, 71 or 106 where the response is a session error, else 0", default=0
    )


def nothing_sent(version: int, verdict: Verdict, reason: str) -> Sent:
    """Says why a protocol sends nothing, or why it is not known what."""
    return Sent(
        verdict=verdict,
        reason=reason,
        api_version=version,
        forgotten_partitions=None,
        bytes_open=None,
        session_error=None,
    )


class SessionCacheEvent(OfVariant, name="fetch_session_evictions", rule=NAME, holds_on=True):
    """Everything that the session cache does with each session, per number of slots."""

    node_id: RequiredInt = key(NODE_ID.comment)
    session_key: RequiredText = key("session that it happens to, as in fetch_session_outcomes")
    event: RequiredText = key("created, refused, evicted or closed")
    request_id: RequiredText = key("FETCH that caused it")
    event_at: At = column("when it happened")
    shard: Int = column("shard of the cache, from 0; null after a gap in the log")
    partitions: Int = column("partitions of the session")
    privileged: Bool = column("the session is a follower's")
    reason: Text = column("why: idle, smaller, not privileged, cache full, all forgotten")


def variants(session_slots: Iterable[int]) -> list[Variant]:
    """Returns variants without a cache, then one for each cache: unlimited, and of the sweep."""
    sweep = [Variant(INCREMENTAL, SESSION_SLOTS, slots) for slots in session_slots]
    return [*map(Variant, (RECORDED, FULL, INCREMENTAL_DRAFT, INCREMENTAL)), *sweep]


class Replayed(NamedTuple):
    """A FETCH as recorded and under every protocol.

    ``incremental``: what is sent under each cache; ``retries``: by the cache's number, what is sent
    again after a refusal.
    """

    recorded: Sent
    full: Sent
    draft: Sent
    incremental: Sequence[Sent]
    retries: Mapping[int, Sent] = {}


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
