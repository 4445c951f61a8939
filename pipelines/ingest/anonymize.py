"""Logs without the names in them, to be handed to somebody else: ``kip-replay anonymize``.

Lines are written as they are parsed, in Kafka's default layout, so that nothing is left of what
carried them; those that cannot be parsed are left out. Of a line's JSON every text is replaced
unless it is stated here that it stays: Kafka's own words, numbers that rules need, random ids. All
else stays byte for byte.

A name becomes letters and digits that follow from a key, as many as it has bytes, so that sizes on
the wire stay. Equal names are replaced alike wherever they are, also in the manifest.
"""

import gzip
import hmac
import json
import re
import string
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.log_files import LogFile, find_log_files
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.ingest.parse_task import joined, parse_together
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.ingest.survey import survey
from kip_replay.pipelines.storage import Place

#: What a log without a manifest is written as: Kafka's name, which a folder stands for.
_LOG = "kafka-request.log.gz"

#: A text of JSON; if it is a field's name, the colon behind it, and the value if it is an integer.
_TEXT = re.compile(rb'"((?:[^"\\]|\\.)*)"(?:\s*(:)\s*(\d+)?)?')
#: Each byte of a hash as a letter or digit.
_LETTERS = ((string.ascii_letters + string.digits) * 5).encode()[:256]
#: Hashes that are tried for a name before it becomes a byte longer.
_TRIES = 1000

#: Configs whose names stay, and their values where these are numbers or truth values.
KEPT_CONFIGS = {
    *("min.insync.replicas", "default.replication.factor", "num.partitions", "retention.ms"),
    *("unclean.leader.election.enable", "retention.bytes", "segment.ms", "segment.bytes"),
    *("max.message.bytes", "max.incremental.fetch.session.cache.slots", "num.replica.fetchers"),
    *("replica.lag.time.max.ms", "replica.fetch.wait.max.ms", "replica.fetch.min.bytes"),
    *("replica.fetch.max.bytes", "replica.fetch.response.max.bytes"),
    *("broker.heartbeat.interval.ms", "broker.session.timeout.ms"),
    *("controller.quorum.fetch.timeout.ms", "metadata.max.idle.interval.ms"),
}
#: Kafka's own topics, protocols, listener, features, and who has not logged in: wherever they are.
KEPT_WORDS = KEPT_CONFIGS | {
    *("__cluster_metadata", "__consumer_offsets", "__transaction_state"),
    *("__share_group_state", "__remote_log_metadata"),
    *("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "CONTROLLER", "User:ANONYMOUS"),
    *("metadata.version", "kraft.version", "transaction.version", "group.version"),
    *("share.version", "streams.version", "eligible.leader.replicas.version"),
}
_SOFTWARE = (
    "unknown|apache-kafka-java|(node-)?(lib)?rdkafka|kafka-python|kgo|sarama|kip-replay-record"
    "|confluent-kafka-(dotnet|go|javascript|python)"
)
_NUMBERS = r"v?\d{1,4}(\.\d{1,4}){0,3}"
_VERSION = rf"unknown|{_NUMBERS}(-(rdkafka-)?{_NUMBERS})?(-(SNAPSHOT|ccs|ce|rc\d{{1,2}}))?"
#: Clients within brokers and controllers are named after nodes: rules know them by these.
_KAFKA_CLIENT = (
    r"raft-client-\d{1,10}|broker-\d{1,10}-(fetcher-\d{1,10}|txn-marker-sender)"
    r"|AddPartitionsManager-client-\d{1,10}"
)
_DIRECTORIES = ("replica", "voter", "candidate")
#: Fields whose texts stay if they have this form; ids of Kafka's are 16 random bytes in base64.
_FORMS = {
    "requestApiKeyName": r"[A-Z][A-Z_]{0,49}",
    "clientId": _KAFKA_CLIENT,
    "protocolType": "consumer|connect|share|streams",
    **dict.fromkeys(("softwareName", "clientSoftwareName"), _SOFTWARE),
    **dict.fromkeys(("softwareVersion", "clientSoftwareVersion"), _VERSION),
    **dict.fromkeys(("topicId", "logDirs", "incarnationId", "directoryId"), r"[\w-]{22}"),
    **dict.fromkeys((f"{whose}DirectoryId" for whose in _DIRECTORIES), r"[\w-]{22}"),
}
_KEPT_FORMS = {field: re.compile(form, re.ASCII) for field, form in _FORMS.items()}
_PLAIN_VALUE = re.compile(r"-?[0-9]{1,19}|true|false")
#: ``ConfigResource.Type``: those whose names are node ids.
_NODES = (b"4", b"8")
#: local host:port-remote host:port-processor-index, in newer versions with a second index.
_CONNECTION = re.compile(r"(.*?)(:\d{1,5}-)(.*)(:\d{1,5}(?:-\d{1,10}){1,2})", re.DOTALL)
#: In base64, bytes that no ``ConsumerProtocolAssignment`` has: who reads them finds none.
_NO_ASSIGNMENT = "f39/"


class Names:
    """Holds what each name is replaced by, as it is met; no two are replaced alike."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self.replaced: dict[str, str] = {"": ""}
        self._taken: set[str] = set()

    def replacement(self, name: str) -> str:
        """Returns what replaces a name: ASCII letters and digits, as many as it has bytes.

        It is a byte longer where all that are tried replace other names already.
        """
        if name not in self.replaced:
            new = next(n for n in self._tried(name) if n not in self._taken and n != name)
            self.replaced[name] = new
            self._taken.add(new)
        return self.replaced[name]

    def _tried(self, name: str) -> Iterator[str]:
        utf8 = name.encode(errors="replace")
        for number in count():
            hashed = hmac.digest(self._key, b"%d %b" % (number, utf8), "sha512")
            length = len(utf8) + number // _TRIES
            letters = hashed.translate(_LETTERS) * (length // len(hashed) + 1)
            yield letters[:length].decode()

    def line(self, line: bytes) -> bytes:
        """Replaces the names in a request line, which can be parsed."""
        field, config, resource_type = "", "", b""

        def replaced(match: re.Match[bytes]) -> bytes:
            nonlocal field, config, resource_type
            raw, is_field, number = match.groups()
            text = json.loads(b'"%b"' % raw) if b"\\" in raw else raw.decode()
            if is_field:
                field = text
                if field == "resourceType":
                    resource_type = number
                return match[0]
            if field == "name":
                config = text
            is_number = field == "value" and config in KEPT_CONFIGS and _PLAIN_VALUE.fullmatch(text)
            is_node = field == "resourceName" and resource_type in _NODES and text.isdecimal()
            if is_number or is_node:
                return match[0]
            new = self.in_field(field, text)
            return match[0] if new == text else b'"%b"' % new.encode()

        return _TEXT.sub(replaced, line)

    def in_field(self, field: str, text: str) -> str:
        """Returns what replaces the text of a field: itself where it may stay."""
        form = _KEPT_FORMS.get(field)
        if text in KEPT_WORDS or (form and form.fullmatch(text)):
            return text
        if field == "connection" and (match := _CONNECTION.fullmatch(text)):
            local, port, remote, rest = match.groups()
            return self.replacement(local) + port + self.replacement(remote) + rest
        if field == "principal" and text.startswith("User:"):
            return "User:" + self.replacement(text.removeprefix("User:"))
        if field == "clientHost":  # InetAddress.toString
            host, slash, address = text.rpartition("/")
            return self.replacement(host) + slash + self.replacement(address)
        if field in ("assignment", "memberAssignment"):
            return _NO_ASSIGNMENT * (len(text) // len(_NO_ASSIGNMENT))
        return self.replacement(text)


@dataclass(frozen=True)
class Anonymized:
    """Counts what was written, and the lines left out since they could not be parsed."""

    logs: int
    lines: int
    left_out: int


def log_alone(log: Place) -> Recording:
    """A log of which nothing else is known: whose it is, and in which zone its stamps are."""
    node = Node(0, None, (str(log.absolute()),), "UTC", is_anywhere=True)
    return Recording("log", "UTC", (node,))


def anonymize(recording: Recording, key: str, out: Path) -> Anonymized:
    """Writes the recording's logs and, if it has one, its manifest into a folder without files.

    Raises UserError.
    """
    files = find_log_files(recording)
    _make_folder(out)
    names, logs = Names(key), defaultdict[int, list[str]](list)
    lines = left_out = 0
    for file in files:
        name = _LOG
        if recording.path is not None:
            number = len(logs[file.node_id]) + 1
            name = f"node-{file.node_id}.log{f'.{number}' if number > 1 else ''}.gz"
        logs[file.node_id].append(name)
        with gzip.GzipFile(out / name, "wb", compresslevel=6, mtime=0) as written:
            for line in _lines(file):
                if line is None:
                    left_out += 1
                else:
                    lines += 1
                    written.write(names.line(line) + b"\n")
    if recording.path is not None:
        manifest = json.dumps(_manifest(recording, names, logs), indent=1)
        (out / MANIFEST).write_text(manifest + "\n")
    return Anonymized(len(files), lines, left_out)


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        is_empty = not any(out.iterdir())
    except OSError as error:
        raise UserError(f"the folder {out} cannot be made ({error.strerror})") from None
    if not is_empty:
        raise UserError(f"the folder {out} holds files already: name a new or an empty one")


def _lines(file: LogFile) -> Iterator[bytes | None]:
    """Yields lines in Kafka's default layout, None for each that cannot be parsed."""
    for part in joined(survey(file).ranges):
        for rows, read in parse_together([part]):
            rejected = {*rows["rejected_lines"].column("position").to_pylist()}
            for at, line in enumerate(read[file.source_file].lines):
                yield None if at in rejected else line


# --- the manifest


def _manifest(
    recording: Recording, names: Names, logs: Mapping[int, Sequence[str]]
) -> dict[str, Any]:
    """Returns the manifest: what jobs read of one, and which recordings show the same work."""
    version = re.match(r"\d+(\.\d+)+", recording.kafka_version or "")
    scenario, seed = (recording.extra.get(name) for name in ("scenario", "seed"))
    stated = {
        "name": names.replacement(recording.name),
        "kafka_version": version and version[0],
        "timezone": recording.timezone,
        "voters": recording.voters,
        "scenario": names.replacement(scenario) if isinstance(scenario, str) else None,
        "seed": seed if isinstance(seed, int) else None,
        **{
            key: _fact(value, names)
            for facts in recording.facts.values()
            for key, value in facts.items()
        },
        "nodes": [
            {
                "node_id": node.node_id,
                "role": node.role,
                "log": logs[node.node_id],
                "timezone": node.timezone,
                "clock_offset_ms": node.clock_offset_ms,
            }
            for node in recording.nodes
        ],
    }
    return {name: value for name, value in stated.items() if value is not None}


def _fact(value: Any, names: Names) -> Any:
    """Returns a fact without names; ranges of addresses go, as no new address is in one."""
    if isinstance(value, str):
        return names.replacement(value)
    if not isinstance(value, dict):
        return value
    kept = ((name, fact) for name, fact in value.items() if "/" not in name)
    return {
        names.in_field("clientId", name): names.replacement(fact) if isinstance(fact, str) else fact
        for name, fact in kept
    }
