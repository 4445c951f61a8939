"""Kafka's messages as tables, in the form of Kafka's own message schemas.

Source: ``clients/src/main/resources/common/message/*.json`` of Apache Kafka 4.2, one field a line,
without ``about``, ``entityType`` and ``ignorable``. Parser types and sizes follow from these. A new
version is the new ``validVersions`` and an entry for each field that it brings.

Three attributes are not Kafka's. ``column`` is where a field stands in our tables, if not under its
own name in snake_case; the fields of a tagged struct stand beside those around it, and of an array
for which the table has an integer only the length is kept. ``presentWith`` on a message names the
columns that are neither null nor false where the body was logged.
"""

from typing import Any, Final

Schema = dict[str, Any]

# ruff would put every attribute on a line of its own, unlike Kafka's files.
# fmt: off

_NODE_ENDPOINT: Final = [
    {"name": "NodeId", "type": "int32", "versions": "0+"},
    {"name": "Host", "type": "string", "versions": "0+"},
    {"name": "Port", "type": "int32", "versions": "0+"},
    {"name": "Rack", "type": "string", "versions": "0+", "nullableVersions": "0+",
     "default": "null"},
]
_CURRENT_LEADER: Final = [
    {"name": "LeaderId", "type": "int32", "versions": "0+", "default": "-1",
     "column": "current_leader_id"},
    {"name": "LeaderEpoch", "type": "int32", "versions": "0+", "default": "-1",
     "column": "current_leader_epoch"},
]

PRODUCE_REQUEST: Final[Schema] = {
    "apiKey": 0,
    "type": "request",
    "name": "ProduceRequest",
    "validVersions": "3-13",
    "flexibleVersions": "9+",
    "presentWith": ["acks"],
    "fields": [
        {"name": "TransactionalId", "type": "string", "versions": "3+", "nullableVersions": "3+",
         "default": "null"},
        {"name": "Acks", "type": "int16", "versions": "0+"},
        {"name": "TimeoutMs", "type": "int32", "versions": "0+"},
        {"name": "TopicData", "type": "[]TopicProduceData", "versions": "0+",
         "column": "partitions", "fields": [
            {"name": "Name", "type": "string", "versions": "0-12", "column": "topic"},
            {"name": "TopicId", "type": "uuid", "versions": "13+"},
            {"name": "PartitionData", "type": "[]PartitionProduceData", "versions": "0+",
             "fields": [
                {"name": "Index", "type": "int32", "versions": "0+", "column": "partition"},
                {"name": "Records", "type": "records", "versions": "0+", "nullableVersions": "0+",
                 "column": "record_bytes"},
            ]},
        ]},
    ],
}

PRODUCE_RESPONSE: Final[Schema] = {
    "apiKey": 0,
    "type": "response",
    "name": "ProduceResponse",
    "validVersions": "3-13",
    "flexibleVersions": "9+",
    "presentWith": ["has_response", "partitions"],
    "fields": [
        {"name": "Responses", "type": "[]TopicProduceResponse", "versions": "0+",
         "column": "partitions", "fields": [
            {"name": "Name", "type": "string", "versions": "0-12", "column": "topic"},
            {"name": "TopicId", "type": "uuid", "versions": "13+"},
            {"name": "PartitionResponses", "type": "[]PartitionProduceResponse", "versions": "0+",
             "fields": [
                {"name": "Index", "type": "int32", "versions": "0+", "column": "partition"},
                {"name": "ErrorCode", "type": "int16", "versions": "0+"},
                {"name": "BaseOffset", "type": "int64", "versions": "0+"},
                {"name": "LogAppendTimeMs", "type": "int64", "versions": "2+", "default": "-1"},
                {"name": "LogStartOffset", "type": "int64", "versions": "5+", "default": "-1"},
                {"name": "RecordErrors", "type": "[]BatchIndexAndErrorMessage", "versions": "8+",
                 "fields": [
                    {"name": "BatchIndex", "type": "int32", "versions": "8+"},
                    {"name": "BatchIndexErrorMessage", "type": "string", "versions": "8+",
                     "nullableVersions": "8+", "default": "null"},
                ]},
                {"name": "ErrorMessage", "type": "string", "versions": "8+",
                 "nullableVersions": "8+", "default": "null"},
                {"name": "CurrentLeader", "type": "LeaderIdAndEpoch", "versions": "10+",
                 "taggedVersions": "10+", "tag": 0, "fields": _CURRENT_LEADER},
            ]},
        ]},
        {"name": "ThrottleTimeMs", "type": "int32", "versions": "1+", "column": "throttle_ms"},
        {"name": "NodeEndpoints", "type": "[]NodeEndpoint", "versions": "10+",
         "taggedVersions": "10+", "tag": 0, "fields": _NODE_ENDPOINT},
    ],
}

FETCH_REQUEST: Final[Schema] = {
    "apiKey": 1,
    "type": "request",
    "name": "FetchRequest",
    "validVersions": "4-18",
    "flexibleVersions": "12+",
    "presentWith": ["max_wait_ms"],
    "fields": [
        {"name": "ClusterId", "type": "string", "versions": "12+", "nullableVersions": "12+",
         "default": "null", "taggedVersions": "12+", "tag": 0},
        {"name": "ReplicaId", "type": "int32", "versions": "0-14", "default": "-1"},
        {"name": "ReplicaState", "type": "ReplicaState", "versions": "15+",
         "taggedVersions": "15+", "tag": 1, "fields": [
            {"name": "ReplicaId", "type": "int32", "versions": "15+", "default": "-1"},
            {"name": "ReplicaEpoch", "type": "int64", "versions": "15+", "default": "-1"},
        ]},
        {"name": "MaxWaitMs", "type": "int32", "versions": "0+"},
        {"name": "MinBytes", "type": "int32", "versions": "0+"},
        {"name": "MaxBytes", "type": "int32", "versions": "3+", "default": "0x7fffffff"},
        {"name": "IsolationLevel", "type": "int8", "versions": "4+", "default": "0"},
        {"name": "SessionId", "type": "int32", "versions": "7+", "default": "0"},
        {"name": "SessionEpoch", "type": "int32", "versions": "7+", "default": "-1"},
        {"name": "Topics", "type": "[]FetchTopic", "versions": "0+",
         "column": "request_partitions", "fields": [
            {"name": "Topic", "type": "string", "versions": "0-12"},
            {"name": "TopicId", "type": "uuid", "versions": "13+"},
            {"name": "Partitions", "type": "[]FetchPartition", "versions": "0+", "fields": [
                {"name": "Partition", "type": "int32", "versions": "0+"},
                {"name": "CurrentLeaderEpoch", "type": "int32", "versions": "9+", "default": "-1"},
                {"name": "FetchOffset", "type": "int64", "versions": "0+"},
                {"name": "LastFetchedEpoch", "type": "int32", "versions": "12+", "default": "-1"},
                {"name": "LogStartOffset", "type": "int64", "versions": "5+", "default": "-1"},
                {"name": "PartitionMaxBytes", "type": "int32", "versions": "0+"},
                {"name": "ReplicaDirectoryId", "type": "uuid", "versions": "17+",
                 "taggedVersions": "17+", "tag": 0},
                {"name": "HighWatermark", "type": "int64", "versions": "18+",
                 "default": "9223372036854775807", "taggedVersions": "18+", "tag": 1},
            ]},
        ]},
        {"name": "ForgottenTopicsData", "type": "[]ForgottenTopic", "versions": "7+",
         "column": "forgotten_partitions", "fields": [
            {"name": "Topic", "type": "string", "versions": "7-12"},
            {"name": "TopicId", "type": "uuid", "versions": "13+"},
            {"name": "Partitions", "type": "[]int32", "versions": "7+", "column": "partition"},
        ]},
        {"name": "RackId", "type": "string", "versions": "11+", "default": ""},
    ],
}

FETCH_RESPONSE: Final[Schema] = {
    "apiKey": 1,
    "type": "response",
    "name": "FetchResponse",
    "validVersions": "4-18",
    "flexibleVersions": "12+",
    "presentWith": ["error_code"],
    "fields": [
        {"name": "ThrottleTimeMs", "type": "int32", "versions": "1+", "column": "throttle_ms"},
        {"name": "ErrorCode", "type": "int16", "versions": "7+"},
        {"name": "SessionId", "type": "int32", "versions": "7+", "default": "0",
         "column": "response_session_id"},
        {"name": "Responses", "type": "[]FetchableTopicResponse", "versions": "0+",
         "column": "response_partitions", "fields": [
            {"name": "Topic", "type": "string", "versions": "0-12"},
            {"name": "TopicId", "type": "uuid", "versions": "13+"},
            {"name": "Partitions", "type": "[]PartitionData", "versions": "0+", "fields": [
                {"name": "PartitionIndex", "type": "int32", "versions": "0+",
                 "column": "partition"},
                {"name": "ErrorCode", "type": "int16", "versions": "0+"},
                {"name": "HighWatermark", "type": "int64", "versions": "0+"},
                {"name": "LastStableOffset", "type": "int64", "versions": "4+", "default": "-1"},
                {"name": "LogStartOffset", "type": "int64", "versions": "5+", "default": "-1"},
                {"name": "DivergingEpoch", "type": "EpochEndOffset", "versions": "12+",
                 "taggedVersions": "12+", "tag": 0, "fields": [
                    {"name": "Epoch", "type": "int32", "versions": "12+", "default": "-1",
                     "column": "diverging_epoch"},
                    {"name": "EndOffset", "type": "int64", "versions": "12+", "default": "-1",
                     "column": "diverging_end_offset"},
                ]},
                {"name": "CurrentLeader", "type": "LeaderIdAndEpoch", "versions": "12+",
                 "taggedVersions": "12+", "tag": 1, "fields": _CURRENT_LEADER},
                {"name": "SnapshotId", "type": "SnapshotId", "versions": "12+",
                 "taggedVersions": "12+", "tag": 2, "fields": [
                    {"name": "EndOffset", "type": "int64", "versions": "0+", "default": "-1",
                     "column": "snapshot_end_offset"},
                    {"name": "Epoch", "type": "int32", "versions": "0+", "default": "-1",
                     "column": "snapshot_epoch"},
                ]},
                {"name": "AbortedTransactions", "type": "[]AbortedTransaction", "versions": "4+",
                 "nullableVersions": "4+", "fields": [
                    {"name": "ProducerId", "type": "int64", "versions": "4+"},
                    {"name": "FirstOffset", "type": "int64", "versions": "4+"},
                ]},
                {"name": "PreferredReadReplica", "type": "int32", "versions": "11+",
                 "default": "-1"},
                {"name": "Records", "type": "records", "versions": "0+", "nullableVersions": "0+",
                 "column": "record_bytes"},
            ]},
        ]},
        {"name": "NodeEndpoints", "type": "[]NodeEndpoint", "versions": "16+",
         "taggedVersions": "16+", "tag": 0, "fields": _NODE_ENDPOINT},
    ],
}

BROKER_HEARTBEAT_REQUEST: Final[Schema] = {
    "apiKey": 63,
    "type": "request",
    "name": "BrokerHeartbeatRequest",
    "validVersions": "0-2",
    "flexibleVersions": "0+",
    "presentWith": ["broker_id"],
    "fields": [
        {"name": "BrokerId", "type": "int32", "versions": "0+"},
        {"name": "BrokerEpoch", "type": "int64", "versions": "0+", "default": "-1"},
        {"name": "CurrentMetadataOffset", "type": "int64", "versions": "0+"},
        {"name": "WantFence", "type": "bool", "versions": "0+"},
        {"name": "WantShutDown", "type": "bool", "versions": "0+"},
        {"name": "OfflineLogDirs", "type": "[]uuid", "versions": "1+",
         "taggedVersions": "1+", "tag": 0},
        {"name": "CordonedLogDirs", "type": "[]uuid", "versions": "2+", "nullableVersions": "2+",
         "default": "null", "taggedVersions": "2+", "tag": 1},
    ],
}

BROKER_HEARTBEAT_RESPONSE: Final[Schema] = {
    "apiKey": 63,
    "type": "response",
    "name": "BrokerHeartbeatResponse",
    "validVersions": "0-2",
    "flexibleVersions": "0+",
    "presentWith": ["error_code"],
    "fields": [
        {"name": "ThrottleTimeMs", "type": "int32", "versions": "0+", "column": "throttle_ms"},
        {"name": "ErrorCode", "type": "int16", "versions": "0+"},
        {"name": "IsCaughtUp", "type": "bool", "versions": "0+", "default": "false"},
        {"name": "IsFenced", "type": "bool", "versions": "0+", "default": "true"},
        {"name": "ShouldShutDown", "type": "bool", "versions": "0+"},
    ],
}

# --- what the draft KIPs add

#: Draft KIP "Lowest Acknowledged Offset", "Public Interfaces": in every BrokerHeartbeatResponse.
#: Kafka has since taken versions 1 and 2 for other fields, of the request; it gets no tag.
LOWEST_ACKNOWLEDGED_OFFSET: Final[Schema] = (
    {"name": "LowestAcknowledgedOffset", "type": "int64", "versions": "1+"}
)

#: KIP-227, version 3, "Public Interfaces": in every FetchResponse, the session's uuid.
FETCH_RESPONSE_UUID: Final[Schema] = {"name": "Uuid", "type": "int64", "versions": "0+"}

#: KIP-227, version 3, "Public Interfaces". Kafka had no flexible versions then. The page declares
#: ``partition_id`` a STRING here and an INT32 in the response, likely a slip.
INCREMENTAL_FETCH_REQUEST: Final[Schema] = {
    "type": "request",
    "name": "IncrementalFetchRequest",
    "validVersions": "0",
    "flexibleVersions": "none",
    "fields": [
        {"name": "Uuid", "type": "int64", "versions": "0+"},
        {"name": "ReplicaId", "type": "int32", "versions": "0+"},
        {"name": "MaxWaitTime", "type": "int32", "versions": "0+"},
        {"name": "MinBytes", "type": "int32", "versions": "0+"},
        {"name": "IsolationLevel", "type": "int8", "versions": "0+"},
        {"name": "Topics", "type": "[]Topic", "versions": "0+", "fields": [
            {"name": "Topic", "type": "string", "versions": "0+"},
            {"name": "Partitions", "type": "[]Partition", "versions": "0+", "fields": [
                {"name": "PartitionId", "type": "string", "versions": "0+"},
                {"name": "FetchOffset", "type": "int64", "versions": "0+"},
                {"name": "StartOffset", "type": "int64", "versions": "0+"},
                {"name": "MaxBytes", "type": "int32", "versions": "0+"},
            ]},
        ]},
    ],
}

INCREMENTAL_FETCH_RESPONSE: Final[Schema] = {
    "type": "response",
    "name": "IncrementalFetchResponse",
    "validVersions": "0",
    "flexibleVersions": "none",
    "fields": [
        {"name": "ThrottleTimeMs", "type": "int32", "versions": "0+"},
        {"name": "ErrorCode", "type": "int16", "versions": "0+"},
        {"name": "Uuid", "type": "int64", "versions": "0+"},
        {"name": "Topics", "type": "[]Topic", "versions": "0+", "fields": [
            {"name": "Topic", "type": "string", "versions": "0+"},
            {"name": "Partitions", "type": "[]Partition", "versions": "0+", "fields": [
                {"name": "PartitionId", "type": "int32", "versions": "0+"},
                {"name": "ErrorCode", "type": "int16", "versions": "0+"},
                {"name": "HighWatermark", "type": "int64", "versions": "0+"},
                {"name": "LastStableOffset", "type": "int64", "versions": "0+"},
                {"name": "LogStartOffset", "type": "int64", "versions": "0+"},
                {"name": "AbortedTransactions", "type": "[]AbortedTransaction", "versions": "0+",
                 "fields": [
                    {"name": "ProducerKey", "type": "int64", "versions": "0+"},
                    {"name": "FirstOffset", "type": "int64", "versions": "0+"},
                ]},
                {"name": "Records", "type": "records", "versions": "0+"},
            ]},
        ]},
    ],
}
# fmt: on
