"""Logs and warehouse in a bucket: the same rows as on a disk, whatever happens meanwhile."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from object_store import SECRET, assert_no_secret, job, served, uploaded
from put_rows import assert_same
from small_logs import folder_of

import kip_replay as kr
from kip_replay.pipelines.storage import place_of

pytestmark = pytest.mark.slow
LOGS = "s3://bucket/logs/failover-4.0"
#: What differs: paths, pages that are on disks only, sizes of logs that are text, what takes time.
_ELSEWHERE = r"\S*warehouse\S*|seconds: .*|\n  data docs.*|[\d,.]+ [kM]?B|\d+ min|\d+ s\b"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording as clusters have them: plain and rotated files, compressed ones, an archive."""
    folder = tmp_path_factory.mktemp("logs") / "failover-4.0"
    shutil.copytree(folder_of("failover-4.0"), folder)
    manifest = json.loads((folder / "recording.json").read_text())
    lines = gzip.decompress((folder / "broker-11.log.gz").read_bytes()).splitlines(keepends=True)
    (folder / "broker-11").mkdir()
    (folder / "broker-11.log.gz").unlink()
    for name, part in (
        ("k.log", lines[300:]),
        ("k.log.1", lines[:200]),
        ("k.log.2", lines[200:300]),
    ):
        (folder / "broker-11" / name).write_bytes(b"".join(part))
    with tarfile.open(folder / "broker-12.tar.gz", "w:gz") as archive:
        archive.add(folder / "broker-12.log.gz", "deep/broker-12.log.gz")
    (folder / "broker-12.log.gz").unlink()
    moved = {11: "broker-11/k.log*", 12: "broker-12.tar.gz!/deep/*"}
    for node in manifest["nodes"]:
        node["log"] = moved.get(node["node_id"], node["log"])
    (folder / "recording.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="module")
def on_disk(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("disk") / "warehouse"
    done = job("run", logs, "--warehouse", path, "--engine", "local")
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module", autouse=True)
def store(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with served(tmp_path_factory.mktemp("store")):
        uploaded(logs, LOGS)
        yield


def commands(logs: object, warehouse: object) -> Iterator[str]:
    """What the other commands print about a warehouse, which is changed by none but the last."""
    for command in (
        ("plan", logs),
        ("recordings",),
        ("sql", "SELECT api_name, count(*) FROM requests GROUP BY ALL ORDER BY ALL"),
        ("report", "--format", "json"),
        ("compare", "failover-4.0", "failover-4.0"),
        ("check", "failover-4.0"),
        ("run", logs, "--quiet"),
        ("maintain", "--retention-hours", "0", "--allow-short-retention"),
        ("recordings", "delete", "failover-4.0"),
    ):
        done = job(*command, "--warehouse", warehouse)
        text = re.sub(_ELSEWHERE, "", done.stdout.replace(str(logs), "LOGS"))
        yield f"{command[0]} {done.returncode} {done.stderr} {text}"


def test_every_command_says_in_a_bucket_what_it_says_on_a_disk(logs: Path, on_disk: Path) -> None:
    warehouse = "s3a://bucket/local/warehouse"
    logs_there = LOGS.replace("s3:", "s3a:")
    done = job("run", logs_there, "--warehouse", warehouse, "--engine", "local")
    assert done.returncode == 0, done.stderr
    assert_same(on_disk, warehouse)
    assert place_of(f"{warehouse}/report.html").is_file()
    opened = kr.open(warehouse)
    assert opened.recordings == ["failover-4.0"]
    assert len(opened.table("requests")) == len(kr.open(str(on_disk)).table("requests"))
    copy = on_disk.with_name("copy-of-warehouse")
    shutil.copytree(on_disk, copy)
    for there, here in zip(commands(LOGS, warehouse), commands(logs, copy), strict=True):
        assert there == here
    assert_no_secret()


def test_nodes_may_be_named_by_uri(on_disk: Path, logs: Path) -> None:
    nodes = ["--node", f"11={LOGS}/broker-11/k.log*", "--node", f"1={LOGS}/controller-1.log.gz"]
    options = ["--name", "two", "--timezone", "UTC", "--voters", "1"]
    done = job("ingest", *nodes, *options, "--warehouse", "s3://bucket/two", "--engine", "local")
    assert (done.returncode, done.stderr) == (0, "")
    names = kr.open("s3://bucket/two").table("ingested_files")["source_file"]
    assert sorted(names) == ["controller-1.log.gz", "k.log", "k.log.1", "k.log.2"]


def test_two_drivers_at_once_write_every_row_once(on_disk: Path) -> None:
    command = ["run", LOGS, "--warehouse", "s3://bucket/both", "--engine", "local", "--quiet"]
    with ThreadPoolExecutor(2) as pool:
        ends = [*pool.map(lambda _: job(*command), range(2))]
    for ended in ends:
        is_late = ended.stderr.startswith("error: another job has written ")
        assert ended.returncode == 0 or (ended.returncode == 1 and is_late), ended.stderr
    assert job(*command).returncode == 0
    assert_same(on_disk, "s3://bucket/both")


@pytest.mark.parametrize("objects", [20, 110])
def test_a_driver_may_be_killed_between_commits(on_disk: Path, objects: int) -> None:
    """When it has written so many objects; the next one completes what is missing."""
    warehouse = place_of(f"s3://bucket/killed-{objects}")
    command = ["run", LOGS, "--warehouse", warehouse, "--engine", "local", "--quiet"]
    words = [sys.executable, "-m", "kip_replay.jobs.main", *map(str, command)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        while process.poll() is None and len([*warehouse.rglob("*.*")]) < objects:
            pass
        process.kill()
    assert process.returncode == -signal.SIGKILL
    done = job(*command)
    assert done.returncode == 0, done.stderr
    assert_same(on_disk, str(warehouse))


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("s3://nowhere/w", "there is no s3://nowhere for the warehouse"),
        (f"s3://AKID:{SECRET}@bucket/w", "a URI with credentials was given, of s3://: anyone"),
        ("ftp://host/w", "'ftp://host/w' is at no store that is known"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_sentence(logs: Path, uri: str, said: str) -> None:
    done = job("ingest", logs, "--warehouse", uri)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"error: {said}")


def test_a_store_that_is_gone_is_one_sentence(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for given in ((logs, "--warehouse", "s3://bucket/w"), (LOGS,)):
        done = job("ingest", *given)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "the store cannot be reached: correct AWS_ENDPOINT_URL" in done.stderr


class Unconditional(BaseHTTPRequestHandler):
    """A store in front of the one that is served, which has no conditional writes."""

    store = ""
    #: Files are sent after "100 Continue".
    protocol_version = "HTTP/1.1"

    def forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        sent = {"Content-Type": "application/octet-stream", **self.headers}
        if sent.pop("transfer-encoding", None):
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        if "if-none-match" in map(str.lower, sent):
            self.send_error(501, "Not Implemented")
            return
        request = Request(self.store + self.path, body or None, sent, method=self.command)
        with suppress(HTTPError), urlopen(request) as response:
            self.send_response(response.status)
            content = response.read()
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            return
        self.send_error(404)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward


def test_a_store_without_conditional_writes_is_one_sentence(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By which two writers would both have committed a version: no table is made."""
    monkeypatch.setattr(Unconditional, "store", os.environ["AWS_ENDPOINT_URL"])
    with ThreadingHTTPServer(("127.0.0.1", 0), Unconditional) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        done = job("ingest", logs, "--warehouse", "s3://bucket/unconditional")
        server.shutdown()
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "the store refuses conditional writes (If-None-Match)" in done.stderr
