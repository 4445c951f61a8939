"""Outcomes of min_isr_acks: partitions of PRODUCEs, and PRODUCEs of producers that react."""

from collections.abc import Sequence

import pyarrow as pa

from ..outcomes import Variant
from ..table import AT, BOOL, INT, LONG, MS, NODE_ID, REQUEST_ID, TEXT, Column, Required, Table

_BOUNDS = (
    ("", "the request's slowest partition"),
    ("_earliest", "98 % bound: the least that the log allows"),
    ("_latest", "98 % bound: the most that the log allows"),
)
PRODUCE_ACK_OUTCOMES = Table.of_outcomes(
    "produce_ack_outcomes",
    "min_isr_acks: every partition of a PRODUCE, recorded, with acks=all and with"
    " acks=min.insync.replicas",
    (
        REQUEST_ID,
        NODE_ID,
        Required("topic", TEXT, "topic name, else topic id"),
        Required("partition", INT, "partition index"),
        Column("client_id", TEXT, "clientId, null if the client sent none"),
        Column("acks", INT, "as recorded: -1 all, 0, 1"),
        Column("is_transactional", BOOL, "has a transactionalId"),
        Column("is_idempotent", BOOL, "null where no transactionalId or INIT_PRODUCER_ID shows it"),
        Column("record_bytes", LONG, "records of this partition"),
        Column("received_at", AT, "arrival of the request"),
        Column("appended_at", AT, "the leader's log has the batch"),
        Column("built_at", AT, "the recorded response was built"),
        Column("base_offset", LONG, "first offset of the batch; null where the log can't tell"),
        Column("last_offset", LONG, "last offset of the batch; null where the log can't tell"),
        Column("min_insync_replicas", INT, "in force at the append"),
        Column("isr", pa.list_(INT), "committed ISR at the append, ascending; null: not known"),
        Column("all_isr_acked_at", AT, "the high watermark passed it: acks=all gets its response"),
        Column("min_isr_acked_at", AT, "min.insync.replicas replicas had it"),
        Column("visible_at", AT, "consumers can see it: the high watermark passed it"),
        Column("acks_all_follower_id", INT, "whose FETCH completes acks=all; null: nobody's"),
        Column("acks_all_fetch_id", TEXT, "that FETCH's key in requests"),
        Column("min_isr_follower_id", INT, "whose FETCH completes acks=-2; null: nobody's"),
        Column("min_isr_fetch_id", TEXT, "that FETCH's key in requests"),
        Column(
            "missing_followers", pa.list_(INT), "in the ISR at the append; acks=all came without"
        ),
        Column("recorded_error", INT, "Kafka's error code in the log; null without a response"),
        Column("acks_all_error", INT, "error code with acks=all; null: not known"),
        Column("min_isr_error", INT, "error code with acks=min.insync.replicas; null: not known"),
        Column("todays_min_isr_error", INT, "what a broker returns for acks=-2 today: 21"),
        Column("partition_recorded_latency_ms", MS, "of a request with this partition only"),
        Column("partition_acks_all_latency_ms", MS, "arrival until the response with acks=all"),
        Column("partition_min_isr_latency_ms", MS, "arrival until the response with acks=-2"),
        Column("request_recorded_latency_ms", MS, "arrival until the response was built"),
        *(
            Column(f"request_{response}_latency{bound}_ms", MS, comment)
            for response in ("acks_all", "min_isr")
            for bound, comment in _BOUNDS
        ),
        Column("replicas_at_min_isr_ack", INT, "replicas, leader included, that had it then"),
        Column("min_insync_replicas_at_ack", INT, "min.insync.replicas in force at the early ack"),
        Column("exposure_ms", MS, "from the early ack until the whole ISR had it"),
    ),
    key=("request_id", "topic", "partition"),
)

PRODUCE_CLOSED_LOOP_OUTCOMES = Table.of_outcomes(
    "produce_closed_loop_outcomes",
    "min_isr_acks: every PRODUCE that waited for all replicas in a cluster whose producers react:"
    " what comes behind an earlier response is sent when it was ready",
    (
        REQUEST_ID,
        NODE_ID,
        Column("client_id", TEXT, "clientId, null if the client sent none"),
        Column("is_own", BOOL, "came more than 20 ms after its connection's previous response"),
        Column("recorded_received_at", AT, "arrival in the log"),
        Column("received_at", AT, "arrival in the other cluster, estimated"),
        Column("request_recorded_latency_ms", MS, "arrival until the response was built"),
        Column("latency_ms", MS, "in the other cluster: the estimate"),
        Column("latency_sent_earliest_ms", MS, "if all were sent as early as the log allows"),
        Column("latency_sent_latest_ms", MS, "if all were sent as late as the log allows"),
        Column("error_code", INT, "Kafka's error code of the response; null: not known"),
    ),
    key=("request_id",),
)


RULE = "min_isr_acks"
ACKS_SCHEMA = PRODUCE_ACK_OUTCOMES.without("recording")
#: The rule's variant; its parameter is none (the config in force) or min_insync_replicas.
ACKS_MIN_INSYNC_REPLICAS = "acks_min_insync_replicas"
#: What summaries call the replay of acks=all; its columns stand in the same rows.
ACKS_ALL = "acks_all"
SWEPT = "min_insync_replicas"


def variants(min_insync_replicas: Sequence[int] = ()) -> list[Variant]:
    """The rule with the config in force, then with each value for all topics."""
    swept = [Variant(ACKS_MIN_INSYNC_REPLICAS, SWEPT, value) for value in min_insync_replicas]
    return [Variant(ACKS_MIN_INSYNC_REPLICAS), *swept]
