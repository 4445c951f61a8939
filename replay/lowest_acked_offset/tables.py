"""Outcomes of lowest_acked_offset: of heartbeats, of writes, and of what brokers had applied."""

from ..log_gaps import LOG_GAP as LOG_GAP
from ..records import REQUEST_ID, Outcome, Variant
from ..table import (
    At,
    Bool,
    Int,
    Long,
    Ms,
    RequiredInt,
    RequiredLong,
    RequiredText,
    Text,
    column,
    key,
)

NAME = "lowest_acked_offset"
LOWEST_ACKED = "lowest_acked_offset"
#: What brokers had applied by ``applying``; its rows of metadata_write_visibility are named so too.
ESTIMATED = "estimated"
HEARTBEAT_INTERVAL = "broker_heartbeat_interval_ms"
#: What the recorded heartbeats give.
AS_RECORDED = Variant(LOWEST_ACKED)

# --- Why an outcome is unknown, or the question does not apply: texts of ``reason`` -------------

# Of a heartbeat.
NOT_ACTIVE = "sent to a controller that was not active, or refused"
NOT_HEARD_YET = "the log begins: a broker that has not been heard yet may be unfenced"
SILENT = "it depends on a silent broker, which the controller may have fenced or not"
NOBODY_COUNTS = "no broker is unfenced"

# Of a write's offsets.
NO_HIGH_WATERMARK = "the log does not tell the high watermark yet (not every voter has fetched)"
SINGLE_VOTER = "a single voter commits alone: no FETCH tells its high watermark"
RESPONSE_MISSING = "response missing from the log"
NOTHING_WRITTEN = "it wrote nothing: what it requested was so already"

# Of what became of a write.
LOG_ENDS = "the log ends before it"
HORIZON = "not within 60 s of the response"
NO_ARRIVAL = "the log does not have it at the broker that forwarded it, where it arrived"
LEFT = "the broker that forwarded it stopped or was fenced before it learned"
NOT_LEARNED = "no learned high watermarks of this variant: replay hwm_parking first"
NOT_CARRIED = "the log has no FETCH response that carried its commit to the broker"
NO_NEXT_FETCH = "the log ends before the broker's next FETCH"
STARTING = "no heartbeat shows yet that the broker was unfenced"
SLOW = "a heartbeat shows that the broker was slow, and none when it had applied it"
UNKNOWN_WORK = "the log does not have the creation of a topic that is deleted there"


class HeartbeatOutcome(Outcome, name="heartbeat_outcomes", rule=NAME):
    """Every recorded BROKER_HEARTBEAT and what its response would have carried."""

    request_id: RequiredText = REQUEST_ID
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


class WriteOutcome(Outcome, name="metadata_write_outcomes", rule=NAME):
    """Every successful metadata write, when it was applied and who knew."""

    request_id: RequiredText = REQUEST_ID
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


class VisibilityOutcome(Outcome, name="metadata_write_visibility", rule=NAME):
    """When each broker had applied a metadata write, by kind of evidence."""

    request_id: RequiredText = REQUEST_ID
    broker_id: RequiredInt = key("broker that applies it")
    evidence: RequiredText = key(
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


class AppliedOffset(Outcome, name="applied_offsets", rule=NAME):
    """When a broker learned of commits, showed them and had applied them."""

    broker_id: RequiredInt = key("the broker")
    metadata_offset: RequiredLong = key("it learned that all up to this one is committed")
    learned_at: At = column("the FETCH response that carried that was built")
    shown_at: At = column("estimate: from then on its METADATA responses show it")
    applied_at: At = column("estimate: it has applied it, as its heartbeats would carry")


class ShownEverywhere(Outcome, name="shown_everywhere", rule=NAME):
    """When all brokers that count showed an offset, whoever wrote it."""

    metadata_offset: RequiredLong = key("they show all up to this one")
    committed_at: At = column("the first above the row before was; null without KIP-1166")
    previous_learned_at: At = column("learned_at of the row before; null: unknown")
    learned_at: At = column("the first FETCH response that carried that was built")
    shown_at: At = column("estimate: from then on METADATA responses of the last show it")


#: In the order of the batches that are emitted.
OUTCOMES: tuple[type[Outcome], ...] = (
    HeartbeatOutcome,
    WriteOutcome,
    VisibilityOutcome,
    AppliedOffset,
    ShownEverywhere,
)
#: Columns of ``VisibilityOutcome`` that are null where it rests on lines that are missing.
VISIBLE = ("applied_at_earliest", "applied_at_latest", "shown_at", "applied_at", "known_at")
