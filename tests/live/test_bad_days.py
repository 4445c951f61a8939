"""Brokers killed, frozen and without space; logs rotated and switched off.

Each node writes its log twice: to a volume, where bad things happen to it, and whole. What is
replayed of the damaged log is what is replayed of the whole one, or unknown.
"""

import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import kip_replay as kr
from kip_replay.pipelines.record.cluster import Cluster as Asked
from live import cluster as launcher
from live import workload
from live.cluster import Cluster
from live.recorded import collected, held_against, run

_BOTH = """<File name="T" fileName="{folder}/whole/kafka-request.log">{layout}</File>
<RollingFile name="V" fileName="{folder}/volume/kafka-request.log"
 filePattern="{folder}/volume/kafka-request.log.%i">{layout}
<SizeBasedTriggeringPolicy size="200KB"/><DefaultRolloverStrategy max="999" fileIndex="min"/>
</RollingFile><Rewrite name="R"><AppenderRef ref="T"/><AppenderRef ref="V"/></Rewrite>"""


def full(cluster: Cluster) -> None:
    with (cluster.nodes[12].folder / "volume" / "other").open("wb", buffering=0) as other:
        with suppress(OSError):
            while True:
                other.write(bytes(512))
        time.sleep(6)
        other.truncate(0)


def killed(cluster: Cluster) -> None:
    cluster.stop(13, signal.SIGKILL)
    log = cluster.nodes[13].folder / "volume" / "kafka-request.log"
    with log.open("rb+") as file:  # half of its last line got to the disk
        file.truncate(max(log.stat().st_size - 300, 0))
    cluster.start(13)
    with Asked([f"127.0.0.1:{cluster.nodes[13].client}"], [], {}) as asked:
        asked.nodes()  # It may lead nothing, and would log nothing after the half line.


def switched_off(cluster: Cluster) -> None:
    with Asked([f"127.0.0.1:{cluster.nodes[12].client}"], [], {}) as asked:
        (node,) = (node for node in asked.nodes() if node.node_id == 12)
        asked.set_level(node, "WARN")
        time.sleep(6)
        asked.set_level(node, "DEBUG")


def frozen(cluster: Cluster) -> None:
    """Producers create a topic again while a follower stands still."""
    admin = workload._admin(cluster)
    admin.delete_topics(["p1"])["p1"].result()  # who stands still would not respond to it
    cluster.send(13, signal.SIGSTOP)
    time.sleep(14)
    cluster.send(13, signal.SIGCONT)


@pytest.mark.parametrize("version", ["4.3.1", "4.0.2"])
def test_bad_days(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_TO_FILE", _BOTH)
    cluster = Cluster(tmp_path / "nodes", version, level="DEBUG")
    volume = cluster.nodes[12].folder / "volume"
    volume.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", volume]).returncode:
        pytest.skip("only root may mount a volume")
    lost = []
    try:
        with cluster:
            workload.prepare(cluster)
            controllers = [f"127.0.0.1:{node.controller}" for node in cluster.controllers]
            for address in controllers:  # so that none of their logs is empty
                with Asked(cluster.bootstrap.split(","), [address], {}) as asked:
                    asked.nodes()
            work = threading.Thread(target=workload.acks, args=(cluster, tmp_path, 7, 90))
            work.start()
            time.sleep(8)
            for day, node_id in ((full, 12), (killed, 13), (switched_off, 12), (frozen, 0)):
                began = pd.Timestamp.now("UTC")
                day(cluster)
                if node_id:
                    logged = _logs_again(cluster, node_id)
                    # What is half on the disk was completed before.
                    lost.append((node_id, began - pd.Timedelta("5s"), logged))
                time.sleep(6)
            work.join()
        for name in ("whole", "volume"):
            collected(cluster, tmp_path / name, "bad", part=name)
    finally:
        subprocess.run(["umount", volume], check=True)
    said = {name: run(tmp_path / f"{name}-w", [tmp_path / name]) for name in ("whole", "volume")}
    whole, damaged = (kr.open(str(tmp_path / f"{name}-w")) for name in ("whole", "volume"))
    print(said)
    for table, known, differs in held_against(whole, damaged):
        assert differs.empty, (table, known, differs.to_string())
    gaps = damaged.sql("SELECT node_id, after_at, before_at FROM log_gaps").to_numpy().tolist()
    explained = [[gap for gap in gaps if _overlap(gap, one)] for one in lost]
    assert all(explained), (lost, gaps)
    assert not [gap for gap in gaps if not any(gap in known for known in explained)]
    assert "lines or more are missing" in said["volume"]
    assert damaged.sql("SELECT * FROM clock_bounds WHERE clocks = 'differ'").empty
    query = "SELECT sum(requests) FROM ingested_files WHERE node_id NOT IN (12, 13)"
    assert whole.sql(query).iat[0, 0] == damaged.sql(query).iat[0, 0]
    assert len([*(tmp_path / "volume" / "11").iterdir()]) > 3


def _logs_again(cluster: Cluster, node_id: int) -> pd.Timestamp:
    """Waits for two lines more in the volume: lines before the second may be lost.

    Who leads nothing after a restart has none to write.
    """
    log, until = cluster.nodes[node_id].folder / "volume" / "kafka-request.log", time.time() + 15
    for _ in range(2):
        before = log.stat()
        while time.time() < until and (log.stat().st_ino, log.stat().st_size) == (
            before.st_ino,
            before.st_size,
        ):
            time.sleep(0.05)
    return pd.Timestamp.now("UTC")


def _overlap(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return one[0] == other[0] and one[1] <= other[2] and other[1] <= one[2]
