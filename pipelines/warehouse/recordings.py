"""The recordings that a warehouse holds: what is known of them, and how one is deleted.

What is known is read by delta-rs from the Delta log (names, sizes, spans: partition values and
statistics), from ``ingested_files``, and of ``requests`` from the last lines of each recording. So
listing needs no Spark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import NamedTuple, TypeAlias

import deltalake
import pyarrow.dataset as ds

from kip_replay.pipelines.warehouse.commit_history import Scope, commits, current_marks
from kip_replay.pipelines.warehouse.maintenance import Size, live_files, sizes, total
from kip_replay.pipelines.warehouse.tables import WRITERS, Warehouse
from kip_replay.replay.schema import INGESTED_FILES, PREDICTION_ACCURACY, REQUESTS, TABLES, Table

#: Requests that only brokers and controllers send: their client's version is Kafka's.
_OF_BROKERS = ("BROKER_HEARTBEAT", "BROKER_REGISTRATION", "ALTER_PARTITION", "FETCH_SNAPSHOT")
#: Brokers say themselves every 2 s; controllers of a quiet log are looked for this far back.
_LOOKED_BACK = timedelta(minutes=10)


_Span: TypeAlias = tuple[datetime | None, datetime | None]
_NO_SPAN: _Span = (None, None)


class Ingested(NamedTuple):
    """What was read of a recording's logs; bytes are uncompressed."""

    node_ids: tuple[int, ...] = ()
    files: int = 0
    bytes: int = 0
    lines: int = 0
    requests: int = 0
    rejected: int = 0

    @property
    def rejected_share(self) -> float:
        """Rejected lines of all lines."""
        return self.rejected / self.lines if self.lines else 0.0


class StoredRecording(NamedTuple):
    """What a warehouse knows of a recording; ``sizes`` by table, those it has rows in."""

    name: str
    first_at: datetime | None
    last_at: datetime | None
    logs: Ingested
    kafka_versions: tuple[str, ...]
    rules: tuple[str, ...]
    sizes: Mapping[str, Size]

    @property
    def size(self) -> Size:
        """All its tables together."""
        return total(self.sizes.values())


def stored_recordings(
    warehouse_path: str, outcomes: Mapping[str, Sequence[Table]]
) -> list[StoredRecording]:
    """The recordings with rows in any table, by name.

    ``outcomes``: the tables of each rule; a rule counts as replayed where all of them say so.
    """
    by_table = {name: sizes(warehouse_path, table) for name, table in TABLES.items()}
    names = sorted({name for of_table in by_table.values() for name in of_table})
    ingested = _ingested(warehouse_path)
    spans = _spans(warehouse_path)
    versions = _kafka_versions(warehouse_path, {name: span[1] for name, span in spans.items()})
    replayed = _replayed(warehouse_path, outcomes)
    return [
        StoredRecording(
            name,
            *spans.get(name, _NO_SPAN),
            ingested.get(name, Ingested()),
            versions.get(name, ()),
            tuple(rule for rule in outcomes if (name, rule) in replayed),
            {table: of[name] for table, of in by_table.items() if name in of},
        )
        for name in names
    ]


def _ingested(warehouse_path: str) -> dict[str, Ingested]:
    """What ``ingested_files`` says, by recording: it has a few rows per log file."""
    dataset = _dataset(warehouse_path, INGESTED_FILES)
    if dataset is None:
        return {}
    counts = ["bytes_read", "lines_read", "requests", "rejected"]
    summed: dict[str, Counter[str]] = defaultdict(Counter)
    files: dict[str, set[tuple[int, str]]] = defaultdict(set)
    columns = ["recording", "node_id", "source_file", *counts]
    for row in dataset.to_table(columns=columns).to_pylist():
        summed[row["recording"]].update({name: row[name] or 0 for name in counts})
        files[row["recording"]].add((row["node_id"], row["source_file"]))
    return {
        name: Ingested(
            tuple(sorted({node_id for node_id, _ in files[name]})),
            len(files[name]),
            *(of[count] for count in counts),
        )
        for name, of in summed.items()
    }


def _spans(warehouse_path: str) -> dict[str, _Span]:
    """First arrival and last answer of each recording, from statistics: to the millisecond."""
    spans: dict[str, _Span] = {}
    for file in live_files(warehouse_path, REQUESTS):
        first, last = file.get("min.received_at"), file.get("max.completed_at")
        if first is None or last is None:
            continue
        name = file["partition.recording"]
        known_first, known_last = spans.get(name, _NO_SPAN)
        spans[name] = (min(first, known_first or first), max(last, known_last or last))
    return spans


def _kafka_versions(
    warehouse_path: str, last_at: Mapping[str, datetime | None]
) -> dict[str, tuple[str, ...]]:
    """What brokers called themselves in the last minutes of each recording."""
    dataset = _dataset(warehouse_path, REQUESTS)
    if dataset is None:
        return {}
    of_brokers = ds.field("api_name").isin(_OF_BROKERS)
    told = ds.field("software_version").is_valid()
    found = {}
    for name, last in last_at.items():
        if last is None:
            continue
        recent = (ds.field("recording") == name) & (ds.field("completed_at") > last - _LOOKED_BACK)
        rows = dataset.to_table(columns=["software_version"], filter=recent & of_brokers & told)
        found[name] = tuple(sorted(rows["software_version"].unique().to_pylist()))
    return found


def _replayed(warehouse_path: str, outcomes: Mapping[str, Sequence[Table]]) -> set[tuple[str, str]]:
    """Recordings and rules of which every outcome table has a current fingerprint."""
    said = {
        table.name: [mark.scope for mark in current_marks(commits(uri)) if mark.fingerprint]
        for tables in outcomes.values()
        for table in tables
        if deltalake.DeltaTable.is_deltatable(uri := f"{warehouse_path}/{table.name}")
    }
    found = set()
    for rule, tables in outcomes.items():
        per_table = [
            {scope["recording"] for scope in said.get(table.name, []) if scope.get("rule") == rule}
            for table in tables
        ]
        found |= {(str(name), rule) for name in set.intersection(*per_table)}
    return found


def _dataset(warehouse_path: str, table: Table) -> ds.Dataset | None:
    uri = f"{warehouse_path}/{table.name}"
    if not deltalake.DeltaTable.is_deltatable(uri):
        return None
    return deltalake.DeltaTable(uri).to_pyarrow_dataset()


def _scopes(table: Table, recording: str) -> list[Scope]:
    """Where a recording's rows are in a table: also predictions that are held against it."""
    scopes: list[Scope] = [{"recording": recording}]
    if table is PREDICTION_ACCURACY:
        scopes.append({"recorded_in": recording})
    return scopes


def _has_rows(warehouse_path: str, table: Table, scopes: Iterable[Scope]) -> bool:
    dataset = _dataset(warehouse_path, table)
    wanted = [ds.field(name) == value for scope in scopes for name, value in scope.items()]
    return dataset is not None and dataset.count_rows(filter=reduce(or_, wanted)) > 0


def delete_recording(warehouse: Warehouse, recording: str) -> list[Table]:
    """Deletes a recording's rows, each table in one transaction; says from which tables.

    First ``ingested_files`` forgets that its logs were read: killed at any point, another delete
    completes it, and so does an ingest that puts the recording back. Raises WriteConflictError
    where an ingest is running.
    """

    def delete(table: Table) -> bool:
        scopes = _scopes(table, recording)
        if not _has_rows(warehouse.path, table, scopes):
            return False
        warehouse.delete(table, scopes)
        return True

    with warehouse.exclusively("ingest"):
        tables = [INGESTED_FILES, *(t for t in TABLES.values() if t is not INGESTED_FILES)]
        done = [delete(INGESTED_FILES)]
        with ThreadPoolExecutor(WRITERS) as pool:
            done += pool.map(delete, tables[1:])
        return [table for table, was in zip(tables, done, strict=True) if was]
