"""Brokers and controllers of a running cluster, each polled at its own address.

kafka-python's admin client begins with METADATA, which no controller serves, and sends to brokers
only. Its connections serve both: each address here is a bootstrap server that nothing is
bootstrapped from. Source: KIP-919, ``ControllerApis``, ``RuntimeLoggerManager``.

A log shows the state of a cluster only where a request names it. So each broker is polled for
METADATA of all topics and for the configs that rules read, and each second for API_VERSIONS, whose
response has the offset of the metadata it has applied; at the start and at the end for which
partitions members of its consumer groups have. By way of one broker the active controller
is polled for DESCRIBE_QUORUM, which has the high watermark and every log end offset. Each node is
polled for its level, at once and then every few seconds: so a standby controller has a line too.

Options of connections are read from a client's properties file, as Kafka's own tools take it.
Source: ``java.util.Properties``, ``SaslConfigs``, ``SslConfigs``. Passwords stay in what is
returned: no message has them.
"""

import logging
import re
import shlex
import ssl
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import kafka.errors as kafka_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeQuorumRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
)
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.manifest import RULE_KEYS

LOGGER = "kafka.request.logger"
#: ``ConfigResource.Type``
TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
#: ``EndpointType``, and the error of the other.
_ENDPOINTS = {"broker": 1, "controller": 2}
_MISMATCHED_ENDPOINT_TYPE = 114
_SET = 0  # ``AlterConfigOp.OpType``
#: METADATA of all topics is one response.
_OPTIONS = {"client_id": "kip-replay-record", "request_timeout_ms": 30_000}
_OPTIONS["receive_message_max_bytes"] = 256 << 20

# Failures are printed here, once; without a handler the library would print them too.
logging.getLogger("kafka").addHandler(logging.NullHandler())
logging.getLogger("kafka").propagate = False


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg]
    """Describes KIP-848's groups; kafka-python has no such request."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg]
    """Registers itself as what responds to it."""


class UnreachableError(UserError):
    """A node does not respond, or closes the connection."""


@dataclass(frozen=True)
class ClusterNode:
    """A process of Kafka; ``address`` is that of the listener it is polled at."""

    node_id: int
    role: str
    host: str
    address: str

    def __str__(self) -> str:
        return f"node {self.node_id} ({self.role}, {self.address})"


class Cluster:
    """Sends requests to a cluster's nodes, found by these addresses. All raise UserError."""

    def __init__(
        self, brokers: Sequence[str], controllers: Sequence[str], options: dict[str, Any]
    ) -> None:
        self.bootstrap, self.cluster_id = {"broker": brokers, "controller": controllers}, ""
        self._options = options | _OPTIONS
        self._net = NetworkSelector()
        self._managers: dict[str, KafkaConnectionManager] = {}

    def __enter__(self) -> Self:
        self._net.start()
        return self

    def __exit__(self, *_: object) -> None:
        for manager in self._managers.values():
            self._net.run(manager.close)
        self._net.stop(1000)
        self._net.close()

    def nodes(self) -> list[ClusterNode]:
        """Returns brokers, and controllers if an address is known; with both roles, one node."""
        nodes: dict[int, ClusterNode] = {}
        for role, addresses in self.bootstrap.items():
            for node in self._described(role, addresses) if addresses else ():
                other = nodes.get(node.node_id)
                nodes[node.node_id] = replace(other, role=f"{other.role},{role}") if other else node
        if not self.bootstrap["controller"]:
            with suppress(UserError):  # without the right to see the quorum, it is not known
                for node_id in nodes.keys() & {*self.voters(self._responding)}:
                    nodes[node_id] = replace(nodes[node_id], role="broker,controller")
        return [nodes[node_id] for node_id in sorted(nodes)]

    def level(self, node: ClusterNode) -> str:
        """Returns the level of the node's request logger."""
        level = self.configs(node, BROKER_LOGGER, [str(node.node_id)], [LOGGER]).get(LOGGER)
        if level is None:
            raise UserError(f"{node} has no {LOGGER} in its log4j configuration")
        return level

    def set_level(self, node: ClusterNode, level: str) -> None:
        resource = (BROKER_LOGGER, str(node.node_id), [(LOGGER, _SET, level)])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        for altered in self._request(node.address, request).responses:
            _require(altered, node.address)

    def configs(
        self, node: ClusterNode, kind: int, resources: Iterable[str], names: Iterable[str]
    ) -> dict[str, str]:
        """Returns values of configs, of the last resource that has them."""
        request = DescribeConfigsRequest(resources=[(kind, r, [*names]) for r in resources])
        results = self._request(node.address, request).results
        for result in results:
            _require(result, node.address)
        return {c.name: c.value for result in results for c in result.configs if c.value}

    def metadata(self, node: ClusterNode) -> dict[str, int]:
        """Returns the number of partitions of each topic."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return {t.name: len(t.partitions) for t in self._request(node.address, request).topics}

    def describe_groups(self, node: ClusterNode, groups_max: int) -> int:
        """Makes a broker log assignments of its first consumer groups; returns how many it has."""
        listed = self._request(node.address, ListGroupsRequest())
        _require(listed, node.address)
        groups = [
            (group.group_type.lower() == "consumer", group.group_id)
            for group in listed.groups
            if group.protocol_type == "consumer" and group.group_state not in ("Empty", "Dead")
        ]
        for is_new, request in enumerate((DescribeGroupsRequest, ConsumerGroupDescribeRequest)):
            if names := [name for kind, name in groups[:groups_max] if kind == is_new]:
                for group in self._request(node.address, request(names)).groups:
                    _require(group, node.address)
        return len(groups)

    def show_versions(self, node: ClusterNode) -> None:
        """Makes a broker log API_VERSIONS, whose response has the offset of its metadata."""
        name = _OPTIONS["client_id"]
        request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
        self._request(node.address, request)

    def voters(self, address: str) -> list[int]:
        """Makes the active controller log DESCRIBE_QUORUM, by way of a broker; returns voters."""
        request = DescribeQuorumRequest(topics=[("__cluster_metadata", [(0,)])])
        response = self._request(address, request)
        _require(response, address)
        voters = response.topics[0].partitions[0].current_voters
        return sorted({voter.replica_id for voter in voters})

    def _described(self, role: str, addresses: Sequence[str]) -> list[ClusterNode]:
        """Returns the nodes that the first address knows that responds."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False,
            endpoint_type=_ENDPOINTS[role],
            include_fenced_brokers=True,
            # version 0 has no type of endpoint: what is no controller would respond as one
            min_version=int(role == "controller"),
        )
        failures = []
        for address in addresses:
            try:
                described = self._request(address, request)
            except UnreachableError as error:
                failures.append(str(error))
                continue
            if described.error_code == _MISMATCHED_ENDPOINT_TYPE:
                raise UserError(f"{address} is not the address of a {role}, but of the other role")
            _require(described, address)
            self.cluster_id, self._responding = described.cluster_id, address
            return [
                ClusterNode(b.broker_id, role, b.host, _address(b.host, b.port))
                for b in described.brokers
            ]
        raise UserError(f"no {role} can be reached: {'; '.join(failures)}")

    def _request(self, address: str, request: Any) -> Any:
        """The response to a request, by a connection that stays open."""

        async def send() -> Any:
            if address not in self._managers:
                self._managers[address] = KafkaConnectionManager(
                    self._net, bootstrap_servers=address, **self._options
                )
            manager = self._managers[address]
            node_id = manager.cluster.bootstrap_brokers()[0].node_id
            manager.reset_backoff(node_id)
            connection = manager.get_connection(node_id, refresh_metadata_on_err=False)
            await connection
            return await connection.send_request(request)

        try:
            return self._net.run(send)
        except ValueError:
            raise UserError(f"{address} is no HOST:PORT") from None
        except kafka_errors.IncompatibleBrokerVersion:
            raise UserError(
                f"{address} does not serve {request.name}: controllers do since Kafka 3.7; before, "
                "set the level in the log4j configuration (docs/tutorial.md)"
            ) from None
        except kafka_errors.KafkaError as error:
            raise UnreachableError(f"{address}: {self._why(str(error))}") from None

    def _why(self, text: str) -> str:
        """Explains a failed connection: brokers close one that they refuse without a word."""
        if "REFUSED" in text:
            return "connection refused: is this its port, and is it running?"
        if "DNS" in text or "CERTIFICATE" in text:
            return text
        protocol, mechanism = (
            self._options["security_protocol"],
            self._options.get("sasl_mechanism"),
        )
        user = f"user, password or {mechanism} refused, or " if mechanism else ""
        what = text.removeprefix("KafkaConnectionError: ")
        return f"{what} ({user}another security.protocol than {protocol}: see --command-config)"


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _require(result: Any, address: str) -> None:
    """Raises UserError if a part of a response has an error."""
    if result.error_code:
        error = kafka_errors.for_code(result.error_code)
        if issubclass(error, kafka_errors.AuthorizationError):
            raise UserError(
                f"not authorized at {address}: the user needs DESCRIBE, DESCRIBE_CONFIGS and "
                "ALTER_CONFIGS on the cluster, for groups DESCRIBE, for controllers CLUSTER_ACTION"
            )
        raise UserError(f"{address}: {error.__name__} {result.error_message or ''}")


# --- what a node is polled for

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

    def __init__(self, cluster: Cluster, nodes: Sequence[ClusterNode]) -> None:
        self.cluster, self.nodes = cluster, nodes
        self.brokers = [node for node in nodes if "broker" in node.role]
        self.voters: list[int] = []
        #: Of each broker that returned them, values of ``BROKER_CONFIGS``.
        self.configs: dict[ClusterNode, dict[str, str]] = {}
        #: What became of nodes meanwhile, and of groups, a sentence each.
        self.lost: dict[ClusterNode | str, str] = {}
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(len(nodes))

    def start(self) -> None:
        for node in self.nodes:
            self._pool.submit(self._poll, node)

    def stop(self) -> None:
        """Describes the cluster once more, and ends."""
        self._ended.set()
        self._pool.shutdown()

    def _poll(self, node: ClusterNode) -> None:
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

    def _describe(self, node: ClusterNode) -> float:
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

    def _describe_groups(self, node: ClusterNode) -> None:
        if node not in self.brokers:
            return
        try:
            if (count := self.cluster.describe_groups(node, _GROUPS_MAX)) > _GROUPS_MAX:
                some = f"{_GROUPS_MAX} of the {count:,} consumer groups of {node} were described"
                self.lost.setdefault(f"groups of {node}", some)
        except UserError as error:
            self.lost.setdefault("groups", f"not every consumer group was described: {error}")

    def _look_at_level(self, node: ClusterNode) -> None:
        try:
            level = self.cluster.level(node)
        except UserError as error:
            self.lost.setdefault(node, f"{node} did not respond meanwhile: {error}")
            return
        if level not in ON:
            self.lost.setdefault(node, f"{node} was set to {level} meanwhile, as by a restart")


# --- a client's properties file

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
#: A key ends at the first separator that is not escaped.
_ENTRY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_TO_PEM = {
    "truststore": "keytool -exportcert -rfc -keystore STORE -alias ALIAS > ca.pem",
    "keystore": "keytool -importkeystore -srckeystore STORE -destkeystore client.p12 "
    "-deststoretype PKCS12; openssl pkcs12 -in client.p12 -out client.pem",
}


def client_options(file: str | None) -> dict[str, Any]:
    """Options for connections of kafka-python. Raises UserError."""
    try:
        options = properties(Path(file).read_text("utf-8")) if file else {}
        protocol = options.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise UserError(f"security.protocol {protocol} is none of {', '.join(_PROTOCOLS)}")
        sasl = _sasl(options) if protocol.startswith("SASL") else {}
        tls = {"ssl_context": _tls(options)} if protocol.endswith("SSL") else {}
    except UserError as error:
        raise UserError(f"--command-config {file}: {error}") from None
    except (OSError, ValueError) as error:  # without its text, which may have what was read
        why = getattr(error, "strerror", None) or "its form is not that of a properties file"
        raise UserError(f"--command-config {file}, or a PEM it names: {why}") from None
    return {"security_protocol": protocol, **sasl, **tls}


def properties(text: str) -> dict[str, str]:
    """The entries of a properties file."""
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text)
    lines = (line.lstrip() for line in joined.splitlines())
    entries = (_ENTRY.fullmatch(line) for line in lines if line and line[0] not in "#!")
    return {_unescaped(entry[1]): _unescaped(entry[2]) for entry in entries if entry}


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(character, text)


def _sasl(options: Mapping[str, str]) -> dict[str, str]:
    mechanism = options.get("sasl.mechanism", "GSSAPI")
    if mechanism not in _MECHANISMS:
        raise UserError(
            f"sasl.mechanism {mechanism} is not supported here: make a user for one of "
            f"{', '.join(_MECHANISMS)}, or record by hand (docs/tutorial.md)"
        )
    words = shlex.split(options.get("sasl.jaas.config", "").strip().rstrip(";"))
    jaas = dict(word.split("=", 1) for word in words if "=" in word)
    if not {"username", "password"} <= jaas.keys():
        raise UserError('sasl.jaas.config needs username="..." and password="..."')
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": jaas["username"],
        "sasl_plain_password": jaas["password"],
    }


def _tls(options: Mapping[str, str]) -> ssl.SSLContext:
    for store, command in _TO_PEM.items():
        kind = options.get(f"ssl.{store}.type", "JKS").upper()
        if kind != "PEM" and f"ssl.{store}.location" in options:
            raise UserError(
                f"a {store} of the type {kind} cannot be read here: convert it ({command}), and "
                f"set ssl.{store}.type=PEM and ssl.{store}.location"
            )
    context = ssl.create_default_context(cadata=_pem(options, "truststore", "certificates"))
    context.check_hostname = options.get("ssl.endpoint.identification.algorithm", "https") != ""
    if chain := _pem(options, "keystore", "certificate.chain"):
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # it only reads files
            file.write(f"{chain}\n{options.get('ssl.keystore.key', '')}")
            file.flush()
            context.load_cert_chain(file.name, password=options.get("ssl.key.password", ""))
    return context


def _pem(options: Mapping[str, str], store: str, inline: str) -> str:
    file = options.get(f"ssl.{store}.location")
    return Path(file).read_text("ascii") if file else options.get(f"ssl.{store}.{inline}", "")
