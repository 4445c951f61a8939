"""What ``--anonymize`` makes of names: the same always, nothing of them left, lengths kept."""

import argparse
import pickle
import re
import traceback
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsed_lines import parsed
from put_rows import without_texts

from kip_replay.jobs._parser import KEY_VARIABLE
from kip_replay.jobs._steps import pseudonyms_of
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest import parse_task as parse_task_module
from kip_replay.pipelines.ingest.file_reading import Content
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.parse_range import LINE_BYTES_MAX, ParsedRange
from kip_replay.pipelines.ingest.parse_task import ParseError, parse_task, tasks_of
from kip_replay.pipelines.ingest.survey import survey
from kip_replay.pipelines.warehouse.data_files import TableFiles
from kip_replay.replay.kafka.request_log import Anonymous, Pseudonyms
from kip_replay.replay.kafka.request_log.pseudonyms import LENGTH_MIN, SECRET_BYTES_MIN
from kip_replay.replay.log_tables import CONFIGS, LINE_TABLES

SECRET = b"a secret of more than sixteen bytes"
PSEUDONYMS = Pseudonyms.of_secret(SECRET)
ANONYMOUS = Anonymous(PSEUDONYMS)
LOG = Path(__file__).resolve().parent.parent / "data" / "ingest" / "broker-11.log"
#: Texts of a line that stay whatever they are; all others are hidden.
OF_LINES = {"recording", "request_id", "line_id", "source_file"}
KEPT = {
    "rejected_lines.reason",
    "rejected_lines.detail",
    "metadata_writes.resources.resource_type",
    "configs.resource_type",
    "configs.operation",
    "metadata_offsets.kind",
}
HIDDEN = re.compile(r"[A-Za-z0-9._]+")


AGAIN, OTHER = (Pseudonyms.of_secret(SECRET + end) for end in (b"\n", b"!"))


@given(st.text(min_size=1, max_size=60))
def test_a_pseudonym_has_the_length_of_its_name_in_bytes_but_never_few(name: str) -> None:
    pseudonym = PSEUDONYMS.of(name)
    assert len(pseudonym) == max(LENGTH_MIN, len(name.encode()))
    assert HIDDEN.fullmatch(pseudonym)
    assert pseudonym == AGAIN.of(name)
    assert pseudonym != OTHER.of(name)


def test_different_names_have_different_pseudonyms() -> None:
    names = [f"{prefix}{i}" for i in range(10_000) for prefix in ("", "t", "orders-", "x" * 90)]
    assert len({PSEUDONYMS.of(name) for name in names}) == len(names)
    assert PSEUDONYMS.of("") == ""


def test_a_key_differs_from_others_and_never_shown() -> None:
    other = Pseudonyms.of_secret(b"another secret of many bytes")
    assert PSEUDONYMS.fingerprint != other.fingerprint
    assert pickle.loads(pickle.dumps(PSEUDONYMS)).fingerprint == PSEUDONYMS.fingerprint
    assert repr(PSEUDONYMS) == "Pseudonyms()"
    # One key, but what is hashed for one purpose does not reveal another.
    digests = [
        digest().hexdigest() for digest in (PSEUDONYMS.line_digest, PSEUDONYMS.content_digest)
    ]
    assert len({PSEUDONYMS.fingerprint, *digests}) == 3


@pytest.mark.parametrize(
    ("connection", "hosts"),
    [
        ("10.0.0.1:9092-10.0.0.2:40000-0", ("10.0.0.1", "10.0.0.2")),
        ("10.0.0.1:9092-10.0.0.2:40000-0-17", ("10.0.0.1", "10.0.0.2")),
        (
            "0:0:0:0:0:0:0:1:9092-fe80:0:0:0:1:2:3:4:5-1-2",
            ("0:0:0:0:0:0:0:1", "fe80:0:0:0:1:2:3:4"),
        ),
        ("kafka-1.acme.example:1-a-host:65535-0-0", ("kafka-1.acme.example", "a-host")),
    ],
)
def test_a_connection_keeps_its_form(connection: str, hosts: tuple[str, str]) -> None:
    hidden = connection
    for host in hosts:
        hidden = hidden.replace(host, ANONYMOUS.name(host), 1)
    assert ANONYMOUS.connection(connection) == hidden
    assert not any(host in hidden for host in hosts)


def test_what_is_no_connection_is_hidden_as_a_whole() -> None:
    for text in ("kafka.acme.example", "acme:123456-b:1-0", "a:1-b:2-acme", "a:1-b:2-3-4-5"):
        assert ANONYMOUS.connection(text) == ANONYMOUS.name(text)


def test_kafkas_own_clients_topics_and_words_stay() -> None:
    for client_id in ("raft-client-3", "broker-11-fetcher-0", "AddPartitionsManager-client-12"):
        assert ANONYMOUS.client_id(client_id) == client_id
    for topic in ("__cluster_metadata", "__consumer_offsets", "AAAAAAAAAAAAAAAAAAAAAQ"):
        assert ANONYMOUS.topic(topic) == topic
    assert ANONYMOUS.principal("User:ANONYMOUS") == "User:ANONYMOUS"
    assert ANONYMOUS.listener("CONTROLLER") == "CONTROLLER"
    # What only looks like it is hidden.
    for name in ("raft-client-acme", "raft-client-1\n", "my-raft-client-1", "broker-1-fetcher-x"):
        assert ANONYMOUS.client_id(name) == ANONYMOUS.name(name) != name
    assert ANONYMOUS.topic("__acme") == ANONYMOUS.name("__acme")
    assert ANONYMOUS.principal("User:acme") == "User:" + ANONYMOUS.name("acme")
    assert ANONYMOUS.principal("Acme:ANONYMOUS") == ANONYMOUS.name("Acme:ANONYMOUS")
    versions = pa.array(["4.1.1", "2.16.1-rdkafka-2.16.0", "1.2-acme", None])
    expected = [*versions.to_pylist()[:2], ANONYMOUS.name("1.2-acme"), None]
    assert ANONYMOUS.texts(versions, "software_version").to_pylist() == expected


def test_no_text_of_a_line_stays_that_is_not_listed() -> None:
    texts: dict[str, str] = {}
    for table in LINE_TABLES:
        row = _acme(pa.struct([*table.arrow_schema]), table.name)
        batch = pa.RecordBatch.from_pylist([row, row], schema=table.arrow_schema)
        hidden = ANONYMOUS.rows({table.name: batch})[table.name]
        hidden.validate(full=True)
        assert hidden.schema == batch.schema
        texts |= _texts(hidden.to_pylist()[1], table.name)
    shown = {place for place, text in texts.items() if "acme" in text}
    assert {place for place in shown if place.rpartition(".")[2] not in OF_LINES} == KEPT
    assert {place.count(".") for place in shown - KEPT} == {1}
    assert {*texts} - shown >= {"fetches.node_endpoints.host"}


def test_configs_that_rules_need_keep_their_numbers_and_only_these() -> None:
    def config(resource_type: str, resource_name: str, name: str, value: str | None) -> dict:
        row = {
            name: _acme(type_, "configs")
            for name, type_ in zip(CONFIG.names, CONFIG.types, strict=True)
        }
        named = {"resource_type": resource_type, "resource_name": resource_name, "name": name}
        return row | named | {"value": value}

    configs = [
        config("topic", "acme", "min.insync.replicas", "2"),
        config("broker", "11", "min.insync.replicas", "acme"),
        config("broker", "", "advertised.listeners", "acme:9092"),
        config("broker", "acme", "unclean.leader.election.enable", "true"),
        config("topic", "__consumer_offsets", "listener.name.acme.ssl", None),
        config("client_metrics", "11", "retention.ms", "-1"),
    ]
    rows = {"configs": pa.RecordBatch.from_pylist(configs, schema=CONFIG)}
    hidden = ANONYMOUS.rows(rows)["configs"]
    name = ANONYMOUS.name
    values = itemgetter("resource_name", "name", "value")
    assert [*map(values, hidden.to_pylist())] == [
        (name("acme"), "min.insync.replicas", "2"),
        ("11", "min.insync.replicas", name("acme")),
        ("", name("advertised.listeners"), name("acme:9092")),
        (name("acme"), "unclean.leader.election.enable", "true"),
        ("__consumer_offsets", name("listener.name.acme.ssl"), None),
        (name("11"), "retention.ms", "-1"),
    ]


def test_all_but_texts_is_as_without_a_key() -> None:
    lines = [*LOG.read_bytes().splitlines(), b"Completed request:{an acme secret"]
    raw, hidden = parsed(lines), parsed(lines, pseudonyms=PSEUDONYMS)
    assert without_texts(hidden[:-1]) == without_texts(raw[:-1])
    assert not {row["request_id"] for row in hidden} & {row["request_id"] for row in raw}
    assert hidden[-1]["rejected"] == {
        "reason": "truncated",
        "detail": None,
        "line": None,
        "line_bytes": 33,
    }


def test_files_are_known_again_by_keyed_hashes(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(LOG.read_bytes())
    file = LogFile("r", 11, "UTC", "a.log", str(log))
    raw, hidden = survey(file), survey(file, pseudonyms=PSEUDONYMS)
    assert raw.content_hash != hidden.content_hash
    known = {("r", 11): [Content(hidden.end, hidden.content_hash)]}
    assert survey(file, known=known, pseudonyms=PSEUDONYMS).is_known
    assert not survey(file, known=known).is_known


def test_a_mistake_of_the_parser_is_reported_without_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = survey(LogFile("r", 11, "UTC", "a.log", str(LOG)))
    ranges = [ParsedRange.of(found, found.ranges[0])]

    def fails(*args: object) -> Iterator[pa.RecordBatch]:
        raise KeyError("acme")

    monkeypatch.setattr(parse_task_module, "parse_together", fails)
    (task,) = tasks_of(ranges, 1, TableFiles(str(tmp_path), "part"), LINE_BYTES_MAX, PSEUDONYMS)
    with pytest.raises(ParseError, match=r"KeyError in fails \(test_anonymize") as raised:
        parse_task(task)
    printed = [line for line in traceback.format_exception(raised.value) if "raise" not in line]
    assert "acme" not in "".join(printed)
    (task,) = tasks_of(ranges, 1, TableFiles(str(tmp_path), "part"), LINE_BYTES_MAX)
    with pytest.raises(KeyError, match="acme"):
        parse_task(task)


def test_where_the_key_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert _key(None) is None
    monkeypatch.setenv(KEY_VARIABLE, SECRET.decode())
    assert _key(None) == PSEUDONYMS
    (tmp_path / "key").write_bytes(b"\n another one of enough bytes \n")
    assert _key(tmp_path / "key") == Pseudonyms.of_secret(b"another one of enough bytes")
    with pytest.raises(UserError, match=r"absent cannot be read \(No such file.*openssl rand"):
        _key(tmp_path / "absent")
    (tmp_path / "key").write_bytes(b"x" * (SECRET_BYTES_MIN - 1))
    with pytest.raises(UserError, match=r"too short \(15 bytes, of 16"):
        _key(tmp_path / "key")
    monkeypatch.setenv(KEY_VARIABLE, "")
    with pytest.raises(UserError, match=KEY_VARIABLE):
        _key(None)


CONFIG = CONFIGS.arrow_schema


def _key(file: Path | None) -> Pseudonyms | None:
    return pseudonyms_of(argparse.Namespace(anonymize=None if file is None else str(file)))


def _acme(type_: pa.DataType, place: str) -> object:
    """A value with every text in it a name that nobody may see."""
    if pa.types.is_list(type_):
        return [_acme(type_.value_type, place)] * 2
    if pa.types.is_struct(type_):
        return {field.name: _acme(field.type, f"{place}.{field.name}") for field in type_}
    if type_ == pa.string():
        return f"acme {place}"
    return False if type_ == pa.bool_() else 1 if not pa.types.is_timestamp(type_) else 0


def _texts(value: object, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _texts(each, f"{place}.{name}".lstrip("."))
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, place)
    elif isinstance(value, str):
        yield place, value
