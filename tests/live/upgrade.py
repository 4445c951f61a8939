"""Records a cluster, predicts its upgrade, upgrades it node by node, and records it again.

    python -m live.upgrade FOLDER [--before 4.0.2] [--after 4.1.2] [--seconds 60]

ends in FOLDER/report.html, with the predictions beside what the upgraded cluster did.
"""

import argparse
import subprocess
from pathlib import Path

from live.cluster import Cluster
from live.recorded import JOB, record, run
from live.workload import metadata, prepare, warm_up

_SEED = 11


def upgraded(folder: Path, before: str, after: str, seconds: int) -> list[Path]:
    """The recordings before and after, of the same work on the same cluster."""
    with Cluster(folder / "nodes", before) as cluster:
        prepare(cluster)
        warm_up(cluster, folder)
        recordings = [record(cluster, folder / f"before-{before}", metadata, _SEED, seconds)]
        for node in [*cluster.controllers, *cluster.brokers]:
            print(f"node {node.node_id}: {before} -> {after}", flush=True)
            cluster.stop(node.node_id)
            cluster.start(node.node_id, after)
        cluster.version = after
        warm_up(cluster, folder)
        recordings.append(record(cluster, folder / f"after-{after}", metadata, _SEED, seconds))
    return recordings


def main(arguments: list[str] | None = None) -> str:
    """Returns what ``compare`` prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--before", default="4.0.2")
    parser.add_argument("--after", default="4.1.2")
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args(arguments)
    recordings = upgraded(given.folder, given.before, given.after, given.seconds)
    warehouse = given.folder / "warehouse"
    print(run(warehouse, recordings))
    names = [recording.name for recording in recordings]
    command = [*JOB, "compare", "--predictions", *names, "--warehouse", str(warehouse)]
    compared = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    page = [*JOB, "report", *names, "--warehouse", str(warehouse)]
    subprocess.run([*page, "--output", str(given.folder / "report.html")], check=True)
    return compared


if __name__ == "__main__":
    print(main())
