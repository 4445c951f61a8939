"""Records every version under the same workloads, and holds predictions against what each did.

    python -m live.versions FOLDER [--seconds 30] [--versions 4.0.2,4.3.1] [--twice 4.3.1]

makes recordings in FOLDER, keeps those it finds there, runs all of them, and prints the part of
docs/accuracy.md that is by version.
"""

import argparse
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import duckdb
import pandas as pd
import pyarrow as pa
import truth
from benchmarks.scale import machine

from kip_replay.pipelines.ingest.recording import load_recordings
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import PredictionAccuracy
from live import workload
from live.artifacts import VERSIONS, agent_jar
from live.cluster import Cluster
from live.recorded import Work, collected, record, run
from tools.docs import DOCS, fill

_SEED = 7
#: Without a slot no FETCH has a session.
_NO_SESSIONS = {"max.incremental.fetch.session.cache.slots": 0}
NOTES = "applied={folder}/applied-{node_id}.txt,lowest-acked={folder}/lowest-acked-{node_id}.txt"


class _Recorded(NamedTuple):
    """A cluster of a version: what its agent adds, its settings, and each work's recording."""

    works: tuple[Work, ...]
    patches: str
    settings: dict[str, Any]


#: Each differs from the first in one thing, so that a prediction is of that.
_CLUSTERS = {
    "released": _Recorded((workload.acks, workload.sessions, workload.metadata), "", {}),
    "kip926": _Recorded((workload.acks,), "min-isr-acks,", {}),
    "no-sessions": _Recorded((workload.sessions,), "", _NO_SESSIONS),
}
#: Of a recording: the cluster, the version, which run it is.
_NAME = r"'^(.+)-(\d+\.\d+\.\d+)-(\d+)$', ['cluster', 'version', 'run']"
#: Rows that are judged, and whether two real runs of what they predict are within half the
#: tolerance (of a version that was recorded once, those of the others): else a machine cannot show
#: whether a prediction is right. What hwm_parking predicts differs by version, and is of metadata.
_JUDGED = f"""
    CREATE MACRO share(which, well) AS CASE WHEN count_if(which) > 0
        THEN count_if(which AND well) || ' of ' || count_if(which) END;
    CREATE TEMP VIEW judged AS
    WITH named AS (
        SELECT *, after.cluster AS cluster
        FROM (SELECT *, regexp_extract(predicted_from, {_NAME}) AS before,
            regexp_extract(recorded_in, {_NAME}) AS after FROM accuracy)
        WHERE tolerance IS NOT NULL AND CASE rule WHEN 'hwm_parking'
            THEN before.cluster || after.cluster = 'released-metadatareleased-metadata'
            ELSE before.version = after.version END
    ),
    noise AS (
        SELECT rule, metric, group_value, cluster, after.version AS version,
            max(recorded) - min(recorded) AS noise
        FROM named WHERE kind = 'other_cluster'
        GROUP BY ALL HAVING count(DISTINCT after.run) > 1
    ),
    of_machine AS (
        SELECT rule, metric, group_value, cluster, max(noise) AS noise FROM noise GROUP BY ALL
    )
    SELECT named.*, coalesce(own.noise, others.noise) AS noise,
        coalesce(2 * coalesce(own.noise, others.noise) <= tolerance, FALSE) AS is_quiet
    FROM named
    LEFT JOIN noise AS own ON own.rule = named.rule AND own.metric = named.metric
        AND own.group_value = named.group_value AND own.cluster = named.cluster
        AND own.version = after.version
    LEFT JOIN of_machine AS others ON others.rule = named.rule AND others.metric = named.metric
        AND others.group_value = named.group_value AND others.cluster = named.cluster
"""
_TOTALS = """
    SELECT rule, after.version AS version, share(kind = 'self_check', passed) AS "self-checks",
        share(kind = 'bound', passed) AS bounds,
        share(kind = 'draft', passed) AS "nodes with the draft",
        share(kind = 'other_cluster', passed) AS "other clusters",
        share(kind = 'other_cluster' AND is_quiet, passed) AS "these, judged",
        count_if(kind = 'other_cluster' AND NOT is_quiet)::INT AS "not judged on this machine"
    FROM judged GROUP BY rule, after.version
    ORDER BY rule, string_split(after.version, '.')::INTEGER[]
"""
#: What another version did with KIP-1166, and the same version with KIP-926 and without sessions.
_FIGURES = """
    SELECT rule, before.cluster || ' ' || before.version AS "from",
        after.cluster || ' ' || after.version AS "of", metric || ' ' || group_value AS figure, unit,
        round(avg(predicted), 2) AS predicted, round(avg(recorded), 2) AS recorded,
        round(max(noise), 2) AS "two runs", share(TRUE, passed) AS within
    FROM judged
    WHERE kind = 'other_cluster' AND before.run = after.run AND is_enough
        AND group_value IN ('all', 'broker', 'follower', 'consumer')
        AND NOT starts_with(metric, 'same_set_')
        AND (rule <> 'hwm_parking' OR before.version = $base)
    GROUP BY ALL ORDER BY ALL
"""


def recorded(folder: Path, version: str, number: int, seconds: int) -> list[Path]:
    """Records one run of a version, in logs that begin in the middle of their clusters' lives.

    Of the released one's first run there is the whole log too, from birth: see ``birth``.
    """
    paths = []
    for name, (works, patches, settings) in _CLUSTERS.items():
        paths += (of := [folder / f"{name}-{w.__name__}-{version}-{number}" for w in works])
        if all(path.exists() for path in of):
            continue
        has_birth = name == "released" and number == 1
        for path in (*of, birth(folder, version)) if has_birth else of:
            shutil.rmtree(path, ignore_errors=True)
        agent = f"{agent_jar(version)}={patches}{NOTES}"
        facts = {"patched": "KIP-926, by tests/live/agent"} if patches else {}
        with TemporaryDirectory() as top:
            nodes = Path(top) / "nodes"
            with Cluster(nodes, version, settings=settings, agent=agent, level="DEBUG") as cluster:
                workload.prepare(cluster)
                workload.warm_up(cluster, nodes)
                for path, work in zip(of, works, strict=True):
                    record(cluster, path, work, _SEED, seconds, **facts)
            if has_birth:
                collected(cluster, birth(folder, version), birth(folder, version).name)
    return paths


def birth(folder: Path, version: str) -> Path:
    """Where the log of a version's released cluster is, from its birth."""
    return folder / f"birth-{version}"


def by_version(warehouse: Path, folders: Sequence[Path]) -> tuple[str, pd.DataFrame]:
    """The page's part on these recordings, and every judged figure."""
    rows = truth.all_judged(Warehouse(str(warehouse)), load_recordings(folders))
    accuracy = pa.Table.from_pylist(rows, PredictionAccuracy.arrow_schema)
    with duckdb.connect() as connection:
        connection.register("accuracy", accuracy).execute(_JUDGED)
        totals = connection.execute(_TOTALS).df()
        figures = connection.execute(_FIGURES, {"base": VERSIONS[1]}).df()
        judged = connection.execute("SELECT *, after.version AS version FROM judged").df()
    return f"{_markdown(totals)}\n\n{_markdown(figures)}", judged


def _markdown(frame: pd.DataFrame) -> str:
    lines = [frame.columns, ["---"] * len(frame.columns), *frame.itertuples(index=False)]
    texts = (["-" if pd.isna(cell) else str(cell) for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in texts)


def main(arguments: list[str] | None = None) -> pd.DataFrame:
    """Returns every judged figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--versions", default=",".join(VERSIONS))
    parser.add_argument("--twice", default="4.0.2,4.3.1")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    if not (made := given.folder / "made.txt").exists():  # judged again it is of that day
        load = f"load before: {os.getloadavg()[0]:.1f}"
        day = f"{datetime.now(UTC):%Y-%m-%d}"
        made.write_text(f"{day}, {given.seconds} s of each work; {machine()}; {load}.")
    folders = [
        folder
        for number in (1, 2)
        for version in given.versions.split(",")
        if number == 1 or version in given.twice.split(",")
        for folder in recorded(given.folder, version, number, given.seconds)
    ]
    warehouse = given.folder / "warehouse"
    print(run(warehouse, folders))
    page, judged = by_version(warehouse, folders)
    fill(DOCS / "accuracy.md", f"{made.read_text()}\n\n{page}", "make test-live")
    return judged


if __name__ == "__main__":
    main()
