"""The tables of the log: what ``ingest`` writes."""

import pyarrow as pa

from .table import LINE_COLUMNS, RECORDING_COLUMN, Table, table

#: When things happened on the node that logged (kafka-request.log's clock model).
CLOCK_COLUMNS = """
received_at  at arrival: stamp - totalTimeMs
dequeued_at  at arrival + requestQueueTimeMs: the handler takes the request
handled_at   at dequeued_at + localTimeMs: the handler returned
built_at     at stamp - sendTimeMs - responseQueueTimeMs: the response was built
completed_at at the line's stamp: just after the send completed
"""

SENDER_COLUMNS = """
api_version int  request version
client_id   text clientId of the request header, null if the client sent none
connection  text local host:port-remote host:port-processor-index
"""

_SIZES = """
request_bytes  long on the wire: frame, header, body
response_bytes long on the wire: frame, header, body
"""

INGESTED_FILES = table(f"""
ingested_files: Log files read, a row for each time that they had grown, and what became of \
    their lines: lines_read = requests + other + rejected + repeated
{RECORDING_COLUMN}
node_id           int*  node whose log holds the line
source_file       text* the file's name within its recording
content_hash      text* 32 hex digits of BLAKE2b over the uncompressed bytes, from 0 up to where \
    this reading ended
bytes_read        long  uncompressed bytes that this reading took
lines_read        long  lines; one that its carrier has split counts once
requests          long  lines that became a row of requests
other             long  lines of other loggers, stack traces, blank lines
rejected          long  lines that became a row of rejected_lines
repeated          long  lines whose content had been read before, here or elsewhere
first_byte        long  uncompressed byte where this reading began
timezone          text  zone that the stamps were read in
clock_offset_ms   ms    added to the stamps
ingest_epoch      long  number of the ingest that read it, rising in a recording
first_received_at at    first arrival of its requests, repeated ones too
last_completed_at at    last completion of those; null without
first_event_at    at    first arrival of one that rules read as it comes
disk_bytes        long  the file's size then; null where something was left in it
modified_at       at    its last modification then; null where something was left
damage            text  why and where reading ended early, null if it did not
""")

REQUESTS = table(f"""
requests: One row per logged request, of every API
{LINE_COLUMNS}
source_file           text file that held the copy read first
line_number           long line in it, from 1, uncompressed
{CLOCK_COLUMNS}
api_key               int  requestApiKey
api_name              text requestApiKeyName
api_version           int  requestApiVersion
correlation_id        int  correlationId
client_id             text clientId, null if the client sent none
connection            text local host:port-remote host:port-processor-index
listener              text listener the request came in on
security_protocol     text securityProtocol
principal             text authenticated principal
software_name         text clientInformation.softwareName
software_version      text clientInformation.softwareVersion
is_forwarded          bool came inside an ENVELOPE from a broker
is_deprecated_version bool requestApiVersionDeprecated
total_ms              ms   totalTimeMs
request_queue_ms      ms   requestQueueTimeMs
local_ms              ms   localTimeMs
remote_ms             ms   remoteTimeMs: waiting, on controllers also the Raft queue
throttle_ms           ms   throttleTimeMs
response_queue_ms     ms   responseQueueTimeMs
send_ms               ms   sendTimeMs
has_response          bool false where the log says "response":"" (acks=0)
request_bytes         long on the wire: frame, header, body; null where not known
response_bytes        long on the wire: frame, header, body; null where not known
""")

REJECTED_LINES = table(f"""
rejected_lines: Lines that could not be read as a request, each with its reason
{RECORDING_COLUMN}
line_id     text* 32 hex digits of BLAKE2b
node_id     int!  node whose log holds the line
source_file text  file that held the copy read first
line_number long  line in it, from 1, uncompressed
reason      text  why it could not be read
detail      text  the stamp or the field that was it, where one was; null elsewhere
line        text  its first 1,000 bytes, not UTF-8 as U+FFFD
line_bytes  long  its whole length
""")

FETCHES = table(f"""
fetches: One row per FETCH, partitions nested (a row per partition would explode)
{LINE_COLUMNS}
{CLOCK_COLUMNS}
{SENDER_COLUMNS}
correlation_id       int      correlationId
is_cluster_metadata  bool     fetches the metadata log (__cluster_metadata)
cluster_id           text     clusterId
replica_id           int      fetching replica, -1 for consumers
replica_epoch        long     its broker epoch, -1 if not sent
max_wait_ms          int      maxWaitMs
min_bytes            int      minBytes
max_bytes            int      maxBytes
isolation_level      int      0 read_uncommitted, 1 read_committed
session_id           int      sessionId of the request; 0 none
session_epoch        int      sessionEpoch; 0 new session, -1 none
rack_id              text     rackId
request_partitions   []struct in the order sent
  topic_id text, topic text, partition int, current_leader_epoch int, fetch_offset long,
  last_fetched_epoch int, log_start_offset long, partition_max_bytes int, replica_directory_id text,
  high_watermark long
forgotten_partitions []struct forgottenTopicsData
  topic_id text, topic text, partition int
throttle_ms          ms       throttleTimeMs of the response
error_code           int      top-level errorCode; null where there was no response
response_session_id  int      sessionId of the response
response_partitions  []struct in the order sent
  topic_id text, topic text, partition int, error_code int, high_watermark long,
  last_stable_offset long, log_start_offset long, preferred_read_replica int, record_bytes long,
  aborted_transactions int, current_leader_id int, current_leader_epoch int, diverging_epoch int,
  diverging_end_offset long, snapshot_end_offset long, snapshot_epoch int
node_endpoints       []struct nodeEndpoints (v16+)
  node_id int, host text, port int, rack text
{_SIZES}
""")

PRODUCES = table(f"""
produces: One row per PRODUCE, request and response of a partition side by side
{LINE_COLUMNS}
{CLOCK_COLUMNS}
{SENDER_COLUMNS}
correlation_id   int      correlationId
transactional_id text     transactionalId, null for others
acks             int      -1 all, 0, 1
timeout_ms       int      timeoutMs
has_response     bool     false with acks=0
partitions       []struct in the order of the request
  topic_id text, topic text, partition int, record_bytes long, error_code int, base_offset long,
  log_append_time_ms long, log_start_offset long, current_leader_id int, current_leader_epoch int,
  error_message text
  record_errors []struct
    batch_index_error_message text
node_endpoints   []struct nodeEndpoints (v10+)
  node_id int, host text, port int, rack text
{_SIZES}
""")

BROKER_HEARTBEATS = table(f"""
broker_heartbeats: One row per BROKER_HEARTBEAT that a controller responded to
{LINE_COLUMNS}
{CLOCK_COLUMNS}
{SENDER_COLUMNS}
broker_id               int  brokerId
broker_epoch            long brokerEpoch
current_metadata_offset long last offset applied, inclusive
want_fence              bool wantFence
want_shut_down          bool wantShutDown
error_code              int  errorCode; null where there was no response
is_caught_up            bool isCaughtUp
is_fenced               bool isFenced of the response
should_shut_down        bool shouldShutDown
offline_log_dirs        int  offlineLogDirs (v1+): how many; null if not sent
cordoned_log_dirs       int  cordonedLogDirs (v2+): how many; null if not sent
{_SIZES}
""")

#: ``partitions``: how many the API speaks of. ``replicas``: of all these together (CREATE_TOPICS).
#: ``configs``: how many it names (CREATE_TOPICS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS).
#: ``feature_level``: the new level (UPDATE_FEATURES).
METADATA_WRITES = table(f"""
metadata_writes: One row per request that writes to the metadata log (topics, configs, features, \
    ...)
{LINE_COLUMNS}
{CLOCK_COLUMNS}
{SENDER_COLUMNS}
correlation_id int      correlationId
api_name       text     requestApiKeyName
is_forwarded   bool     came inside an ENVELOPE from a broker
validate_only  bool     validateOnly: nothing is written
error_code     int      top-level errorCode, 0 where the API has none
resources      []struct what was written, each response
  resource_type text, name text, partitions int, replicas int, configs int, feature_level int,
  error_code int
""")

ISR_CHANGES = table(f"""
isr_changes: What ALTER_PARTITION and METADATA lines say of a partition's ISR and leader
{LINE_COLUMNS}
built_at        at    when the response was built: it held on the node from then on
dequeued_at     at    when the request was taken up
source          text  API that has it: ALTER_PARTITION or METADATA
topic           text* topic name, else topic id
topic_id        text  22 characters, null where the version has none
partition       int*  partition index
leader_id       int   leader, -1 none
leader_epoch    int   leader epoch
partition_epoch int   partition epoch (ALTER_PARTITION)
replicas        []int assigned replicas (METADATA)
requested_isr   []int ISR requested (ALTER_PARTITION)
isr             []int ISR returned; null where error_code is not 0
error_code      int   the partition's error
""")

BROKERS = table(f"""
brokers: Brokers that METADATA names (those that were not fenced) or that registered
{LINE_COLUMNS}
built_at      at   when the response was built
broker_id     int* the broker
rack          text broker.rack, null if not set
of_all_topics bool METADATA whose request named no topics: the response has all
""")

GROUP_ASSIGNMENTS = table(f"""
group_assignments: Partitions of members of consumer groups, as commits, assignments and \
    descriptions have them
{LINE_COLUMNS}
built_at    at       when the response was built
source      text     API that has it
group_id    text*    the group
member_id   text*    the member, empty where the version has none
client_id   text     the member's clientId
client_host text     the member's address
partitions  []struct assigned ones; of OFFSET_COMMIT those that it commits, with the offset, null \
    if that failed
  topic_id text, topic text, partition int, committed_offset long
""")

GROUP_REQUESTS = table(f"""
group_requests: Members of groups that join, synchronize, send heartbeats and leave, under the \
    classic and the consumer protocol
{LINE_COLUMNS}
received_at     at   at arrival
built_at        at   when the response was built
source          text API that has it
client_id       text clientId of the request header, null if the client sent none
connection      text local host:port-remote host:port-processor-index
group_id        text* the group
member_id       text* the member, empty where it has no id yet
action          text join, sync, heartbeat or leave
protocol        text classic or consumer
sent_generation int  generationId or memberEpoch of the request; null where the version has none
generation      int  generationId or memberEpoch returned, -1 none; null where the API has none
error_code      int  errorCode, of the member where it has one; null without a response
members         int  members in the response to the group's leader (JOIN_GROUP); null of others
assigned        int  partitions that a response assigns; null where it names none
reason          text why a member joins again or leaves (KIP-800), null if it did not say
""")

TOPICS = table(f"""
topics: Topic names, ids and sizes as CREATE_TOPICS, METADATA and others have them
{LINE_COLUMNS}
built_at           at    when the response was built
source             text  API that has it
topic              text* topic name, else topic id
topic_id           text  22 characters, null where the version has none
partitions         int   number of partitions, null where not given
replication_factor int   null where not given
is_internal        bool  isInternal (METADATA)
error_code         int   the topic's error
""")

CONFIGS = table(
    f"""
configs: Configs as CREATE_TOPICS, DESCRIBE_CONFIGS and INCREMENTAL_ALTER_CONFIGS have them
{LINE_COLUMNS}
built_at      at    when the response was built
source        text  API that has it
resource_type text* topic, broker, ...
resource_name text* topic name, broker id, empty for the cluster default
name          text* config name
value         text  value; null where deleted, sensitive or masked
operation     text* set, delete, append, subtract or describe
config_source int   configSource (DESCRIBE_CONFIGS, CREATE_TOPICS v5+)
error_code    int   the resource's error
""",
    holds_on=True,
)

METADATA_OFFSETS = table(f"""
metadata_offsets: How far nodes had come in the metadata log, as lines of other APIs show it
{LINE_COLUMNS}
built_at        at    when the response was built: the offset was reached by then
dequeued_at     at    when the request was taken up: it was read after that
source          text  API that has it
connection      text  local host:port-remote host:port-processor-index
subject_id      int*  node that the offset is of
kind            text* finalized_features_epoch (API_VERSIONS): on a broker the last offset of its \
    metadata image, inclusive, on a controller only that of the last feature change; broker_epoch \
    (BROKER_REGISTRATION): the registration's own offset, inclusive, of the first one where the \
    same process registers again; high_watermark, log_end_offset (DESCRIBE_QUORUM): exclusive
metadata_offset long  offset in the metadata log; what is not known has no row
leader_epoch    int   leader epoch (DESCRIBE_QUORUM)
""")

PRODUCER_IDS = table(f"""
producer_ids: One row per INIT_PRODUCER_ID: who is idempotent or transactional
{LINE_COLUMNS}
built_at         at   when the response was built: the producer has its id from then on
dequeued_at      at   when the request was taken up
client_id        text clientId of the request header, null if the client sent none
connection       text local host:port-remote host:port-processor-index
transactional_id text transactionalId, null for others
producer_id      long producerId returned, -1 none; null without a response
producer_epoch   int  producerEpoch returned, -1 none; null without a response
error_code       int  errorCode; null without a response
""")

LOG_GAPS = table(f"""
log_gaps: Gaps in logs: spans of time in which lines of a node are missing
{RECORDING_COLUMN}
node_id         int* node whose log holds the line
number          int* from 1, of the node's gaps by time
after_at        at   last completion before it; null: the log's beginning is missing
before_at       at   first completion after it; null: the log's end is missing
evidence        text what shows it: correlation_id or session_epoch (numbers that were skipped), \
    fetch_offset (moved by records that no response carried), contradiction (lines of a replica \
    between which an offset or an epoch falls), connection or session (used without having been \
    opened), rejected_line, begins_late (while the node ran), ends_early (while it led), no_log, \
    logger_off (an empty log of a node that ran), filtered (all lines of some kind are missing), \
    deprecated_only, sampled or no_fetch (the logs are a selection of requests)
lines_missing   long the least that are missing; null: not known
last_request_id text the request before it, on the same connection or session
next_request_id text the first request that shows it
""")

HELD_PARTITIONS = table(f"""
held_partitions: What held of partitions, and of topics' min.insync.replicas, when the logs \
    began, by evidence that came later
{RECORDING_COLUMN}
topic               text* topic name, else topic id; empty: the brokers' default
topic_id            text  22 characters, null where the version has none
partition           int*  partition index; -1: the topic's config, or the brokers' default
leader_id           int   leader, -1 none
leader_epoch        int   leader epoch
replicas            []int assigned replicas
isr                 []int in-sync replicas, ascending; null: not sure
min_insync_replicas int   of the topic or the default, where partition is -1
held_from           at    from when on that is sure
stated_at           at    when the response was built that has it
stated_by           int   node that responded
evidence_request_id text  METADATA or DESCRIBE_CONFIGS that has it
""")

HELD_SESSIONS = table(f"""
held_sessions: Fetch sessions that are older than the log, and what they had when their first \
    FETCH came
{RECORDING_COLUMN}
node_id             int*     node whose log holds the line
session_id          int*     sessionId
session_epoch       int      sessionEpoch of the first FETCH that the log has
api_version         int      its version
client_id           text     clientId, null if the client sent none
connection          text     local host:port-remote host:port-processor-index
replica_id          int      fetching replica, -1 for consumers
replica_epoch       long     its broker epoch, -1 if not sent
partitions          []struct by topic; their order is not known
  topic_id text, topic text, partition int
held_from           at       when the first FETCH came
stated_at           at       when the response was built that names the partitions
request_id          text     that FETCH
evidence_request_id text     METADATA that names the partitions
""")

UNCERTAINTIES = table(f"""
uncertainties: What gaps in logs leave open to a leader of partitions
{RECORDING_COLUMN}
node_id             int*  the leader
what                text* follower: in ISRs or out; own log and metadata log: who leads, joins; \
    configs
broker_id           int*  the follower, else -1
uncertain_from      at*   since then; of a follower, its last FETCH before
shown_at            at    from then on the log shows it
uncertain_until     at    null: until METADATA or ALTER_PARTITION states it again
gap_node_id         int*  node with the gap
evidence_request_id text  the follower's last FETCH before
""")


def _element(table: Table, column: str) -> pa.StructType:
    return table.arrow_schema.field(column).type.value_type


FETCH_REQUEST_PARTITION = _element(FETCHES, "request_partitions")
FETCH_RESPONSE_PARTITION = _element(FETCHES, "response_partitions")
NODE_ENDPOINT = _element(FETCHES, "node_endpoints")

#: What is typed of the lines, a table for each kind of body.
TYPED_TABLES = (
    *(FETCHES, PRODUCES, BROKER_HEARTBEATS, METADATA_WRITES, ISR_CHANGES),
    *(BROKERS, GROUP_ASSIGNMENTS, GROUP_REQUESTS, TOPICS, CONFIGS, METADATA_OFFSETS, PRODUCER_IDS),
)

#: What held when logs began, and what gaps leave open.
HELD_TABLES = (HELD_PARTITIONS, HELD_SESSIONS, UNCERTAINTIES)

#: What becomes of lines.
LINE_TABLES = (REQUESTS, REJECTED_LINES, *TYPED_TABLES)
#: All that ingest fills; ingested_files is written last and says that the files are in.
LOG_TABLES = (INGESTED_FILES, *LINE_TABLES)
