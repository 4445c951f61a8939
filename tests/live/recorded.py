"""Recordings of live clusters, made by ``kip-replay record``, and the warehouses of their runs."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from kip_replay.pipelines.api import OpenWarehouse
from live.cluster import Cluster

JOB = (sys.executable, "-m", "kip_replay.jobs.main")
#: A schedule of work: what it does to a cluster, and notes in a folder, by a seed, for seconds.
Work = Callable[[Cluster, Path, int, int], None]
#: What a row is of, beside its request, in tables whose rows other lines of a log decide as well.
_KEYS = {
    "fetch_session_outcomes": ["variant"],
    "produce_ack_outcomes": ["variant", "topic", "partition"],
    "heartbeat_outcomes": ["variant"],
    "metadata_write_visibility": ["variant", "broker_id", "evidence"],
}


@contextmanager
def recording(cluster: Cluster, folder: Path, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Records while the body runs; raises RuntimeError with what ``record`` printed if it fails."""
    command = [*JOB, "record", "--bootstrap-server", cluster.bootstrap]
    command += ["--bootstrap-controller", cluster.bootstrap_controllers]
    command += ["--logs", f"{cluster.folder}/{{id}}/kafka-request.log", "--output", str(folder)]
    process = subprocess.Popen([*command, "--minutes", "60", *options], stdout=subprocess.DEVNULL)
    try:
        while not (folder / "recording.json").exists():  # then it has switched on
            if process.poll() is not None:
                raise RuntimeError("nothing is recorded, see above")
            time.sleep(0.2)
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def record(
    cluster: Cluster, folder: Path, work: Work, seed: int, seconds: int, **facts: Any
) -> Path:
    """Records a piece of work, with what its clients saw beside the logs."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with recording(cluster, folder):
        work(cluster, folder, seed, seconds)
    manifest = json.loads((folder / "recording.json").read_text())
    manifest |= {"name": folder.name, "scenario": work.__name__, "seed": seed, **facts}
    manifest["kafka_version"] = cluster.version
    (folder / "recording.json").write_text(json.dumps(manifest, indent=2))
    for notes in cluster.folder.glob("*/*-*.txt"):  # of the agent, since the nodes started
        shutil.copy(notes, folder)
    return folder


def collected(cluster: Cluster, folder: Path, name: str, part: str = "") -> Path:
    """A recording of logs as nodes wrote them, in a part of their folders, without ``record``."""
    for node in cluster.nodes.values():
        (to := folder / f"{node.node_id}").mkdir(parents=True)
        for log in (node.folder / part).glob("kafka-request.log*"):
            shutil.copy(log, to)
    nodes = [{"node_id": n, "log": f"{n}/kafka-request.log*"} for n in cluster.nodes]
    voters = [node.node_id for node in cluster.controllers]
    facts = {"name": name, "timezone": "UTC", "kafka_version": cluster.version, "nodes": nodes}
    facts |= {"voters": voters, "min_insync_replicas": 2}
    (folder / "recording.json").write_text(json.dumps(facts))
    return folder


def held_against(
    whole: OpenWarehouse, part: OpenWarehouse, of_whole: str | None = None, name: str | None = None
) -> Iterator[tuple[str, int, pd.DataFrame]]:
    """By table: how many rows of a part of a log are known, and those that differ in the whole.

    Recordings are named where warehouses have others. A session is named by its first FETCH, which
    a part does not have to have.
    """
    for table, keys in _KEYS.items():
        key, where = ["request_id", *keys], "parameter = 'none'"
        rows = whole.table(table, of_whole, where).drop(columns=["recording", "reason"])
        rows = rows.drop(columns="session_key", errors="ignore")
        known = part.table(table, name, f"{where} AND verdict = 'replayed'")
        both = known.merge(rows, on=key, suffixes=("", "_whole")).astype(str)
        differs = pd.Series(False, index=both.index)
        for column in rows.columns.drop(key):
            is_known = both[column].notna() & (both[column] != "None")
            differs |= is_known & (both[column] != both[f"{column}_whole"])
        yield table, len(both), both[differs]


def run(warehouse: Path, recordings: Sequence[Path], *options: str) -> str:
    """Runs all of them, and returns what was printed. 3: a check failed, which is looked at."""
    command = [*JOB, "run", *map(str, recordings), "--warehouse", str(warehouse), "--quiet"]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr)
    return done.stdout + done.stderr


def frames(cluster: Cluster) -> duckdb.DuckDBPyRelation:
    """What the proxy saw of replication: bytes of requests and responses, by node and request."""
    ports = {node.proxied: node.node_id for node in cluster.brokers}
    of_node = " ".join(f"WHEN {port} THEN {node_id}" for port, node_id in ports.items())
    names = ["api", "api_version", "correlation_id", "request_bytes", "response_bytes"]
    read = duckdb.read_csv(
        str(cluster.folder / "frames.tsv"),
        sep="\t",
        header=False,
        names=[*names, "client_id", "port"],
    )
    return read.project(f"*, CASE port {of_node} END AS node_id")
