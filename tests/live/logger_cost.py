"""Measures what the request logger costs a broker: with it and without, in turns, at three rates.

    python -m live.logger_cost [--seconds 20] [--turns 3]

prints the table in docs/tutorial.md: medians of the turns. One broker beside one controller, one
PRODUCE a record of 500 bytes with acks=all; all run on this machine, and so does the producer.
"""

import argparse
import os
import re
import statistics
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from kip_replay.pipelines.record.cluster import Cluster as Admin
from live.artifacts import CLIENTS, class_path
from live.cluster import Cluster
from tools.docs import DOCS, fill

VERSION = "4.3.1"
_NODES = {1: "controller", 11: "broker"}
_ALONE = {"default.replication.factor": 1, "min.insync.replicas": 1}
#: PRODUCEs a second that are wanted; -1: as many as there can be.
_RATES = (200, 2_000, -1)
_LATENCIES = re.compile(r"([\d.]+) records/sec.* (\d+) ms 50th.* (\d+) ms 99th")


class Measured(NamedTuple):
    """What a turn took: rates a second, milliseconds, cores, megabytes a second."""

    requests: float
    p50_ms: float
    p99_ms: float
    cores: float
    log_mb: float


def turn(cluster: Cluster, rate: int, seconds: int) -> Measured:
    broker = cluster.nodes[11]
    assert broker.process is not None
    count = seconds * (rate if rate > 0 else 8_000)
    command = ["java", "-Xmx256m", "-cp", class_path(CLIENTS, "kafka-tools")]
    command += ["org.apache.kafka.tools.ProducerPerformance", "--topic", "cost"]
    command += ["--num-records", str(count), "--record-size", "500", "--throughput", str(rate)]
    command += ["--producer-props", f"bootstrap.servers={cluster.bootstrap}", "acks=all"]
    command += ["linger.ms=0", "batch.size=1", "enable.idempotence=false"]
    began, cpu_s, log = time.monotonic(), _cpu_s(broker.process.pid), _size(broker.log)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took_s = time.monotonic() - began
    total = _LATENCIES.findall(done.stdout)[-1]
    cores = (_cpu_s(broker.process.pid) - cpu_s) / took_s
    return Measured(*map(float, total), cores, (_size(broker.log) - log) / took_s / 1e6)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def measured(seconds: int, turns: int) -> dict[tuple[int, str], list[Measured]]:
    """By rate and level of the logger; the two levels take turns."""
    found: dict[tuple[int, str], list[Measured]] = defaultdict(list)
    with (
        TemporaryDirectory() as top,
        Cluster(Path(top) / "nodes", VERSION, nodes=_NODES, settings=_ALONE) as cluster,
        Admin([cluster.bootstrap], [], {"security_protocol": "PLAINTEXT"}) as admin,
    ):
        client = AdminClient({"bootstrap.servers": cluster.bootstrap})
        client.create_topics([NewTopic("cost", 6, 1)])["cost"].result()
        turn(cluster, 2_000, seconds)  # what the broker compiles, it has compiled then
        for _ in range(turns):
            for rate in _RATES:
                for level in ("WARN", "DEBUG"):
                    for node in admin.nodes():
                        admin.set_level(node, level)
                    found[rate, level].append(turn(cluster, rate, seconds))
                    print(rate, level, found[rate, level][-1], flush=True)
    return found


def table(found: dict[tuple[int, str], list[Measured]]) -> str:
    lines = [
        "| records/s wanted | logger | records/s | p50, ms | p99, ms | cores of the broker "
        "| log, MB/s |",
        "|--:|---|--:|--:|--:|--:|--:|",
    ]
    for (rate, level), of in found.items():
        median = Measured(*map(statistics.median, zip(*of, strict=True)))
        wanted = f"{rate:,}" if rate > 0 else "all it can"
        figures = f"{median.requests:,.0f} | {median.p50_ms:.0f} | {median.p99_ms:.0f}"
        lines.append(
            f"| {wanted} | {level} | {figures} | {median.cores:.2f} | {median.log_mb:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    found = measured(given.seconds, given.turns)
    fill(DOCS / "tutorial.md", table(found), "python -m live.logger_cost")
