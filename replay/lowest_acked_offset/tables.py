"""Outcomes of lowest_acked_offset: heartbeats, and when metadata writes were applied."""

from ..table import AT, BOOL, INT, LONG, MS, REQUEST_ID, TEXT, Column, Required, Table

HEARTBEAT_OUTCOMES = Table.of_outcomes(
    "heartbeat_outcomes",
    "lowest_acked_offset: every recorded BROKER_HEARTBEAT and what its response would have carried",
    (
        REQUEST_ID,
        Required("controller_id", INT, "controller that responded"),
        Column("broker_id", INT, "broker that sent it"),
        Column("received_at", AT, "arrival"),
        Column("built_at", AT, "the response was built"),
        Column("current_metadata_offset", LONG, "last offset the broker has applied, inclusive"),
        Column("is_fenced", BOOL, "the broker after this heartbeat"),
        Column("unfenced_brokers", INT, "brokers that count, after this heartbeat"),
        Column("lowest_acknowledged_offset", LONG, "that the response would carry; never falls"),
        Column("lowest_acknowledged_offset_raw", LONG, "as the controller would compute it"),
        Column("response_bytes", LONG, "recorded, on the wire: frame, header, body"),
        Column("replayed_response_bytes", LONG, "with the new field"),
    ),
    key=("request_id",),
)

METADATA_WRITE_OUTCOMES = Table.of_outcomes(
    "metadata_write_outcomes",
    "lowest_acked_offset: every successful metadata write, when it was applied and who knew",
    (
        REQUEST_ID,
        Column("controller_id", INT, "controller that wrote it"),
        Column("api_name", TEXT, "requestApiKeyName"),
        Column("client_id", TEXT, "clientId of the request, also where a broker forwarded it"),
        Column("via_broker", INT, "broker that forwarded it; null: sent to the controller"),
        Column("received_at", AT, "arrival at the broker that forwarded it, else the controller"),
        Column("responded_at", AT, "the controller had built the response"),
        Column("offset_low", LONG, "its last record's offset is at least this"),
        Column("offset_high", LONG, "and at most this"),
        Column(
            "applied_everywhere_at",
            AT,
            "every broker that counts had applied it: the latest that the evidence leaves;"
            " with a heartbeat interval: as modelled from when brokers learned of commits;"
            " variant estimated: every broker shows it, by shown_at of applied_offsets",
        ),
        Column("last_broker_id", INT, "broker that others waited for, maybe until it was fenced"),
        Column("known_at", AT, "via_broker receives a lowest acknowledged offset >= the write's"),
        Column("known_everywhere_at", AT, "every broker that counts by then received one"),
        Column("stale_window_ms", MS, "today: from the response until applied everywhere"),
        Column(
            "read_after_write_ms",
            MS,
            "under the rule: from the request until via_broker"
            " (else every broker) knows it applied everywhere;"
            " variant estimated: until it was, whether anybody knew or not;"
            " null where the log does not have the request at via_broker",
        ),
    ),
    key=("request_id",),
)

METADATA_WRITE_VISIBILITY = Table.of_outcomes(
    "metadata_write_visibility",
    "lowest_acked_offset: when each broker had applied a metadata write, by kind of evidence",
    (
        REQUEST_ID,
        Required("broker_id", INT, "broker that applies it"),
        Required(
            "evidence",
            TEXT,
            "heartbeat, api_versions or fetch_high_watermark; estimated: no evidence, but when it"
            " was, between the FETCH response that carried the commit and a heartbeat",
        ),
        Column(
            "applied_at_earliest",
            AT,
            "last sign that it had not applied it, at the soonest the write's commit; estimated:"
            " the FETCH response that carried the commit was built",
        ),
        Column(
            "applied_at_latest",
            AT,
            "first sign that it had; fetch_high_watermark: 500 ms after the broker knew it to be"
            " committed, later where it creates replicas, null where a heartbeat denies it",
        ),
        Column("shown_at", AT, "estimated: from then on its METADATA responses show it"),
        Column("applied_at", AT, "estimated: it has applied it, as its heartbeats would carry"),
        Column("known_at", AT, "the broker receives a lowest acknowledged offset >= the write's"),
    ),
    key=("request_id", "broker_id", "evidence"),
)

APPLIED_OFFSETS = Table.of_outcomes(
    "applied_offsets",
    "lowest_acked_offset: when a broker learned of commits, showed them and had applied them",
    (
        Required("broker_id", INT, "the broker"),
        Required("metadata_offset", LONG, "it learned that all up to this one is committed"),
        Column("learned_at", AT, "the FETCH response that carried that was built"),
        Column("shown_at", AT, "estimate: from then on its METADATA responses show it"),
        Column("applied_at", AT, "estimate: it has applied it, as its heartbeats would carry"),
    ),
    key=("broker_id", "metadata_offset"),
)

SHOWN_EVERYWHERE = Table.of_outcomes(
    "shown_everywhere",
    "lowest_acked_offset: when all brokers that count showed an offset, whoever wrote it",
    (
        Required("metadata_offset", LONG, "they show all up to this one"),
        Column("committed_at", AT, "KIP-1166: the first above the row before was; else null"),
        Column("previous_learned_at", AT, "learned_at of the row before; null: unknown"),
        Column("learned_at", AT, "the first FETCH response that carried that was built"),
        Column("shown_at", AT, "estimate: from then on METADATA responses of the last show it"),
    ),
    key=("metadata_offset",),
)

_OF_WRITES = (METADATA_WRITE_OUTCOMES, METADATA_WRITE_VISIBILITY)
TABLES = (HEARTBEAT_OUTCOMES, *_OF_WRITES, APPLIED_OFFSETS, SHOWN_EVERYWHERE)
