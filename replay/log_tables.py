"""The tables of the log: what ``ingest`` writes."""

import pyarrow as pa

from .table import AT, BOOL, INT, LINE, LONG, MS, NODE_ID, RECORDING, TEXT, Column, Required, Table

#: When things happened on the node that logged (kafka-request.log's clock model).
CLOCK = (
    Column("received_at", AT, "arrival: stamp - totalTimeMs"),
    Column("dequeued_at", AT, "arrival + requestQueueTimeMs: the handler takes the request"),
    Column("handled_at", AT, "dequeued_at + localTimeMs: the handler returned"),
    Column("built_at", AT, "stamp - sendTimeMs - responseQueueTimeMs: the response was built"),
    Column("completed_at", AT, "the line's stamp: just after the send completed"),
)

SENDER = (
    Column("api_version", INT, "request version"),
    Column("client_id", TEXT, "clientId of the request header, null if the client sent none"),
    Column("connection", TEXT, "local host:port-remote host:port-processor-index"),
)


def struct(*fields: tuple[str, pa.DataType]) -> pa.StructType:
    return pa.struct([pa.field(name, type_) for name, type_ in fields])


INGESTED_FILES = Table(
    "ingested_files",
    "Log files read, a row for each time that they had grown, and what became of their lines:"
    " lines_read = requests + other + rejected + repeated",
    (
        RECORDING,
        NODE_ID,
        Required("source_file", TEXT, "the file's name within its recording"),
        Required(
            "content_hash",
            TEXT,
            "32 hex digits of BLAKE2b (keyed under --anonymize) over the uncompressed bytes, from 0"
            " up to where this reading ended",
        ),
        Column("bytes_read", LONG, "uncompressed bytes that this reading took"),
        Column("lines_read", LONG, "lines; one that its carrier has split counts once"),
        Column("requests", LONG, "lines that became a row of requests"),
        Column("other", LONG, "lines of other loggers, stack traces, blank lines"),
        Column("rejected", LONG, "lines that became a row of rejected_lines"),
        Column("repeated", LONG, "lines whose content had been read before, here or elsewhere"),
        Column("first_byte", LONG, "uncompressed byte where this reading began"),
        Column("timezone", TEXT, "zone that the stamps were read in"),
        Column("clock_offset_ms", MS, "added to the stamps"),
        Column("ingest_epoch", LONG, "number of the ingest that read it, rising in a recording"),
        Column("first_received_at", AT, "first arrival of its requests, repeated ones too"),
        Column("last_completed_at", AT, "last completion of those; null without"),
        Column("first_event_at", AT, "first arrival of one that rules read as it comes"),
        Column("disk_bytes", LONG, "the file's size then; null where something was left in it"),
        Column("modified_at", AT, "its last modification then; null where something was left"),
        Column("damage", TEXT, "why and where reading ended early, null if it did not"),
    ),
    key=("recording", "node_id", "source_file", "content_hash"),
)

REQUESTS = Table(
    "requests",
    "One row per logged request, of every API",
    (
        *LINE,
        Column("source_file", TEXT, "file that held the copy read first"),
        Column("line_number", LONG, "line in it, from 1, uncompressed"),
        *CLOCK,
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
        RECORDING,
        Required("line_id", TEXT, "32 hex digits of BLAKE2b (keyed under --anonymize)"),
        NODE_ID,
        Column("source_file", TEXT, "file that held the copy read first"),
        Column("line_number", LONG, "line in it, from 1, uncompressed"),
        Column("reason", TEXT, "why it could not be read"),
        Column("detail", TEXT, "the stamp or the field that was it, where one was; null elsewhere"),
        Column("line", TEXT, "its first 1,000 bytes, not UTF-8 as U+FFFD; null if anonymized"),
        Column("line_bytes", LONG, "its whole length"),
    ),
    key=("recording", "line_id"),
)

_PARTITION = (("topic_id", TEXT), ("topic", TEXT), ("partition", INT))

FETCH_REQUEST_PARTITION = struct(
    *_PARTITION,
    ("current_leader_epoch", INT),
    ("fetch_offset", LONG),
    ("last_fetched_epoch", INT),
    ("log_start_offset", LONG),
    ("partition_max_bytes", INT),
    ("replica_directory_id", TEXT),
    ("high_watermark", LONG),
)

FETCH_RESPONSE_PARTITION = struct(
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

NODE_ENDPOINT = struct(("node_id", INT), ("host", TEXT), ("port", INT), ("rack", TEXT))

FETCHES = Table(
    "fetches",
    "One row per FETCH, partitions nested (a row per partition would explode)",
    (
        *LINE,
        *CLOCK,
        *SENDER,
        Column("correlation_id", INT, "correlationId"),
        Column("is_cluster_metadata", BOOL, "fetches the metadata log (__cluster_metadata)"),
        Column("cluster_id", TEXT, "clusterId"),
        Column("replica_id", INT, "fetching replica, -1 for consumers"),
        Column("replica_epoch", LONG, "its broker epoch, -1 if not sent"),
        Column("max_wait_ms", INT, "maxWaitMs"),
        Column("min_bytes", INT, "minBytes"),
        Column("max_bytes", INT, "maxBytes"),
        Column("isolation_level", INT, "0 read_uncommitted, 1 read_committed"),
        Column("session_id", INT, "sessionId of the request; 0 none"),
        Column("session_epoch", INT, "sessionEpoch; 0 new session, -1 none"),
        Column("rack_id", TEXT, "rackId"),
        Column("request_partitions", pa.list_(FETCH_REQUEST_PARTITION), "in the order sent"),
        Column("forgotten_partitions", pa.list_(struct(*_PARTITION)), "forgottenTopicsData"),
        Column("throttle_ms", MS, "throttleTimeMs of the response"),
        Column("error_code", INT, "top-level errorCode; null where there was no response"),
        Column("response_session_id", INT, "sessionId of the response"),
        Column("response_partitions", pa.list_(FETCH_RESPONSE_PARTITION), "in the order sent"),
        Column("node_endpoints", pa.list_(NODE_ENDPOINT), "nodeEndpoints (v16+)"),
        Column("request_bytes", LONG, "on the wire: frame, header, body"),
        Column("response_bytes", LONG, "on the wire: frame, header, body"),
    ),
    key=("recording", "request_id"),
)

PRODUCE_PARTITION = struct(
    *_PARTITION,
    ("record_bytes", LONG),
    ("error_code", INT),
    ("base_offset", LONG),
    ("log_append_time_ms", LONG),
    ("log_start_offset", LONG),
    ("current_leader_id", INT),
    ("current_leader_epoch", INT),
    ("error_message", TEXT),
    ("record_errors", pa.list_(struct(("batch_index_error_message", TEXT)))),
)

PRODUCES = Table(
    "produces",
    "One row per PRODUCE, request and response of a partition side by side",
    (
        *LINE,
        *CLOCK,
        *SENDER,
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
    "One row per BROKER_HEARTBEAT that a controller responded to",
    (
        *LINE,
        *CLOCK,
        *SENDER,
        Column("broker_id", INT, "brokerId"),
        Column("broker_epoch", LONG, "brokerEpoch"),
        Column("current_metadata_offset", LONG, "last offset applied, inclusive"),
        Column("want_fence", BOOL, "wantFence"),
        Column("want_shut_down", BOOL, "wantShutDown"),
        Column("error_code", INT, "errorCode; null where there was no response"),
        Column("is_caught_up", BOOL, "isCaughtUp"),
        Column("is_fenced", BOOL, "isFenced of the response"),
        Column("should_shut_down", BOOL, "shouldShutDown"),
        Column("offline_log_dirs", INT, "offlineLogDirs (v1+): how many; null if not sent"),
        Column("cordoned_log_dirs", INT, "cordonedLogDirs (v2+): how many; null if not sent"),
        Column("request_bytes", LONG, "on the wire: frame, header, body"),
        Column("response_bytes", LONG, "on the wire: frame, header, body"),
    ),
    key=("recording", "request_id"),
)

#: ``partitions``: how many the API speaks of. ``replicas``: of all these together (CREATE_TOPICS).
#: ``configs``: how many it names (CREATE_TOPICS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS).
#: ``feature_level``: the new level (UPDATE_FEATURES).
METADATA_WRITE_RESOURCE = struct(
    ("resource_type", TEXT),
    ("name", TEXT),
    ("partitions", INT),
    ("replicas", INT),
    ("configs", INT),
    ("feature_level", INT),
    ("error_code", INT),
)

METADATA_WRITES = Table(
    "metadata_writes",
    "One row per request that writes to the metadata log (topics, configs, features, ...)",
    (
        *LINE,
        *CLOCK,
        *SENDER,
        Column("correlation_id", INT, "correlationId"),
        Column("api_name", TEXT, "requestApiKeyName"),
        Column("is_forwarded", BOOL, "came inside an ENVELOPE from a broker"),
        Column("validate_only", BOOL, "validateOnly: nothing is written"),
        Column("error_code", INT, "top-level errorCode, 0 where the API has none"),
        Column("resources", pa.list_(METADATA_WRITE_RESOURCE), "what was written, each response"),
    ),
    key=("recording", "request_id"),
)

ISR_CHANGES = Table(
    "isr_changes",
    "What ALTER_PARTITION and METADATA lines say of a partition's ISR and leader",
    (
        *LINE,
        Column("built_at", AT, "when the response was built: the node stood by it from then on"),
        Column("dequeued_at", AT, "when the request was taken up"),
        Column("source", TEXT, "API that has it: ALTER_PARTITION or METADATA"),
        Required("topic", TEXT, "topic name, else topic id"),
        Column("topic_id", TEXT, "22 characters, null where the version has none"),
        Required("partition", INT, "partition index"),
        Column("leader_id", INT, "leader, -1 none"),
        Column("leader_epoch", INT, "leader epoch"),
        Column("partition_epoch", INT, "partition epoch (ALTER_PARTITION)"),
        Column("replicas", pa.list_(INT), "assigned replicas (METADATA)"),
        Column("requested_isr", pa.list_(INT), "ISR requested (ALTER_PARTITION)"),
        Column("isr", pa.list_(INT), "ISR returned; null where error_code is not 0"),
        Column("error_code", INT, "the partition's error"),
    ),
    key=("recording", "request_id", "topic", "partition"),
)

BROKERS = Table(
    "brokers",
    "Brokers that METADATA names: those that were not fenced",
    (
        *LINE,
        Column("built_at", AT, "when the response was built"),
        Required("broker_id", INT, "the broker"),
        Column("rack", TEXT, "broker.rack, null if not set"),
        Column("of_all_topics", BOOL, "the request named no topics: the response has all"),
    ),
    key=("recording", "request_id", "broker_id"),
)

GROUP_ASSIGNMENTS = Table(
    "group_assignments",
    "Partitions of members of consumer groups, as commits, assignments and descriptions have them",
    (
        *LINE,
        Column("built_at", AT, "when the response was built"),
        Column("source", TEXT, "API that has it"),
        Required("group_id", TEXT, "the group"),
        Required("member_id", TEXT, "the member, empty where the version has none"),
        Column("client_id", TEXT, "the member's clientId"),
        Column("client_host", TEXT, "the member's address"),
        Column(
            "partitions",
            pa.list_(struct(*_PARTITION)),
            "assigned ones; of OFFSET_COMMIT those that it commits",
        ),
    ),
    key=("recording", "request_id", "group_id", "member_id"),
)

TOPICS = Table(
    "topics",
    "Topic names, ids and sizes as CREATE_TOPICS, METADATA and others have them",
    (
        *LINE,
        Column("built_at", AT, "when the response was built"),
        Column("source", TEXT, "API that has it"),
        Required("topic", TEXT, "topic name, else topic id"),
        Column("topic_id", TEXT, "22 characters, null where the version has none"),
        Column("partitions", INT, "number of partitions, null where not given"),
        Column("replication_factor", INT, "null where not given"),
        Column("is_internal", BOOL, "isInternal (METADATA)"),
        Column("error_code", INT, "the topic's error"),
    ),
    key=("recording", "request_id", "topic"),
)

CONFIGS = Table(
    "configs",
    "Configs as CREATE_TOPICS, DESCRIBE_CONFIGS and INCREMENTAL_ALTER_CONFIGS have them",
    (
        *LINE,
        Column("built_at", AT, "when the response was built"),
        Column("source", TEXT, "API that has it"),
        Required("resource_type", TEXT, "topic, broker, ..."),
        Required("resource_name", TEXT, "topic name, broker id, empty for the cluster default"),
        Required("name", TEXT, "config name"),
        Column("value", TEXT, "value; null where deleted, sensitive or masked"),
        Required("operation", TEXT, "set, delete, append, subtract or describe"),
        Column("config_source", INT, "configSource (DESCRIBE_CONFIGS, CREATE_TOPICS v5+)"),
        Column("error_code", INT, "the resource's error"),
    ),
    key=("recording", "request_id", "resource_type", "resource_name", "name", "operation"),
    holds_on=True,
)

METADATA_OFFSETS = Table(
    "metadata_offsets",
    "Where nodes stood in the metadata log, as lines say it by the way",
    (
        *LINE,
        Column("built_at", AT, "when the response was built: the offset was reached by then"),
        Column("dequeued_at", AT, "when the request was taken up: it was read after that"),
        Column("source", TEXT, "API that has it"),
        Column("connection", TEXT, "local host:port-remote host:port-processor-index"),
        Required("subject_id", INT, "node that the offset is of"),
        Required(
            "kind",
            TEXT,
            "finalized_features_epoch (API_VERSIONS): on a broker the last offset of its metadata"
            " image, inclusive, on a controller only that of the last feature change;"
            " broker_epoch (BROKER_REGISTRATION): the registration's own offset, inclusive, of the"
            " first one where the same process registers again;"
            " high_watermark, log_end_offset (DESCRIBE_QUORUM): exclusive",
        ),
        Column("metadata_offset", LONG, "offset in the metadata log; what is not known has no row"),
        Column("leader_epoch", INT, "leader epoch (DESCRIBE_QUORUM)"),
    ),
    key=("recording", "request_id", "subject_id", "kind"),
)

PRODUCER_IDS = Table(
    "producer_ids",
    "One row per INIT_PRODUCER_ID: who is idempotent or transactional",
    (
        *LINE,
        Column("built_at", AT, "when the response was built: the producer has its id from then on"),
        Column("dequeued_at", AT, "when the request was taken up"),
        Column("client_id", TEXT, "clientId of the request header, null if the client sent none"),
        Column("connection", TEXT, "local host:port-remote host:port-processor-index"),
        Column("transactional_id", TEXT, "transactionalId, null for others"),
        Column("producer_id", LONG, "producerId returned, -1 none; null without a response"),
        Column("producer_epoch", INT, "producerEpoch returned, -1 none; null without a response"),
        Column("error_code", INT, "errorCode; null without a response"),
    ),
    key=("recording", "request_id"),
)

LOG_GAPS = Table(
    "log_gaps",
    "Gaps in logs: spans of time in which lines of a node are missing",
    (
        RECORDING,
        NODE_ID,
        Required("number", INT, "from 1, of the node's gaps by time"),
        Column("after_at", AT, "last completion before it; null: the log's beginning is missing"),
        Column("before_at", AT, "first completion after it; null: the log's end is missing"),
        Column(
            "evidence",
            TEXT,
            "what shows it: correlation_id or session_epoch (numbers that were skipped),"
            " fetch_offset (moved by records that no response carried), contradiction (lines of a"
            " replica between which an offset or an epoch falls), connection or session (used"
            " without having been opened), rejected_line, begins_late (while the node ran),"
            " ends_early (while it led), no_log, logger_off (an empty log of a node that ran)",
        ),
        Column("lines_missing", LONG, "at least so many; null: not known"),
        Column("last_request_id", TEXT, "the request before it, on the same connection or session"),
        Column("next_request_id", TEXT, "the first request that shows it"),
    ),
    key=("recording", "node_id", "number"),
)

HELD_PARTITIONS = Table(
    "held_partitions",
    "What held of partitions when the logs began, by evidence that came later",
    (
        RECORDING,
        Required("topic", TEXT, "topic name, else topic id"),
        Column("topic_id", TEXT, "22 characters, null where the version has none"),
        Required("partition", INT, "partition index"),
        Column("leader_id", INT, "leader, -1 none"),
        Column("leader_epoch", INT, "leader epoch"),
        Column("replicas", pa.list_(INT), "assigned replicas"),
        Column("isr", pa.list_(INT), "in-sync replicas, ascending; null: not sure"),
        Column("min_insync_replicas", INT, "of the topic; null: not known"),
        Column("held_from", AT, "from when on that is sure"),
        Column("stated_at", AT, "when the response was built that has it"),
        Column("stated_by", INT, "node that responded"),
        Column("evidence_request_id", TEXT, "METADATA that has it"),
    ),
    key=("recording", "topic", "partition"),
)

HELD_SESSIONS = Table(
    "held_sessions",
    "Fetch sessions that are older than the log, and what they had when their first FETCH came",
    (
        RECORDING,
        NODE_ID,
        Required("session_id", INT, "sessionId"),
        Column("session_epoch", INT, "sessionEpoch of the first FETCH that the log has"),
        Column("api_version", INT, "its version"),
        Column("client_id", TEXT, "clientId, null if the client sent none"),
        Column("connection", TEXT, "local host:port-remote host:port-processor-index"),
        Column("replica_id", INT, "fetching replica, -1 for consumers"),
        Column("replica_epoch", LONG, "its broker epoch, -1 if not sent"),
        Column("partitions", pa.list_(struct(*_PARTITION)), "by topic; their order is not known"),
        Column("held_from", AT, "when the first FETCH came"),
        Column("stated_at", AT, "when the response was built that names the partitions"),
        Column("request_id", TEXT, "that FETCH"),
        Column("evidence_request_id", TEXT, "METADATA that names the partitions"),
    ),
    key=("recording", "node_id", "session_id"),
)

UNCERTAINTIES = Table(
    "uncertainties",
    "What gaps in logs leave open to a leader of partitions",
    (
        RECORDING,
        Required("node_id", INT, "the leader"),
        Required(
            "what",
            TEXT,
            "follower: in ISRs or out; own log and metadata log: who leads, joins; configs",
        ),
        Required("broker_id", INT, "the follower, else -1"),
        Required("uncertain_from", AT, "since then; of a follower, its last FETCH before"),
        Column("shown_at", AT, "from then on the log shows it"),
        Column("uncertain_until", AT, "null: until METADATA or ALTER_PARTITION states it again"),
        Required("gap_node_id", INT, "node with the gap"),
        Column("evidence_request_id", TEXT, "the follower's last FETCH before"),
    ),
    key=("recording", "node_id", "what", "broker_id", "uncertain_from", "gap_node_id"),
)

CLIENT_OBSERVATIONS = Table(
    "client_observations",
    "What clients of the cluster saw, where a recording has it; no replay reads it",
    (
        RECORDING,
        Required("operation", TEXT, "what the client requested: create, ..."),
        Required("topic", TEXT, "topic name"),
        Required("broker_id", INT, "broker that a client polled for it"),
        Required("requested_at", AT, "the client sent its request"),
        Column("responded_at", AT, "the client had the response"),
        Column("visible_at", AT, "the first response of that broker that shows it"),
    ),
    key=("recording", "operation", "topic", "broker_id", "requested_at"),
)

APPLIED_OBSERVATIONS = Table(
    "applied_observations",
    "When brokers had applied metadata offsets, where they noted it themselves; no replay reads it",
    (
        RECORDING,
        Required("broker_id", INT, "the broker"),
        Required("metadata_offset", LONG, "last offset of its new metadata image, inclusive"),
        Column("applied_at", AT, "its BrokerMetadataPublisher had run on it"),
    ),
    key=("recording", "broker_id", "metadata_offset"),
)

LOWEST_ACKED_OBSERVATIONS = Table(
    "lowest_acked_observations",
    "Lowest acknowledged offsets that controllers noted at heartbeats, where they compute them; no"
    " replay reads it",
    (
        RECORDING,
        Required("controller_id", INT, "the active controller"),
        Required("noted_at", AT, "it had computed its response to a heartbeat"),
        Required("broker_id", INT, "broker that sent the heartbeat"),
        Column("metadata_offset", LONG, "last offset the broker has applied, inclusive"),
        Column("lowest_active_offset", LONG, "of brokers that count; null: there is none"),
    ),
    key=("recording", "controller_id", "noted_at", "broker_id"),
)

#: What a recording may have beside its logs: truth, to judge by.
OBSERVATIONS = (CLIENT_OBSERVATIONS, APPLIED_OBSERVATIONS, LOWEST_ACKED_OBSERVATIONS)

#: What is typed of the lines, a table for each kind of body.
TYPED_TABLES = (
    *(FETCHES, PRODUCES, BROKER_HEARTBEATS, METADATA_WRITES, ISR_CHANGES),
    *(BROKERS, GROUP_ASSIGNMENTS, TOPICS, CONFIGS, METADATA_OFFSETS, PRODUCER_IDS),
)

#: What held when logs began, and what gaps leave open.
HELD_TABLES = (HELD_PARTITIONS, HELD_SESSIONS, UNCERTAINTIES)

#: All that ingest fills; ingested_files is written last and says that the files are in.
LOG_TABLES = (INGESTED_FILES, REQUESTS, REJECTED_LINES, *TYPED_TABLES)
