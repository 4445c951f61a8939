"""Rows of lines without a name that gives away whose they are.

Every text in them becomes its pseudonym, unless it is stated here that it stays, and
why: what is made by this program, what is Kafka's own word, or a number that the rules need. So a
column added later is hidden until it is listed here.

The same name has the same pseudonym in every column, so whatever could be joined can be joined. A
connection keeps its form and its ports, a principal its type, and sizes on the wire were counted
before.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.replay.table import TEXT

from .arrow_rows import Rows
from .pseudonyms import Pseudonyms

#: Made by this program, or given by its user: columns of any table, and columns of one.
_OF_LINES = {"recording", "request_id", "line_id", "source_file"}
_KEPT = {"rejected_lines.reason", "rejected_lines.detail", "metadata_offsets.kind"}
_KEPT |= {"metadata_writes.resources.resource_type", "configs.resource_type", "configs.operation"}
#: Kafka's own topics, and ids that it has reserved (``Uuid``, ``DirectoryId``).
INTERNAL_TOPICS = {"__cluster_metadata", "__consumer_offsets", "__transaction_state"}
INTERNAL_TOPICS |= {"__share_group_state", "__remote_log_metadata"}
_RESERVED_IDS = frozenset("AAAAAAAAAAAAAAAAAAAAA" + last for last in "AQg")
#: Clients within brokers and controllers, which are named after nodes: rules know them by these.
KAFKA_CLIENTS = re.compile(
    r"raft-client-\d{1,10}|broker-\d{1,10}-fetcher-\d{1,10}|broker-\d{1,10}-txn-marker-sender"
    r"|AddPartitionsManager-client-\d{1,10}"
)
_SECURITY_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_API_NAME = re.compile(r"[A-Z][A-Z_]{0,49}")
_SOFTWARE = {"unknown", "apache-kafka-java", "librdkafka", "rdkafka", "node-rdkafka"}
_SOFTWARE |= {"confluent-kafka-dotnet", "confluent-kafka-go", "confluent-kafka-javascript"}
_SOFTWARE |= {"confluent-kafka-python", "kafka-python", "kgo", "sarama"}
_VERSION = re.compile(
    r"unknown|v?\d{1,4}(\.\d{1,4}){0,3}(-(rdkafka-)?v?\d{1,4}(\.\d{1,4}){0,3})?"
    r"(-(SNAPSHOT|ccs|ce|rc\d{1,2}))?"
)
#: ``KafkaPrincipal``: a type and a name.
_USER = "User:"
_ANONYMOUS = "User:ANONYMOUS"
#: local host:port-remote host:port-processor-index, in newer versions with a second index.
_CONNECTION = re.compile(r"(.*?):(\d{1,5})-(.*):(\d{1,5})((?:-\d{1,10}){1,2})", re.DOTALL)

#: Resources whose names are node ids, and features that Kafka has.
_NODES = pa.array(["broker", "broker_logger"])
_NODE_ID = r"^[0-9]{1,10}$"
_FEATURE = r"^[a-z.]{1,40}\.version$"
#: Configs whose names stay, and their values where these are numbers or truth values.
KEPT_CONFIGS = ["min.insync.replicas", "default.replication.factor", "num.partitions"]
KEPT_CONFIGS += ["unclean.leader.election.enable", "retention.ms", "retention.bytes", "segment.ms"]
KEPT_CONFIGS += ["segment.bytes", "max.message.bytes", "max.incremental.fetch.session.cache.slots"]
KEPT_CONFIGS += ["replica.lag.time.max.ms", "replica.fetch.wait.max.ms", "replica.fetch.min.bytes"]
KEPT_CONFIGS += ["replica.fetch.max.bytes", "replica.fetch.response.max.bytes"]
KEPT_CONFIGS += ["num.replica.fetchers", "broker.heartbeat.interval.ms"]
KEPT_CONFIGS += ["broker.session.timeout.ms", "controller.quorum.fetch.timeout.ms"]
KEPT_CONFIGS += ["metadata.max.idle.interval.ms"]
#: A log may have any number of names.
_REMEMBERED_MAX = 200_000
_PLAIN_VALUE = r"^(-?[0-9]{1,19}|true|false)$"


class Anonymous:
    """Hides names in rows. Remembers pseudonyms; one per task."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        #: The pseudonym of whatever has no form that must stay.
        self.name = lru_cache(_REMEMBERED_MAX)(pseudonyms.of)
        self._ways: dict[str, Callable[[str], str]] = {
            "client_id": self.client_id,
            "connection": self.connection,
            "principal": self.principal,
            "listener": self.listener,
            "security_protocol": self._unless(_SECURITY_PROTOCOLS.__contains__),
            "software_name": self._unless(_SOFTWARE.__contains__),
            "software_version": self._unless(_VERSION.fullmatch),
            "api_name": self._unless(_API_NAME.fullmatch),
            "source": self._unless(_API_NAME.fullmatch),
            "topic": self.topic,
            "topic_id": self.topic,
            "replica_directory_id": self.topic,
        }

    def rows(self, rows: Rows) -> Rows:
        return {
            table: pa.RecordBatch.from_struct_array(self._struct(batch.to_struct_array(), table))
            for table, batch in rows.items()
        }

    def texts(self, texts: pa.Array, column: str) -> pa.Array:
        return _each(texts, self._ways.get(column, self.name))

    def topic(self, topic: str) -> str:
        return topic if topic in INTERNAL_TOPICS or topic in _RESERVED_IDS else self.name(topic)

    def client_id(self, client_id: str) -> str:
        """A client id; those of brokers and controllers say what they are."""
        return client_id if KAFKA_CLIENTS.fullmatch(client_id) else self.name(client_id)

    def connection(self, connection: str) -> str:
        match = _CONNECTION.fullmatch(connection)
        if match is None:
            return self.name(connection)
        local, local_port, remote, remote_port, numbers = match.groups()
        return f"{self.name(local)}:{local_port}-{self.name(remote)}:{remote_port}{numbers}"

    def principal(self, principal: str) -> str:
        """``User:`` and a pseudonym; who has not logged in is still ANONYMOUS."""
        if principal == _ANONYMOUS:
            return principal
        if principal.startswith(_USER):
            return _USER + self.name(principal.removeprefix(_USER))
        return self.name(principal)

    def listener(self, listener: str) -> str:
        """A listener; Kafka's own words for them stay."""
        is_kafkas = listener in _SECURITY_PROTOCOLS or listener == "CONTROLLER"
        return listener if is_kafkas else self.name(listener)

    def _unless(self, is_kept: Callable[[str], object]) -> Callable[[str], str]:
        return lambda text: text if is_kept(text) else self.name(text)

    def _hidden(self, array: pa.Array, place: str) -> pa.Array:
        """All texts of a column, however deeply nested. ``place``: dotted, within the table."""
        if pa.types.is_list(array.type):
            values = self._hidden(array.values, place)
            mask = array.is_null() if array.null_count else None
            return pa.ListArray.from_arrays(array.offsets, values, type=array.type, mask=mask)
        if pa.types.is_struct(array.type):
            return self._struct(array, place)
        name = place.rpartition(".")[2]
        if array.type != TEXT or place in _KEPT or name in _OF_LINES:
            return array
        return self.texts(array, name)

    def _struct(self, array: pa.StructArray, place: str) -> pa.StructArray:
        plain = {field.name: array.field(i) for i, field in enumerate(array.type)}
        hidden = {name: self._hidden(child, f"{place}.{name}") for name, child in plain.items()}
        if place == "metadata_writes.resources":
            hidden["name"] = self._resource_names(plain["resource_type"], plain["name"])
        elif place == "configs":
            names = plain["name"]
            is_known = pc.is_in(names, pa.array(KEPT_CONFIGS))
            is_plain = pc.match_substring_regex(plain["value"], _PLAIN_VALUE)
            resources = self._resource_names(plain["resource_type"], plain["resource_name"])
            hidden["resource_name"] = resources
            hidden["name"] = _kept_where(is_known, names, hidden["name"])
            hidden["value"] = _kept_where(
                pc.and_(is_known, is_plain), plain["value"], hidden["value"]
            )
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(list(hidden.values()), fields=list(array.type), mask=mask)

    def _resource_names(self, types: pa.Array, names: pa.Array) -> pa.Array:
        """Topics as topics are, nodes and features as they are, and whatever else hidden."""
        is_node = pc.and_(pc.is_in(types, _NODES), pc.match_substring_regex(names, _NODE_ID))
        is_feature = pc.and_(pc.equal(types, "feature"), pc.match_substring_regex(names, _FEATURE))
        topics = _each(names, self.topic)
        hidden = pc.if_else(pc.equal(types, "topic"), topics, _each(names, self.name))
        return _kept_where(pc.or_(is_node, is_feature), names, hidden)


def _each(texts: pa.Array, way: Callable[[str], str]) -> pa.Array:
    encoded = texts.dictionary_encode()
    different = pa.array([way(text) for text in encoded.dictionary.to_pylist()], TEXT)
    return different.take(encoded.indices)


def _kept_where(is_kept: pa.BooleanArray, texts: pa.Array, hidden: pa.Array) -> pa.Array:
    return pc.if_else(is_kept.fill_null(False), texts, hidden)
