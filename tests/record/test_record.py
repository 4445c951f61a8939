"""Recording: properties of clients, commands that collect, and what a session leaves behind."""

import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kip_replay.jobs.main import main
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.record.cluster import Cluster, Node, UnreachableError
from kip_replay.pipelines.record.collect import command_of, source_of, zone_of
from kip_replay.pipelines.record.polls import BROKER_CONFIGS
from kip_replay.pipelines.record.properties import client_options, properties
from kip_replay.pipelines.record.session import Session

BROKER = Node(11, "broker", "b11", "b11:9092")
BOTH = Node(2, "broker,controller", "h2", "h2:9092")
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
    waits = {"session._IN_FLIGHT_S": 0.2, "session._UNDO_WAIT_S": 0.1, "polls._VERSIONS_S": 0.2}
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
    given = ["/var/{role}-{id}", "11=ssh:root@{host}:/l"]
    assert source_of(BROKER, given) == "ssh:root@b11:/l"
    assert source_of(BOTH, given) == "/var/broker-controller-2"
    assert source_of(BOTH, ["11=/x"]) is None
    with pytest.raises(UserError, match="in braces there may be"):
        source_of(BOTH, ["/{name}"])


def test_commands_are_quoted(tmp_path: Path) -> None:
    assert f"-- {tmp_path}/kafka-request.log;" in command_of(str(tmp_path))[2]
    assert "'/a b;c'" in command_of("/a b;c")[2]
    assert "ssh -o BatchMode=yes -- u@-h 'sh -c" in command_of("ssh:u@-h:/var/log/")[2]
    kubectl = "kubectl logs --follow --since=1s --namespace=k --container=c kafka-1"
    assert kubectl in command_of("kubectl:k/kafka-1:c")[2]
    for wrong in ("ssh:host:relative", "kubectl:a/b/c", "sftp:host:/x"):
        with pytest.raises(UserError, match="write"):
            command_of(wrong)


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

    def nodes(self) -> list[Node]:
        return [*self.levels]

    def level(self, node: Node) -> str:
        return self.levels[node]

    def set_level(self, node: Node, level: str) -> None:
        if node == BOTH and level == self.refuses:
            raise UnreachableError("gone")
        self.levels[node] = level

    def show_versions(self, node: Node) -> None:
        if self.levels[node] == "DEBUG":
            with (self.folder / f"{node.node_id}.log").open("a") as log:
                log.write(LINE.format(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S},000"))

    def voters(self, node: Node) -> list[int]:
        return [2]

    def metadata(self, node: Node) -> dict[str, int]:
        return {"topic": 3}

    def describe_groups(self, node: Node, groups_max: int) -> int:
        if self.refuses:
            raise UserError("not authorized")
        return 12 * groups_max

    def configs(self, node: Node, kind: int, *_: object) -> dict[str, str]:
        return dict.fromkeys(BROKER_CONFIGS, "2") if kind == 4 else {}


def session(tmp_path: Path, brokers: Brokers, **changes: Any) -> tuple[Session, list[str]]:
    said: list[str] = []
    source = changes.pop("source", f"{brokers.folder}/{{id}}.log")
    limits = {"seconds": 1.0, "mb_per_second_max": 50.0, "mb_max": 500.0} | changes
    made = Session(
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


def test_it_stops_at_a_limit(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path)
    made, said = session(tmp_path, brokers, seconds=60.0, mb_max=1e-4)
    assert made.record()
    assert any("more than --mb-max 0.0001" in line for line in said)
    assert set(brokers.levels.values()) == {"WARN"}


@pytest.mark.parametrize("source", ["kubectl:no-such/pod", "/nope", "ssh:no-such-host:/x", "/"])
def test_a_log_that_cannot_be_read_changes_nothing(tmp_path: Path, source: str) -> None:
    brokers = Brokers(tmp_path)
    made, _ = session(tmp_path, brokers, source=source)
    for tried in (made.collect, made.record):
        with pytest.raises(UserError, match=r"log of node 11 \(broker, \S+\) cannot be read: .+"):
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


def test_commands_end_with_what_started_them(tmp_path: Path) -> None:
    log = tmp_path / "kafka-request.log"
    log.touch()
    process = subprocess.Popen(command_of(str(log)), stdin=-1, stdout=-3, start_new_session=True)
    time.sleep(0.3)
    assert process.stdin
    process.stdin.close()
    process.wait(5)
    time.sleep(0.2)
    assert (
        str(log) not in subprocess.run(["ps", "-eo", "args"], capture_output=True).stdout.decode()
    )


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
