"""Checks whose a log is: swapped ones would be replayed as if they were right.

No node replicates from itself or requests its own vote. A controller that knows no leader may send
itself a FETCH, which fails: only successful ones count. Some APIs only brokers respond to, others
only controllers. Where none of this decides, no warning is printed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.pipelines.ingest.line_accounting import FileKey
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.replay.kafka.messages import FETCH
from kip_replay.replay.kafka.request_log import Rows

TOPIC_FETCH, METADATA_FETCH = "successful topic FETCH", "successful metadata FETCH"
#: APIs (requestApiKeyName) that only controllers, and only brokers, respond to.
OF_CONTROLLERS = {METADATA_FETCH, "ALLOCATE_PRODUCER_IDS", "ALTER_PARTITION", "BEGIN_QUORUM_EPOCH"}
OF_CONTROLLERS |= {"BROKER_HEARTBEAT", "BROKER_REGISTRATION", "CONTROLLER_REGISTRATION"}
OF_CONTROLLERS |= {"ENVELOPE", "FETCH_SNAPSHOT", "VOTE"}
OF_BROKERS = {TOPIC_FETCH, "FIND_COORDINATOR", "HEARTBEAT", "INIT_PRODUCER_ID", "JOIN_GROUP"}
OF_BROKERS |= {"LIST_OFFSETS", "METADATA", "OFFSET_COMMIT", "PRODUCE"}
#: APIs that no KRaft broker has: its controllers have ZooKeeper for their log.
OF_ZOOKEEPER = {"LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA"}
_TO_VOTERS = pa.array(["BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH", "VOTE"])
_ROLES = {"broker": (OF_BROKERS, OF_CONTROLLERS), "controller": (OF_CONTROLLERS, OF_BROKERS)}
#: Fewer, or a smaller share of what nodes sent, prove nothing: addresses change hands.
_REQUESTS_MIN, _SHARE_MIN = 3, 0.001
_WAY_OUT = f"give each node its own in {MANIFEST} or by --node"

#: Requests by recording, node, API, and the node that sent them (-1 for clients).
Senders = Counter[tuple[str, int, str, int]]
_Sent = Counter[tuple[str, int]]


def senders_of(rows: Rows, node: tuple[str, int]) -> Senders:
    """Counts the requests of a node's lines by who sent them, without failed FETCHes."""
    requests, fetches = rows["requests"], rows["fetches"]
    responses = fetches.column("response_partitions")
    is_error = pc.not_equal(pc.struct_field(responses.flatten(), "error_code"), 0)
    is_ok = pc.fill_null(pc.equal(fetches.column("error_code"), 0), True).to_numpy(False)
    is_ok[pc.list_parent_indices(responses).filter(is_error).to_numpy()] = False
    fetches = fetches.filter(pa.array(is_ok))
    fetched = pc.if_else(fetches.column("is_cluster_metadata"), METADATA_FETCH, TOPIC_FETCH)
    requests = requests.filter(pc.not_equal(requests.column("api_key"), FETCH.key))
    api, client = requests.column("api_name"), requests.column("client_id")
    voter = pc.if_else(pc.is_in(api, _TO_VOTERS), client, None)
    voter = pc.struct_field(pc.extract_regex(voter, r"^raft-client-(?P<id>\d{1,9})$"), "id")
    apis = pa.chunked_array([fetched.fill_null("FETCH"), api.fill_null("")])
    senders = pa.chunked_array([fetches.column("replica_id"), voter.cast("int32")]).fill_null(-1)
    sent = pa.table({"api": apis, "sender": senders}).group_by(["api", "sender"])
    counts = sent.aggregate([([], "count_all")]).select(["api", "sender", "count_all"]).to_pylist()
    return Counter({(*node, *key): count for *key, count in map(dict.values, counts)})


def zookeeper(recording: str, senders: Senders) -> list[str]:
    """Says that a cluster is one of ZooKeeper, where its brokers' logs show it and no KRaft."""
    apis = {api for name, _, api, _ in senders if name == recording}
    if not apis & OF_ZOOKEEPER or apis & {METADATA_FETCH, "BROKER_HEARTBEAT"}:
        return []
    return [
        f"recording {recording!r} is of a ZooKeeper cluster (its brokers were sent "
        f"{', '.join(sorted(apis & OF_ZOOKEEPER))}): its controller is one of the brokers, so no "
        "log of a controller is missing, and what rests on KRaft's metadata log is unknown"
    ]


def wrong_logs(recording: Recording, senders: Senders) -> Iterator[str]:
    """Yields which nodes were given a log that is not theirs, what shows it, and whose it is."""
    sent: dict[tuple[str, int], _Sent] = {}
    for (name, node_id, api, sender), count in senders.items():
        sent.setdefault((name, node_id), Counter())[api, sender] = count
    of_node = {
        node: sent.get((recording.name, node.node_id), Counter()) for node in recording.nodes
    }
    proofs = {node: proof for node, own in of_node.items() if (proof := _proof_against(node, own))}
    for node, proof in proofs.items():
        others = [n for n in of_node if n != node and not _proof_against(n, of_node[node])]
        others = [n for n in others if n in proofs] or others
        whose = " or ".join(f"node {n.node_id}" for n in others) or "another node"
        yield (
            f"the log given for node {node.node_id} of recording {recording.name!r} "
            f"({', '.join(node.log)}) is that of {whose}: it has {proof}; {_WAY_OUT}"
        )


def _proof_against(node: Node, sent: _Sent) -> str | None:
    """Proves that a log is not this node's, by what it has; None where it may be."""
    own = Counter({key: count for key, count in sent.items() if key[1] == node.node_id})
    by_nodes = sum(count for (_, sender), count in sent.items() if sender >= 0)
    if own.total() >= max(_REQUESTS_MIN, _SHARE_MIN * by_nodes):
        (((api, _), _),) = own.most_common(1)
        return f"{own.total():,} requests of node {node.node_id} itself ({api})"
    its, others = _ROLES.get(node.role or "", (set(), set()))
    foreign = Counter({key: count for key, count in sent.items() if key[0] in others})
    if foreign.total() >= _REQUESTS_MIN and its.isdisjoint(api for api, _ in sent):
        (((api, _), _),) = foreign.most_common(1)
        return f"{foreign.total():,} requests that no {node.role} responds to ({api})"
    return None


def same_contents(contents: Iterable[tuple[FileKey, str]]) -> Iterator[str]:
    """Yields which nodes of a recording were given copies of one file."""
    first: dict[str, FileKey] = {}
    for (name, node_id, file), content in contents:
        _, other, copied = first.setdefault(content, (name, node_id, file))
        if other != node_id:
            yield (
                f"the logs given for node {other} and node {node_id} of recording {name!r} "
                f"({copied}, {file}) have the same content: {_WAY_OUT}"
            )
