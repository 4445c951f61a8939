"""``kip-replay record`` on real brokers and controllers."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kip_replay.pipelines.record.cluster import Cluster as Admin
from live.cluster import Cluster, free_ports
from live.recorded import JOB, run

VERSION = "4.1.2"
OFF = {"WARN"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A controller, a broker with a listener for SCRAM, and a node that is both."""
    port = free_ports(1)[0]
    folder = tmp_path_factory.mktemp("record") / "nodes"
    protocols = "CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_PLAINTEXT"
    made = Cluster(
        folder,
        VERSION,
        nodes={1: "controller", 11: "broker", 12: "broker,controller"},
        settings={
            "listener.security.protocol.map": protocols,
            "default.replication.factor": 2,
            "offsets.topic.replication.factor": 2,
            "transaction.state.log.replication.factor": 2,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.secure.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common."
            "security.scram.ScramLoginModule required;",
        },
        format_options=["--add-scram", "SCRAM-SHA-512=[name=alice,password=s3cret]"],
    )
    node = made.nodes[11]
    made._settings_of = {
        11: {
            "listeners": f"{node.properties()['listeners']},SECURE://127.0.0.1:{port}",
            "advertised.listeners": f"{node.properties()['advertised.listeners']},"
            f"SECURE://127.0.0.1:{port}",
        }
    }
    (folder / "scram.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config="
        'org.apache.kafka.common.security.scram.ScramLoginModule required \\\n username="alice" '
        f'password="s3cret";\n# port={port}\n'
    )
    with made as started:
        yield started


def record(cluster: Cluster, *options: str) -> "subprocess.Popen[str]":
    to = ["--bootstrap-server", cluster.bootstrap]
    to += ["--bootstrap-controller", cluster.bootstrap_controllers]
    return subprocess.Popen([*JOB, "record", *to, *options], stdout=-1, stderr=-2, text=True)


def levels(cluster: Cluster) -> set[str]:
    to = cluster.bootstrap.split(","), cluster.bootstrap_controllers.split(",")
    with Admin(*to, {"security_protocol": "PLAINTEXT"}) as admin:
        return {admin.level(node) for node in admin.nodes()}


def started(cluster: Cluster, folder: Path) -> "subprocess.Popen[str]":
    logs = f"{cluster.folder}/{{id}}/kafka-request.log"
    process = record(cluster, "--logs", logs, "--output", str(folder))
    while not (folder / "recording.json").exists():
        assert process.poll() is None
        time.sleep(0.1)
    assert levels(cluster) == {"DEBUG"}
    return process


def test_a_dry_run_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    said, _ = record(cluster, "--output", str(tmp_path / "out"), "--dry-run").communicate()
    assert "node 12 (broker,controller" in said
    assert said.count("WARN -> DEBUG") == 3
    assert levels(cluster) == OFF
    assert not (tmp_path / "out").exists()
    with Admin(cluster.bootstrap.split(","), [], {"security_protocol": "PLAINTEXT"}) as admin:
        assert [node.role for node in admin.nodes()] == ["broker", "broker,controller"]


@pytest.mark.parametrize(
    ("log", "said"), [("/nope", "cannot be read"), ("/dev/null", "no request came from /dev/null")]
)
def test_a_wrong_log_stops_it(cluster: Cluster, tmp_path: Path, log: str, said: str) -> None:
    process = record(cluster, "--logs", log, "--output", str(tmp_path / "out"))
    assert said in process.communicate(timeout=120)[0].splitlines()[-1]
    assert (process.returncode, levels(cluster), [*tmp_path.iterdir()]) == (2, OFF, [])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_switch_off(cluster: Cluster, tmp_path: Path, how: signal.Signals) -> None:
    process = started(cluster, tmp_path / "out")
    process.send_signal(how)
    said, _ = process.communicate(timeout=60)
    assert how.name in said
    assert process.returncode == 1
    assert levels(cluster) == OFF
    assert "rejected 0" in run(tmp_path / "warehouse", [tmp_path / "out"])


def test_off_finds_what_a_killed_one_left_on(cluster: Cluster, tmp_path: Path) -> None:
    process = started(cluster, tmp_path / "out")
    process.kill()
    process.communicate()
    assert levels(cluster) == {"DEBUG"}
    said, _ = record(cluster, "--off").communicate()
    assert "no node logs requests now" in said
    assert levels(cluster) == OFF


def test_scram_by_properties(cluster: Cluster, tmp_path: Path) -> None:
    file = cluster.folder / "scram.properties"
    port = file.read_text().rpartition("=")[2].strip()
    to = ["--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(file)]
    said = subprocess.run([*JOB, "record", *to, "--off"], capture_output=True, text=True)
    assert "node 11" in said.stdout + said.stderr
    file.write_text(file.read_text().replace("s3cret", "wrong"))
    said = subprocess.run([*JOB, "record", *to, "--off"], capture_output=True, text=True)
    assert "user, password or SCRAM-SHA-512 refused" in said.stderr
    assert "wrong" not in said.stderr
