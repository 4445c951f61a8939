"""Recording: properties of clients, commands that collect, and what a session leaves behind."""

import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kip_replay.jobs.main import main
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.record.cluster import (
    BROKER_CONFIGS,
    Cluster,
    ClusterNode,
    UnreachableError,
    client_options,
    properties,
)
from kip_replay.pipelines.record.session import RecordingSession, command_of, source_of, zone_of

BROKER = ClusterNode(11, "broker", "b11", "b11:9092")
BOTH = ClusterNode(2, "broker,controller", "h2", "h2:9092")
LINE = (
    '[{}] DEBUG Completed request:{{"isForwarded":false,"requestHeader":{{"requestApiKey":3}},'
    '"request":"","response":""}} (kafka.request.logger)\n'
)
JAAS = (
    'sasl.jaas.config=x.ScramLoginModule required \\\n  username="al=ice" password="a\\\\"b; c";\n'
)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls and waits that a cluster needs, and what stands in for one does not."""
    waits = {"session._IN_FLIGHT_S": 0.2, "session._UNDO_WAIT_S": 0.1, "cluster._VERSIONS_S": 0.2}
    waits["session._START_S"] = 0.5
    for name, seconds in waits.items():
        monkeypatch.setattr(f"kip_replay.pipelines.record.{name}", seconds)


def options(tmp_path: Path, text: str) -> dict[str, Any]:
    file = tmp_path / "client.properties"
    file.write_text(text)
    return client_options(str(file))


def test_properties_are_read_as_java_does() -> None:
    text = "# no\n! no\na = 1\nb:2\nc 3\nd\\=e=f\\u0041\\\n   g\nempty=\n"
    assert properties(text) == {"a": "1", "b": "2", "c": "3", "d=e": "fAg", "empty": ""}


def test_scram_by_properties(tmp_path: Path) -> None:
    head = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
    assert options(tmp_path, head + JAAS) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "al=ice",
        "sasl_plain_password": 'a"b; c',
    }


def test_tls_by_properties(tmp_path: Path) -> None:
    pem, tls = tmp_path / "all.pem", "security.protocol=SSL\nssl.truststore.type=PEM\n"
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x"]
    subprocess.run([*new, "-keyout", str(pem), "-out", f"{pem}.crt"], check=True, stderr=-3)
    pem.write_text(pem.read_text() + Path(f"{pem}.crt").read_text())
    stores = (
        f"ssl.truststore.location={pem}.crt\nssl.keystore.type=PEM\nssl.keystore.location={pem}"
    )
    context = options(tmp_path, f"{tls}{stores}\nssl.endpoint.identification.algorithm=\n")
    assert len(context["ssl_context"].get_ca_certs()) == 1
    assert not context["ssl_context"].check_hostname
    inline = Path(f"{pem}.crt").read_text().replace("\n", "\\n")
    context = options(tmp_path, f"{tls}ssl.truststore.certificates={inline}\n")
    assert context["ssl_context"].check_hostname


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocol=TLS", "security.protocol TLS is none of"),
        ("security.protocol=SASL_SSL", "sasl.mechanism GSSAPI is not supported here"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER", "make a user for one of"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "needs username"),
        ("security.protocol=SSL\nssl.truststore.location=/x.jks", "keytool -exportcert"),
        ("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/x", "No such"),
        (
            f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n{JAAS}".replace(' c";', " c;"),
            "form",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence_without_secrets(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(UserError, match=said) as error:
        options(tmp_path, text)
    assert "b; c" not in str(error.value)


def test_sources_of_nodes() -> None:
    given = ["/var/{role}-{id}", "11=ssh root@{host} tail -F /l | awk '{print}'"]
    assert source_of(BROKER, given) == "ssh root@b11 tail -F /l | awk '{print}'"
    assert source_of(BOTH, given) == "/var/broker-controller-2"
    assert source_of(BOTH, ["11=/x"]) is None


@pytest.mark.parametrize("host", ["b; touch x", "$(x)", "-oProxyCommand=x", ""])
def test_a_host_that_a_shell_would_run_is_refused(host: str) -> None:
    with pytest.raises(UserError, match="name its log by 11=SOURCE"):
        source_of(replace(BROKER, host=host), ["ssh {host} tail -F /l"])
    assert source_of(replace(BROKER, host=host), ["ssh b{id} tail -F /l"]) == "ssh b11 tail -F /l"


def test_without_a_blank_it_is_a_path(tmp_path: Path) -> None:
    assert command_of("tail -F /x") == "tail -F /x"
    assert command_of(str(tmp_path)).endswith(f" -F -- {tmp_path}/kafka-request.log")
    assert command_of("/a;b").endswith(" -F -- '/a;b'")


@pytest.mark.parametrize(
    ("hours", "zone"), [(0, "UTC"), (1, "Etc/GMT-1"), (-3, "Etc/GMT+3"), (0.3, None)]
)
def test_zone_follows_from_when_a_line_was_read(hours: float, zone: str | None) -> None:
    read_at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    stamp = f"{read_at + timedelta(hours=hours):%Y-%m-%d %H:%M:%S},831"
    assert zone_of(LINE.format(stamp).encode(), read_at) == zone
    half = zone_of(LINE.format("2026-11-20 17:29:59,000").encode(), read_at)
    assert half in ("Asia/Calcutta", "Asia/Colombo")
    assert zone_of(b"no request\n", read_at) is None


class Brokers:
    """Stands in for a cluster: levels, and a log each that grows while its level is DEBUG."""

    bootstrap, cluster_id = {"broker": ["b11:9092"]}, "c"

    def __init__(self, folder: Path, refuses: str = "") -> None:
        self.levels = dict.fromkeys((BROKER, BOTH), "WARN")
        self.folder, self.refuses = folder, refuses
        for node in self.levels:
            (folder / f"{node.node_id}.log").touch()

    def nodes(self) -> list[ClusterNode]:
        return [*self.levels]

    def level(self, node: ClusterNode) -> str:
        return self.levels[node]

    def set_level(self, node: ClusterNode, level: str) -> None:
        if node == BOTH and level == self.refuses:
            raise UnreachableError("gone")
        self.levels[node] = level

    def show_versions(self, node: ClusterNode) -> None:
        if self.levels[node] == "DEBUG":
            with (self.folder / f"{node.node_id}.log").open("a") as log:
                log.write(LINE.format(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S},000"))

    def voters(self, node: ClusterNode) -> list[int]:
        return [2]

    def metadata(self, node: ClusterNode) -> dict[str, int]:
        return {"topic": 3}

    def describe_groups(self, node: ClusterNode, groups_max: int) -> int:
        if self.refuses:
            raise UserError("not authorized")
        return 12 * groups_max

    def configs(self, node: ClusterNode, kind: int, *_: object) -> dict[str, str]:
        return dict.fromkeys(BROKER_CONFIGS, "2") if kind == 4 else {}


def session(tmp_path: Path, brokers: Brokers, **changes: Any) -> tuple[RecordingSession, list[str]]:
    said: list[str] = []
    source = changes.pop("source", f"{brokers.folder}/{{id}}.log")
    limits = {"seconds": 1.0, "mb_per_second_max": 50.0} | changes
    made = RecordingSession(
        brokers,  # type: ignore[arg-type]
        tmp_path / "out",
        [source],
        **limits,
        undo="kip-replay record --off",
        say=lambda *lines: said.extend(lines),
    )
    made.prepare()
    return made, said


def test_a_recording_is_described_and_every_level_set_back(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    brokers.levels[BOTH] = "INFO"
    made, said = session(tmp_path, brokers)
    assert "kip-replay record --off" in said[1]
    assert made.record()
    assert brokers.levels == {BROKER: "WARN", BOTH: "INFO"}
    recording = load_recording(tmp_path / "out")
    assert recording.timezone == "UTC"
    assert recording.voters == (2,)
    assert recording.facts["min_isr_acks"] == {"min_insync_replicas": 2}
    assert [node.role for node in recording.nodes] == ["broker,controller", "broker"]
    lines = [f.read_bytes().count(b"\n") for f in tmp_path.glob("out/*/kafka-request.log")]
    assert min(lines) >= 2
    assert f"100 of the 1,200 consumer groups of {BROKER} were described" in said


def test_nodes_that_are_on_are_set_back_where_another_cannot_be(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, refuses="DEBUG")
    made, _ = session(tmp_path, brokers)
    with pytest.raises(UserError, match="gone"):
        made.record()
    assert set(brokers.levels.values()) == {"WARN"}


def test_a_node_that_is_lost_is_named_with_its_undo(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, refuses="WARN")
    made, said = session(tmp_path, brokers)
    assert not made.record()
    assert brokers.levels == {BROKER: "WARN", BOTH: "DEBUG"}
    assert said.count("not every consumer group was described: not authorized") == 1
    assert any("may still log requests (gone)" in line and "--off" in line for line in said)


def test_it_stops_at_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kip_replay.pipelines.record.session._RATE_S", 2)
    brokers = Brokers(tmp_path)
    made, said = session(tmp_path, brokers, seconds=60.0, mb_per_second_max=1e-9)
    assert made.record()
    assert any("above --mb-per-second-max 1e-09" in line for line in said)
    assert set(brokers.levels.values()) == {"WARN"}


@pytest.mark.parametrize(
    "source",
    ["/nope", "/", "no-such-command -f", "exit 7", "cat '{id}", "echo done"],
)
def test_a_log_that_cannot_be_read_changes_nothing(tmp_path: Path, source: str) -> None:
    brokers = Brokers(tmp_path)
    made, _ = session(tmp_path, brokers, source=source)
    for tried in (made.collect, made.record):
        said = r"log of node \d+ \(\S+, \S+\) cannot be read: .*it ended early, with status \d"
        with pytest.raises(UserError, match=said):
            tried()
        made.discard()  # as the command does after any error
    assert set(brokers.levels.values()) == {"WARN"}
    assert not (tmp_path / "out").exists()


def test_a_node_of_which_no_request_comes_stops_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kip_replay.pipelines.record.session._RATE_S", 2)
    brokers = Brokers(tmp_path)
    made, _ = session(tmp_path, brokers, seconds=600.0)
    (tmp_path / "silent").touch()
    made.streams[1].source = f"{tmp_path}/silent"
    with pytest.raises(UserError, match=r"no request came from \S+ in 2 s, though node 2 \("):
        made.record()
    assert set(brokers.levels.values()) == {"WARN"}


def test_a_broker_that_votes_is_a_controller_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without the address of a controller."""
    brokers = [SimpleNamespace(broker_id=i, host="b", port=9092) for i in (1, 11)]
    quorum = SimpleNamespace(current_voters=[SimpleNamespace(replica_id=i) for i in (1, 2)])
    topics = [SimpleNamespace(partitions=[quorum])]
    response = SimpleNamespace(error_code=0, cluster_id="c", brokers=brokers, topics=topics)
    monkeypatch.setattr(Cluster, "_request", lambda *_: response)
    found = Cluster(["b:9092"], [], {}).nodes()
    assert [node.role for node in found] == ["broker,controller", "broker"]


def is_running(text: str) -> bool:
    processes = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True).stdout
    return any(line.startswith("tail") and text in line for line in processes.splitlines())


_STARTS = """
import sys, time
from pathlib import Path
from kip_replay.pipelines.record.cluster import ClusterNode
from kip_replay.pipelines.record.session import LogStream
LogStream(ClusterNode(11, "broker", "b11", "b11:9092"), sys.argv[1], Path(sys.argv[2])).start()
time.sleep(60)
"""


@pytest.mark.parametrize(
    "source", ["{}", "tail -n 0 -F {}", "cat /dev/null; tail -n 0 -F {} | cat"]
)
def test_commands_end_with_what_started_them(tmp_path: Path, source: str) -> None:
    (log := tmp_path / "a.log").touch()
    command = [sys.executable, "-c", _STARTS, source.format(log), str(tmp_path / "out")]
    with subprocess.Popen(command) as process:
        until = time.monotonic() + 10
        while not (has_run := is_running(str(log))) and time.monotonic() < until:
            time.sleep(0.05)
        process.kill()
    assert has_run
    while is_running(str(log)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(str(log))


def test_a_command_that_ends_early_is_named_and_what_came_stays(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    source = f"timeout 2 tail -n 0 -F {tmp_path}/{{id}}.log"
    made, said = session(tmp_path, brokers, source=source, seconds=3.0)
    assert made.record()
    ended = [line for line in said if "it ended early, with status 124" in line]
    assert [line.split()[1] for line in ended] == ["11", "2"]
    assert (tmp_path / "out" / "broker-11" / "kafka-request.log").stat().st_size
    assert set(brokers.levels.values()) == {"WARN"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--output", "x"], "connection refused: is this its port"),
        (["--output", "."], "is not an empty folder"),
        ([], "record where?"),
        (["--off", "--dry-run"], "not allowed with"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["record", "--bootstrap-server", "127.0.0.1:1", *arguments])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
