"""Every Delta table of the warehouse: name, columns, types, comments, keys. Said once, here.

Readers and writers import these; ``pipelines.warehouse`` turns them into Delta tables (schema,
column comments, nullability), ``docs/tables.md`` is printed from them and the tests compare what
is on disk with them. Types are Arrow's, so that the rules need no Spark to name their output.

Conventions
-----------
* times are UTC with microseconds (``AT``), durations ``*_ms`` are DOUBLE, sizes ``*_bytes`` BIGINT;
* ``recording`` is the first column of every table and the first column of every key;
* a key column is never null.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

AT = pa.timestamp("us", tz="UTC")
TEXT = pa.string()
INT = pa.int32()
LONG = pa.int64()
MS = pa.float64()
BOOL = pa.bool_()


@dataclass(frozen=True)
class Column:
    """A column: its name, Arrow type, its Delta column comment, and whether null may be."""

    name: str
    type: pa.DataType
    comment: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """A Delta table.

    ``key`` columns together are unique and never null. ``partitioned_by`` is Delta's partitioning.
    """

    name: str
    comment: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    partitioned_by: tuple[str, ...] = ("recording",)

    @property
    def names(self) -> set[str]:
        """Names of the columns."""
        return {column.name for column in self.columns}

    @property
    def arrow_schema(self) -> pa.Schema:
        """The table's schema with comments as field metadata, in the order of the columns."""
        return pa.schema(
            [
                pa.field(c.name, c.type, nullable=c.nullable, metadata={"comment": c.comment})
                for c in self.columns
            ]
        )

    @property
    def struct(self) -> pa.StructType:
        """The same columns as a struct, for rows that travel nested in another row."""
        return pa.struct(list(self.arrow_schema))

    def without(self, *names: str) -> pa.Schema:
        """The Arrow schema less some columns (those a later step adds)."""
        return pa.schema([f for f in self.arrow_schema if f.name not in names])


def _key(name: str, type_: pa.DataType, comment: str) -> Column:
    return Column(name, type_, comment, nullable=False)


def _struct(*fields: tuple[str, pa.DataType]) -> pa.StructType:
    return pa.struct([pa.field(name, type_) for name, type_ in fields])


_RECORDING = _key("recording", TEXT, "name of the recording (recording.json: name)")
_REQUEST_ID = _key(
    "request_id",
    TEXT,
    "32 hex digits of BLAKE2b (keyed under --anonymize) over node id and line: its content, once",
)
_NODE_ID = _key("node_id", INT, "node whose log holds the line")

#: When things happened on the node that logged (kafka-request.log's clock model).
_CLOCK = (
    Column("received_at", AT, "arrival: stamp - totalTimeMs"),
    Column("dequeued_at", AT, "arrival + requestQueueTimeMs: the handler takes the request"),
    Column("handled_at", AT, "dequeued_at + localTimeMs: the handler returned"),
    Column("built_at", AT, "stamp - sendTimeMs - responseQueueTimeMs: the response was built"),
    Column("completed_at", AT, "the line's stamp: just after the send completed"),
)
_SENDER = (
    Column("api_version", INT, "request version"),
    Column("client_id", TEXT, "clientId of the request header, null if the client sent none"),
    Column("connection", TEXT, "local host:port-remote host:port-processor-index"),
)
#: What outcome, eviction and summary tables share: which rule said it, under which what-if.
_WHAT_IF = (
    _key("rule", TEXT, "name of the rule"),
    _key("variant", TEXT, "recorded, or the protocol that was replayed"),
    _key("parameter", TEXT, "what a sweep varies, or none"),
    _key("parameter_value", TEXT, "the value it took, or none"),
)
#: What the keys of those tables begin with.
_WHAT_IF_KEY = ("recording", *(column.name for column in _WHAT_IF))
_VERDICT = (
    _key("verdict", TEXT, "replayed, not_applicable or unknown"),
    Column(
        "reason", TEXT, "why not applicable or unknown, or what is known of an unexplained answer"
    ),
)

INGESTED_FILES = Table(
    "ingested_files",
    "Log files read, a row for each time that they had grown, and what became of their lines:"
    " lines_read = requests + rejected + repeated",
    (
        _RECORDING,
        _NODE_ID,
        _key("source_file", TEXT, "the file's name within its recording"),
        _key(
            "content_hash",
            TEXT,
            "32 hex digits of BLAKE2b (keyed under --anonymize) over the uncompressed bytes, from 0"
            " up to where this reading ended",
        ),
        Column("bytes_read", LONG, "uncompressed bytes that this reading took"),
        Column("lines_read", LONG, "lines, the last one also where it has no line end"),
        Column("requests", LONG, "lines that became a row of requests"),
        Column("rejected", LONG, "lines that became a row of rejected_lines"),
        Column("repeated", LONG, "lines whose content had been read before, here or elsewhere"),
        Column("first_byte", LONG, "uncompressed byte where this reading began"),
        Column("timezone", TEXT, "zone that the stamps were read in"),
        Column("ingest_epoch", LONG, "number of the ingest that read it, rising in a recording"),
        Column(
            "first_received_at",
            AT,
            "first arrival of its requests, repeated ones too; null without",
        ),
        Column("last_completed_at", AT, "last completion of those; null without"),
        Column(
            "first_event_at",
            AT,
            "first arrival of one that rules read as it comes; null without any",
        ),
        Column("disk_bytes", LONG, "the file's size then; null where something was left in it"),
        Column("modified_at", AT, "its last modification then; null where something was left"),
    ),
    key=("recording", "node_id", "source_file", "content_hash"),
)

REQUESTS = Table(
    "requests",
    "One row per logged request, of every API",
    (
        _RECORDING,
        _REQUEST_ID,
        _NODE_ID,
        Column("source_file", TEXT, "file that held the copy read first"),
        Column("line_number", LONG, "line in it, from 1, uncompressed"),
        *_CLOCK,
        Column("api_key", INT, "requestApiKey"),
        Column("api_name", TEXT, "requestApiKeyName"),
        Column("api_version", INT, "requestApiVersion"),
        Column("correlation_id", INT, "correlationId"),
        Column("client_id", TEXT, "clientId, null if the client sent none"),
        Column("connection", TEXT, "local host:port-remote host:port-processor-index"),
        Column("listener", TEXT, "listener the request came in on"),
        Column("security_protocol", TEXT, "securityProtocol"),
        Column("principal", TEXT, "authenticated principal"),
        Column("software_name", TEXT, "clientInformation.softwareName"),
        Column("software_version", TEXT, "clientInformation.softwareVersion"),
        Column("is_forwarded", BOOL, "came inside an ENVELOPE from a broker"),
        Column("is_deprecated_version", BOOL, "requestApiVersionDeprecated"),
        Column("total_ms", MS, "totalTimeMs"),
        Column("request_queue_ms", MS, "requestQueueTimeMs"),
        Column("local_ms", MS, "localTimeMs"),
        Column("remote_ms", MS, "remoteTimeMs: waiting, on controllers also the Raft queue"),
        Column("throttle_ms", MS, "throttleTimeMs"),
        Column("response_queue_ms", MS, "responseQueueTimeMs"),
        Column("send_ms", MS, "sendTimeMs"),
        Column("has_response", BOOL, 'false where the log says "response":"" (acks=0)'),
        Column("request_bytes", LONG, "on the wire: frame, header, body; null where not known"),
        Column("response_bytes", LONG, "on the wire: frame, header, body; null where not known"),
    ),
    key=("recording", "request_id"),
)

REJECTED_LINES = Table(
    "rejected_lines",
    "Lines that could not be read as a request, each with its reason",
    (
        _RECORDING,
        _key("line_id", TEXT, "32 hex digits of BLAKE2b (keyed under --anonymize)"),
        _NODE_ID,
        Column("source_file", TEXT, "file that held the copy read first"),
        Column("line_number", LONG, "line in it, from 1, uncompressed"),
        Column("reason", TEXT, "why it could not be read"),
        Column("line", TEXT, "its first 1,000 bytes, not UTF-8 as U+FFFD; null if anonymized"),
        Column("line_bytes", LONG, "its whole length"),
    ),
    key=("recording", "line_id"),
)

_PARTITION = (("topic_id", TEXT), ("topic", TEXT), ("partition", INT))

FETCH_REQUEST_PARTITION = _struct(
    *_PARTITION,
    ("current_leader_epoch", INT),
    ("fetch_offset", LONG),
    ("last_fetched_epoch", INT),
    ("log_start_offset", LONG),
    ("partition_max_bytes", INT),
    ("replica_directory_id", TEXT),
    ("high_watermark", LONG),
)
FETCH_RESPONSE_PARTITION = _struct(
    *_PARTITION,
    ("error_code", INT),
    ("high_watermark", LONG),
    ("last_stable_offset", LONG),
    ("log_start_offset", LONG),
    ("preferred_read_replica", INT),
    ("record_bytes", LONG),
    ("aborted_transactions", INT),
    ("current_leader_id", INT),
    ("current_leader_epoch", INT),
    ("diverging_epoch", INT),
    ("diverging_end_offset", LONG),
    ("snapshot_end_offset", LONG),
    ("snapshot_epoch", INT),
)
NODE_ENDPOINT = _struct(("node_id", INT), ("host", TEXT), ("port", INT), ("rack", TEXT))

FETCHES = Table(
    "fetches",
    "One row per FETCH, partitions nested (a row per partition would explode)",
    (
        _RECORDING,
        _REQUEST_ID,
        _NODE_ID,
        *_CLOCK,
        *_SENDER,
        Column("correlation_id", INT, "correlationId"),
        Column("is_cluster_metadata", BOOL, "fetches the metadata log (__cluster_metadata)"),
        Column("cluster_id", TEXT, "clusterId"),
        Column("replica_id", INT, "fetching replica, -1 for consumers"),
        Column("replica_epoch", LONG, "its broker epoch, -1 if not sent"),
        Column("max_wait_ms", INT, "maxWaitMs"),
        Column("min_bytes", INT, "minBytes"),
        Column("max_bytes", INT, "maxBytes"),
        Column("isolation_level", INT, "0 read_uncommitted, 1 read_committed"),
        Column("session_id", INT, "sessionId asked with; 0 none"),
        Column("session_epoch", INT, "sessionEpoch; 0 new session, -1 none"),
        Column("rack_id", TEXT, "rackId"),
        Column("request_partitions", pa.list_(FETCH_REQUEST_PARTITION), "in the order sent"),
        Column("forgotten_partitions", pa.list_(_struct(*_PARTITION)), "forgottenTopicsData"),
        Column("throttle_ms", MS, "throttleTimeMs of the response"),
        Column("error_code", INT, "top-level errorCode; null where there was no response"),
        Column("response_session_id", INT, "sessionId answered with"),
        Column("response_partitions", pa.list_(FETCH_RESPONSE_PARTITION), "in the order sent"),
        Column("node_endpoints", pa.list_(NODE_ENDPOINT), "nodeEndpoints (v16+)"),
        Column("request_bytes", LONG, "on the wire: frame, header, body"),
        Column("response_bytes", LONG, "on the wire: frame, header, body"),
    ),
    key=("recording", "request_id"),
)

PRODUCE_PARTITION = _struct(
    *_PARTITION,
    ("record_bytes", LONG),
    ("error_code", INT),
    ("base_offset", LONG),
    ("log_append_time_ms", LONG),
    ("log_start_offset", LONG),
    ("current_leader_id", INT),
    ("current_leader_epoch", INT),
    ("error_message", TEXT),
    ("record_errors", pa.list_(_struct(("batch_index_error_message", TEXT)))),
)
PRODUCES = Table(
    "produces",
    "One row per PRODUCE, request and response of a partition side by side",
    (
        _RECORDING,
        _REQUEST_ID,
        _NODE_ID,
        *_CLOCK,
        *_SENDER,
        Column("correlation_id", INT, "correlationId"),
        Column("transactional_id", TEXT, "transactionalId, null for others"),
        Column("acks", INT, "-1 all, 0, 1"),
        Column("timeout_ms", INT, "timeoutMs"),
        Column("has_response", BOOL, "false with acks=0"),
        Column("partitions", pa.list_(PRODUCE_PARTITION), "in the order of the request"),
        Column("node_endpoints", pa.list_(NODE_ENDPOINT), "nodeEndpoints (v10+)"),
        Column("request_bytes", LONG, "on the wire: frame, header, body"),
        Column("response_bytes", LONG, "on the wire: frame, header, body"),
    ),
    key=("recording", "request_id"),
)

BROKER_HEARTBEATS = Table(
    "broker_heartbeats",
    "One row per BROKER_HEARTBEAT that a controller answered",
    (
        _RECORDING,
        _REQUEST_ID,
        _NODE_ID,
        *_CLOCK,
        *_SENDER,
        Column("broker_id", INT, "brokerId"),
        Column("broker_epoch", LONG, "brokerEpoch"),
        Column("current_metadata_offset", LONG, "last offset applied, inclusive"),
        Column("want_fence", BOOL, "wantFence"),
        Column("want_shut_down", BOOL, "wantShutDown"),
        Column("error_code", INT, "errorCode; null where there was no response"),
        Column("is_caught_up", BOOL, "isCaughtUp"),
        Column("is_fenced", BOOL, "isFenced: the answer"),
        Column("should_shut_down", BOOL, "shouldShutDown"),
        Column("offline_log_dirs", INT, "offlineLogDirs (v1+): how many; null if not sent"),
        Column("cordoned_log_dirs", INT, "cordonedLogDirs (v2+): how many; null if not sent"),
        Column("request_bytes", LONG, "on the wire: frame, header, body"),
        Column("response_bytes", LONG, "on the wire: frame, header, body"),
    ),
    key=("recording", "request_id"),
)

#: ``partitions``: how many the API speaks of. ``configs``: how many it names (CREATE_TOPICS,
#: ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS). ``feature_level``: the new level (UPDATE_FEATURES).
METADATA_WRITE_RESOURCE = _struct(
    ("resource_type", TEXT),
    ("name", TEXT),
    ("partitions", INT),
    ("configs", INT),
    ("feature_level", INT),
    ("error_code", INT),
)
METADATA_WRITES = Table(
    "metadata_writes",
    "One row per request that writes to the metadata log (topics, configs, features, ...)",
    (
        _RECORDING,
        _REQUEST_ID,
        _NODE_ID,
        *_CLOCK,
        *_SENDER,
        Column("correlation_id", INT, "correlationId"),
        Column("api_name", TEXT, "requestApiKeyName"),
        Column("is_forwarded", BOOL, "came inside an ENVELOPE from a broker"),
        Column("validate_only", BOOL, "validateOnly: nothing is written"),
        Column("error_code", INT, "top-level errorCode, 0 where the API has none"),
        Column("resources", pa.list_(METADATA_WRITE_RESOURCE), "what was written, each answer"),
    ),
    key=("recording", "request_id"),
)

ISR_CHANGES = Table(
    "isr_changes",
    "What ALTER_PARTITION and METADATA lines say of a partition's ISR and leader",
    (
        _RECORDING,
        _REQUEST_ID,
        _NODE_ID,
        Column("at", AT, "built_at: from then on the node stood by it"),
        Column("dequeued_at", AT, "when the request was taken up"),
        Column("source", TEXT, "API that said it: ALTER_PARTITION or METADATA"),
        _key("topic", TEXT, "topic name, else topic id"),
        Column("topic_id", TEXT, "22 characters, null where the version has none"),
        _key("partition", INT, "partition index"),
        Column("leader_id", INT, "leader, -1 none"),
        Column("leader_epoch", INT, "leader epoch"),
        Column("partition_epoch", INT, "partition epoch (ALTER_PARTITION)"),
        Column("replicas", pa.list_(INT), "assigned replicas (METADATA)"),
        Column("requested_isr", pa.list_(INT), "ISR asked for (ALTER_PARTITION)"),
        Column("isr", pa.list_(INT), "ISR answered; null where error_code is not 0"),
        Column("error_code", INT, "the partition's error"),
    ),
    key=("recording", "request_id", "topic", "partition"),
)

TOPICS = Table(
    "topics",
    "Topic names, ids and sizes as CREATE_TOPICS, METADATA and others told them",
    (
        _RECORDING,
        _REQUEST_ID,
        _NODE_ID,
        Column("at", AT, "built_at"),
        Column("source", TEXT, "API that said it"),
        _key("topic", TEXT, "topic name, else topic id"),
        Column("topic_id", TEXT, "22 characters, null where the version has none"),
        Column("partitions", INT, "number of partitions, null where not told"),
        Column("replication_factor", INT, "null where not told"),
        Column("is_internal", BOOL, "isInternal (METADATA)"),
        Column("error_code", INT, "the topic's error"),
    ),
    key=("recording", "request_id", "topic"),
)

CONFIGS = Table(
    "configs",
    "Configs as CREATE_TOPICS, DESCRIBE_CONFIGS and INCREMENTAL_ALTER_CONFIGS told them",
    (
        _RECORDING,
        _REQUEST_ID,
        _NODE_ID,
        Column("at", AT, "built_at"),
        Column("source", TEXT, "API that said it"),
        _key("resource_type", TEXT, "topic, broker, ..."),
        _key("resource_name", TEXT, "topic name, broker id, empty for the cluster default"),
        _key("name", TEXT, "config name"),
        Column("value", TEXT, "value; null where deleted, sensitive or masked"),
        _key("operation", TEXT, "set, delete, append, subtract or describe"),
        Column("config_source", INT, "configSource (DESCRIBE_CONFIGS, CREATE_TOPICS v5+)"),
        Column("error_code", INT, "the resource's error"),
    ),
    key=("recording", "request_id", "resource_type", "resource_name", "name", "operation"),
)

METADATA_OFFSETS = Table(
    "metadata_offsets",
    "Where nodes stood in the metadata log, as lines say it by the way",
    (
        _RECORDING,
        _REQUEST_ID,
        _NODE_ID,
        Column("at", AT, "built_at: the offset was reached by then"),
        Column("dequeued_at", AT, "when the request was taken up: it was read after that"),
        Column("source", TEXT, "API that said it"),
        Column("connection", TEXT, "local host:port-remote host:port-processor-index"),
        _key("subject_id", INT, "node that the offset is of"),
        _key(
            "kind",
            TEXT,
            "finalized_features_epoch (API_VERSIONS): on a broker the last offset of its metadata"
            " image, inclusive, on a controller only that of the last feature change;"
            " broker_epoch (BROKER_REGISTRATION): the registration's own offset, inclusive, of the"
            " first one where the same process registers again;"
            " high_watermark, log_end_offset (DESCRIBE_QUORUM): exclusive",
        ),
        Column("offset", LONG, "offset in the metadata log; what is not known has no row"),
        Column("leader_epoch", INT, "leader epoch (DESCRIBE_QUORUM)"),
    ),
    key=("recording", "request_id", "subject_id", "kind"),
)

PRODUCER_IDS = Table(
    "producer_ids",
    "One row per INIT_PRODUCER_ID: who asked to be idempotent or transactional",
    (
        _RECORDING,
        _REQUEST_ID,
        _NODE_ID,
        Column("at", AT, "built_at: the producer has its id from then on"),
        Column("dequeued_at", AT, "when the request was taken up"),
        Column("client_id", TEXT, "clientId of the request header, null if the client sent none"),
        Column("connection", TEXT, "local host:port-remote host:port-processor-index"),
        Column("transactional_id", TEXT, "transactionalId, null for others"),
        Column("producer_id", LONG, "producerId answered, -1 none; null without a response"),
        Column("producer_epoch", INT, "producerEpoch answered, -1 none; null without a response"),
        Column("error_code", INT, "errorCode; null without a response"),
    ),
    key=("recording", "request_id"),
)

CLIENT_OBSERVATIONS = Table(
    "client_observations",
    "What clients of the cluster saw, where a recording has it; no replay reads it",
    (
        _RECORDING,
        _key("operation", TEXT, "what the client asked for: create, ..."),
        _key("topic", TEXT, "topic name"),
        _key("broker_id", INT, "broker that a client asked whether it can be seen"),
        _key("requested_at", AT, "the client asked for it"),
        Column("responded_at", AT, "the client had the answer"),
        Column("visible_at", AT, "the first answer of that broker that shows it"),
    ),
    key=("recording", "operation", "topic", "broker_id", "requested_at"),
)

FETCH_PARKING_OUTCOMES = Table(
    "fetch_parking_outcomes",
    "hwm_parking: every FETCH of the metadata log, recorded and as each variant would have it",
    (
        _RECORDING,
        *_WHAT_IF,
        _key("leader_id", INT, "controller that was asked"),
        _key("leader_epoch", INT, "its leader epoch"),
        _key("replica_id", INT, "replica that asked"),
        _key("sequence", LONG, "number of the replica's FETCH in that epoch and variant, from 0"),
        Column("recorded_request_id", TEXT, "request_id (variant recorded), else null"),
        Column("is_voter", BOOL, "the replica is a voter"),
        Column("received_at", AT, "arrival"),
        Column("dequeued_at", AT, "the handler takes it"),
        Column("built_at", AT, "the response was built"),
        Column("completed_at", AT, "the response was sent"),
        Column("fetch_offset", LONG, "the replica's log end offset"),
        Column("replica_high_watermark", LONG, "high watermark the replica knew, -1 none"),
        Column("response_high_watermark", LONG, "high watermark it was told, -1 none"),
        Column("decision", TEXT, "immediate or parked"),
        Column(
            "completion",
            TEXT,
            "records, high_watermark, timeout, diverging, snapshot, error or unexplained",
        ),
        Column(
            "parked_ms",
            MS,
            "from the handler taking it until the response was built; 0 if immediate",
        ),
        Column("record_bytes", LONG, "records in the response"),
        Column("request_bytes", LONG, "on the wire: frame, header, body"),
        Column("response_bytes", LONG, "on the wire: frame, header, body"),
        *_VERDICT,
    ),
    key=(*_WHAT_IF_KEY, "leader_id", "leader_epoch", "replica_id", "sequence"),
)

HIGH_WATERMARK_LAG = Table(
    "high_watermark_lag",
    "hwm_parking: how long after an advance of the high watermark a replica knew of it",
    (
        _RECORDING,
        *_WHAT_IF,
        _key("leader_id", INT, "the leader"),
        _key("leader_epoch", INT, "its leader epoch"),
        _key("replica_id", INT, "the replica that learns"),
        _key("high_watermark", LONG, "what it advanced to"),
        Column("previous_high_watermark", LONG, "what it advanced from, -1 not known"),
        Column("is_voter", BOOL, "the replica is a voter"),
        Column("leader_at", AT, "dequeue time of the voter FETCH that moved it"),
        Column("learned_at", AT, "the replica's first response built with a value >= it"),
        Column("lag_ms", MS, "learned_at - leader_at; null where it never learned or was away"),
        Column("phase", TEXT, "starting, steady or stopping"),
        *_VERDICT,
    ),
    key=(*_WHAT_IF_KEY, "leader_id", "leader_epoch", "replica_id", "high_watermark"),
)

FETCH_SESSION_OUTCOMES = Table(
    "fetch_session_outcomes",
    "incremental_fetch: every FETCH of topic partitions, recorded and as each variant has it",
    (
        _RECORDING,
        *_WHAT_IF,
        _REQUEST_ID,
        _key("attempt", INT, "0; a FETCH that a session error answers is 0 and its retry 1"),
        _NODE_ID,
        Column(
            "session_key",
            TEXT,
            "node, session id and the request that created it; without a"
            " session: node, client and connection",
        ),
        Column("client_id", TEXT, "clientId, null if the client sent none"),
        Column("client_kind", TEXT, "follower, consumer or consumer_without_sessions"),
        Column("replica_id", INT, "fetching replica, -1 for consumers"),
        Column("api_version", INT, "version that is counted"),
        Column("received_at", AT, "arrival"),
        Column("dequeued_at", AT, "the handler takes it"),
        Column("built_at", AT, "the response was built"),
        Column("session_id", INT, "sessionId asked with; null where it would be another one"),
        Column("session_epoch", INT, "sessionEpoch asked with; the draft has none"),
        Column("is_full", BOOL, "lists every partition of the session"),
        Column("session_partitions", INT, "partitions of the session after this request"),
        Column("request_partitions", INT, "partitions listed in the request"),
        Column("response_partitions", INT, "partitions listed in the response"),
        Column("forgotten_partitions", INT, "partitions taken out of the session"),
        Column(
            "added_partitions",
            INT,
            "partitions that the client's FETCH before did not ask for; null: not known",
        ),
        Column("record_bytes", LONG, "records in the response"),
        Column("request_bytes", LONG, "on the wire: frame, header, body"),
        Column("response_bytes", LONG, "on the wire: frame, header, body"),
        Column("session_error", INT, "70, 71 or 106 where a session error is the answer, else 0"),
        Column(
            "equals_recorded",
            BOOL,
            "variant incremental: same partitions in the same order,"
            " same bytes, both ways; null where the recorded FETCH is not comparable",
        ),
        *_VERDICT,
    ),
    key=(*_WHAT_IF_KEY, "request_id", "attempt"),
)

FETCH_SESSION_EVICTIONS = Table(
    "fetch_session_evictions",
    "incremental_fetch: what the session cache does with each session, per number of slots",
    (
        _RECORDING,
        *_WHAT_IF,
        _NODE_ID,
        _key("session_key", TEXT, "session that it happens to, as in fetch_session_outcomes"),
        _key("event", TEXT, "created, refused, evicted or closed"),
        _key("request_id", TEXT, "FETCH that caused it"),
        Column("at", AT, "when"),
        Column("shard", INT, "shard of the cache, from 0"),
        Column("partitions", INT, "partitions of the session"),
        Column("privileged", BOOL, "the session is a follower's"),
        Column(
            "reason", TEXT, "why: idle, smaller, not privileged, cache full, all forgotten, ..."
        ),
    ),
    key=(*_WHAT_IF_KEY, "node_id", "session_key", "event", "request_id"),
)

PRODUCE_ACK_OUTCOMES = Table(
    "produce_ack_outcomes",
    "min_isr_acks: every partition of a PRODUCE, recorded, with acks=all and with"
    " acks=min.insync.replicas",
    (
        _RECORDING,
        *_WHAT_IF,
        _REQUEST_ID,
        _NODE_ID,
        _key("topic", TEXT, "topic name, else topic id"),
        _key("partition", INT, "partition index"),
        Column("client_id", TEXT, "clientId, null if the client sent none"),
        Column("acks", INT, "as recorded: -1 all, 0, 1"),
        Column("is_transactional", BOOL, "has a transactionalId"),
        Column(
            "is_idempotent", BOOL, "null where neither transactionalId nor INIT_PRODUCER_ID tells"
        ),
        Column("record_bytes", LONG, "records of this partition"),
        Column("received_at", AT, "arrival of the request"),
        Column("appended_at", AT, "the leader's log has the batch"),
        Column("built_at", AT, "the recorded response was built"),
        Column("base_offset", LONG, "first offset of the batch; null where the log can't tell"),
        Column("last_offset", LONG, "last offset of the batch; null where the log can't tell"),
        Column("min_insync_replicas", INT, "in force at the append"),
        Column("isr", pa.list_(INT), "committed ISR at the append, ascending; null: not known"),
        Column("all_isr_acked_at", AT, "the high watermark passed it: acks=all is answered"),
        Column("min_isr_acked_at", AT, "min.insync.replicas replicas had it"),
        Column("visible_at", AT, "consumers can see it: the high watermark passed it"),
        Column("recorded_error", INT, "Kafka's error code in the log; null without a response"),
        Column("acks_all_error", INT, "error code with acks=all; null: not known"),
        Column("min_isr_error", INT, "error code with acks=min.insync.replicas; null: not known"),
        Column("todays_min_isr_error", INT, "what a broker without the KIP answers acks=-2: 21"),
        Column(
            "partition_recorded_latency_ms",
            MS,
            "arrival until the response was built, where the request has this partition only",
        ),
        Column("partition_acks_all_latency_ms", MS, "arrival until acks=all would be answered"),
        Column("partition_min_isr_latency_ms", MS, "arrival until acks=-2 would be answered"),
        Column("request_recorded_latency_ms", MS, "arrival until the response was built"),
        Column("request_acks_all_latency_ms", MS, "the request's slowest partition"),
        Column("request_acks_all_latency_earliest_ms", MS, "the least that the log allows"),
        Column("request_acks_all_latency_latest_ms", MS, "the most that the log allows"),
        Column("request_min_isr_latency_ms", MS, "the request's slowest partition"),
        Column("request_min_isr_latency_earliest_ms", MS, "the least that the log allows"),
        Column("request_min_isr_latency_latest_ms", MS, "the most that the log allows"),
        Column("replicas_at_min_isr_ack", INT, "replicas, leader included, that had it then"),
        Column("exposure_ms", MS, "from the early ack until the whole ISR had it"),
        *_VERDICT,
    ),
    key=(*_WHAT_IF_KEY, "request_id", "topic", "partition"),
)

HEARTBEAT_OUTCOMES = Table(
    "heartbeat_outcomes",
    "lowest_acked_offset: every recorded BROKER_HEARTBEAT and what its response would have carried",
    (
        _RECORDING,
        *_WHAT_IF,
        _REQUEST_ID,
        _key("controller_id", INT, "controller that answered"),
        Column("broker_id", INT, "broker that asked"),
        Column("received_at", AT, "arrival"),
        Column("built_at", AT, "the response was built"),
        Column("current_metadata_offset", LONG, "last offset the broker has applied, inclusive"),
        Column("is_fenced", BOOL, "the broker after this heartbeat"),
        Column("unfenced_brokers", INT, "brokers that count, after this heartbeat"),
        Column(
            "lowest_acknowledged_offset", LONG, "what the response would carry; never goes back"
        ),
        Column("lowest_acknowledged_offset_raw", LONG, "as the controller would compute it"),
        Column("response_bytes", LONG, "recorded, on the wire: frame, header, body"),
        Column("replayed_response_bytes", LONG, "with the new field"),
        *_VERDICT,
    ),
    key=(*_WHAT_IF_KEY, "request_id"),
)

METADATA_WRITE_OUTCOMES = Table(
    "metadata_write_outcomes",
    "lowest_acked_offset: every successful metadata write, when it was applied and who knew",
    (
        _RECORDING,
        *_WHAT_IF,
        _REQUEST_ID,
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
            " with a heartbeat interval: as modelled from when brokers learned of commits",
        ),
        Column(
            "last_broker_id", INT, "the broker that others waited for, maybe until it was fenced"
        ),
        Column("known_at", AT, "via_broker is told a lowest acknowledged offset >= the write's"),
        Column("known_everywhere_at", AT, "every unfenced broker is told one"),
        Column("stale_window_ms", MS, "today: from the response until applied everywhere"),
        Column(
            "read_after_write_ms",
            MS,
            "under the rule: from the request until via_broker"
            " (else every broker) knows it applied everywhere",
        ),
        *_VERDICT,
    ),
    key=(*_WHAT_IF_KEY, "request_id"),
)

METADATA_WRITE_VISIBILITY = Table(
    "metadata_write_visibility",
    "lowest_acked_offset: when each broker had applied a metadata write, by kind of evidence",
    (
        _RECORDING,
        *_WHAT_IF,
        _REQUEST_ID,
        _key("broker_id", INT, "broker that applies it"),
        _key("evidence", TEXT, "heartbeat, api_versions or fetch_high_watermark"),
        Column(
            "applied_at_earliest",
            AT,
            "last sign that it had not applied it, at the soonest the write's commit",
        ),
        Column(
            "applied_at_latest",
            AT,
            "first sign that it had; fetch_high_watermark: 500 ms after the broker knew it to be"
            " committed, null where a heartbeat denies it",
        ),
        Column(
            "known_at",
            AT,
            "the broker is told a lowest acknowledged offset >= the write's: from then on it could"
            " renegotiate ApiVersions after UPDATE_FEATURES",
        ),
        *_VERDICT,
    ),
    key=(*_WHAT_IF_KEY, "request_id", "broker_id", "evidence"),
)

_GROUP = (
    _key("metric", TEXT, "what is measured"),
    _key("group_kind", TEXT, "what the group is: replica_kind, replica_id, ..."),
    _key("group_value", TEXT, "which one"),
)
LATENCY_SUMMARY = Table(
    "latency_summary",
    "Latencies per metric and group, exact percentiles of integer microseconds",
    (
        _RECORDING,
        *_WHAT_IF,
        *_GROUP,
        Column("count", LONG, "values"),
        Column("unknown_count", LONG, "rows without a value, never counted as small"),
        Column("mean_ms", MS, "sum of integer microseconds / count"),
        Column("p50_ms", MS, "at rank floor(0.5 * (n - 1)), the unknown ranked last"),
        Column("p90_ms", MS, "likewise"),
        Column("p95_ms", MS, "likewise"),
        Column("p99_ms", MS, "likewise"),
        Column("p999_ms", MS, "likewise"),
        Column("max_ms", MS, "largest"),
    ),
    key=(*_WHAT_IF_KEY, "metric", "group_kind", "group_value"),
)

LATENCY_CURVES = Table(
    "latency_curves",
    "Distributions of latencies: at most 200 points of each, as exact as latency_summary",
    (
        _RECORDING,
        *_WHAT_IF,
        *_GROUP,
        _key("value_us", LONG, "the largest value of a slice of the ranks"),
        Column("from_us", LONG, "the least value of the slice"),
        Column("up_to", LONG, "how many values are not above value_us"),
        Column("total", LONG, "how many values there are, the unknown included"),
    ),
    key=(*_WHAT_IF_KEY, "metric", "group_kind", "group_value", "value_us"),
)

BANDWIDTH_SUMMARY = Table(
    "bandwidth_summary",
    "Requests and bytes on the wire per API, node, kind of client and direction, steady phase",
    (
        _RECORDING,
        *_WHAT_IF,
        _key("api_name", TEXT, "API"),
        _key("node_id", INT, "node that was asked"),
        _key("client_kind", TEXT, "voter, broker, follower, consumer, ..."),
        _key("direction", TEXT, "request or response"),
        Column("requests", LONG, "requests"),
        Column("partitions", LONG, "partitions in them"),
        Column("bytes", LONG, "bytes on the wire; those of unknown size count nothing"),
        Column("unknown_size_requests", LONG, "requests whose size is not known"),
        Column("record_bytes", LONG, "of which records"),
        Column("overhead_bytes", LONG, "bytes - record_bytes"),
        Column("span_s", MS, "seconds of the steady phase"),
        Column("requests_per_second", MS, "requests / span_s"),
        Column("bytes_per_second", MS, "bytes / span_s"),
    ),
    key=(*_WHAT_IF_KEY, "api_name", "node_id", "client_kind", "direction"),
)

PREDICTION_ACCURACY = Table(
    "prediction_accuracy",
    "Each prediction beside what real brokers did",
    (
        _RECORDING,
        *_WHAT_IF,
        _key("predicted_from", TEXT, "recording the prediction was made from"),
        _key("recorded_in", TEXT, "recording it is held against; the same for a self-check"),
        *_GROUP,
        Column("unit", TEXT, "unit of predicted, recorded, error and tolerance"),
        Column("baseline", MS, "what a constant or a naive guess gives"),
        Column("predicted", MS, "the replay's figure"),
        Column("recorded", MS, "what the brokers did"),
        Column("error", MS, "predicted - recorded"),
        Column("relative_error", MS, "error / recorded"),
        Column("tolerance", MS, "largest |error| that passes, in the unit; null for none set"),
        Column("passed", BOOL, "|error| <= tolerance"),
        Column("sample_count", LONG, "values behind predicted"),
        Column("unknown_count", LONG, "outcomes that were unknown: each counts as a miss"),
    ),
    key=(*_WHAT_IF_KEY, "predicted_from", "recorded_in", "metric", "group_kind", "group_value"),
)

QUALITY_RESULTS = Table(
    "quality_results",
    "What is expected of the tables (conf/quality), and whether it is so",
    (
        _RECORDING,
        _key("suite", TEXT, "suite that the expectation is of: bronze, outcomes, summaries, ..."),
        _key("table_name", TEXT, "table that it is of"),
        _key("expectation", TEXT, "its name in the suite"),
        Column("column", TEXT, "column that it is of, if of one"),
        Column("severity", TEXT, "info, warning or critical: what it means that rows fail"),
        Column("success", BOOL, "no row failed"),
        Column("observed", TEXT, "what was seen, in words"),
        Column("failing_rows", LONG, "rows that failed; of a query, the rows that it gave"),
        Column("rows_checked", LONG, "rows of the recording in the table"),
        Column("says", TEXT, "what is expected, in words"),
    ),
    key=("recording", "suite", "table_name", "expectation"),
)

QUALITY_FAILURES = Table(
    "quality_failures",
    "The first rows that failed an expectation, to look at; quality_results says how many failed",
    (
        _RECORDING,
        _key("suite", TEXT, "suite of the expectation"),
        _key("table_name", TEXT, "table that it is of"),
        _key("expectation", TEXT, "its name in the suite"),
        _key("number", INT, "from 1, in the order of failing_row"),
        Column(
            "failing_row", TEXT, "JSON: its key and what helps to see why, or what the query gave"
        ),
    ),
    key=("recording", "suite", "table_name", "expectation", "number"),
)

REPLAY_STATE = Table(
    "replay_state",
    "What a rule carries from one piece of log to the next",
    (
        _RECORDING,
        _key("rule", TEXT, "rule"),
        _key("state_key", TEXT, "replay key, e.g. the leader's node id"),
        _key("as_of", AT, "built_at of the last request fed"),
        Column("state", pa.binary(), "the state, MessagePack"),
        Column("fingerprint", TEXT, "rule and configuration it belongs to"),
    ),
    key=("recording", "rule", "state_key", "as_of"),
)

LINEAGE = Table(
    "lineage",
    "What the rows of each step follow from; a step that is being written, or was killed, has none",
    (
        _RECORDING,
        _key("step", TEXT, "a rule, summaries, accuracy/<recording>, quality, ..."),
        Column("follows_from", TEXT, "fingerprint of its code, its settings and what it read"),
        Column("committed_at", AT, "after the step's last write"),
    ),
    key=("recording", "step"),
)

#: What is typed of the lines, a table for each kind of body.
TYPED_TABLES = (
    FETCHES,
    PRODUCES,
    BROKER_HEARTBEATS,
    METADATA_WRITES,
    ISR_CHANGES,
    TOPICS,
    CONFIGS,
    METADATA_OFFSETS,
    PRODUCER_IDS,
)
#: All that ingest fills; ingested_files is written last and says that the files are in.
LOG_TABLES = (INGESTED_FILES, REQUESTS, REJECTED_LINES, *TYPED_TABLES)
TABLES = {
    table.name: table
    for table in (
        *LOG_TABLES,
        CLIENT_OBSERVATIONS,
        FETCH_PARKING_OUTCOMES,
        HIGH_WATERMARK_LAG,
        FETCH_SESSION_OUTCOMES,
        FETCH_SESSION_EVICTIONS,
        PRODUCE_ACK_OUTCOMES,
        HEARTBEAT_OUTCOMES,
        METADATA_WRITE_OUTCOMES,
        METADATA_WRITE_VISIBILITY,
        LATENCY_SUMMARY,
        LATENCY_CURVES,
        BANDWIDTH_SUMMARY,
        PREDICTION_ACCURACY,
        QUALITY_RESULTS,
        QUALITY_FAILURES,
        REPLAY_STATE,
        LINEAGE,
    )
}
