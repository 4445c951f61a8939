"""Requests by which a recording describes itself.

A log shows the state of a cluster only where a request names it. So each broker is polled for
METADATA of all topics and for the configs that rules read, and each second for API_VERSIONS, whose
response has the offset of the metadata it has applied; at the start and at the end for which
partitions members of its consumer groups have. By way of one broker the active controller
is polled for DESCRIBE_QUORUM, which has the high watermark and every log end offset. Each node is
polled for its level, at once and then every few seconds: so a standby controller has a line too.
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.manifest import RULE_KEYS
from kip_replay.pipelines.record.cluster import BROKER, TOPIC, Cluster, Node

_MIN_ISR = "min.insync.replicas"
#: Configs of brokers that rules or reports read, by what a manifest calls them.
BROKER_CONFIGS = {
    **{key.config: n for keys in RULE_KEYS.values() for n, key in keys.items() if key.config},
    "broker.session.timeout.ms": "broker_session_timeout_ms",
    "max.incremental.fetch.session.cache.slots": "session_slots",
    "replica.lag.time.max.ms": "replica_lag_time_max_ms",
}
#: The levels at which requests are logged.
ON = frozenset({"DEBUG", "TRACE", "ALL"})
_VERSIONS_S, _LEVEL_S, _DESCRIBE_S = 1.0, 4.0, 60.0
#: METADATA takes 200 bytes a partition in every broker's log: of more in all logs together it is
#: requested at the start and at the end only.
_PARTITIONS_MAX = 20_000
#: Of a broker: a member takes some hundred bytes, and as many again for each of its partitions.
_GROUPS_MAX = 100


class Polls:
    """A thread for each node, from ``start`` to ``stop``. The first broker describes topics."""

    def __init__(self, cluster: Cluster, nodes: Sequence[Node]) -> None:
        self.cluster, self.nodes = cluster, nodes
        self.brokers = [node for node in nodes if "broker" in node.role]
        self.voters: list[int] = []
        #: Of each broker that returned them, values of ``BROKER_CONFIGS``.
        self.configs: dict[Node, dict[str, str]] = {}
        #: What became of nodes meanwhile, and of groups, a sentence each.
        self.lost: dict[Node | str, str] = {}
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(len(nodes))

    def start(self) -> None:
        for node in self.nodes:
            self._pool.submit(self._poll, node)

    def stop(self) -> None:
        """Describes the cluster once more, and ends."""
        self._ended.set()
        self._pool.shutdown()

    def _poll(self, node: Node) -> None:
        self._look_at_level(node)
        describe_s = self._describe(node)
        self._describe_groups(node)
        described_at = level_at = time.monotonic()
        while not self._ended.wait(_VERSIONS_S):
            now = time.monotonic()
            with suppress(UserError):
                if node in self.brokers:
                    self.cluster.show_versions(node)
                if node == self.brokers[0]:
                    self.voters = self.cluster.voters(node.address)
            if now - level_at >= _LEVEL_S:
                level_at = now
                self._look_at_level(node)
            if now - described_at >= describe_s:
                described_at = now
                self._describe(node)
        self._describe(node)
        self._describe_groups(node)

    def _describe(self, node: Node) -> float:
        """Has a broker log topics and configs: returns after how many seconds to do so again."""
        topics: dict[str, int] = {}
        if node in self.brokers:
            with suppress(UserError):  # what its user may not see is not in the log
                topics = self.cluster.metadata(node)
                if topics and node == self.brokers[0]:
                    self.cluster.configs(node, TOPIC, topics, [_MIN_ISR])
            with suppress(UserError):
                of_node = self.cluster.configs(node, BROKER, [str(node.node_id)], BROKER_CONFIGS)
                self.configs[node] = of_node
        is_much = sum(topics.values()) * len(self.brokers) > _PARTITIONS_MAX
        return float("inf") if is_much else _DESCRIBE_S

    def _describe_groups(self, node: Node) -> None:
        if node not in self.brokers:
            return
        try:
            if (count := self.cluster.describe_groups(node, _GROUPS_MAX)) > _GROUPS_MAX:
                some = f"{_GROUPS_MAX} of the {count:,} consumer groups of {node} were described"
                self.lost.setdefault(f"groups of {node}", some)
        except UserError as error:
            self.lost.setdefault("groups", f"not every consumer group was described: {error}")

    def _look_at_level(self, node: Node) -> None:
        try:
            level = self.cluster.level(node)
        except UserError as error:
            self.lost.setdefault(node, f"{node} did not respond meanwhile: {error}")
            return
        if level not in ON:
            self.lost.setdefault(node, f"{node} was set to {level} meanwhile, as by a restart")
