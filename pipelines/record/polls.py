"""Requests by which a recording describes itself.

A log shows the state of a cluster only where a request names it. So while it is recorded, each
broker is asked for METADATA of all topics (leaders and ISRs, where ``min_isr_acks`` begins), for
the configs that rules read, and each second for API_VERSIONS, whose response has the offset of the
metadata that it has applied; and by way of one broker the active controller for DESCRIBE_QUORUM,
which has the high watermark and every log end offset.
"""

import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.record.cluster import Cluster, Node, UnreachableError

#: Configs of brokers that rules or reports read, by what a manifest calls them.
BROKER_CONFIGS = {
    "min.insync.replicas": "min_insync_replicas",
    "broker.heartbeat.interval.ms": "broker_heartbeat_interval_ms",
    "broker.session.timeout.ms": "broker_session_timeout_ms",
    "max.incremental.fetch.session.cache.slots": "session_slots",
    "replica.fetch.min.bytes": "replica_fetch_min_bytes",
    "replica.fetch.wait.max.ms": "replica_fetch_wait_max_ms",
    "replica.lag.time.max.ms": "replica_lag_time_max_ms",
}
_TOPIC_CONFIGS = ("min.insync.replicas",)
#: The levels at which requests are logged.
ON = frozenset({"DEBUG", "TRACE", "ALL"})
_VERSIONS_S, _LEVEL_S, _DESCRIBE_S = 1.0, 15.0, 60.0
#: METADATA is a line of 200 bytes a partition, in every broker's log: of more partitions than
#: these, in all logs together, it is asked for at the start and at the end only.
_PARTITIONS_MAX = 20_000


@dataclass
class Polls:
    """A thread for each node, from ``start`` to ``stop``."""

    cluster: Cluster
    nodes: Sequence[Node]
    #: Whose log is collected: one of them is asked for what any broker knows.
    collected: Collection[int]
    voters: list[int] = field(default_factory=list)
    #: Of each broker, what it said of ``BROKER_CONFIGS``.
    configs: dict[int, dict[str, str]] = field(default_factory=dict)
    #: What became of nodes meanwhile, a sentence each.
    lost: dict[int, str] = field(default_factory=dict)
    _ended: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        brokers = [node for node in self.nodes if "broker" in node.role]
        asked = next((n for n in brokers if n.node_id in self.collected), brokers[0])
        for node in self.nodes:
            arguments = (node, node == asked, len(brokers))
            self._threads.append(threading.Thread(target=self._poll, args=arguments, daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Describes the cluster once more, and ends."""
        self._ended.set()
        until = time.monotonic() + 10
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _poll(self, node: Node, is_asked: bool, brokers: int) -> None:
        is_broker = "broker" in node.role
        partitions = self._describe(node, is_asked) if is_broker else 0
        describe_s = _DESCRIBE_S if partitions * brokers <= _PARTITIONS_MAX else float("inf")
        described_at = level_at = time.monotonic()
        while not self._ended.wait(_VERSIONS_S):
            now = time.monotonic()
            with suppress(UnreachableError, UserError):
                if is_broker:
                    self.cluster.show_versions(node)
                if is_asked:
                    self.voters = self.cluster.voters(node)
                if now - level_at >= _LEVEL_S:
                    level_at = now
                    self._look_at_level(node)
                if is_broker and now - described_at >= describe_s:
                    described_at = now
                    self._describe(node, is_asked)
        if is_broker:
            self._describe(node, is_asked)

    def _describe(self, node: Node, is_asked: bool) -> int:
        """Asks a broker for what it knows of topics and configs: returns the number of partitions.

        What its user may not see is not in the log either.
        """
        partitions = 0
        with suppress(UnreachableError, UserError):
            topics, partitions = self.cluster.metadata(node)
            self.configs[node.node_id] = self.cluster.configs_of(node, BROKER_CONFIGS)
            if is_asked:
                if topics:
                    self.cluster.show_topics(node, _TOPIC_CONFIGS, topics)
                self.voters = self.cluster.voters(node)
        return partitions

    def _look_at_level(self, node: Node) -> None:
        try:
            level = self.cluster.level(node)
        except UnreachableError as error:
            self.lost.setdefault(node.node_id, f"node {node.node_id}: {error}")
            return
        if level not in ON:
            what = f"node {node.node_id} logs no requests any more: its level is {level}, as after"
            self.lost.setdefault(node.node_id, f"{what} a restart (or somebody else set it)")
