"""Manifests, ``--node`` and what is missing, said by name."""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.manifest import RULE_KEYS, RuleKey, rule_facts
from kip_replay.pipelines.ingest.recording import (
    Node,
    RecordingOptions,
    load_recording,
    load_recordings,
    voters_from_text,
)

NODES = [
    {"node_id": 11, "role": "broker", "log": "b.log"},
    {"node_id": 1, "role": "controller", "log": ["c.log", "c.log.1.gz"], "timezone": "Asia/Tokyo"},
]
MANIFEST = {
    "name": "friday",
    "kafka_version": "4.1.1",
    "timezone": "Europe/Berlin",
    "voters": [3, 1, 2],
    "nodes": NODES,
    "min_insync_replicas": 2,
    "broker_heartbeat_interval_ms": 2000,
    "seed": 7,
}


def folder_with(path: Path, **entries: Any) -> Path:
    """A folder whose manifest is ``MANIFEST`` with other entries; None leaves one out."""
    path.mkdir(exist_ok=True)
    manifest = {k: v for k, v in (MANIFEST | entries).items() if v is not None}
    (path / "recording.json").write_text(json.dumps(manifest))
    return path


def test_a_manifest_is_read(tmp_path: Path) -> None:
    recording = load_recording(folder_with(tmp_path))
    assert (recording.name, recording.kafka_version) == ("friday", "4.1.1")
    assert recording.nodes == (
        Node(1, "controller", ("c.log", "c.log.1.gz"), "Asia/Tokyo"),
        Node(11, "broker", ("b.log",), "Europe/Berlin"),
    )
    assert (recording.voters, recording.controller_ids) == ((1, 2, 3), (1,))
    assert recording.facts["min_isr_acks"] == {"min_insync_replicas": 2}
    assert recording.facts["lowest_acked_offset"] == {"broker_heartbeat_interval_ms": 2000}
    assert recording.extra == {"seed": 7}
    assert load_recording(tmp_path / "recording.json") == recording


def test_what_a_manifest_leaves_out_is_none(tmp_path: Path) -> None:
    left_out = ("name", "kafka_version", "voters", "min_insync_replicas")
    recording = load_recording(folder_with(tmp_path / "r", **dict.fromkeys(left_out)))
    assert recording.name == "r"  # its folder's
    assert (recording.kafka_version, recording.voters) == (None, None)
    assert recording.facts["min_isr_acks"] == {}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"nodes": None}, "names no nodes: .* --node ID=PATH"),
        ({"nodes": {"1": "c.log"}}, r"Expected `array`, got `object` - at `\$\.nodes`\): see docs"),
        ({"nodes": [{"log": "c.log"}]}, "node number 1 .* missing required field `node_id`"),
        ({"nodes": [{"node_id": True, "log": "c.log"}]}, "Expected `int`, got `bool`"),
        ({"nodes": [{"node_id": 1}]}, "node 1 .* missing required field `log`"),
        ({"nodes": [{"node_id": 1, "log": [1]}]}, r"node 1 .* - at `\$\.log\[0\]`"),
        ({"nodes": NODES + NODES[:1]}, "lists node 11 twice"),
        ({"timezone": None}, "time zone of recording 'friday' is not known"),
        ({"timezone": "Mars/Olympus"}, "unknown time zone 'Mars/Olympus'"),
        ({"timezone": "../etc"}, "unknown time zone"),
        ({"timezone": 1}, r"got `int` - at `\$\.timezone`"),
        ({"voters": "1,2"}, r"Expected `array \| null`, got `str` - at `\$\.voters`"),
        (
            {"min_insync_replicas": "2"},
            r"got `str` - at `\$\.min_.*`\): it is the brokers' default",
        ),
        ({"min_insync_replicas": -1}, "Expected `int` >= 0"),
        ({"topics": {"t": {"min_insync_replicas": "2"}}}, "Expected `int`, got `str`"),
        ({"min_insync_replicas": 2**31}, "Expected `int` <= 2147483647"),
        ({"nodes": [NODES[0] | {"role": "leader"}]}, "value 'leader' .*: role is broker, con"),
        ({"nodes": [NODES[0] | {"log": "a\0"}]}, "node 11 .* names a log with a NUL in it"),
        ({"nodes": [NODES[0] | {"log": ["a", "b\0"]}]}, "node 11 .* names a log with a NUL in it"),
        ({"nodes": [NODES[0] | {"log": []}]}, r"node 11 .* - at `\$\.log`"),
        ({"nodes": [NODES[0] | {"node_id": -1}]}, "node number 1 .* `int` >= 0"),
        ({"nodes": [NODES[0] | {"time_zone": "UTC"}]}, "'time_zone' .* is 'timezone' meant"),
        ({"voters": [1, 2, 11]}, "which 11 is not: its nodes with that role are 1"),
        ({"voters": [1, -2]}, r"`int` >= 0 - at `\$\.voters\[1\]`"),
        ({"voter": [1]}, "key 'voter' that is not known: is 'voters' meant"),
        ({"colour": "blue"}, "key 'colour' that is not known: 'facts' may hold"),
        ({"name": "a\0b"}, r"name 'a\\x00b' holds control"),
        ({"name": "\ud800"}, r"name '\\ud800' holds control"),
        ({"name": "a\u202eb"}, "holds control or invisible"),
        ({"name": " "}, "name ' ' is that of no recording"),
        ({"name": "__HIVE_DEFAULT_PARTITION__"}, "is that of no recording"),
        ({"name": "é" * 41}, "is too long"),
        *(({"name": n}, "reads as a path") for n in ("a/b", "../../x", ".", "..", "\\", "C:x")),
        ({"name": "s3://bucket"}, "reads as a path: give it another in recording.json or by"),
        *(
            ({"kafka_version": v}, "is no version of Kafka")
            for v in ("x", "4", "4.", "v4.1", "4.1\n")
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, entries: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_recording(folder_with(tmp_path, **entries))


@pytest.mark.parametrize("role", ["controller", "broker", "broker,controller", None])
def test_roles_are_those_of_process_roles(tmp_path: Path, role: str | None) -> None:
    node = NODES[0] | {"role": role, "node_id": 1}
    is_controller = role is not None and "controller" in role
    voters = None if role == "broker" else [1, 2]
    recording = load_recording(folder_with(tmp_path, nodes=[node], voters=voters))
    assert recording.controller_ids == ((1,) if is_controller else ())


@pytest.mark.parametrize("version", ["4.1.1", "3.9", "4.2.0-SNAPSHOT", "7.6.1-ccs", "3.7.x.kraft"])
@pytest.mark.parametrize("name", ["a b", "日本", "it's", '"', "<script>", "..a", "12:30", "a%2Fb"])
def test_odd_names_and_versions_are_accepted(tmp_path: Path, name: str, version: str) -> None:
    recording = load_recording(folder_with(tmp_path, name=name, kafka_version=version))
    assert (recording.name, recording.kafka_version) == (name, version)


def test_how_a_recording_was_made_is_kept(tmp_path: Path) -> None:
    made = {"facts": {"colour": "blue"}, "notes": "x", "session_slots": 0}
    assert load_recording(folder_with(tmp_path, **made)).extra == made | {"seed": 7}


def test_texts_by_name_are_what_a_rule_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    key = {"type": "texts", "says": "whose zone", "missing": "unknown"}
    monkeypatch.setitem(RULE_KEYS, "r", {"zones": msgspec.convert(key, RuleKey)})
    with pytest.raises(UserError, match=r"`int` - at `\$\.zones.*it is whose zone"):
        rule_facts({"zones": {"reader": 1}})
    zones = {"10.0.1.0/24": "a", "reader": "b"}
    assert rule_facts({"zones": zones})["r"]["zones"] == zones


def test_a_log_is_no_recording(tmp_path: Path) -> None:
    log = tmp_path / "c.log.gz"
    log.write_bytes(gzip.compress(b"[2026"))
    with pytest.raises(UserError, match=r"c\.log\.gz is no manifest: .* --node ID=.*c\.log\.gz"):
        load_recording(log)
    log.write_bytes(b"[2026-11-20 20:36:00,000] DEBUG Completed")
    with pytest.raises(UserError, match="is no manifest"):
        load_recording(log)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"nodes": "\xff"}',
        '{"name": "a", "name": "b"}',
        '{"nodes": [{"node_id": 1, "node_id": 2}]}',
        '{"seed": NaN}',
        '{"seed": ' + "9" * 5000 + "}",
        "[" * 100_000,
    ],
)
def test_a_manifest_that_is_no_json_object(tmp_path: Path, text: str) -> None:
    (tmp_path / "recording.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"recording\.json"):
        load_recording(tmp_path)


def test_a_folder_without_manifest_needs_nodes(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no recording\.json: .* --node ID=PATH"):
        load_recording(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        load_recording(tmp_path / "missing")
    with pytest.raises(UserError, match="no recording given"):
        load_recordings([])


def test_nodes_alone_make_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = RecordingOptions(("1=c.log", "11=b/*"), "x", "UTC", "4.0.0", (1,))
    (recording,) = load_recordings([], options)
    assert recording.path is None
    assert (recording.name, recording.kafka_version, recording.voters) == ("x", "4.0.0", (1,))
    assert recording.nodes == (
        Node(1, None, (str(tmp_path / "c.log"),), "UTC"),
        Node(11, None, (str(tmp_path / "b/*"),), "UTC"),
    )
    assert recording.controller_ids == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (RecordingOptions(("1=c.log",), timezone="UTC"), "has no name: pass --name"),
        (RecordingOptions(("1=c.log",), "x"), "time zone of recording 'x' is not known"),
        (RecordingOptions(("c.log",), "x", "UTC"), "'c.log' is not ID=PATH"),
        (RecordingOptions(("one=c.log",), "x", "UTC"), "is not ID=PATH"),
        (RecordingOptions(("1=",), "x", "UTC"), "is not ID=PATH"),
        (RecordingOptions(("1=a", "1=b"), "x", "UTC"), "names node 1 twice"),
        (RecordingOptions(("1=a",), "../x", "UTC"), "'../x' reads as a path"),
        (RecordingOptions(("1=a",), "x", "UTC", "x"), "'x' is no version of Kafka"),
    ],
)
def test_what_options_lack_is_named(options: RecordingOptions, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_recordings([], options)


def test_options_win_over_the_manifest(tmp_path: Path) -> None:
    options = RecordingOptions(("1=/logs/c.log", "12=/logs/b"), "monday", "UTC", None, (1, 9))
    recording = load_recording(folder_with(tmp_path), options)
    named = (recording.name, recording.kafka_version, recording.voters)
    assert named == ("monday", "4.1.1", (1, 9))
    assert recording.nodes == (
        Node(1, "controller", ("/logs/c.log",), "UTC"),
        Node(11, "broker", ("b.log",), "UTC"),
        Node(12, None, ("/logs/b",), "UTC"),
    )


def test_options_are_for_one_recording_and_names_for_one_each(tmp_path: Path) -> None:
    folders = [folder_with(tmp_path / name) for name in "ab"]
    with pytest.raises(UserError, match="describe one recording, but 2 are given"):
        load_recordings(folders, RecordingOptions(name="x"))
    with pytest.raises(UserError, match="2 of the recordings are named 'friday'"):
        load_recordings(folders)
    folder_with(tmp_path / "b", name="monday")
    assert [recording.name for recording in load_recordings(folders)] == ["friday", "monday"]


def test_voters_from_text() -> None:
    assert voters_from_text("3, 1,2") == (1, 2, 3)
    with pytest.raises(UserError, match="--voters 1,2,3"):
        voters_from_text("1;2")
