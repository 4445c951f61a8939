"""The recordings that a warehouse holds: what is known of them, and how one is deleted.

What is known is read by delta-rs from the Delta log (names and sizes), and by DuckDB of
``ingested_files`` and ``requests``. So listing needs no Spark.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from kip_replay.pipelines.warehouse.maintenance import Size, sizes, total
from kip_replay.pipelines.warehouse.tables import Warehouse, fetched
from kip_replay.replay.log_tables import IngestedFiles, Requests
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES, Lineage, PredictionAccuracy, ReplayState

_INGESTED = """
    SELECT recording, min(first_received_at) AS first_at, max(last_completed_at) AS last_at,
        list_sort(list(DISTINCT node_id)) AS node_ids,
        count(DISTINCT (node_id, source_file)) AS files, sum(bytes_read)::BIGINT AS bytes,
        sum(lines_read)::BIGINT AS lines, sum(requests)::BIGINT AS requests,
        sum(rejected)::BIGINT AS rejected
    FROM ingested_files GROUP BY recording"""
#: Of requests that only brokers and controllers send: their client's version is Kafka's.
_VERSIONS = """
    SELECT recording, list_sort(list(DISTINCT software_version)) FROM requests
    WHERE software_version IS NOT NULL AND api_name IN
        ('BROKER_HEARTBEAT', 'BROKER_REGISTRATION', 'ALTER_PARTITION', 'FETCH_SNAPSHOT')
    GROUP BY recording"""
#: Steps that judge predictions by a recording begin so.
_JUDGED_BY = "accuracy/"


class Ingested(NamedTuple):
    """Holds what was read of a recording's logs, and their span; bytes are uncompressed."""

    first_at: datetime | None = None
    last_at: datetime | None = None
    node_ids: Sequence[int] = ()
    files: int = 0
    bytes: int = 0
    lines: int = 0
    requests: int = 0
    rejected: int = 0

    @property
    def rejected_share(self) -> float:
        return self.rejected / self.lines if self.lines else 0.0


class StoredRecording(NamedTuple):
    name: str
    logs: Ingested
    kafka_versions: tuple[str, ...]
    rules: tuple[str, ...]
    sizes: Mapping[str, Size]

    @property
    def size(self) -> Size:
        return total(self.sizes.values())


def ingested_recordings(warehouse: Warehouse) -> list[str]:
    return sorted(sizes(warehouse, IngestedFiles))


def stored_recordings(warehouse: Warehouse, rules: Sequence[str] = ()) -> list[StoredRecording]:
    """The recordings with rows in any table, by name; which of the rules they were replayed by."""
    by_table = {n: sizes(warehouse, t) for n, t in TABLES.items() if t is not Lineage}
    names = sorted({name for of_table in by_table.values() for name in of_table})
    ingested = ingested_logs(warehouse, names)
    versions = _kafka_versions(warehouse, names)
    lineage = warehouse.lineage(names)
    return [
        StoredRecording(
            name,
            logs,
            versions.get(name, ()),
            tuple(rule for rule in rules if (name, rule) in lineage),
            {
                table: table_sizes[name]
                for table, table_sizes in by_table.items()
                if name in table_sizes
            },
        )
        for name in names
        for logs in [ingested.get(name, Ingested())]
    ]


def ingested_logs(warehouse: Warehouse, names: Sequence[str]) -> dict[str, Ingested]:
    """Sums up by name what was read of recordings' logs."""
    with warehouse.database(names, [IngestedFiles]) as database:
        rows = fetched(database, _INGESTED)
    return {row.pop("recording"): Ingested(**row) for row in rows.to_pylist()}


def _kafka_versions(warehouse: Warehouse, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Reads the versions of brokers and controllers, which what they request names."""
    with warehouse.database(names, [Requests]) as database:
        return {name: tuple(versions) for name, versions in database.execute(_VERSIONS).fetchall()}


def delete_recording(
    warehouse: Warehouse, recording: str, steps: Mapping[str, Sequence[Table]]
) -> list[Table]:
    """Deletes a recording's rows by ``steps``, ingest first; the tables that had any.

    First go judgements, its own and those by it, then ``ingested_files``, which says that logs were
    read: killed at any point, another delete completes it, or an ingest that puts the recording
    back. Raises WriteConflictError where another job writes the same step.
    """
    had = [PredictionAccuracy] if _delete_judgements(warehouse, recording) else []
    return [*had, *_delete_rows(warehouse, recording, steps)]


def delete_derived(
    warehouse: Warehouse, recording: str, steps: Mapping[str, Sequence[Table]]
) -> None:
    """Deletes what ``steps`` have made of a recording, so that they make it again.

    Judgements stay until they are made again. Raises WriteConflictError.
    """
    for _, step in warehouse.lineage([recording]):
        if step.startswith(_JUDGED_BY):
            warehouse.writing(step, [recording], [PredictionAccuracy]).begin()
    _delete_rows(warehouse, recording, steps)


def _delete_rows(
    warehouse: Warehouse, recording: str, steps: Mapping[str, Sequence[Table]]
) -> list[Table]:
    had: list[Table] = []
    for step, tables in steps.items():
        there = [t for t in tables if warehouse.files(t, [recording])]
        if not there and (recording, step) not in warehouse.lineage([recording]):
            continue
        writing = warehouse.writing(step, [recording], there)
        writing.begin()
        for table in sorted(there, key=lambda table: table is not IngestedFiles):
            if table is ReplayState:
                writing.replace_states()
            else:
                writing.replace(table, ())
        had += there
    return list(dict.fromkeys(had))


def _delete_judgements(warehouse: Warehouse, recording: str) -> bool:
    rows = warehouse.rows(PredictionAccuracy, sizes(warehouse, PredictionAccuracy))
    pairs = {tuple(p.values()) for p in rows.select(["recording", "recorded_in"]).to_pylist()}
    begun = warehouse.lineage(sizes(warehouse, Lineage))
    pairs |= {(n, step[len(_JUDGED_BY) :]) for n, step in begun if step.startswith(_JUDGED_BY)}
    pairs = {pair for pair in pairs if recording in pair}
    for other in sorted({other for _, other in pairs}):
        names = sorted(name for name, by in pairs if by == other)
        writing = warehouse.writing(f"{_JUDGED_BY}{other}", names, [PredictionAccuracy])
        writing.begin()
        nothing = rows.schema.empty_table()
        writing.replace_rows(PredictionAccuracy, nothing, {"recorded_in": [other]})
    return bool(pairs)
