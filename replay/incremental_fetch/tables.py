"""Outcomes of incremental_fetch: FETCHes of topic partitions, and what the session cache did."""

from ..table import AT, BOOL, INT, LONG, NODE_ID, REQUEST_ID, TEXT, Column, Required, Table

FETCH_SESSION_OUTCOMES = Table.of_outcomes(
    "fetch_session_outcomes",
    "incremental_fetch: every FETCH of topic partitions, recorded and as each variant has it",
    (
        REQUEST_ID,
        Required("attempt", INT, "0; a FETCH that gets a session error is 0 and its retry 1"),
        NODE_ID,
        Column("session_key", TEXT, "node, session id, first request; or node, client, connection"),
        Column("client_id", TEXT, "clientId, null if the client sent none"),
        Column("client_kind", TEXT, "follower, consumer or consumer_without_sessions"),
        Column("replica_id", INT, "fetching replica, -1 for consumers"),
        Column("api_version", INT, "version that is counted"),
        Column("received_at", AT, "arrival"),
        Column("dequeued_at", AT, "the handler takes it"),
        Column("built_at", AT, "the response was built"),
        Column("session_id", INT, "sessionId of the request; null where it would be another one"),
        Column("session_epoch", INT, "sessionEpoch of the request; the draft has none"),
        Column("is_full", BOOL, "lists every partition of the session"),
        Column("session_partitions", INT, "partitions of the session after this request"),
        Column("request_partitions", INT, "partitions listed in the request"),
        Column("response_partitions", INT, "partitions listed in the response"),
        Column("forgotten_partitions", INT, "partitions taken out of the session"),
        Column("added_partitions", INT, "partitions new in the client's FETCH; null: not known"),
        Column("record_bytes", LONG, "records in the response"),
        Column("request_bytes", LONG, "on the wire: frame, header, body"),
        Column("response_bytes", LONG, "on the wire: frame, header, body"),
        Column("bytes_open", LONG, "so many bytes more the request, and the response, may have"),
        Column("session_error", INT, "70, 71 or 106 where the response is a session error, else 0"),
        Column("equals_recorded", BOOL, "same lists and bytes, both ways; null: not comparable"),
    ),
    key=("request_id", "attempt"),
)

FETCH_SESSION_EVICTIONS = Table.of_outcomes(
    "fetch_session_evictions",
    "incremental_fetch: what the session cache does with each session, per number of slots",
    (
        NODE_ID,
        Required("session_key", TEXT, "session that it happens to, as in fetch_session_outcomes"),
        Required("event", TEXT, "created, refused, evicted or closed"),
        Required("request_id", TEXT, "FETCH that caused it"),
        Column("event_at", AT, "when it happened"),
        Column("shard", INT, "shard of the cache, from 0; null after a gap in the log"),
        Column("partitions", INT, "partitions of the session"),
        Column("privileged", BOOL, "the session is a follower's"),
        Column("reason", TEXT, "why: idle, smaller, not privileged, cache full, all forgotten"),
    ),
    key=("node_id", "session_key", "event", "request_id"),
    verdict=False,
    holds_on=True,
)
