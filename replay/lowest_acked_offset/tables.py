"""Outcomes of lowest_acked_offset: of heartbeats, of writes, and of what brokers had applied."""

from ..outcomes import Variant
from ..records import (
    At,
    Bool,
    Int,
    Long,
    Ms,
    Outcome,
    RequiredInt,
    RequiredLong,
    RequiredText,
    Text,
    column,
    outcome_table,
)
from ..table import REQUEST_ID, Table

NAME = "lowest_acked_offset"
LOWEST_ACKED = "lowest_acked_offset"
#: What brokers had applied by ``applying``; its rows of metadata_write_visibility are named so too.
ESTIMATED = "estimated"
HEARTBEAT_INTERVAL = "broker_heartbeat_interval_ms"
#: What the recorded heartbeats give.
AS_RECORDED = Variant(LOWEST_ACKED)


class HeartbeatOutcome(Outcome):
    """Every recorded BROKER_HEARTBEAT and what its response would have carried."""

    request_id: RequiredText = column(REQUEST_ID.comment)
    controller_id: RequiredInt = column("controller that responded")
    broker_id: Int = column("broker that sent it")
    received_at: At = column("arrival")
    built_at: At = column("the response was built")
    current_metadata_offset: Long = column("last offset the broker has applied, inclusive")
    is_fenced: Bool = column("the broker after this heartbeat")
    unfenced_brokers: Int = column("brokers that count, after this heartbeat")
    lowest_acknowledged_offset: Long = column("that the response would carry; never falls")
    lowest_acknowledged_offset_raw: Long = column("as the controller would compute it")
    response_bytes: Long = column("recorded, on the wire: frame, header, body")
    replayed_response_bytes: Long = column("with the new field")


class WriteOutcome(Outcome):
    """Every successful metadata write, when it was applied and who knew."""

    request_id: RequiredText = column(REQUEST_ID.comment)
    controller_id: Int = column("controller that wrote it")
    api_name: Text = column("requestApiKeyName")
    client_id: Text = column("clientId of the request, also where a broker forwarded it")
    via_broker: Int = column("broker that forwarded it; null: sent to the controller")
    received_at: At = column("arrival at the broker that forwarded it, else the controller")
    responded_at: At = column("the controller had built the response")
    offset_low: Long = column("its last record's offset is at least this")
    offset_high: Long = column("and at most this")
    applied_everywhere_at: At = column(
        "every broker that counts had applied it: the latest that the evidence leaves;"
        " with a heartbeat interval: as modelled from when brokers learned of commits;"
        " variant estimated: every broker shows it, by shown_at of applied_offsets",
    )
    last_broker_id: Int = column("broker that others waited for, maybe until it was fenced")
    known_at: At = column("via_broker receives a lowest acknowledged offset >= the write's")
    known_everywhere_at: At = column("every broker that counts by then received one")
    stale_window_ms: Ms = column("today: from the response until applied everywhere")
    read_after_write_ms: Ms = column(
        "under the rule: from the request until via_broker"
        " (else every broker) knows it applied everywhere;"
        " variant estimated: until it was, whether anybody knew or not;"
        " null where the log does not have the request at via_broker",
    )


class VisibilityOutcome(Outcome):
    """When each broker had applied a metadata write, by kind of evidence."""

    request_id: RequiredText = column(REQUEST_ID.comment)
    broker_id: RequiredInt = column("broker that applies it")
    evidence: RequiredText = column(
        "heartbeat, api_versions or fetch_high_watermark; estimated: no evidence, but when it"
        " was, between the FETCH response that carried the commit and a heartbeat",
    )
    applied_at_earliest: At = column(
        "last sign that it had not applied it, at the soonest the write's commit; estimated:"
        " the FETCH response that carried the commit was built",
    )
    applied_at_latest: At = column(
        "first sign that it had; fetch_high_watermark: its heartbeat, as no FETCH shows that",
    )
    shown_at: At = column("estimated: from then on its METADATA responses show it")
    applied_at: At = column("estimated: it has applied it, as its heartbeats would carry")
    known_at: At = column("the broker receives a lowest acknowledged offset >= the write's")


class AppliedOffset(Outcome):
    """When a broker learned of commits, showed them and had applied them."""

    broker_id: RequiredInt = column("the broker")
    metadata_offset: RequiredLong = column("it learned that all up to this one is committed")
    learned_at: At = column("the FETCH response that carried that was built")
    shown_at: At = column("estimate: from then on its METADATA responses show it")
    applied_at: At = column("estimate: it has applied it, as its heartbeats would carry")


class ShownEverywhere(Outcome):
    """When all brokers that count showed an offset, whoever wrote it."""

    metadata_offset: RequiredLong = column("they show all up to this one")
    committed_at: At = column("KIP-1166: the first above the row before was; else null")
    previous_learned_at: At = column("learned_at of the row before; null: unknown")
    learned_at: At = column("the first FETCH response that carried that was built")
    shown_at: At = column("estimate: from then on METADATA responses of the last show it")


HEARTBEAT_OUTCOMES = outcome_table("heartbeat_outcomes", NAME, HeartbeatOutcome, ("request_id",))
METADATA_WRITE_OUTCOMES = outcome_table(
    "metadata_write_outcomes", NAME, WriteOutcome, ("request_id",)
)
METADATA_WRITE_VISIBILITY = outcome_table(
    "metadata_write_visibility", NAME, VisibilityOutcome, ("request_id", "broker_id", "evidence")
)
APPLIED_OFFSETS = outcome_table(
    "applied_offsets", NAME, AppliedOffset, ("broker_id", "metadata_offset")
)
SHOWN_EVERYWHERE = outcome_table("shown_everywhere", NAME, ShownEverywhere, ("metadata_offset",))
#: Tables by record class, in the order of the batches that are emitted.
OUTCOMES: dict[type[Outcome], Table] = {
    HeartbeatOutcome: HEARTBEAT_OUTCOMES,
    WriteOutcome: METADATA_WRITE_OUTCOMES,
    VisibilityOutcome: METADATA_WRITE_VISIBILITY,
    AppliedOffset: APPLIED_OFFSETS,
    ShownEverywhere: SHOWN_EVERYWHERE,
}
#: Columns that say nothing where an outcome rests on lines that are missing.
VISIBLE = ("applied_at_earliest", "applied_at_latest", "shown_at", "applied_at", "known_at")
