"""Lists the versions of requests that releases of Kafka no longer serve (KIP-896).

Source: ``validVersions`` of ``common/message/*Request.json`` in kafka-clients 3.9.2, 4.0.0 to
4.0.2, 4.1.0, 4.1.2, 4.2.0 to 4.2.2, 4.3.0, 4.3.1 and 4.4.0; 3.3 to 3.8 begin where 3.9 does. Not
responses to API_VERSIONS: brokers of 4.x list PRODUCE from version 0 for librdkafka's sake, and
refuse 0 to 2 (KAFKA-18659). What only ZooKeeper clusters have, and 4.0 dropped, is left out.
"""

from typing import Final

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
