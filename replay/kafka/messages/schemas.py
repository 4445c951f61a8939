"""Kafka's messages as tables, in the terms of Kafka's own message schemas.

Source: ``clients/src/main/resources/common/message/*.json`` of Apache Kafka 4.3, one field a line:
name, type and versions, then its other attributes; fields of a struct are indented below it. (Where
only some fields of a message are read, several are on a line, with commas.) Parser types and sizes
follow. A new version is the new ``validVersions`` and a line for each new field.

Four attributes are not Kafka's. ``column`` names a field in our tables, if it is not its own
name in snake_case; the fields of a tagged struct are beside those around it, and of an array
for which the table has an integer only the length is kept. ``min`` is the least that a number may
be, if not that of its type (``layout.RANGES``). ``presentWith`` on a message names the columns that
are neither null nor false where the body was logged.

Below them are versions of requests that releases no longer serve (KIP-896), and error codes. Source
of versions: ``validVersions`` of ``common/message/*Request.json`` in kafka-clients 3.9.2, 4.0.0 to
4.0.2, 4.1.0, 4.1.2, 4.2.0 to 4.2.2, 4.3.0, 4.3.1 and 4.4.0; 3.3 to 3.8 begin where 3.9 does. Not
responses to API_VERSIONS: brokers of 4.x list PRODUCE from version 0 for librdkafka's sake, and
refuse 0 to 2 (KAFKA-18659). What only ZooKeeper clusters have, and 4.0 dropped, is left out.
Of error codes: ``org.apache.kafka.common.protocol.Errors`` of Kafka 4.3.
"""

from typing import Final

PRODUCE: Final = """
ProduceRequest request apiKey=0 validVersions=3-13 flexibleVersions=9+ presentWith=acks
  TransactionalId string   3+    nullableVersions=3+ default=null
  Acks            int16    0+    min=-32768
  TimeoutMs       int32    0+
  TopicData       []TopicProduceData 0+ column=partitions
    Name          string   0-12  column=topic
    TopicId       uuid     13+
    PartitionData []PartitionProduceData 0+
      Index       int32    0+    column=partition min=0
      Records     records  0+    nullableVersions=0+ column=record_bytes
ProduceResponse response apiKey=0 validVersions=3-13 flexibleVersions=9+
presentWith=has_response,partitions
  Responses                    []TopicProduceResponse 0+ column=partitions
    Name                       string   0-12  column=topic
    TopicId                    uuid     13+
    PartitionResponses         []PartitionProduceResponse 0+
      Index                    int32    0+    column=partition min=0
      ErrorCode                int16    0+
      BaseOffset               int64    0+
      LogAppendTimeMs          int64    2+    default=-1
      LogStartOffset           int64    5+    default=-1
      RecordErrors             []BatchIndexAndErrorMessage 8+
        BatchIndex             int32    8+
        BatchIndexErrorMessage string   8+    nullableVersions=8+ default=null
      ErrorMessage             string   8+    nullableVersions=8+ default=null
      CurrentLeader            LeaderIdAndEpoch 10+ taggedVersions=10+ tag=0
        LeaderId               int32    0+    default=-1 column=current_leader_id
        LeaderEpoch            int32    0+    default=-1 column=current_leader_epoch
  ThrottleTimeMs               int32    1+    column=throttle_ms min=0
  NodeEndpoints                []NodeEndpoint 10+ taggedVersions=10+ tag=0
    NodeId                     int32    0+
    Host                       string   0+
    Port                       int32    0+
    Rack                       string   0+    nullableVersions=0+ default=null
"""

FETCH: Final = """
FetchRequest request apiKey=1 validVersions=4-18 flexibleVersions=12+ presentWith=max_wait_ms
  ClusterId              string   12+   nullableVersions=12+ default=null taggedVersions=12+ tag=0
  ReplicaId              int32    0-14  default=-1 min=-2
  ReplicaState           ReplicaState 15+ taggedVersions=15+ tag=1
    ReplicaId            int32    15+   default=-1 min=-2
    ReplicaEpoch         int64    15+   default=-1
  MaxWaitMs              int32    0+
  MinBytes               int32    0+
  MaxBytes               int32    3+    default=0x7fffffff
  IsolationLevel         int8     4+    default=0
  SessionId              int32    7+    default=0
  SessionEpoch           int32    7+    default=-1
  Topics                 []FetchTopic 0+ column=request_partitions
    Topic                string   0-12
    TopicId              uuid     13+
    Partitions           []FetchPartition 0+
      Partition          int32    0+    min=0
      CurrentLeaderEpoch int32    9+    default=-1
      FetchOffset        int64    0+
      LastFetchedEpoch   int32    12+   default=-1
      LogStartOffset     int64    5+    default=-1
      PartitionMaxBytes  int32    0+
      ReplicaDirectoryId uuid     17+   taggedVersions=17+ tag=0
      HighWatermark      int64    18+   default=9223372036854775807 taggedVersions=18+ tag=1
  ForgottenTopicsData    []ForgottenTopic 7+ column=forgotten_partitions
    Topic                string   7-12
    TopicId              uuid     13+
    Partitions           []int32  7+    column=partition
  RackId                 string   11+   default=
FetchResponse response apiKey=1 validVersions=4-18 flexibleVersions=12+ presentWith=error_code
  ThrottleTimeMs           int32    1+    column=throttle_ms min=0
  ErrorCode                int16    7+
  SessionId                int32    7+    default=0 column=response_session_id
  Responses                []FetchableTopicResponse 0+ column=response_partitions
    Topic                  string   0-12
    TopicId                uuid     13+
    Partitions             []PartitionData 0+
      PartitionIndex       int32    0+    column=partition min=0
      ErrorCode            int16    0+
      HighWatermark        int64    0+
      LastStableOffset     int64    4+    default=-1
      LogStartOffset       int64    5+    default=-1
      DivergingEpoch       EpochEndOffset 12+ taggedVersions=12+ tag=0
        Epoch              int32    12+   default=-1 column=diverging_epoch
        EndOffset          int64    12+   default=-1 column=diverging_end_offset
      CurrentLeader        LeaderIdAndEpoch 12+ taggedVersions=12+ tag=1
        LeaderId           int32    0+    default=-1 column=current_leader_id
        LeaderEpoch        int32    0+    default=-1 column=current_leader_epoch
      SnapshotId           SnapshotId 12+ taggedVersions=12+ tag=2
        EndOffset          int64    0+    default=-1 column=snapshot_end_offset
        Epoch              int32    0+    default=-1 column=snapshot_epoch
      AbortedTransactions  []AbortedTransaction 4+ nullableVersions=4+
        ProducerId         int64    4+
        FirstOffset        int64    4+
      PreferredReadReplica int32    11+   default=-1
      Records              records  0+    nullableVersions=0+ column=record_bytes
  NodeEndpoints            []NodeEndpoint 16+ taggedVersions=16+ tag=0
    NodeId                 int32    0+
    Host                   string   0+
    Port                   int32    0+
    Rack                   string   0+    nullableVersions=0+ default=null
"""

BROKER_HEARTBEAT: Final = """
BrokerHeartbeatRequest request apiKey=63 validVersions=0-2 flexibleVersions=0+ presentWith=broker_id
  BrokerId              int32    0+    min=0
  BrokerEpoch           int64    0+    default=-1
  CurrentMetadataOffset int64    0+
  WantFence             bool     0+
  WantShutDown          bool     0+
  OfflineLogDirs        []uuid   1+    taggedVersions=1+ tag=0
  CordonedLogDirs       []uuid   2+    nullableVersions=2+ default=null taggedVersions=2+ tag=1
BrokerHeartbeatResponse response apiKey=63 validVersions=0-2 flexibleVersions=0+
presentWith=error_code
  ThrottleTimeMs int32    0+    column=throttle_ms min=0
  ErrorCode      int16    0+
  IsCaughtUp     bool     0+    default=false
  IsFenced       bool     0+    default=true
  ShouldShutDown bool     0+
"""

#: Draft KIP "Lowest Acknowledged Offset", "Public Interfaces": in every BrokerHeartbeatResponse.
#: Kafka has since taken versions 1 and 2 for other fields, of the request; it gets no tag.
LOWEST_ACKNOWLEDGED_OFFSET: Final = "LowestAcknowledgedOffset int64 1+"

#: KIP-227, version 3, "Public Interfaces": in every FetchResponse, the session's uuid.
FETCH_RESPONSE_UUID: Final = "Uuid int64 0+"

#: KIP-227, version 3, "Public Interfaces". Kafka had no flexible versions then. The page declares
#: ``partition_id`` a STRING in the request, likely a slip: in all of Kafka it is an INT32.
INCREMENTAL_FETCH: Final = """
IncrementalFetchRequest request validVersions=0 flexibleVersions=none
  Uuid            int64    0+
  ReplicaId       int32    0+
  MaxWaitTime     int32    0+
  MinBytes        int32    0+
  IsolationLevel  int8     0+
  Topics          []Topic  0+
    Topic         string   0+
    Partitions    []Partition 0+
      PartitionId int32    0+
      FetchOffset int64    0+
      StartOffset int64    0+
      MaxBytes    int32    0+
IncrementalFetchResponse response validVersions=0 flexibleVersions=none
  ThrottleTimeMs          int32    0+
  ErrorCode               int16    0+
  Uuid                    int64    0+
  Topics                  []Topic  0+
    Topic                 string   0+
    Partitions            []Partition 0+
      PartitionId         int32    0+
      ErrorCode           int16    0+
      HighWatermark       int64    0+
      LastStableOffset    int64    0+
      LogStartOffset      int64    0+
      AbortedTransactions []AbortedTransaction 0+
        ProducerKey       int64    0+
        FirstOffset       int64    0+
      Records             records  0+
"""

#: The newest release that these are true of.
NEWEST: Final = "4.4"
#: By release, the lowest version of each API that it serves, where the release before went lower.
_RAISED: Final = {
    "4.0.0": """
        PRODUCE 3 FETCH 4 LIST_OFFSETS 1 OFFSET_COMMIT 2 OFFSET_FETCH 1 JOIN_GROUP 2
        CREATE_TOPICS 2 DELETE_TOPICS 1 OFFSET_FOR_LEADER_EPOCH 2 WRITE_TXN_MARKERS 1
        DESCRIBE_ACLS 1 CREATE_ACLS 1 DELETE_ACLS 1 DESCRIBE_CONFIGS 1 ALTER_REPLICA_LOG_DIRS 1
        DESCRIBE_LOG_DIRS 1 CREATE_DELEGATION_TOKEN 1 RENEW_DELEGATION_TOKEN 1
        EXPIRE_DELEGATION_TOKEN 1 DESCRIBE_DELEGATION_TOKEN 1 ALTER_PARTITION 2""",
    "4.1.0": """
        SHARE_GROUP_HEARTBEAT 1 SHARE_GROUP_DESCRIBE 1 SHARE_FETCH 1 SHARE_ACKNOWLEDGE 1""",
}
#: APIs that a later release serves from version 0 again.
_LOWERED: Final = {"JOIN_GROUP": "4.0.1"}
#: API, the lowest version served, since which release, and which one serves lower ones again.
SERVED_VERSIONS: Final = [
    (api_name, int(lowest), release, _LOWERED.get(api_name))
    for release, text in _RAISED.items()
    for api_name, lowest in zip(text.split()[::2], text.split()[1::2], strict=True)
]

#: In the order of their codes, from 0.
_NAMES: Final = """
NONE OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION INVALID_FETCH_SIZE
LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER REQUEST_TIMED_OUT BROKER_NOT_AVAILABLE
REPLICA_NOT_AVAILABLE MESSAGE_TOO_LARGE STALE_CONTROLLER_EPOCH OFFSET_METADATA_TOO_LARGE
NETWORK_EXCEPTION COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR
INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND
INVALID_REQUIRED_ACKS ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID
UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT REBALANCE_IN_PROGRESS INVALID_COMMIT_OFFSET_SIZE
TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED INVALID_TIMESTAMP
UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE UNSUPPORTED_VERSION TOPIC_ALREADY_EXISTS
INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG
NOT_CONTROLLER INVALID_REQUEST UNSUPPORTED_FOR_MESSAGE_FORMAT POLICY_VIOLATION
OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH INVALID_TXN_STATE
INVALID_PRODUCER_ID_MAPPING INVALID_TRANSACTION_TIMEOUT CONCURRENT_TRANSACTIONS
TRANSACTION_COORDINATOR_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED SECURITY_DISABLED
OPERATION_NOT_ATTEMPTED KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND SASL_AUTHENTICATION_FAILED
UNKNOWN_PRODUCER_ID REASSIGNMENT_IN_PROGRESS DELEGATION_TOKEN_AUTH_DISABLED
DELEGATION_TOKEN_NOT_FOUND DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
DELEGATION_TOKEN_AUTHORIZATION_FAILED DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE
NON_EMPTY_GROUP GROUP_ID_NOT_FOUND FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH
LISTENER_NOT_FOUND TOPIC_DELETION_DISABLED FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH
UNSUPPORTED_COMPRESSION_TYPE STALE_BROKER_EPOCH OFFSET_NOT_AVAILABLE MEMBER_ID_REQUIRED
PREFERRED_LEADER_NOT_AVAILABLE GROUP_MAX_SIZE_REACHED FENCED_INSTANCE_ID
ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS
GROUP_SUBSCRIBED_TO_TOPIC INVALID_RECORD UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED
PRODUCER_FENCED RESOURCE_NOT_FOUND DUPLICATE_RESOURCE UNACCEPTABLE_CREDENTIAL INCONSISTENT_VOTER_SET
INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED PRINCIPAL_DESERIALIZATION_FAILURE SNAPSHOT_NOT_FOUND
POSITION_OUT_OF_RANGE UNKNOWN_TOPIC_ID DUPLICATE_BROKER_REGISTRATION BROKER_ID_NOT_REGISTERED
INCONSISTENT_TOPIC_ID INCONSISTENT_CLUSTER_ID TRANSACTIONAL_ID_NOT_FOUND
FETCH_SESSION_TOPIC_ID_ERROR INELIGIBLE_REPLICA NEW_LEADER_ELECTED OFFSET_MOVED_TO_TIERED_STORAGE
FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR STALE_MEMBER_EPOCH
MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE UNKNOWN_CONTROLLER_ID UNKNOWN_SUBSCRIPTION_ID
TELEMETRY_TOO_LARGE INVALID_REGISTRATION TRANSACTION_ABORTABLE INVALID_RECORD_STATE
SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH FENCED_STATE_EPOCH INVALID_VOTER_KEY
DUPLICATE_VOTER VOTER_NOT_FOUND INVALID_REGULAR_EXPRESSION REBOOTSTRAP_REQUIRED
STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED
SHARE_SESSION_LIMIT_REACHED
"""
#: By code.
ERROR_NAMES: Final = {-1: "UNKNOWN_SERVER_ERROR", **dict(enumerate(_NAMES.split()))}
