"""Truth beside the logs of this project's own recordings, into tables that judgements read.

    PYTHONPATH=tests python -m truth WAREHOUSE RECORDING...

Before the recordings are run. ``client_ops.jsonl``: operations with seconds since 1970, and when
clients first saw a topic at each broker. ``applied-<broker>.txt``: offsets, and when the broker's
publishers had run on them. ``lowest-acked-<controller>.txt``: heartbeats, and the lowest offset of
all that count when it handled them (2^63-1: none does). No replay reads any.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from kip_replay.pipelines.ingest.recording import load_recordings
from kip_replay.pipelines.warehouse.data_files import moment
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import (
    APPLIED_OBSERVATIONS,
    CLIENT_OBSERVATIONS,
    LOWEST_ACKED_OBSERVATIONS,
)

Row = Mapping[str, Any]


def load(warehouse: Warehouse, *folders: Path) -> None:
    """Writes what there is beside these recordings."""
    for recording in load_recordings(folders):
        folder = Path(str(recording.path))
        rows = {
            CLIENT_OBSERVATIONS: _seen(folder),
            APPLIED_OBSERVATIONS: _applied(folder),
            LOWEST_ACKED_OBSERVATIONS: _lowest_acked(folder),
        }
        made: dict[Any, pa.Table] = {}
        for table, of_table in rows.items():
            first = {}
            for row in of_table:
                whole = {"recording": recording.name, **row}
                first.setdefault(tuple(whole[name] for name in table.key), whole)
            made[table] = pa.Table.from_pylist([*first.values()], table.arrow_schema)
        if any(map(len, made.values())):
            warehouse.replace("truth", {recording.name: "truth"}, made)


def _seen(folder: Path) -> Iterator[Row]:
    for file in folder.glob("client_ops.jsonl"):
        for operation in map(json.loads, file.read_text().splitlines()):
            times = {name: _at(operation.get(name)) for name in ("requested_at", "responded_at")}
            for broker, seconds in (operation.get("visible") or {}).items():
                named = {"operation": operation["op"], "topic": operation["topic"]}
                yield {**named, "broker_id": int(broker), **times, "visible_at": _at(seconds)}


def _applied(folder: Path) -> Iterator[Row]:
    for broker, (offset, us) in _noted(folder, "applied", 2):
        yield {"broker_id": broker, "metadata_offset": offset, "applied_at": moment(us)}


def _lowest_acked(folder: Path) -> Iterator[Row]:
    for controller, (broker, offset, lowest, us) in _noted(folder, "lowest-acked", 4):
        row = {"controller_id": controller, "noted_at": moment(us), "broker_id": broker}
        active = lowest if lowest < 2**63 - 1 else None
        yield {**row, "metadata_offset": offset, "lowest_active_offset": active}


def _noted(folder: Path, what: str, numbers: int) -> Iterator[tuple[int, list[int]]]:
    """Yields the node and the numbers of each line; a node that is killed cuts its last one."""
    for file in folder.glob(f"{what}-*.txt"):
        for line in file.read_text().splitlines(keepends=True):
            noted = [*map(int, line.split())]
            if line.endswith("\n") and len(noted) == numbers:
                yield int(file.stem.rpartition("-")[2]), noted


def _at(seconds: float | None) -> Any:
    return None if seconds is None else moment(int(seconds * 1_000_000 + 0.5))


if __name__ == "__main__":
    load(Warehouse(sys.argv[1]), *map(Path, sys.argv[2:]))
