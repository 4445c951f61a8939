"""Brokers and controllers of a running cluster, each asked at its own address.

kafka-python's admin client begins with METADATA, which no controller serves, and sends to brokers
only. Its connections serve both: each address here is a bootstrap server that nothing is
bootstrapped from. Source: KIP-919, ``ControllerApis``, ``RuntimeLoggerManager``.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import kafka.errors as kafka_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from kip_replay.pipelines.errors import UserError

CLIENT_ID = "kip-replay-record"
LOGGER = "kafka.request.logger"
#: ``ConfigResource.Type``; ``AlterConfigOp.OpType.SET``; ``EndpointType``
_TOPIC, _BROKER, _BROKER_LOGGER = 2, 4, 8
_SET = 0
_BROKERS, _CONTROLLERS = 1, 2
_MISMATCHED_ENDPOINT_TYPE = 114
_METADATA_TOPIC = "__cluster_metadata"
_TIMEOUT_MS = 10_000
#: METADATA of all topics is one response.
_RESPONSE_BYTES_MAX = 256 << 20

# Failures are said here, once; without a handler the library would print them too.
logging.getLogger("kafka").addHandler(logging.NullHandler())
logging.getLogger("kafka").propagate = False


class UnreachableError(Exception):
    """A node does not respond, or refuses the connection."""


@dataclass(frozen=True)
class Node:
    """A process of Kafka; ``address`` is that of the listener it is asked at."""

    node_id: int
    role: str
    host: str
    address: str


class Cluster:
    """What is asked of a cluster's nodes. All raise UserError, or UnreachableError of a node."""

    def __init__(
        self, brokers: Sequence[str], controllers: Sequence[str], options: dict[str, Any]
    ) -> None:
        self._brokers, self._controllers = brokers, controllers
        self._options = {
            **options,
            "client_id": CLIENT_ID,
            "request_timeout_ms": _TIMEOUT_MS,
            "receive_message_max_bytes": _RESPONSE_BYTES_MAX,
        }
        self._net = NetworkSelector(client_id=CLIENT_ID)
        self._managers: dict[str, KafkaConnectionManager] = {}
        self.cluster_id = ""

    def __enter__(self) -> Self:
        self._net.start()
        return self

    def __exit__(self, *_: object) -> None:
        for manager in self._managers.values():
            self._net.run(manager.close)
        self._net.stop(1000)
        self._net.close()

    def nodes(self) -> list[Node]:
        """Brokers, and controllers if their address is known; with both roles, one node."""
        nodes = {node.node_id: node for node in self._described(self._brokers, _BROKERS)}
        for node in self._described(self._controllers, _CONTROLLERS) if self._controllers else ():
            broker = nodes.get(node.node_id)
            nodes[node.node_id] = replace(broker, role="broker,controller") if broker else node
        return [nodes[node_id] for node_id in sorted(nodes)]

    def level(self, node: Node) -> str:
        """The level of the node's request logger."""
        configs = self._configs(node.address, [(_BROKER_LOGGER, str(node.node_id), [LOGGER])])
        level = configs.get((str(node.node_id), LOGGER))
        if level is None:
            raise UserError(
                f"node {node.node_id} has no logger {LOGGER}: it is not in its log4j "
                "configuration (docs/collecting.md)"
            )
        return level

    def set_level(self, node: Node, level: str) -> None:
        resource = (_BROKER_LOGGER, str(node.node_id), [(LOGGER, _SET, level)])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        for altered in self._ask(node.address, request).responses:
            _require(altered.error_code, altered.error_message, node.address)

    def configs_of(self, node: Node, names: Iterable[str]) -> dict[str, str]:
        """Values of a broker's configs, as it has them."""
        configs = self._configs(node.address, [(_BROKER, str(node.node_id), [*names])])
        return {name: value for (_, name), value in configs.items()}

    def show_topics(self, node: Node, names: Iterable[str], topics: Sequence[str]) -> None:
        """Makes a broker log these configs of topics."""
        self._configs(node.address, [(_TOPIC, topic, [*names]) for topic in topics])

    def metadata(self, node: Node) -> tuple[list[str], int]:
        """Makes a broker log METADATA of all topics: returns their names, and their partitions."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        topics = self._ask(node.address, request).topics
        return [topic.name for topic in topics], sum(len(topic.partitions) for topic in topics)

    def show_versions(self, node: Node) -> None:
        """Makes a broker log API_VERSIONS, whose response has the offset of its metadata."""
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version="1")
        self._ask(node.address, request)

    def voters(self, node: Node) -> list[int]:
        """Makes the active controller log DESCRIBE_QUORUM, by way of a broker; returns voters."""
        request = DescribeQuorumRequest(topics=[(_METADATA_TOPIC, [(0,)])])
        response = self._ask(node.address, request)
        _require(response.error_code, response.error_message, node.address)
        partition = response.topics[0].partitions[0]
        _require(partition.error_code, "", node.address)
        return sorted({voter.replica_id for voter in partition.current_voters})

    # --- requests

    def _described(self, addresses: Sequence[str], endpoint: int) -> list[Node]:
        """The nodes that the first address knows that responds."""
        role = "broker" if endpoint == _BROKERS else "controller"
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False,
            endpoint_type=endpoint,
            include_fenced_brokers=True,
            # version 0 has no type of endpoint: what is no controller would respond as one
            min_version=1 if endpoint == _CONTROLLERS else 0,
        )
        failures = []
        for address in addresses:
            try:
                found = self._ask(address, request)
            except UnreachableError as error:
                failures.append(str(error))
                continue
            if found.error_code == _MISMATCHED_ENDPOINT_TYPE:
                other = "controller" if endpoint == _BROKERS else "broker"
                option = "server" if endpoint == _CONTROLLERS else "controller"
                raise UserError(
                    f"{address} is the address of a {other}: give it with --bootstrap-{option}"
                )
            _require(found.error_code, found.error_message, address)
            self.cluster_id = found.cluster_id
            return [Node(b.broker_id, role, b.host, _address(b)) for b in found.brokers]
        raise UserError(f"no {role} can be reached: {'; '.join(failures)}")

    def _configs(
        self, address: str, resources: Sequence[tuple[int, str, list[str]]]
    ) -> dict[tuple[str, str], str]:
        """Values by the resource's name and the config's."""
        values = {}
        for result in self._ask(address, DescribeConfigsRequest(resources=resources)).results:
            _require(result.error_code, result.error_message, address)
            for config in result.configs:
                if config.value is not None:
                    values[result.resource_name, config.name] = config.value
        return values

    def _ask(self, address: str, request: Any) -> Any:
        """The response to a request, by a connection that stays open."""
        if address not in self._managers:
            try:
                manager = KafkaConnectionManager(
                    self._net, bootstrap_servers=address, **self._options
                )
            except ValueError:
                raise UserError(f"{address} is no HOST:PORT") from None
            self._managers[address] = manager
        manager = self._managers[address]
        node_id = manager.cluster.bootstrap_brokers()[0].node_id
        is_open = False

        async def send() -> Any:
            nonlocal is_open
            manager.reset_backoff(node_id)
            connection = manager.get_connection(
                node_id, timeout_ms=_TIMEOUT_MS, refresh_metadata_on_err=False
            )
            await connection
            is_open = True
            return await connection.send_request(request)

        began = time.monotonic()
        try:
            return manager.run(send)
        except kafka_errors.IncompatibleBrokerVersion:
            raise UserError(
                f"{address} does not serve {request.name}: brokers do since 2.8, controllers since "
                "3.7; before that, set the level in the log4j configuration (docs/tutorial.md)"
            ) from None
        except kafka_errors.KafkaError as error:
            took_s = time.monotonic() - began
            raise UnreachableError(f"{address} {self._why(error, is_open, took_s)}") from None

    def _why(self, error: Exception, is_open: bool, took_s: float) -> str:
        """Of a connection that failed: brokers close it without a word where they refuse it."""
        protocol = self._options["security_protocol"]
        text = str(error).removeprefix("KafkaConnectionError: ")
        if "REFUSED" in text:
            return "refuses connections: is this its port, and is it running?"
        if "DNS" in text:
            return "has a host that is not known"
        if "CERTIFICATE" in text.upper():
            return f"has a certificate that is not accepted ({text})"
        if is_open and protocol.startswith("SASL") and took_s > _TIMEOUT_MS / 2000:
            return "does not respond"
        wrong = f"its listener may need another security.protocol than {protocol}"
        if protocol.startswith("SASL") and not is_open:
            mechanism = self._options["sasl_mechanism"]
            wrong = f"the user, the password or {mechanism} was refused, or {wrong}"
        did = "does not respond" if took_s > _TIMEOUT_MS / 2000 else "closed the connection"
        return f"{did} ({text}): {wrong} (--command-config)"


def _address(described: Any) -> str:
    host = f"[{described.host}]" if ":" in described.host else described.host
    return f"{host}:{described.port}"


def _require(error_code: int, message: str | None, address: str) -> None:
    if error_code == 0:
        return
    error = kafka_errors.for_code(error_code)
    if issubclass(error, kafka_errors.AuthorizationError):
        raise UserError(
            f"the user is not authorized at {address}: it needs DESCRIBE, DESCRIBE_CONFIGS and "
            "ALTER_CONFIGS on the cluster, and CLUSTER_ACTION for controllers"
        )
    raise UserError(f"{address}: {error.__name__}{f' ({message})' if message else ''}")
