"""Clusters of real Kafka nodes: processes on this machine, from the artifacts of a version."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from live.artifacts import class_path

KAFKA = "[%d] %p %m (%c)%n"
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_START_S = 240
_LOG4J2 = """<Configuration><Appenders>
<File name="S" fileName="{folder}/server.log"><PatternLayout pattern="[%d] %p %m (%c)%n"/></File>
{appender}
</Appenders><Loggers><Root level="INFO"><AppenderRef ref="S"/></Root>
<Logger name="kafka.request.logger" level="{level}" additivity="false">
<AppenderRef ref="R"/></Logger>
</Loggers></Configuration>"""
_TO_FILE = '<File name="R" fileName="{folder}/kafka-request.log">{layout}</File>'
_TO_STDOUT = '<Console name="R">{layout}</Console>'
_LAYOUT = '<PatternLayout pattern="{pattern}"/>'
_LOG4J = """log4j.rootLogger=INFO, S
log4j.appender.S=org.apache.log4j.FileAppender
log4j.appender.S.File={folder}/server.log
log4j.appender.S.layout=org.apache.log4j.PatternLayout
log4j.appender.S.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.R=org.apache.log4j.FileAppender
log4j.appender.R.File={folder}/kafka-request.log
log4j.appender.R.layout=org.apache.log4j.PatternLayout
log4j.appender.R.layout.ConversionPattern={pattern}
log4j.logger.kafka.request.logger={level}, R
log4j.additivity.kafka.request.logger=false
"""


class Node:
    """A process of Kafka and its folder: settings, data, server.log, kafka-request.log."""

    def __init__(self, node_id: int, roles: str, folder: Path) -> None:
        self.node_id, self.roles, self.folder = node_id, roles, folder
        self.client, self.replication, self.proxied, self.controller = free_ports(4)
        self.process: subprocess.Popen[bytes] | None = None
        #: bytes that server.log had when the process started
        self.begun_at = 0
        folder.mkdir(parents=True)

    @property
    def log(self) -> Path:
        return self.folder / "kafka-request.log"

    def properties(self) -> dict[str, Any]:
        listeners, advertised = [], []
        if "broker" in self.roles:
            listeners += [f"CLIENT://127.0.0.1:{self.client}"]
            listeners += [f"REPLICATION://127.0.0.1:{self.replication}"]
            advertised += [listeners[0], f"REPLICATION://127.0.0.1:{self.proxied}"]
        if "controller" in self.roles:
            listeners += [f"CONTROLLER://127.0.0.1:{self.controller}"]
        return {
            "process.roles": self.roles,
            "node.id": self.node_id,
            "listeners": ",".join(listeners),
            **({"advertised.listeners": ",".join(advertised)} if advertised else {}),
            **({"inter.broker.listener.name": "REPLICATION"} if advertised else {}),
            "log.dirs": self.folder / "data",
        }


class Cluster:
    """Controllers and brokers of one version, or of one each; replication goes through a proxy.

    ``nodes`` gives each node's id its ``process.roles``; ``settings`` hold for all, ``settings_of``
    for one. ``patterns`` are log4j patterns of the request log by node id. ``agent`` is a
    ``-javaagent`` argument with ``{node_id}`` and ``{folder}`` in it.
    """

    def __init__(
        self,
        folder: Path,
        version: str,
        nodes: Mapping[int, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        settings_of: Mapping[int, Mapping[str, Any]] | None = None,
        patterns: Mapping[int, str] | None = None,
        stdout: Sequence[int] = (),
        level: str = "WARN",
        agent: str | None = None,
        format_options: Sequence[str] = (),
    ) -> None:
        three = dict.fromkeys((1, 2, 3), "controller") | dict.fromkeys((11, 12, 13), "broker")
        self.folder, self.version = folder, version
        self.nodes = {n: Node(n, r, folder / f"{n}") for n, r in (nodes or three).items()}
        self.versions = dict.fromkeys(self.nodes, version)
        self._settings, self._settings_of = settings or {}, settings_of or {}
        self._patterns, self._stdout, self._level = patterns or {}, stdout, level
        self._agent, self._format_options = agent, format_options
        self._proxy: subprocess.Popen[bytes] | None = None

    @property
    def brokers(self) -> list[Node]:
        return [node for node in self.nodes.values() if "broker" in node.roles]

    @property
    def controllers(self) -> list[Node]:
        return [node for node in self.nodes.values() if "controller" in node.roles]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.client}" for node in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"127.0.0.1:{node.controller}" for node in self.controllers)

    def __enter__(self) -> Self:
        targets = [f"{node.proxied}=127.0.0.1:{node.replication}" for node in self.brokers]
        command = [sys.executable, "-m", "live.proxy", str(self.folder / "frames.tsv"), *targets]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        self._proxy = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
        try:
            self._format()
            for node in self.nodes:
                self.start(node, wait=False)
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kills all: what is recorded has ended before."""
        for process in [*(node.process for node in self.nodes.values()), self._proxy]:
            if process is not None:
                process.kill()
                process.communicate()

    def start(self, node_id: int, version: str | None = None, wait: bool = True) -> None:
        """Starts a node, on another version if one is given."""
        node = self.nodes[node_id]
        self.versions[node_id] = version or self.versions[node_id]
        logging = self._log4j(node, self.versions[node_id])
        agent = self._agent and self._agent.format(node_id=node_id, folder=node.folder)
        command = [
            "java",
            "-Xmx256m",
            "-XX:+UseSerialGC",
            *([f"-javaagent:{agent}"] if agent else []),
        ]
        command += [logging, "-cp", class_path(self.versions[node_id]), "kafka.Kafka"]
        log = node.folder / "server.log"
        node.begun_at = log.stat().st_size if log.exists() else 0
        stdout: IO[Any] | int = subprocess.DEVNULL
        if node_id in self._stdout:
            stdout = subprocess.PIPE
        errors = (node.folder / "stderr").open("ab")
        node.process = subprocess.Popen(
            [*command, str(node.folder / "server.properties")], stdout=stdout, stderr=errors
        )
        errors.close()
        if wait:
            self.wait()

    def send(self, node_id: int, what: signal.Signals) -> None:
        process = self.nodes[node_id].process
        if process is not None and process.poll() is None:
            process.send_signal(what)

    def stop(self, node_id: int, what: signal.Signals = signal.SIGTERM) -> None:
        """Stops a node and waits for its end: SIGKILL does not let it say so."""
        self.send(node_id, what)
        process = self.nodes[node_id].process
        if process is not None:
            process.wait(60)

    def freeze(self, node_id: int, seconds: float) -> None:
        self.send(node_id, signal.SIGSTOP)
        time.sleep(seconds)
        self.send(node_id, signal.SIGCONT)

    def delay(self, **milliseconds: float) -> None:
        """Delays the replica fetchers of brokers, each way: ``delay(broker_12=4)``."""
        assert self._proxy is not None
        assert self._proxy.stdin is not None
        for name, ms in milliseconds.items():
            broker = name.removeprefix("broker_")
            self._proxy.stdin.write(f"broker-{broker}-fetcher {ms}\n".encode())
        self._proxy.stdin.flush()

    def wait(self) -> None:
        """Returns once every running node has started, and all partitions are led by one of them.

        Raises RuntimeError with a node's last words, or with what is missing.
        """
        until = time.monotonic() + _START_S
        for node in self.nodes.values():
            while node.process is not None and not self._has_started(node):
                if node.process.poll() is not None or time.monotonic() > until:
                    words = (node.folder / "stderr").read_text()[-1500:]
                    log = node.folder / "server.log"
                    words += log.read_text()[-1500:] if log.exists() else ""
                    raise RuntimeError(f"node {node.node_id} did not start: {words}")
                time.sleep(0.2)
        running = {n.node_id for n in self.brokers if n.process and n.process.poll() is None}
        # By the listener of brokers, which needs no password in any cluster.
        servers = ",".join(f"127.0.0.1:{node.replication}" for node in self.brokers)
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        while running and (missing := _missing(admin, running)):
            if time.monotonic() > until:
                raise RuntimeError(f"the cluster is not ready: {missing}")
            time.sleep(0.2)

    def _has_started(self, node: Node) -> bool:
        ports = [node.client] if "broker" in node.roles else [node.controller]
        log = node.folder / "server.log"
        if not log.exists() or b"Kafka Server started" not in log.read_bytes()[node.begun_at :]:
            return False
        with socket.socket() as probe:
            return all(probe.connect_ex(("127.0.0.1", port)) == 0 for port in ports)

    def _format(self) -> None:
        """Formats every node's folder as the first one's, which Kafka's own tool formats."""
        voters = ",".join(f"{n.node_id}@127.0.0.1:{n.controller}" for n in self.controllers)
        of_all = {
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "num.network.threads": 2,
            "num.io.threads": 4,
            "default.replication.factor": 3,
            "min.insync.replicas": 2,
            "offsets.topic.num.partitions": 3,
            "offsets.topic.replication.factor": 3,
            "transaction.state.log.num.partitions": 3,
            "transaction.state.log.replication.factor": 3,
            "group.initial.rebalance.delay.ms": 0,
            "controlled.shutdown.enable": True,
        } | dict(self._settings)
        for node in self.nodes.values():
            of_node = {**of_all, **node.properties(), **self._settings_of.get(node.node_id, {})}
            lines = (f"{key}={_as_text(value)}" for key, value in of_node.items())
            (node.folder / "server.properties").write_text("\n".join(lines) + "\n")
        first = self.controllers[0]
        tool = ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path(self.version)]
        tool += ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, *self._format_options]
        subprocess.run(
            [*tool, "-c", str(first.folder / "server.properties")], check=True, capture_output=True
        )
        meta = (first.folder / "data" / "meta.properties").read_text()
        of_first = dict(line.split("=", 1) for line in meta.splitlines() if "=" in line)
        for node in self.nodes.values():
            if node is not first:
                shutil.copytree(first.folder / "data", node.folder / "data")
                directory = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=").replace("-", "x")
                of_node = {**of_first, "node.id": node.node_id, "directory.id": directory}
                lines = (f"{key}={value}" for key, value in of_node.items())
                (node.folder / "data" / "meta.properties").write_text("\n".join(lines))

    def _log4j(self, node: Node, version: str) -> str:
        pattern = self._patterns.get(node.node_id, KAFKA)
        names = {"folder": node.folder, "pattern": pattern, "level": self._level}
        if version.startswith("3."):
            file, option = node.folder / "log4j.properties", "log4j.configuration=file:"
            file.write_text(_LOG4J.format(**names))
        else:
            file, option = node.folder / "log4j2.xml", "log4j2.configurationFile="
            layout = _LAYOUT.format(pattern=pattern)
            to = _TO_STDOUT if node.node_id in self._stdout else _TO_FILE
            file.write_text(_LOG4J2.format(appender=to.format(layout=layout, **names), **names))
        return f"-D{option}{file}"


def _missing(admin: AdminClient, running: set[int]) -> str:
    """What METADATA lacks: it has the brokers that are not fenced, and leaders."""
    try:
        seen = admin.list_topics(timeout=10)
    except KafkaException as error:
        return str(error)
    partitions = [p for topic in seen.topics.values() for p in topic.partitions.values()]
    fenced, unled = running - {*seen.brokers}, sum(p.leader not in running for p in partitions)
    return f"brokers {fenced}, leaders of {unled} partitions" if fenced or unled else ""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below those that connections are given."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
