"""The tables of the log: what ``ingest`` writes."""

import pyarrow as pa

from .records import Line, Record, RecordingKey
from .table import (
    At,
    Bool,
    Int,
    Ints,
    Long,
    Ms,
    RequiredAt,
    RequiredInt,
    RequiredText,
    Structs,
    Text,
    column,
    key,
    struct,
)


class LinePlace(Record):
    """The place of a row's line: its file, and its number there."""

    source_file: Text = column("file that held the copy read first")
    line_number: Long = column("line in it, from 1, uncompressed")


class RequestTimes(Record):
    """When a request went through the node that logged it (kafka-request.log's clock model)."""

    received_at: At = column("arrival: stamp - totalTimeMs")
    dequeued_at: At = column("arrival + requestQueueTimeMs: the handler takes the request")
    handled_at: At = column("dequeued_at + localTimeMs: the handler returned")
    built_at: At = column("stamp - sendTimeMs - responseQueueTimeMs: the response was built")
    completed_at: At = column("the line's stamp: just after the send completed")


class Sender(Record):
    """The sender of a request."""

    api_version: Int = column("request version")
    client_id: Text = column("clientId of the request header, null if the client sent none")
    connection: Text = column("local host:port-remote host:port-processor-index")


class IngestedFiles(Record, name="ingested_files", shares=(RecordingKey,)):
    """Log files read, a row for each time that they had grown, and what became of their lines:
    lines_read = requests + other + rejected + repeated.
    """

    node_id: RequiredInt = key("node whose log holds the line")
    source_file: RequiredText = key("the file's name within its recording")
    content_hash: RequiredText = key(
        "32 hex digits of BLAKE2b over the uncompressed bytes, from 0 up to where this reading "
        "ended"
    )
    bytes_read: Long = column("uncompressed bytes that this reading took")
    lines_read: Long = column("lines; one that its carrier has split counts once")
    requests: Long = column("lines that became a row of requests")
    other: Long = column("lines of other loggers, stack traces, blank lines")
    rejected: Long = column("lines that became a row of rejected_lines")
    repeated: Long = column("lines whose content had been read before, here or elsewhere")
    first_byte: Long = column("uncompressed byte where this reading began")
    timezone: Text = column("zone that the stamps were read in")
    clock_offset_ms: Ms = column("added to the stamps")
    ingest_epoch: Long = column("number of the ingest that read it, rising in a recording")
    first_received_at: At = column("first arrival of its requests, repeated ones too")
    last_completed_at: At = column("last completion of those; null without")
    first_event_at: At = column("first arrival of one that rules read as it comes")
    disk_bytes: Long = column("the file's size then; null where something was left in it")
    modified_at: At = column("its last modification then; null where something was left")
    damage: Text = column("why and where reading ended early, null if it did not")


class Requests(Record, name="requests", shares=(Line, LinePlace, RequestTimes)):
    """One row per logged request, of every API."""

    api_key: Int = column("requestApiKey")
    api_name: Text = column("requestApiKeyName")
    api_version: Int = column("requestApiVersion")
    correlation_id: Int = column("correlationId")
    client_id: Text = column("clientId, null if the client sent none")
    connection: Text = column("local host:port-remote host:port-processor-index")
    listener: Text = column("listener the request came in on")
    security_protocol: Text = column("securityProtocol")
    principal: Text = column("authenticated principal")
    software_name: Text = column("clientInformation.softwareName")
    software_version: Text = column("clientInformation.softwareVersion")
    is_forwarded: Bool = column("came inside an ENVELOPE from a broker")
    is_deprecated_version: Bool = column("requestApiVersionDeprecated")
    total_ms: Ms = column("totalTimeMs")
    request_queue_ms: Ms = column("requestQueueTimeMs")
    local_ms: Ms = column("localTimeMs")
    remote_ms: Ms = column("remoteTimeMs: waiting, on controllers also the Raft queue")
    throttle_ms: Ms = column("throttleTimeMs")
    response_queue_ms: Ms = column("responseQueueTimeMs")
    send_ms: Ms = column("sendTimeMs")
    has_response: Bool = column('false where the log says "response":"" (acks=0)')
    request_bytes: Long = column("on the wire: frame, header, body; null where not known")
    response_bytes: Long = column("on the wire: frame, header, body; null where not known")


class RejectedLines(Record, name="rejected_lines", shares=(RecordingKey,)):
    """Lines that could not be read as a request, each with its reason."""

    line_id: RequiredText = key("32 hex digits of BLAKE2b")
    node_id: RequiredInt = column("node whose log holds the line")
    source_file: Text = column("file that held the copy read first")
    line_number: Long = column("line in it, from 1, uncompressed")
    reason: Text = column("why it could not be read")
    detail: Text = column("the stamp or the field that was it, where one was; null elsewhere")
    line: Text = column("its first 1,000 bytes, not UTF-8 as U+FFFD")
    line_bytes: Long = column("its whole length")


class Fetches(Record, name="fetches", shares=(Line, RequestTimes, Sender)):
    """One row per FETCH, partitions nested (a row per partition would explode)."""

    correlation_id: Int = column("correlationId")
    is_cluster_metadata: Bool = column("fetches the metadata log (__cluster_metadata)")
    cluster_id: Text = column("clusterId")
    replica_id: Int = column("fetching replica, -1 for consumers")
    replica_epoch: Long = column("its broker epoch, -1 if not sent")
    max_wait_ms: Int = column("maxWaitMs")
    min_bytes: Int = column("minBytes")
    max_bytes: Int = column("maxBytes")
    isolation_level: Int = column("0 read_uncommitted, 1 read_committed")
    session_id: Int = column("sessionId of the request; 0 none")
    session_epoch: Int = column("sessionEpoch; 0 new session, -1 none")
    rack_id: Text = column("rackId")
    request_partitions: Structs = column(
        "in the order sent",
        struct(
            "topic_id string, topic string, partition int32, current_leader_epoch int32, "
            "fetch_offset int64, last_fetched_epoch int32, log_start_offset int64, "
            "partition_max_bytes int32, replica_directory_id string, high_watermark int64"
        ),
    )
    forgotten_partitions: Structs = column(
        "forgottenTopicsData", struct("topic_id string, topic string, partition int32")
    )
    throttle_ms: Ms = column("throttleTimeMs of the response")
    error_code: Int = column("top-level errorCode; null where there was no response")
    response_session_id: Int = column("sessionId of the response")
    response_partitions: Structs = column(
        "in the order sent",
        struct(
            "topic_id string, topic string, partition int32, error_code int32, "
            "high_watermark int64, last_stable_offset int64, log_start_offset int64, "
            "preferred_read_replica int32, record_bytes int64, aborted_transactions int32, "
            "current_leader_id int32, current_leader_epoch int32, diverging_epoch int32, "
            "diverging_end_offset int64, snapshot_end_offset int64, snapshot_epoch int32"
        ),
    )
    node_endpoints: Structs = column(
        "nodeEndpoints (v16+)", struct("node_id int32, host string, port int32, rack string")
    )
    request_bytes: Long = column("on the wire: frame, header, body")
    response_bytes: Long = column("on the wire: frame, header, body")


class Produces(Record, name="produces", shares=(Line, RequestTimes, Sender)):
    """One row per PRODUCE, request and response of a partition side by side."""

    correlation_id: Int = column("correlationId")
    transactional_id: Text = column("transactionalId, null for others")
    acks: Int = column("-1 all, 0, 1")
    timeout_ms: Int = column("timeoutMs")
    has_response: Bool = column("false with acks=0")
    partitions: Structs = column(
        "in the order of the request",
        struct(
            "topic_id string, topic string, partition int32, record_bytes int64, "
            "error_code int32, base_offset int64, log_append_time_ms int64, "
            "log_start_offset int64, current_leader_id int32, current_leader_epoch int32, "
            "error_message string",
            record_errors=pa.list_(struct("batch_index_error_message string")),
        ),
    )
    node_endpoints: Structs = column(
        "nodeEndpoints (v10+)", struct("node_id int32, host string, port int32, rack string")
    )
    request_bytes: Long = column("on the wire: frame, header, body")
    response_bytes: Long = column("on the wire: frame, header, body")


class BrokerHeartbeats(Record, name="broker_heartbeats", shares=(Line, RequestTimes, Sender)):
    """One row per BROKER_HEARTBEAT in a controller's log."""

    broker_id: Int = column("brokerId")
    broker_epoch: Long = column("brokerEpoch")
    current_metadata_offset: Long = column("last offset applied, inclusive")
    want_fence: Bool = column("wantFence")
    want_shut_down: Bool = column("wantShutDown")
    error_code: Int = column("errorCode; null where there was no response")
    is_caught_up: Bool = column("isCaughtUp")
    is_fenced: Bool = column("isFenced of the response")
    should_shut_down: Bool = column("shouldShutDown")
    offline_log_dirs: Int = column("offlineLogDirs (v1+): how many; null if not sent")
    cordoned_log_dirs: Int = column("cordonedLogDirs (v2+): how many; null if not sent")
    request_bytes: Long = column("on the wire: frame, header, body")
    response_bytes: Long = column("on the wire: frame, header, body")


class MetadataWrites(Record, name="metadata_writes", shares=(Line, RequestTimes, Sender)):
    """One row per request that writes to the metadata log (topics, configs, features, ...).

    ``partitions``: how many the API speaks of. ``replicas``: of all these together (CREATE_TOPICS).
    ``configs``: how many it names (CREATE_TOPICS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS).
    ``feature_level``: the new level (UPDATE_FEATURES).
    """

    correlation_id: Int = column("correlationId")
    api_name: Text = column("requestApiKeyName")
    is_forwarded: Bool = column("came inside an ENVELOPE from a broker")
    validate_only: Bool = column("validateOnly: nothing is written")
    error_code: Int = column("top-level errorCode, 0 where the API has none")
    resources: Structs = column(
        "what was written, each response",
        struct(
            "resource_type string, name string, partitions int32, replicas int32, configs int32, "
            "feature_level int32, error_code int32"
        ),
    )


class IsrChanges(Record, name="isr_changes", shares=(Line,)):
    """ISRs and leaders of partitions, as ALTER_PARTITION and METADATA lines have them."""

    built_at: At = column("when the response was built: it held on the node from then on")
    dequeued_at: At = column("when the request was taken up")
    source: Text = column("API that has it: ALTER_PARTITION or METADATA")
    topic: RequiredText = key("topic name, else topic id")
    topic_id: Text = column("22 characters, null where the version has none")
    partition: RequiredInt = key("partition index")
    leader_id: Int = column("leader, -1 none")
    leader_epoch: Int = column("leader epoch")
    partition_epoch: Int = column("partition epoch (ALTER_PARTITION)")
    replicas: Ints = column("assigned replicas (METADATA)")
    requested_isr: Ints = column("ISR requested (ALTER_PARTITION)")
    isr: Ints = column("ISR returned; null where error_code is not 0")
    error_code: Int = column("the partition's error")


class Brokers(Record, name="brokers", shares=(Line,)):
    """Brokers that METADATA names (those that were not fenced) or that registered."""

    built_at: At = column("when the response was built")
    broker_id: RequiredInt = key("the broker")
    rack: Text = column("broker.rack, null if not set")
    of_all_topics: Bool = column("METADATA whose request named no topics: the response has all")


class GroupAssignments(Record, name="group_assignments", shares=(Line,)):
    """Partitions of members of consumer groups, as commits, assignments and descriptions have
    them.
    """

    built_at: At = column("when the response was built")
    source: Text = column("API that has it")
    group_id: RequiredText = key("the group")
    member_id: RequiredText = key("the member, empty where the version has none")
    client_id: Text = column("the member's clientId")
    client_host: Text = column("the member's address")
    partitions: Structs = column(
        "assigned ones; of OFFSET_COMMIT those that it commits, with the offset, null if that "
        "failed",
        struct("topic_id string, topic string, partition int32, committed_offset int64"),
    )


class MemberLine(Record, shares=(Line,)):
    """A request that a group's member sent."""

    received_at: At = column("at arrival")
    built_at: At = column("when the response was built")
    source: Text = column("API that has it")
    client_id: Text = column("clientId of the request header, null if the client sent none")
    connection: Text = column("local host:port-remote host:port-processor-index")


class GroupRequest(Record, name="group_requests", shares=(MemberLine,), kw_only=False):
    """Members of groups that join, synchronize, send heartbeats and leave, under the classic and
    the consumer protocol.
    """

    group_id: RequiredText = key("the group")
    member_id: RequiredText = key("the member, empty where it has no id yet")
    action: Text = column("join, sync, heartbeat or leave")
    protocol: Text = column("classic or consumer", default="classic")
    sent_generation: Int = column(
        "generationId or memberEpoch of the request; null where the version has none"
    )
    generation: Int = column(
        "generationId or memberEpoch returned, -1 none; null where the API has none"
    )
    error_code: Int = column("errorCode, of the member where it has one; null without a response")
    members: Int = column(
        "members in the response to the group's leader (JOIN_GROUP); null of others"
    )
    assigned: Int = column("partitions that a response assigns; null where it names none")
    reason: Text = column("why a member joins again or leaves (KIP-800), null if it did not say")


class Topics(Record, name="topics", shares=(Line,)):
    """Topic names, ids and sizes as CREATE_TOPICS, METADATA and others have them."""

    built_at: At = column("when the response was built")
    source: Text = column("API that has it")
    topic: RequiredText = key("topic name, else topic id")
    topic_id: Text = column("22 characters, null where the version has none")
    partitions: Int = column("number of partitions, null where not given")
    replication_factor: Int = column("null where not given")
    is_internal: Bool = column("isInternal (METADATA)")
    error_code: Int = column("the topic's error")


class Configs(Record, name="configs", shares=(Line,), holds_on=True):
    """Configs as CREATE_TOPICS, DESCRIBE_CONFIGS and INCREMENTAL_ALTER_CONFIGS have them."""

    built_at: At = column("when the response was built")
    source: Text = column("API that has it")
    resource_type: RequiredText = key("topic, broker, ...")
    resource_name: RequiredText = key("topic name, broker id, empty for the cluster default")
    name: RequiredText = key("config name")
    value: Text = column("value; null where deleted, sensitive or masked")
    operation: RequiredText = key("set, delete, append, subtract or describe")
    config_source: Int = column("configSource (DESCRIBE_CONFIGS, CREATE_TOPICS v5+)")
    error_code: Int = column("the resource's error")


class MetadataOffsets(Record, name="metadata_offsets", shares=(Line,)):
    """How far nodes had come in the metadata log, as lines of other APIs show it."""

    built_at: At = column("when the response was built: the offset was reached by then")
    dequeued_at: At = column("when the request was taken up: it was read after that")
    source: Text = column("API that has it")
    connection: Text = column("local host:port-remote host:port-processor-index")
    subject_id: RequiredInt = key("node that the offset is of")
    kind: RequiredText = key(
        "finalized_features_epoch (API_VERSIONS): on a broker the last offset of its metadata "
        "image, inclusive, on a controller only that of the last feature change; broker_epoch "
        "(BROKER_REGISTRATION): the registration's own offset, inclusive, of the first one where "
        "the same process registers again; high_watermark, log_end_offset (DESCRIBE_QUORUM): "
        "exclusive"
    )
    metadata_offset: Long = column("offset in the metadata log; what is not known has no row")
    leader_epoch: Int = column("leader epoch (DESCRIBE_QUORUM)")


class ProducerIds(Record, name="producer_ids", shares=(Line,)):
    """One row per INIT_PRODUCER_ID: who is idempotent or transactional."""

    built_at: At = column("when the response was built: the producer has its id from then on")
    dequeued_at: At = column("when the request was taken up")
    client_id: Text = column("clientId of the request header, null if the client sent none")
    connection: Text = column("local host:port-remote host:port-processor-index")
    transactional_id: Text = column("transactionalId, null for others")
    producer_id: Long = column("producerId returned, -1 none; null without a response")
    producer_epoch: Int = column("producerEpoch returned, -1 none; null without a response")
    error_code: Int = column("errorCode; null without a response")


class LogGaps(Record, name="log_gaps", shares=(RecordingKey,)):
    """Gaps in logs: spans of time in which lines of a node are missing."""

    node_id: RequiredInt = key("node whose log holds the line")
    number: RequiredInt = key("from 1, of the node's gaps by time")
    after_at: At = column("last completion before it; null: the log's beginning is missing")
    before_at: At = column("first completion after it; null: the log's end is missing")
    evidence: Text = column(
        "what shows it: correlation_id or session_epoch (numbers that were skipped), fetch_offset "
        "(moved by records that no response carried), contradiction (lines of a replica between "
        "which an offset or an epoch falls), connection or session (used without having been "
        "opened), rejected_line, begins_late (while the node ran), ends_early (while it led), "
        "no_log, logger_off (an empty log of a node that ran), filtered (all lines of some kind "
        "are missing), deprecated_only, sampled or no_fetch (the logs are a selection of "
        "requests)"
    )
    lines_missing: Long = column("the least that are missing; null: not known")
    last_request_id: Text = column("the request before it, on the same connection or session")
    next_request_id: Text = column("the first request that shows it")


class HeldPartitions(Record, name="held_partitions", shares=(RecordingKey,)):
    """The state of partitions, and of topics' min.insync.replicas, when the logs began, by evidence
    that came later.
    """

    topic: RequiredText = key("topic name, else topic id; empty: the brokers' default")
    topic_id: Text = column("22 characters, null where the version has none")
    partition: RequiredInt = key("partition index; -1: the topic's config, or the brokers' default")
    leader_id: Int = column("leader, -1 none")
    leader_epoch: Int = column("leader epoch")
    replicas: Ints = column("assigned replicas")
    isr: Ints = column("in-sync replicas, ascending; null: not sure")
    min_insync_replicas: Int = column("of the topic or the default, where partition is -1")
    held_from: At = column("from when on that is sure")
    stated_at: At = column("when the response was built that has it")
    stated_by: Int = column("node that responded")
    evidence_request_id: Text = column("METADATA or DESCRIBE_CONFIGS that has it")


class HeldSessions(Record, name="held_sessions", shares=(RecordingKey,)):
    """Fetch sessions that are older than the log, and what they had when their first FETCH came."""

    node_id: RequiredInt = key("node whose log holds the line")
    session_id: RequiredInt = key("sessionId")
    session_epoch: Int = column("sessionEpoch of the first FETCH that the log has")
    api_version: Int = column("its version")
    client_id: Text = column("clientId, null if the client sent none")
    connection: Text = column("local host:port-remote host:port-processor-index")
    replica_id: Int = column("fetching replica, -1 for consumers")
    replica_epoch: Long = column("its broker epoch, -1 if not sent")
    partitions: Structs = column(
        "by topic; their order is not known",
        struct("topic_id string, topic string, partition int32"),
    )
    held_from: At = column("when the first FETCH came")
    stated_at: At = column("when the response was built that names the partitions")
    request_id: Text = column("that FETCH")
    evidence_request_id: Text = column("METADATA that names the partitions")


class Uncertainties(Record, name="uncertainties", shares=(RecordingKey,)):
    """States that gaps in logs leave open, by the leader of partitions that they concern."""

    node_id: RequiredInt = key("the leader")
    what: RequiredText = key(
        "follower: in ISRs or out; own log and metadata log: who leads, joins; configs"
    )
    broker_id: RequiredInt = key("the follower, else -1")
    uncertain_from: RequiredAt = key("since then; of a follower, its last FETCH before")
    shown_at: At = column("from then on the log shows it")
    uncertain_until: At = column("null: until METADATA or ALTER_PARTITION states it again")
    gap_node_id: RequiredInt = key("node with the gap")
    evidence_request_id: Text = column("the follower's last FETCH before")


#: Fields of requests and responses as typed columns, a table for each kind of body.
TYPED_TABLES = (
    *(Fetches, Produces, BrokerHeartbeats, MetadataWrites, IsrChanges),
    *(Brokers, GroupAssignments, GroupRequest, Topics, Configs, MetadataOffsets, ProducerIds),
)

#: What held when logs began, and what gaps leave open.
HELD_TABLES = (HeldPartitions, HeldSessions, Uncertainties)

#: Tables whose rows are made of lines.
LINE_TABLES = (Requests, RejectedLines, *TYPED_TABLES)
#: All that ingest fills; ingested_files is written last and says that the files are in.
LOG_TABLES = (IngestedFiles, *LINE_TABLES)
