"""Records every version under the same workloads, and holds predictions against what each did.

    python -m live.versions FOLDER [--seconds 40] [--runs 2] [--versions 4.0.2,4.3.1]

makes recordings in FOLDER, keeps those it finds there, runs all of them, and prints the part of
docs/accuracy.md that is by version.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from live import workload
from live.agent import agent_jar
from live.artifacts import VERSIONS
from live.cluster import Cluster
from live.recorded import Work, record, run

_SEED = 7
#: Without a slot no FETCH has a session.
_NO_SESSIONS = {"max.incremental.fetch.session.cache.slots": 0}
NOTES = "applied={folder}/applied-{node_id}.txt,lowest-acked={folder}/lowest-acked-{node_id}.txt"
#: Clusters of a version: what its agent adds, its settings, and recordings with their work.
_CLUSTERS: tuple[tuple[str, dict[str, Any], dict[str, Work]], ...] = (
    ("", {}, {"metadata": workload.metadata, "acks": workload.acks, "sessions": workload.sessions}),
    (
        "min-isr-acks,",
        _NO_SESSIONS,
        {"acks-minisr": workload.acks, "sessions-off": workload.sessions},
    ),
)
#: Of a recording: the work, the version, which run it is.
_NAME = r"'^(.+)-(\d+\.\d+\.\d+)-(\d+)$', ['work', 'version', 'run']"
#: Within two runs: what is no further off than two real runs of the same thing are from each other.
_BY_VERSION = f"""
    WITH named AS (
        SELECT *, regexp_extract(predicted_from, {_NAME}) AS before,
            regexp_extract(recorded_in, {_NAME}) AS after
        FROM prediction_accuracy
    ),
    noise AS (
        SELECT rule, metric, group_kind, group_value, after.work AS work, after.version AS version,
            max(abs(error)) AS noise
        FROM named WHERE kind = 'two_runs' AND before.version = after.version GROUP BY ALL
    )
    SELECT rule, kind, metric, group_kind, group_value, variant, before, after, predicted, recorded,
        passed, coalesce(passed OR abs(error) <= noise, passed) AS within_two_runs, noise, is_enough
    FROM named LEFT JOIN noise
        ON noise.rule = named.rule AND noise.metric = named.metric
        AND noise.group_kind = named.group_kind AND noise.group_value = named.group_value
        AND noise.work = after.work AND noise.version = after.version
    WHERE tolerance IS NOT NULL
"""


def recorded(folder: Path, version: str, number: int, seconds: int) -> Iterator[Path]:
    """Records one run of a version: as it is released, then with KIP-926 and without sessions."""
    for patches, settings, works in _CLUSTERS:
        named = {folder / f"{name}-{version}-{number}": work for name, work in works.items()}
        missing = {path: work for path, work in named.items() if not path.exists()}
        if missing:
            agent = f"{agent_jar(version)}={patches}{NOTES}"
            facts = {"patched": "KIP-926, by tests/live/agent"} if patches else {}
            with TemporaryDirectory() as top:
                nodes = Path(top) / "nodes"
                with Cluster(nodes, version, settings=settings, agent=agent) as cluster:
                    workload.prepare(cluster)
                    for path, work in missing.items():
                        record(cluster, path, work, _SEED, seconds, **facts)
        yield from named


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--versions", default=",".join(VERSIONS))
    given = parser.parse_args(arguments)
    folders = [
        folder
        for number in range(1, given.runs + 1)
        for version in given.versions.split(",")
        for folder in recorded(given.folder, version, number, given.seconds)
    ]
    print(run(given.folder / "warehouse", folders))


if __name__ == "__main__":
    main()
