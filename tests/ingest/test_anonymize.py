"""``kip-replay anonymize``: no name is left, and what is written runs as the log itself does."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsed_lines import LINES, parsed
from put_rows import without_texts
from small_logs import BROKER, CONTROLLER, folder_of, write_recording

from kip_replay.jobs import anonymize, run
from kip_replay.pipelines.ingest.anonymize import KEPT_WORDS, Names
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES, Lineage, QualityResult, ReplayState, TopicUsage

KEY = "not to be guessed, ever"
#: What stands in the small logs instead; nothing of it may be found.
HOSTILE = {
    b'"User:ANONYMOUS"': b'"User:CN=Alice,OU=Acme Billing"',
    b"10.77.0.1:": b"laptop-7.acme.example:",
    b'"rack":null': b'"rack":"acme-floor-3"',
    b'"listener":"CLIENT"': b'"listener":"ACME_DMZ"',
    b'"rdkafka"': b'"acme \\"billing\\" \\\\ \xc3\xa9"',
    b'"adminclient-1"': b'"raft-client-acme"',
    b'"confluent-kafka-python"': b'"acme-kafka-wrapper"',
    b'"2.16.1-rdkafka-2.16.0"': b'"2.16.1-acme"',
    b'"transactionalId":null': b'"transactionalId":"acme-transaction"',
    b'"name":"y"': b'"name":"acme.secret.orders"',
    b'"name":"m7-': b'"name":"acme-m7-',
    b'"errorMessage":null': b'"errorMessage":"Acme says no"',
    b'"clusterId":"MkU3': b'"clusterId":"acme',
}
GARBAGE = b"[2026-11-20 20:36:07,645] DEBUG Completed request:{acme password\nAcme: hello\n"


def anonymized(logs: Path, out: Path, key: str = KEY) -> dict[str, bytes]:
    assert anonymize.main([str(logs), str(out), "--key", key]) == 0
    return {
        file.name: gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        for file in out.iterdir()
    }


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small logs with names in them and around them, and garbage that tells one."""
    controller, broker = CONTROLLER, BROKER
    for name, instead in HOSTILE.items():
        controller, broker = (log.replace(name, instead) for log in (controller, broker))
    pod = b"".join(b"[pod/acme-kafka-0] " + line for line in broker.splitlines(keepends=True))
    folder = tmp_path_factory.mktemp("hostile") / "acme"
    files = {"acme-2.log": controller, "acme-11.log.gz": pod + GARBAGE, "acme-11.log.1": broker}
    logs: dict[int, str | list[str]] = {2: "acme-2.log", 11: ["acme-11.log.gz", "acme-11.log.1"]}
    zones = {"acme-client": "acme-floor-3", "10.77.0.0/24": "acme-floor-3"}
    facts = {"client_zones": zones, "scenario": "acme-day", "notes": "acme"}
    write_recording(folder, files, logs, **facts)
    return folder


def test_no_name_is_left_in_any_byte(
    hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = anonymized(hostile, tmp_path / "out")
    logs = ["node-11.log.2.gz", "node-11.log.gz", "node-2.log.gz"]
    assert sorted(written) == [*logs, "recording.json"]
    assert "left out, since they could not be read: 1\n" in capsys.readouterr().out
    read = [hostile / "acme-2.log", hostile / "acme-11.log.1"]
    names = {name for log in read for name in _names_in(log.read_bytes())}
    assert len(names) > 20
    told = re.compile(b"(?i:acme|alice|pod/)|" + b"|".join(map(re.escape, sorted(names))))
    assert not [found for content in written.values() for found in told.findall(content)][:9]
    # Equal names are replaced alike, also in the manifest, without its ranges of addresses.
    as_read, zones = Names(KEY), json.loads(written["recording.json"])["client_zones"]
    assert zones == {as_read.replacement("acme-client"): as_read.replacement("acme-floor-3")}
    for name in ("acme-floor-3", 'acme "billing" \\ é'):
        assert any(as_read.replacement(name).encode() in written[log] for log in logs)


def test_names_follow_from_the_key(hostile: Path, tmp_path: Path) -> None:
    one = anonymized(hostile, tmp_path / "one")
    assert anonymized(hostile, tmp_path / "again") == one
    other = anonymized(hostile, tmp_path / "other", KEY + "!")
    assert {*map(len, other.values())} == {*map(len, one.values())}
    assert not {*other.values()} & {*one.values()}


def test_a_folder_with_files_is_refused(
    hostile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert anonymize.main([str(hostile), str(tmp_path)]) == 2
    assert "holds files already: name a new or an empty one\n" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_log_alone_is_written_without_a_manifest(tmp_path: Path) -> None:
    (tmp_path / "some.log").write_bytes(BROKER)
    (log,) = anonymized(tmp_path / "some.log", tmp_path / "out").values()
    assert without_texts(parsed(log.splitlines())) == without_texts(parsed(BROKER.splitlines()))


def test_every_line_that_was_ever_recorded_stays_as_it_is_but_for_texts() -> None:
    names = Names(KEY)
    before, after = parsed(LINES), parsed(map(names.line, LINES))
    assert len(before) > 100
    for rows in (before, after):  # what assignments of the classic protocol hold is lost
        for row in rows:
            row["group_assignments"] = []
            row["group_requests"] = [of | {"assigned": None} for of in row["group_requests"]]
    assert without_texts(after) == without_texts(before)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=30), st.booleans())
def test_any_name_keeps_its_bytes_and_is_its_own(texts: list[str], is_ascii: bool) -> None:
    names = Names(KEY)
    line = json.dumps({"groupId": texts, "throttleTimeMs": 0.10}, ensure_ascii=is_ascii)
    found = json.loads(names.line(line.encode()))["groupId"]
    assert [len(text.encode()) for text in texts] == [*map(len, found)]
    assert len({*found}) == len({*texts})
    assert all(re.fullmatch("[A-Za-z0-9]*", text) or text in KEPT_WORDS for text in found)


def test_names_of_one_letter_stay_apart() -> None:
    names = Names(KEY)
    assert len({names.replacement(chr(33 + i)) for i in range(90)}) == 90


@pytest.mark.parametrize(
    ("field", "text", "kept"),
    [
        (
            "connection",
            "10.0.0.1:9092-10.0.0.2:40000-0-17",
            "{10.0.0.1}:9092-{10.0.0.2}:40000-0-17",
        ),
        (
            "connection",
            "0:0:0:0:0:0:0:1:9092-fe80:0:4:5-1",
            "{0:0:0:0:0:0:0:1}:9092-{fe80:0:4}:5-1",
        ),
        ("connection", "acme:123456-b:1-0", "{acme:123456-b:1-0}"),
        ("principal", "User:acme", "User:{acme}"),
        ("principal", "Acme:ANONYMOUS", "{Acme:ANONYMOUS}"),
        ("clientHost", "/10.0.0.1", "/{10.0.0.1}"),
        ("clientId", "broker-11-fetcher-0", "broker-11-fetcher-0"),
        ("clientId", "raft-client-1\n", "{raft-client-1\n}"),
        ("name", "broker-11-fetcher-0", "{broker-11-fetcher-0}"),
        ("topicId", "2WaAqM3ySrCEeVTl0AxyPg", "2WaAqM3ySrCEeVTl0AxyPg"),
        ("topicId", "acme", "{acme}"),
        ("name", "__consumer_offsets", "__consumer_offsets"),
        ("unheardOf", "acme", "{acme}"),
    ],
)
def test_what_stays_of_a_text(field: str, text: str, kept: str) -> None:
    names = Names(KEY)
    hidden = re.sub(r"\{(.*?)\}", lambda match: names.replacement(match[1]), kept, flags=re.DOTALL)
    assert names.in_field(field, text) == hidden


def test_configs_that_rules_need_keep_their_numbers_and_nodes_their_ids() -> None:
    def hidden(type_: int, resource: str, name: str, value: str) -> list[Any]:
        config = {"name": name, "value": value}
        line = {"resourceType": type_, "resourceName": resource, "configs": [config]}
        found = json.loads(names.line(json.dumps(line).encode()))
        return [found["resourceName"], *found["configs"][0].values()]

    names = Names(KEY)
    new = names.replacement
    assert hidden(2, "7", "retention.ms", "-1") == [new("7"), "retention.ms", "-1"]
    assert hidden(4, "7", "retention.ms", "acme") == ["7", "retention.ms", new("acme")]
    assert hidden(4, "acme", "port", "12") == [new("acme"), new("port"), new("12")]


@pytest.mark.slow
def test_it_runs_as_the_log_itself_does(tmp_path: Path) -> None:
    recording = "sessions-on"
    anonymized(folder_of(recording), tmp_path / "out")
    warehouses = []
    for logs in (folder_of(recording), tmp_path / "out"):
        path = tmp_path / f"of-{logs.name}"
        named = ["--name", recording, "--warehouse", str(path), "--engine", "local"]
        assert run.main([str(logs), *named]) == 0
        warehouses.append(Warehouse(path))
    of_files = {"disk_bytes", "modified_at"}
    for table in TABLES.values():
        # Which topic of a request has a byte that is left over hangs on their names.
        if table in (Lineage, QualityResult, ReplayState, TopicUsage):
            continue
        before, after = (
            sorted(
                repr(without_texts({k: v for k, v in row.items() if k not in of_files}))
                for row in warehouse.rows(table, [recording]).to_pylist()
                if row.get("source") != "SYNC_GROUP"  # assignments of the classic protocol
            )
            for warehouse in warehouses
        )
        assert before == after, table.name


def _names_in(log: bytes) -> Iterator[bytes]:
    """Texts under fields that name somebody, but for Kafka's own; none that is short: anywhere."""
    for line in log.splitlines():
        yield from re.findall(rb'"connection":"([^"]+):\d+-([^"]+):\d+-', line)[0]
        for field in (b"name", b"host", b"clientId", b"principal", b"memberId", b"transactionalId"):
            for name in re.findall(rb'"%b":"([^"]{4,})"' % field, line):
                own = rb"raft-client-\d+|broker-\d+-[\w-]+"
                if name.decode() not in KEPT_WORDS and not re.fullmatch(own, name):
                    yield name
