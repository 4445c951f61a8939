"""Typed views of constructed lines (synthetic): versions and answers that no recording has."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from kip_replay.replay.request_log import LineParser

API_KEYS = {
    "PRODUCE": 0,
    "FETCH": 1,
    "METADATA": 3,
    "API_VERSIONS": 18,
    "CREATE_TOPICS": 19,
    "DELETE_TOPICS": 20,
    "INIT_PRODUCER_ID": 22,
    "CREATE_ACLS": 30,
    "DELETE_ACLS": 31,
    "DESCRIBE_CONFIGS": 32,
    "ALTER_CONFIGS": 33,
    "CREATE_PARTITIONS": 37,
    "ELECT_LEADERS": 43,
    "INCREMENTAL_ALTER_CONFIGS": 44,
    "ALTER_PARTITION_REASSIGNMENTS": 45,
    "ALTER_CLIENT_QUOTAS": 49,
    "ALTER_USER_SCRAM_CREDENTIALS": 51,
    "DESCRIBE_QUORUM": 55,
    "ALTER_PARTITION": 56,
    "UPDATE_FEATURES": 57,
    "BROKER_REGISTRATION": 62,
    "BROKER_HEARTBEAT": 63,
}
ID = "YkSpcwHCQGiqAR6cTJn52w"
BUILT_AT = datetime(2026, 11, 20, 20, 30, 34, 830000, UTC)


def line(api: str, version: int, request: Any, response: Any, forwarded: bool = False) -> bytes:
    header = {
        "requestApiKey": API_KEYS[api],
        "requestApiVersion": version,
        "correlationId": 7,
        "clientId": "c",
        "requestApiKeyName": api,
    }
    times = dict.fromkeys(
        ("requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "responseQueueTimeMs"), 0.0
    )
    envelope = {
        "isForwarded": forwarded,
        "requestHeader": header,
        "request": request,
        "response": response,
        "connection": "a:1-b:2-0-0",
        "totalTimeMs": 1.0,
        **times,
        "sendTimeMs": 1.0,
    }
    text = json.dumps(envelope, separators=(",", ":"))
    stamp = "2026-11-20 20:30:34,831"
    return f"[{stamp}] DEBUG Completed request:{text} (kafka.request.logger)".encode()


def parse_all(*lines: bytes) -> list[dict[str, Any]]:
    (batch,) = LineParser("r", 11, "UTC").parse(lines, "f.log")
    rows: list[dict[str, Any]] = batch.to_pylist()
    assert [row["rejected"] for row in rows] == [None] * len(rows)
    return rows


def parse(*args: Any, **options: Any) -> dict[str, Any]:
    return parse_all(line(*args, **options))[0]


def some(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


# FETCH


def test_fetch_of_version_4_has_kafkas_defaults() -> None:
    request = {
        "replicaId": 13,
        "maxWaitMs": 500,
        "minBytes": 1,
        "maxBytes": 10,
        "isolationLevel": 0,
        "topics": [
            {
                "topic": "t",
                "partitions": [{"partition": 3, "fetchOffset": 5, "partitionMaxBytes": 9}],
            }
        ],
    }
    answer = {
        "partitionIndex": 3,
        "errorCode": 0,
        "highWatermark": 6,
        "lastStableOffset": 6,
        "abortedTransactions": [],
        "records": None,
    }
    response = {"throttleTimeMs": 2, "responses": [{"topic": "t", "partitions": [answer]}]}
    fetch = parse("FETCH", 4, request, response)["fetch"]
    assert some(fetch, "replica_id", "replica_epoch", "session_id", "session_epoch") == (
        13,
        -1,
        0,
        -1,
    )
    assert some(fetch, "rack_id", "cluster_id", "throttle_ms", "error_code") == ("", None, 2.0, 0)
    assert fetch["forgotten_partitions"] == []
    assert fetch["request_partitions"] == [
        {
            "topic_id": None,
            "topic": "t",
            "partition": 3,
            "current_leader_epoch": -1,
            "fetch_offset": 5,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 9,
            "replica_directory_id": None,
            "high_watermark": 2**63 - 1,
        }
    ]
    (partition,) = fetch["response_partitions"]
    assert some(partition, "log_start_offset", "preferred_read_replica") == (-1, -1)
    assert some(partition, "record_bytes", "aborted_transactions") == (None, 0)
    # frame 4, header 10 + 1, body 17 + (4 + (3 + 4 + 16))
    assert fetch["request_bytes"] == 15 + 17 + 27
    # frame 4, header 4, body 4 + (4 + (3 + 4 + (22 + 4 + 4)))
    assert fetch["response_bytes"] == 8 + 4 + 41


def raft_fetch(**fields: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetchOffset": 5, "partitionMaxBytes": 0, **fields}
    topic = {"topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [partition]}
    return {"maxWaitMs": 500, "minBytes": 0, "topics": [topic], "clusterId": "k"}


def told(**fields: Any) -> dict[str, Any]:
    partition = {"partitionIndex": 0, "errorCode": 0, "highWatermark": -1, **fields}
    topic = {"topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [partition]}
    return {"throttleTimeMs": 0, "errorCode": 0, "sessionId": 0, "responses": [topic]}


def test_tagged_fields_of_a_raft_fetch() -> None:
    answer = told(
        divergingEpoch={"epoch": 3, "endOffset": 40},
        currentLeader={"leaderId": 2, "leaderEpoch": 4},
        snapshotId={"endOffset": 50, "epoch": 2},
        abortedTransactions=None,
        recordsSizeInBytes=7,
    )
    answer["nodeEndpoints"] = [{"nodeId": 2, "host": "h", "port": 9093, "rack": None}]
    fetch = parse("FETCH", 18, raft_fetch(highWatermark=-1, replicaDirectoryId=ID), answer)["fetch"]
    assert some(fetch, "is_cluster_metadata", "cluster_id") == (True, "k")
    assert some(fetch["request_partitions"][0], "high_watermark", "replica_directory_id") == (
        -1,
        ID,
    )
    (partition,) = fetch["response_partitions"]
    names = ("diverging_epoch", "diverging_end_offset", "current_leader_id", "current_leader_epoch")
    assert some(partition, *names) == (3, 40, 2, 4)
    assert some(partition, "snapshot_end_offset", "snapshot_epoch") == (50, 2)
    assert some(partition, "aborted_transactions", "record_bytes") == (None, 7)
    assert fetch["node_endpoints"] == [{"node_id": 2, "host": "h", "port": 9093, "rack": None}]


def test_metadata_log_by_name() -> None:
    request = raft_fetch()
    request["topics"][0] = {"topic": "__cluster_metadata", **request["topics"][0]}
    del request["topics"][0]["topicId"]
    assert parse("FETCH", 12, request, told())["fetch"]["is_cluster_metadata"]


def test_replica_state_goes_before_replica_id() -> None:
    request = raft_fetch() | {"replicaState": {"replicaId": 12, "replicaEpoch": 34}}
    assert some(parse("FETCH", 18, request, told())["fetch"], "replica_id", "replica_epoch") == (
        12,
        34,
    )
    assert parse("FETCH", 18, raft_fetch(), told())["fetch"]["replica_id"] == -1


def test_fetch_without_one_body_keeps_its_row() -> None:
    no_response, no_request, neither = parse_all(
        line("FETCH", 17, raft_fetch(), ""),
        line("FETCH", 17, "", told()),
        line("FETCH", 17, "", ""),
    )
    asked = ("max_wait_ms", "replica_id", "request_partitions", "is_cluster_metadata")
    answered = ("error_code", "response_session_id", "response_partitions", "throttle_ms")
    assert some(no_response["fetch"], *answered) == (None,) * 4
    assert None not in some(no_response["fetch"], *asked)
    assert some(no_request["fetch"], *asked) == (None,) * 4
    assert None not in some(no_request["fetch"], *answered)
    assert some(neither["fetch"], *asked, *answered) == (None,) * 8
    sizes = [
        some(r["request"], "request_bytes", "response_bytes") for r in (no_response, no_request)
    ]
    assert [[s is None for s in pair] for pair in sizes] == [[False, True], [True, False]]


# PRODUCE


def test_produce_matches_answers_by_topic_and_index() -> None:
    def sent(name: str, *indexes: int) -> dict[str, Any]:
        data = [{"index": i, "recordsSizeInBytes": 100 + i} for i in indexes]
        return {"name": name, "partitionData": data}

    def answered(name: str, **offsets: int) -> dict[str, Any]:
        answers = [
            {"index": int(i[1:]), "errorCode": 0, "baseOffset": o, "logStartOffset": 0}
            for i, o in offsets.items()
        ]
        return {"name": name, "partitionResponses": answers}

    request = {"transactionalId": "tx", "acks": -1, "timeoutMs": 9, "topicData": []}
    one = request | {"topicData": [sent("a", 0, 1), sent("b", 0)]}
    two = request | {"topicData": [sent("a", 0), sent("c", 7)]}
    rows = parse_all(
        line(
            "PRODUCE", 10, one, {"responses": [answered("b", p0=30), answered("a", p1=20, p0=10)]}
        ),
        line("PRODUCE", 10, two, {"responses": [answered("a", p0=11)]}),
        line("PRODUCE", 10, request | {"acks": 0}, ""),
    )
    partitions = [
        [
            some(p, "topic", "partition", "record_bytes", "base_offset")
            for p in r["produce"]["partitions"]
        ]
        for r in rows
    ]
    assert partitions[0] == [("a", 0, 100, 10), ("a", 1, 101, 20), ("b", 0, 100, 30)]
    assert partitions[1] == [("a", 0, 100, 11), ("c", 7, 107, None)]
    assert partitions[2] == []
    assert [r["produce"]["has_response"] for r in rows] == [True, True, False]
    assert rows[0]["produce"]["transactional_id"] == "tx"


def test_produce_response_size_counts_errors_and_endpoints() -> None:
    request = {
        "transactionalId": None,
        "acks": -1,
        "timeoutMs": 9,
        "topicData": [{"topicId": ID, "partitionData": [{"index": 0, "recordsSizeInBytes": 5}]}],
    }

    def size(endpoints: list[Any], **fields: Any) -> int:
        answer = {"index": 0, "errorCode": 6, "baseOffset": -1, **fields}
        response = {
            "responses": [{"topicId": ID, "partitionResponses": [answer]}],
            "nodeEndpoints": endpoints,
        }
        produce = parse("PRODUCE", 13, request, response)["produce"]
        assert len(produce["node_endpoints"]) == len(endpoints)
        (partition,) = produce["partitions"]
        assert partition["error_message"] == fields.get("errorMessage")
        told = [e["batch_index_error_message"] for e in partition["record_errors"] or ()]
        assert told == [e["batchIndexErrorMessage"] for e in fields.get("recordErrors", ())]
        return int(produce["response_bytes"])

    plain = size([])
    assert size([], errorMessage="gone") == plain + 4
    error = {"batchIndex": 0, "batchIndexErrorMessage": "bad"}
    assert size([], recordErrors=[error]) == plain + 4 + 1 + 3 + 1
    endpoint = {"nodeId": 2, "host": "h", "port": 9093, "rack": None}
    assert size([endpoint]) == plain + 2 + 1 + 4 + 2 + 4 + 1 + 1
    assert size([], currentLeader={"leaderId": 2, "leaderEpoch": 4}) == plain + 11


def test_produce_without_an_answer_has_no_errors_rather_than_an_empty_list() -> None:
    data = [{"index": i, "recordsSizeInBytes": 5} for i in (0, 1)]
    topics = [{"name": "t", "partitionData": data}]
    request = {"transactionalId": None, "acks": -1, "timeoutMs": 9, "topicData": topics}
    answer = {"index": 1, "errorCode": 0, "baseOffset": 0, "recordErrors": [], "errorMessage": None}
    answered = {"responses": [{"name": "t", "partitionResponses": [answer]}]}
    no_response, half = parse_all(
        line("PRODUCE", 12, request, ""), line("PRODUCE", 12, request, answered)
    )
    errors = [[p["record_errors"] for p in r["produce"]["partitions"]] for r in (no_response, half)]
    assert errors == [[None, None], [None, []]]
    endpoints = [r["produce"]["node_endpoints"] for r in (no_response, half)]
    assert endpoints == [None, []]


# BROKER_HEARTBEAT


def test_heartbeat() -> None:
    request = {
        "brokerId": 11,
        "brokerEpoch": 5,
        "currentMetadataOffset": 99,
        "wantFence": False,
        "wantShutDown": True,
        "offlineLogDirs": [ID],
    }
    response = {"throttleTimeMs": 0, "errorCode": 0, "isCaughtUp": True, "isFenced": False}
    rows = parse_all(
        line("BROKER_HEARTBEAT", 1, request, response | {"shouldShutDown": True}),
        line("BROKER_HEARTBEAT", 1, request, ""),
        line("BROKER_HEARTBEAT", 1, "", response | {"shouldShutDown": True}),
    )
    names = ("broker_id", "broker_epoch", "current_metadata_offset", "want_fence", "want_shut_down")
    answers = ("error_code", "is_caught_up", "is_fenced", "should_shut_down")
    heartbeats = [row["broker_heartbeat"] for row in rows]
    assert some(heartbeats[0], *names, *answers) == (11, 5, 99, False, True, 0, True, False, True)
    assert some(heartbeats[1], *names, *answers) == (11, 5, 99, False, True, *(None,) * 4)
    assert some(heartbeats[2], *names, *answers) == (*(None,) * 5, 0, True, False, True)
    counts = [some(h, "offline_log_dirs", "cordoned_log_dirs") for h in heartbeats]
    assert counts == [(1, None), (1, None), (None, None)]
    # frame 4, header 12, body 23, tag 2 + 1 + 16; frame 4, header 5, body 10
    sizes = [some(h, "request_bytes", "response_bytes") for h in heartbeats]
    assert sizes == [(4 + 12 + 23 + 19, 4 + 5 + 10), (4 + 12 + 23 + 19, None), (None, 4 + 5 + 10)]
    assert sizes == [some(row["request"], "request_bytes", "response_bytes") for row in rows]


def test_no_cordoned_log_dirs_is_not_the_same_as_none_told() -> None:
    request = {
        "brokerId": 11,
        "currentMetadataOffset": 99,
        "wantFence": False,
        "wantShutDown": False,
    }
    rows = parse_all(
        line("BROKER_HEARTBEAT", 2, request, ""),
        line("BROKER_HEARTBEAT", 2, request | {"cordonedLogDirs": []}, ""),
        line("BROKER_HEARTBEAT", 2, request | {"cordonedLogDirs": [ID, ID]}, ""),
    )
    assert [row["broker_heartbeat"]["cordoned_log_dirs"] for row in rows] == [None, 0, 2]


def test_forwarded_lines_have_no_size() -> None:
    request = {"brokerId": 1, "currentMetadataOffset": 1, "wantFence": False, "wantShutDown": False}
    row = parse("BROKER_HEARTBEAT", 1, request, "", forwarded=True)
    assert some(row["request"], "request_bytes", "response_bytes") == (None, None)


# ISR and topics


def alter_partition(epoch: int, **fields: Any) -> dict[str, Any]:
    partition = {"partitionIndex": 0, "leaderEpoch": 1, "partitionEpoch": epoch, **fields}
    return {"brokerId": 11, "topics": [{"topicId": ID, "partitions": [partition]}]}


ISR = ("topic", "topic_id", "partition", "leader_id", "leader_epoch", "partition_epoch")


def test_alter_partition_answered() -> None:
    isr = [{"brokerId": 11, "brokerEpoch": 1}, {"brokerId": 12, "brokerEpoch": 2}]
    response = alter_partition(5, leaderId=11, isr=[11, 12], errorCode=0) | {"errorCode": 0}
    row = parse("ALTER_PARTITION", 3, alter_partition(4, newIsrWithEpochs=isr), response)
    (change,) = row["isr_changes"]
    assert some(change, *ISR) == (ID, ID, 0, 11, 1, 5)
    assert some(change, "requested_isr", "isr", "error_code", "replicas") == (
        [11, 12],
        [11, 12],
        0,
        None,
    )
    assert some(change, "built_at", "source") == (BUILT_AT, "ALTER_PARTITION")
    assert change["dequeued_at"] == row["request"]["dequeued_at"]


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (alter_partition(0, leaderId=0, isr=[], errorCode=107) | {"errorCode": 0}, 107),
        ({"throttleTimeMs": 0, "errorCode": 41, "topics": []}, 41),
        ("", None),
    ],
)
def test_alter_partition_not_done_has_no_isr(response: Any, error: int | None) -> None:
    (change,) = parse("ALTER_PARTITION", 2, alter_partition(4, newIsr=[11]), response)[
        "isr_changes"
    ]
    assert some(change, *ISR) == (ID, ID, 0, None, 1, 4)
    assert some(change, "requested_isr", "isr", "error_code") == ([11], None, error)


def test_metadata() -> None:
    def partition(index: int, error: int) -> dict[str, Any]:
        return {
            "errorCode": error,
            "partitionIndex": index,
            "leaderId": 11,
            "leaderEpoch": 2,
            "replicaNodes": [11, 12],
            "isrNodes": [11],
        }

    known = {"errorCode": 0, "name": "t", "topicId": ID, "isInternal": True}
    unknown = {"errorCode": 3, "name": "u", "topicId": "A" * 22, "isInternal": False}
    nameless = {"errorCode": 100, "name": None, "topicId": ID, "partitions": []}
    topics = [
        known | {"partitions": [partition(1, 0), partition(0, 5)]},
        unknown | {"partitions": []},
    ]
    row = parse("METADATA", 13, {}, {"topics": [*topics, nameless]})
    names = ("topic", "topic_id", "partitions", "replication_factor", "is_internal", "error_code")
    assert [some(t, *names) for t in row["topics"]] == [
        ("t", ID, 2, 2, True, 0),
        ("u", None, None, None, False, 3),
        (ID, ID, None, None, False, 100),
    ]
    changes = [
        some(c, "partition", "leader_epoch", "replicas", "isr", "error_code")
        for c in row["isr_changes"]
    ]
    assert changes == [(1, 2, [11, 12], [11], 0), (0, 2, [11, 12], None, 5)]
    assert row["metadata_write"] is None


def test_lists_stay_with_their_line() -> None:
    def named(name: str) -> bytes:
        topic = {"errorCode": 0, "name": name, "partitions": []}
        return line("METADATA", 13, {}, {"topics": [topic, topic | {"name": name * 2}]})

    other = line("FETCH", 17, raft_fetch(), told())
    rows = parse_all(other, named("a"), other, named("b"), other)
    names = [[t["topic"] for t in row["topics"]] for row in rows]
    assert names == [[], ["a", "aa"], [], ["b", "bb"], []]


# Metadata writes


def write(*args: Any, **options: Any) -> tuple[Any, ...]:
    write = parse(*args, **options)["metadata_write"]
    resources = write["resources"]
    told = resources if resources is None else [tuple(r.values()) for r in resources]
    return (write["validate_only"], write["error_code"], told)


CREATE = {
    "topics": [
        {
            "name": "t",
            "numPartitions": -1,
            "replicationFactor": -1,
            "assignments": [],
            "configs": [{"name": "min.insync.replicas", "value": "1"}],
        },
        {
            "name": "u",
            "numPartitions": -1,
            "replicationFactor": -1,
            "assignments": [{"partitionIndex": 0, "brokerIds": [1, 2]}],
            "configs": [],
        },
    ],
    "timeoutMs": 1,
    "validateOnly": False,
}
CREATED = {
    "throttleTimeMs": 0,
    "topics": [
        {
            "name": "t",
            "topicId": ID,
            "errorCode": 0,
            "numPartitions": 3,
            "replicationFactor": 2,
            "configs": [
                {"name": "min.insync.replicas", "value": "2", "configSource": 1},
                {"name": "secret", "value": "x", "configSource": 5, "isSensitive": True},
            ],
        },
        {"name": "u", "topicId": "A" * 22, "errorCode": 36, "numPartitions": -1, "configs": None},
    ],
}


def test_create_topics() -> None:
    row = parse("CREATE_TOPICS", 7, CREATE, CREATED)
    names = ("topic", "topic_id", "partitions", "replication_factor", "error_code")
    assert [some(t, *names) for t in row["topics"]] == [("t", ID, 3, 2, 0), ("u", None, 1, 2, 36)]
    assert [list(c.values()) for c in row["configs"]] == [
        [BUILT_AT, "CREATE_TOPICS", "topic", "t", "min.insync.replicas", "2", "set", 1, 0],
        [BUILT_AT, "CREATE_TOPICS", "topic", "t", "secret", None, "describe", 5, 0],
    ]
    assert [tuple(r.values()) for r in row["metadata_write"]["resources"]] == [
        ("topic", "t", 3, 1, None, 0),
        ("topic", "u", 1, 0, None, 36),
    ]


def test_create_topics_without_one_body() -> None:
    no_response = parse("CREATE_TOPICS", 7, CREATE, "")
    assert no_response["metadata_write"]["error_code"] is None
    assert [t["error_code"] for t in no_response["topics"]] == [None, None]
    no_request = parse("CREATE_TOPICS", 7, "", CREATED)
    assert [t["partitions"] for t in no_request["topics"]] == [3, None]
    assert no_request["metadata_write"]["validate_only"] is None
    assert [r["configs"] for r in no_request["metadata_write"]["resources"]] == [None, None]


def test_nothing_is_created_or_set_with_validate_only() -> None:
    row = parse("CREATE_TOPICS", 7, CREATE | {"validateOnly": True}, CREATED)
    assert row["topics"] == row["configs"] == []
    assert row["metadata_write"]["validate_only"]
    altered = {"resources": [], "validateOnly": True}
    assert write("INCREMENTAL_ALTER_CONFIGS", 1, altered, {"responses": []}) == (True, 0, [])


def test_incremental_alter_configs() -> None:
    configs = [
        {"name": "a", "configOperation": 0, "value": "1"},
        {"name": "b", "configOperation": 1, "value": "left over"},
        {"name": "c", "configOperation": 2, "value": "x"},
        {"name": "c", "configOperation": 3, "value": "y"},
        {"name": "secret", "configOperation": 0, "value": "[hidden]"},
    ]
    request = {"resources": [{"resourceType": 2, "resourceName": "t", "configs": configs}]}
    response = {"responses": [{"errorCode": 40, "resourceType": 2, "resourceName": "t"}]}
    row = parse("INCREMENTAL_ALTER_CONFIGS", 1, request, response)
    names = ("name", "value", "operation", "error_code")
    assert [some(c, *names) for c in row["configs"]] == [
        ("a", "1", "set", 40),
        ("b", None, "delete", 40),
        ("c", "x", "append", 40),
        ("c", "y", "subtract", 40),
        ("secret", None, "set", 40),
    ]
    assert write("INCREMENTAL_ALTER_CONFIGS", 1, request, response) == (
        False,
        0,
        [("topic", "t", None, 4, None, 40)],
    )


def test_alter_configs_sets() -> None:
    resource = {"resourceType": 4, "resourceName": "", "configs": [{"name": "a", "value": "1"}]}
    row = parse("ALTER_CONFIGS", 2, {"resources": [resource]}, "")
    (config,) = row["configs"]
    assert some(config, "resource_type", "resource_name", "operation") == ("broker", "", "set")
    assert [r["configs"] for r in row["metadata_write"]["resources"]] == [1]


def test_describe_configs() -> None:
    configs = [
        {"name": "a", "value": "1", "configSource": 5, "isSensitive": False},
        {"name": "b", "value": "x", "isSensitive": True},
    ]
    result = {"errorCode": 0, "resourceType": 32, "resourceName": "g", "configs": configs}
    row = parse("DESCRIBE_CONFIGS", 4, {}, {"results": [result]})
    names = ("resource_type", "resource_name", "name", "value", "operation", "config_source")
    assert [some(c, *names) for c in row["configs"]] == [
        ("group", "g", "a", "1", "describe", 5),
        ("group", "g", "b", None, "describe", None),
    ]


ERROR, FINE = {"errorCode": 8}, {"errorCode": 0}


@pytest.mark.parametrize(
    ("api", "request_body", "response_body", "expected"),
    [
        (
            "DELETE_TOPICS",
            {"topicNames": ["t", "u"]},
            {"responses": [{"name": "u", **ERROR}, {"name": "t", **FINE}]},
            (False, 0, [("topic", "t", None, None, None, 0), ("topic", "u", None, None, None, 8)]),
        ),
        (
            "DELETE_TOPICS",
            {"topics": [{"name": None, "topicId": ID}]},
            {"responses": [{"name": "t", "topicId": ID, **ERROR}]},
            (False, 0, [("topic", ID, None, None, None, 8)]),
        ),
        (
            "CREATE_PARTITIONS",
            {"topics": [{"name": "t", "count": 6}], "validateOnly": True},
            {"results": [{"name": "t", **ERROR}]},
            (True, 0, [("topic", "t", 6, None, None, 8)]),
        ),
        (
            "UPDATE_FEATURES",
            {
                "featureUpdates": [{"feature": "metadata.version", "maxVersionLevel": 27}],
                "validateOnly": False,
            },
            {"errorCode": 8},
            (False, 8, [("feature", "metadata.version", None, None, 27, 8)]),
        ),
        (
            "UPDATE_FEATURES",
            {"featureUpdates": [{"feature": "kraft.version", "maxVersionLevel": 0}]},
            {"errorCode": 0, "results": [{"feature": "kraft.version", **ERROR}]},
            (False, 0, [("feature", "kraft.version", None, None, 0, 8)]),
        ),
        (
            "ALTER_CLIENT_QUOTAS",
            {
                "entries": [
                    {
                        "entity": [
                            {"entityType": "user", "entityName": "u"},
                            {"entityType": "client-id", "entityName": None},
                        ]
                    }
                ],
                "validateOnly": False,
            },
            {
                "entries": [
                    {
                        "entity": [
                            {"entityType": "client-id", "entityName": None},
                            {"entityType": "user", "entityName": "u"},
                        ],
                        **ERROR,
                    }
                ]
            },
            (False, 0, [("client_quota", "client-id=<default>,user=u", None, None, None, 8)]),
        ),
        (
            "CREATE_ACLS",
            {"creations": [{"resourceType": 2, "resourceName": n} for n in ("a", "b")]},
            {"results": [FINE, ERROR]},
            (False, 0, [("acl", "a", None, None, None, 0), ("acl", "b", None, None, None, 8)]),
        ),
        (
            "DELETE_ACLS",
            {"filters": [{"resourceTypeFilter": 2, "resourceNameFilter": None}]},
            {"filterResults": [ERROR]},
            (False, 0, [("acl", None, None, None, None, 8)]),
        ),
        (
            "ELECT_LEADERS",
            {"topicPartitions": [{"topic": "t", "partitions": [0, 1]}]},
            {
                "errorCode": 0,
                "replicaElectionResults": [{"topic": "t", "partitionResult": [FINE, ERROR]}],
            },
            (False, 0, [("topic", "t", 2, None, None, 8)]),
        ),
        (
            "ELECT_LEADERS",
            {"topicPartitions": None},
            {"errorCode": 0, "replicaElectionResults": [{"topic": "t", "partitionResult": [FINE]}]},
            (False, 0, [("topic", "t", 1, None, None, 0)]),
        ),
        (
            "ALTER_PARTITION_REASSIGNMENTS",
            {
                "topics": [
                    {"name": "t", "partitions": [{"partitionIndex": 0}, {"partitionIndex": 1}]}
                ]
            },
            {"errorCode": 0, "responses": [{"name": "t", "partitions": [FINE, FINE]}]},
            (False, 0, [("topic", "t", 2, None, None, 0)]),
        ),
        (
            "ALTER_USER_SCRAM_CREDENTIALS",
            {"deletions": [{"name": "u"}], "upsertions": [{"name": "v"}, {"name": "u"}]},
            {"results": [{"user": "u", **ERROR}, {"user": "v", **FINE}]},
            (False, 0, [("user", "u", None, None, None, 8), ("user", "v", None, None, None, 0)]),
        ),
    ],
)
def test_other_writes(api: str, request_body: Any, response_body: Any, expected: Any) -> None:
    assert write(api, 0, request_body, response_body) == expected
    assert write(api, 0, "", response_body)[::2] == (None, None)
    validate_only, error, resources = write(api, 0, request_body, "")
    assert (validate_only, error) == (expected[0], None)
    assert all(resource[-1] is None for resource in resources)
    forwarded = parse(api, 0, request_body, response_body, forwarded=True)
    assert forwarded["metadata_write"]["is_forwarded"]


# Metadata offsets


def offsets(*args: Any, **options: Any) -> list[tuple[Any, ...]]:
    """(kind, subject, offset, leader epoch) of each row; times and sender are the line's."""
    row = parse(*args, **options)
    for told in row["metadata_offsets"]:
        assert some(told, "built_at", "source", "connection") == (BUILT_AT, args[0], "a:1-b:2-0-0")
        assert told["dequeued_at"] == row["request"]["dequeued_at"]
    return [
        some(t, "kind", "subject_id", "metadata_offset", "leader_epoch")
        for t in row["metadata_offsets"]
    ]


def test_api_versions_tells_of_the_node_that_logged() -> None:
    known = {"errorCode": 0, "apiKeys": [], "finalizedFeaturesEpoch": 64}
    assert offsets("API_VERSIONS", 4, {}, known) == [("finalized_features_epoch", 11, 64, None)]
    # tagged: absent is -1, "unknown"; an unsupported version is answered without
    for response in ({"errorCode": 0}, {"errorCode": 35, "apiKeys": []}, {**known, **NO_EPOCH}, ""):
        assert offsets("API_VERSIONS", 4, {}, response) == []


NO_EPOCH = {"finalizedFeaturesEpoch": -1}


def test_broker_registration_tells_its_own_offset() -> None:
    request = {"brokerId": 13, "incarnationId": ID, "previousBrokerEpoch": -1}
    registered = {"throttleTimeMs": 0, "errorCode": 0, "brokerEpoch": 17}
    told = offsets("BROKER_REGISTRATION", 4, request, registered)
    assert told == [("broker_epoch", 13, 17, None)]
    refused = registered | {"errorCode": 41, "brokerEpoch": -1}
    assert offsets("BROKER_REGISTRATION", 4, request, refused) == []
    assert offsets("BROKER_REGISTRATION", 4, request, "") == []
    assert offsets("BROKER_REGISTRATION", 4, "", registered) == []  # of whom?


def quorum(**fields: Any) -> dict[str, Any]:
    partition = {
        "partitionIndex": 0,
        "errorCode": 0,
        "leaderId": 2,
        "leaderEpoch": 7,
        "highWatermark": 40,
        "currentVoters": [{"replicaId": n, "logEndOffset": o} for n, o in ((1, 41), (2, 42))],
        "observers": [{"replicaId": n, "logEndOffset": o} for n, o in ((11, 39), (12, -1))],
        **fields,
    }
    topic = {"topicName": "__cluster_metadata", "partitions": [partition]}
    return {"errorCode": 0, "topics": [topic]}


def test_describe_quorum_tells_of_the_leader_and_of_every_replica_it_knows() -> None:
    told = offsets("DESCRIBE_QUORUM", 2, {"topics": []}, quorum(), forwarded=True)
    assert told == [
        ("high_watermark", 2, 40, 7),
        ("log_end_offset", 1, 41, 7),
        ("log_end_offset", 2, 42, 7),
        ("log_end_offset", 11, 39, 7),
    ]


def test_describe_quorum_of_an_error_or_an_unknown_high_watermark() -> None:
    nobody = {"currentVoters": [], "observers": []}
    for response in (
        quorum(errorCode=6),
        quorum(highWatermark=-1, **nobody),
        {"errorCode": 41, "topics": []},
        "",
    ):
        assert offsets("DESCRIBE_QUORUM", 2, {"topics": []}, response) == []


def test_a_node_with_two_directories_stands_where_its_newest_log_is() -> None:
    observers = [{"replicaId": 1, "logEndOffset": 7, "replicaDirectoryId": ID}]
    told = offsets("DESCRIBE_QUORUM", 2, {}, quorum(observers=observers))
    assert [t[:3] for t in told[1:]] == [("log_end_offset", 1, 41), ("log_end_offset", 2, 42)]


# Producer ids


def test_init_producer_id() -> None:
    request = {"transactionalId": "tx", "transactionTimeoutMs": 60000}
    response = {"throttleTimeMs": 0, "errorCode": 0, "producerId": 4000, "producerEpoch": 3}
    refused = response | {"errorCode": 14, "producerId": -1, "producerEpoch": -1}
    rows = parse_all(
        line("INIT_PRODUCER_ID", 4, request, response),
        line("INIT_PRODUCER_ID", 4, request | {"transactionalId": None}, refused),
        line("INIT_PRODUCER_ID", 4, request, ""),
        line("FETCH", 17, raft_fetch(), told()),
    )
    names = ("transactional_id", "producer_id", "producer_epoch", "error_code")
    assert [some(row["producer_id"], *names) for row in rows[:3]] == [
        ("tx", 4000, 3, 0),
        (None, -1, -1, 14),
        ("tx", None, None, None),
    ]
    assert some(rows[0]["producer_id"], "built_at", "client_id", "connection") == (
        BUILT_AT,
        "c",
        "a:1-b:2-0-0",
    )
    assert rows[3]["producer_id"] is None
