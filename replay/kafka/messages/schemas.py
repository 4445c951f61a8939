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
