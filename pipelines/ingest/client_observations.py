"""What clients of a recorded cluster saw, where a recording has it: the truth beside its logs.

A recording's folder may hold ``client_ops.jsonl``: one operation a line, with the seconds since the
epoch at which a client requested it, had its response, and at which clients of each broker first
saw it (``visible``, by broker id). Predictions are judged by it; no replay reads it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import CLIENT_OBSERVATIONS
from kip_replay.replay.request_log import Anonymous, Pseudonyms

CLIENT_OPS = "client_ops.jsonl"
STEP = "client_observations"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ingest_client_observations(
    recordings: Sequence[Recording],
    warehouse: Warehouse,
    pseudonyms: Pseudonyms | None = None,
) -> None:
    """Writes client_observations of the recordings that have them; again only if they changed.

    To be called after ``ingest``, which sees to it that ``pseudonyms`` are the warehouse's.
    """
    lineage = warehouse.lineage([recording.name for recording in recordings])
    for recording in recordings:
        file = recording.path / CLIENT_OPS if recording.path else None
        if file is None or not file.is_file():
            continue
        digest = pseudonyms.content_digest() if pseudonyms else hashlib.blake2b(digest_size=16)
        digest.update(file.read_bytes())
        follows_from = digest.hexdigest()
        if lineage.get((recording.name, STEP)) == follows_from:
            continue
        rows = _observations(file, recording.name, pseudonyms)
        writing = warehouse.writing(STEP, [recording.name], [CLIENT_OBSERVATIONS])
        files = writing.files()
        files.write(CLIENT_OBSERVATIONS, rows)
        writing.begin()
        writing.replace(CLIENT_OBSERVATIONS, files.closed())
        writing.end({recording.name: follows_from})


def _observations(file: Path, recording: str, pseudonyms: Pseudonyms | None) -> pa.RecordBatch:
    """Rows of client_observations, by key: one per operation and broker at which it was seen."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in _rows(file, recording):
        found.setdefault(tuple(row[name] for name in CLIENT_OBSERVATIONS.key), row)
    rows = pa.RecordBatch.from_pylist([*found.values()], schema=CLIENT_OBSERVATIONS.arrow_schema)
    if pseudonyms is None:
        return rows
    anonymous = Anonymous(pseudonyms)
    for name in ("operation", "topic"):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.field(place), anonymous.texts(rows.column(place), name))
    return rows


def _rows(file: Path, recording: str) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                observed = json.loads(line)
                row = {
                    "recording": recording,
                    "operation": str(observed["op"]),
                    "topic": str(observed["topic"]),
                    "requested_at": _at(observed["requested_at"]),
                    "responded_at": _at(observed.get("responded_at")),
                }
                seen = {int(broker): _at(at) for broker, at in (observed["visible"] or {}).items()}
            except (ValueError, TypeError, KeyError, AttributeError):
                continue  # another kind of operation, or a line that was cut
            if row["requested_at"] is not None:
                for broker, at in seen.items():
                    yield row | {"broker_id": broker, "visible_at": at}


def _at(seconds: Any) -> datetime | None:
    if seconds is None:
        return None
    return _EPOCH + timedelta(microseconds=math.floor(seconds * 1_000_000 + 0.5))
