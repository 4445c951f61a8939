"""Records every version under the same workloads, and holds predictions against what each did.

    python -m live.versions FOLDER [--seconds 30] [--runs 2] [--versions 4.0.2,4.3.1]

makes recordings in FOLDER, keeps those it finds there, runs all of them, and prints the part of
docs/accuracy.md that is by version.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa

from kip_replay.pipelines.analysis.predictions import accuracy_rows
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import PREDICTION_ACCURACY
from live import workload
from live.agent import agent_jar
from live.artifacts import VERSIONS
from live.cluster import Cluster
from live.recorded import record, run
from tools.printed import DOCS, fill

_SEED = 7
#: Without a slot no FETCH has a session.
_NO_SESSIONS = {"max.incremental.fetch.session.cache.slots": 0}
NOTES = "applied={folder}/applied-{node_id}.txt,lowest-acked={folder}/lowest-acked-{node_id}.txt"
#: Clusters of a version: what its agent adds, and settings.
_CLUSTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "released": ("", {}),
    "patched": ("min-isr-acks,", _NO_SESSIONS),
}
#: Of a recording: the cluster, the version, which run it is.
_NAME = r"'^(.+)-(\d+\.\d+\.\d+)-(\d+)$', ['cluster', 'version', 'run']"
#: Rows that are judged, and whether two real runs of what they predict are within the tolerance:
#: else a machine cannot show whether a prediction is right.
_JUDGED = f"""
    CREATE MACRO share(which, well) AS CASE WHEN count_if(which) > 0
        THEN count_if(which AND well) || ' of ' || count_if(which) END;
    CREATE TEMP VIEW judged AS
    WITH named AS (
        SELECT *, regexp_extract(predicted_from, {_NAME}) AS before,
            regexp_extract(recorded_in, {_NAME}) AS after
        FROM accuracy
    ),
    noise AS (
        SELECT rule, metric, group_value, after.cluster, after.version, max(abs(error)) AS noise
        FROM named WHERE kind = 'two_runs' AND before.version = after.version GROUP BY ALL
    )
    SELECT named.*, noise, coalesce(noise <= tolerance, FALSE) AS is_quiet
    FROM named LEFT JOIN noise ON noise.rule = named.rule AND noise.metric = named.metric
        AND noise.group_value = named.group_value AND noise.cluster = after.cluster
        AND noise.version = after.version
    WHERE tolerance IS NOT NULL
"""
_TOTALS = """
    SELECT rule, after.version AS version, share(kind = 'self_check', passed) AS "self-checks",
        share(kind = 'bound', passed) AS bounds,
        share(kind = 'draft', passed) AS "nodes with the draft",
        share(kind = 'other_cluster', passed) AS "other clusters",
        share(kind = 'other_cluster' AND is_quiet, passed) AS "these, two runs within tolerance",
        count_if(kind = 'other_cluster' AND NOT is_quiet) AS "not judged on this machine"
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
        AND CASE rule WHEN 'hwm_parking' THEN before.version = $base
                AND before.cluster || after.cluster = 'releasedreleased'
            ELSE before.version = after.version END
    GROUP BY ALL ORDER BY ALL
"""


def recorded(folder: Path, version: str, number: int, seconds: int) -> Iterator[Path]:
    """Records one run of a version: as it is released, then with KIP-926 and without sessions."""
    for name, (patches, settings) in _CLUSTERS.items():
        path = folder / f"{name}-{version}-{number}"
        if not path.exists():
            agent = f"{agent_jar(version)}={patches}{NOTES}"
            facts = {"patched": "KIP-926, by tests/live/agent"} if patches else {}
            with TemporaryDirectory() as top:
                nodes = Path(top) / "nodes"
                with Cluster(nodes, version, settings=settings, agent=agent) as cluster:
                    record(cluster, path, workload.mixed, _SEED, seconds, **facts)
        yield path


def by_version(warehouse: Path, folders: Sequence[Path]) -> tuple[str, pd.DataFrame]:
    """The page's part on these recordings, and every judged figure."""
    rows = accuracy_rows(Warehouse(str(warehouse)), [folder.name for folder in folders])
    accuracy = pa.Table.from_pylist(rows, PREDICTION_ACCURACY.arrow_schema)
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
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--versions", default=",".join(VERSIONS))
    given = parser.parse_args(arguments)
    folders = [
        folder
        for number in range(1, given.runs + 1)
        for version in given.versions.split(",")
        for folder in recorded(given.folder, version, number, given.seconds)
    ]
    warehouse = given.folder / "warehouse"
    print(run(warehouse, folders))
    page, judged = by_version(warehouse, folders)
    fill(DOCS / "accuracy.md", page, "make test-live")
    return judged


if __name__ == "__main__":
    main()
