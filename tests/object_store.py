"""A store of objects: moto's server of S3 as a process, and jobs that know it by their environment.

moto answers 412 to the losers of a race of conditional puts, as S3 does; delta-rs commits by these.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs as pafs
import pytest
from ran import ran

from kip_replay.pipelines import storage
from kip_replay.pipelines.storage import filesystem_of

SECRET = "of-the-tests/wJalrXUtnFEMI"


@contextmanager
def served(folder: Path) -> Iterator[None]:
    """A server with an empty bucket, for as long as the block lasts; it logs into ``folder``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "AKIDOFTHETESTS",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "",
    }
    with (
        (folder / "moto.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.delenv("AWS_ALLOW_HTTP")
        storage._root.cache_clear()  # an endpoint is asked for once a process
        try:
            _make_bucket(port)
            yield
        finally:
            server.kill()


def _make_bucket(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.1)
    made = pafs.S3FileSystem(
        endpoint_override=f"http://127.0.0.1:{port}", allow_bucket_creation=True
    )
    made.create_dir("bucket")


def uploaded(folder: Path, uri: str) -> str:
    filesystem, path = filesystem_of(uri)
    pafs.copy_files(str(folder), path, destination_filesystem=filesystem)
    return uri


def job(*command: object) -> subprocess.CompletedProcess[str]:
    """A job as a process; what it prints holds no secret."""
    done = ran(sys.executable, "-m", "kip_replay.jobs.main", *command)
    assert SECRET not in done.stdout + done.stderr
    return done


def assert_no_secret(*folders: Path) -> None:
    """In any object, nor in any file below the folders."""
    filesystem, path = filesystem_of("s3://bucket")
    objects = filesystem.get_file_info(pafs.FileSelector(path, recursive=True))
    for each in objects:
        if each.is_file:
            with filesystem.open_input_stream(each.path) as file:
                assert SECRET.encode() not in file.read(), each.path
    for file in (file for folder in folders for file in folder.rglob("*") if file.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file
