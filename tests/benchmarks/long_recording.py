"""Writes recordings of any size of a simulated cluster, seamless: ``cluster`` has the model."""

import json
import shutil
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from .cluster import CLUSTER_ID, HEARTBEAT_MS, SECOND, Cluster, Load

MB = 1_000_000
_BEGIN = datetime(2026, 11, 20, tzinfo=UTC)
#: Lines are in order of their stamps; none is completed so long after the event that writes it.
_BEHIND_US = SECOND
_BEFORE, _AFTER = b"] DEBUG Completed request:", b" (kafka.request.logger)\n"


class Recorder:
    """Writes on what a cluster logs, in the order of completion; its bytes and lines until now."""

    def __init__(self, load: Load) -> None:
        self.bytes = self.lines = self.until_us = 0
        self._buffer: list[tuple[int, int, bytes]] = []
        self._cluster = Cluster(load, lambda *line: self._buffer.append(line))

    def record(self, folder: Path, more_bytes: int) -> None:
        """Writes as many bytes more into a new folder."""
        folder.mkdir(parents=True)
        self._write_manifest(folder)
        end, load = self.bytes + more_bytes, self._cluster.load
        while self.bytes < end:
            self.until_us += SECOND // (1 + load.brokers // 20)
            self._cluster.run(self.until_us + _BEHIND_US)
            self._flush(folder)

    def _flush(self, folder: Path) -> None:
        self._buffer.sort()
        place = bisect_left(self._buffer, (self.until_us,))
        texts: dict[int, list[bytes]] = {}
        for at, node, text in self._buffer[:place]:
            head = b"[%b,%03d" % (_second(at // SECOND), at // 1000 % 1000)
            texts.setdefault(node, []).append(head + _BEFORE + text + _AFTER)
        del self._buffer[:place]
        self.lines += place
        for node, lines in texts.items():
            data = b"".join(lines)
            self.bytes += len(data)
            with (folder / f"node-{node}.log").open("ab") as log:
                log.write(data)

    def _write_manifest(self, folder: Path) -> None:
        cluster = self._cluster
        roles = dict.fromkeys(cluster.controllers, "controller")
        roles |= dict.fromkeys(cluster.broker_ids, "broker")
        manifest = {
            "name": folder.name,
            "kafka_version": "4.2.0",
            "cluster_id": CLUSTER_ID,
            "timezone": "UTC",
            "nodes": [
                {"node_id": node, "role": role, "log": f"node-{node}.log"}
                for node, role in roles.items()
            ],
            "voters": cluster.controllers,
            "min_insync_replicas": 2,
            "broker_heartbeat_interval_ms": HEARTBEAT_MS,
        }
        (folder / "recording.json").write_text(json.dumps(manifest))


@lru_cache(4)
def _second(at_s: int) -> bytes:
    return (_BEGIN + timedelta(seconds=at_s)).isoformat(" ")[:19].encode()


def write_recording(folder: Path, size_bytes: int, load: Load) -> tuple[int, int, float]:
    """Writes a recording; returns its bytes, lines and seconds."""
    recorder = Recorder(load)
    recorder.record(folder, size_bytes)
    return recorder.bytes, recorder.lines, recorder.until_us / SECOND


def write_hours(folder: Path, hours: int, hour_bytes: int, load: Load) -> int:
    """Writes what logs grow by in each hour, into a folder each; returns all their bytes.

    A growing recording is what appending them in turn makes. Hours are as long as their size takes.
    """
    recorder = Recorder(load)
    for hour in range(1, hours + 1):
        recorder.record(folder / f"hour-{hour:03d}", hour_bytes)
    return recorder.bytes


def append(hour: Path, recording: Path) -> None:
    recording.mkdir(parents=True, exist_ok=True)
    for part in sorted(hour.iterdir()):
        if part.suffix == ".json":
            manifest = json.loads(part.read_text()) | {"name": recording.name}
            (recording / part.name).write_text(json.dumps(manifest))
        else:
            with part.open("rb") as new, (recording / part.name).open("ab") as log:
                shutil.copyfileobj(new, log, 1 << 20)
