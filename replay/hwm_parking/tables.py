"""Outcomes of hwm_parking: FETCHes of the metadata log, and when replicas learned."""

from ..table import AT, BOOL, INT, LONG, MS, TEXT, Column, Required, Table

FETCH_PARKING_OUTCOMES = Table.of_outcomes(
    "fetch_parking_outcomes",
    "hwm_parking: every FETCH of the metadata log, recorded and as each variant would have it",
    (
        Required("leader_id", INT, "controller that the FETCH was sent to"),
        Required("leader_epoch", INT, "its leader epoch"),
        Required("replica_id", INT, "replica that sent it"),
        Required("sequence", LONG, "from 0, of the replica's FETCHes in that epoch and variant"),
        Column("recorded_request_id", TEXT, "request_id (variant recorded), else null"),
        Column("is_voter", BOOL, "the replica is a voter"),
        Column("received_at", AT, "arrival"),
        Column("dequeued_at", AT, "the handler takes it"),
        Column("built_at", AT, "the response was built"),
        Column("completed_at", AT, "the response was sent"),
        Column("fetch_offset", LONG, "the replica's log end offset"),
        Column("replica_high_watermark", LONG, "high watermark the replica knew, -1 none"),
        Column("response_high_watermark", LONG, "high watermark in the response, -1 none"),
        Column("decision", TEXT, "immediate or parked"),
        Column(
            "completion",
            TEXT,
            "records, high_watermark, drain (by a flush without records: a stall), timeout, "
            "diverging, snapshot, error or unexplained",
        ),
        Column("parked_ms", MS, "until the response was built; 0: immediate, null: not known"),
        Column("record_bytes", LONG, "records in the response"),
        Column("request_bytes", LONG, "on the wire: frame, header, body"),
        Column("response_bytes", LONG, "on the wire: frame, header, body"),
    ),
    key=("leader_id", "leader_epoch", "replica_id", "sequence"),
)

HIGH_WATERMARK_LAG = Table.of_outcomes(
    "high_watermark_lag",
    "hwm_parking: how long after an advance of the high watermark a replica knew of it",
    (
        Required("leader_id", INT, "the leader"),
        Required("leader_epoch", INT, "its leader epoch"),
        Required("replica_id", INT, "the replica that learns"),
        Required("high_watermark", LONG, "what it advanced to"),
        Column("previous_high_watermark", LONG, "what it advanced from, -1 not known"),
        Column("is_change", BOOL, "of more than the NoOpRecord due each 500 ms; null: not known"),
        Column("is_voter", BOOL, "the replica is a voter"),
        Column("leader_at", AT, "dequeue time of the voter FETCH that moved it"),
        Column("previous_learned_at", AT, "of the advance before; leader_at where it was away"),
        Column("learned_at", AT, "the replica's first response built with a value >= it"),
        Column("is_hwm_aware", BOOL, "by a FETCH that carried a high watermark (KIP-1166)"),
        Column("lag_ms", MS, "learned_at - leader_at; null where it never learned or was away"),
        Column("phase", TEXT, "starting, steady or stopping"),
    ),
    key=("leader_id", "leader_epoch", "replica_id", "high_watermark"),
)
