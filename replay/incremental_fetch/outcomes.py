"""Outcomes of incremental_fetch: FETCHes of topic partitions, and what the session cache did."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

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
