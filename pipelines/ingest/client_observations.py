"""Reads what clients and brokers of a recorded cluster saw: truth beside the logs.

A recording's folder may hold ``client_ops.jsonl``: one operation a line, with the seconds since the
epoch at which a client requested it, had its response, and at which clients of each broker first
saw it (``visible``, by broker id). It may hold ``applied-<broker id>.txt``: in each line a metadata
offset, and the microseconds since the epoch at which the broker's publishers had run on it.
``lowest-acked-<controller id>.txt`` has a line for each heartbeat that the controller worked off:
the broker, its offset, the lowest of all that count (2^63-1: none does), and when it computed it.
Predictions are judged by all; no replay reads them.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.storage import Place, name_within
from kip_replay.pipelines.warehouse.data_files import moment
from kip_replay.pipelines.warehouse.steps import Covered, Step
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.kafka.request_log import Anonymous, Pseudonyms
from kip_replay.replay.log_tables import (
    APPLIED_OBSERVATIONS,
    CLIENT_OBSERVATIONS,
    LOWEST_ACKED_OBSERVATIONS,
    OBSERVATIONS,
)
from kip_replay.replay.table import Table

CLIENT_OPS = "client_ops.jsonl"
NOTES = re.compile(r"(applied|lowest-acked)-(\d{1,9})\.txt")
STEP = Step(name="client_observations", reads=(), writes=OBSERVATIONS, modules=(__name__,))


def ingest_client_observations(
    recordings: Sequence[Recording], warehouse: Warehouse, pseudonyms: Pseudonyms | None = None
) -> None:
    """Writes the tables of the recordings that have some of it; again only if that changed."""
    for recording in recordings:
        found = _files(recording)
        if not found:
            continue
        digest = pseudonyms.content_digest() if pseudonyms else hashlib.blake2b(digest_size=16)
        for file in found:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
        wanted = {recording.name: Covered(identity=STEP.code(), inputs=digest.hexdigest())}
        if not STEP.due(warehouse, wanted):
            continue
        clients = _rows_of(CLIENT_OBSERVATIONS, _seen, found, recording.name)
        applied = _rows_of(APPLIED_OBSERVATIONS, _applied, found, recording.name)
        lowest = _rows_of(LOWEST_ACKED_OBSERVATIONS, _lowest_acked, found, recording.name)
        rows = {
            CLIENT_OBSERVATIONS: _hidden(clients, pseudonyms),
            APPLIED_OBSERVATIONS: applied,
            LOWEST_ACKED_OBSERVATIONS: lowest,
        }
        warehouse.replace(STEP.name, {name: str(of) for name, of in wanted.items()}, rows)


def _files(recording: Recording) -> list[Place]:
    """Files of the recording's folder; where links may lead out of it, so may these."""
    folder = recording.path
    if folder is None:
        return []
    wanted = (f for f in folder.iterdir() if f.name == CLIENT_OPS or NOTES.fullmatch(f.name))
    is_anywhere = all(node.is_anywhere for node in recording.nodes)
    return sorted(
        file
        for file in wanted
        if file.is_file() and (is_anywhere or name_within(file.resolve(), folder.resolve()))
    )


def _rows_of(
    table: Table,
    read: Callable[[Place], Iterator[dict[str, Any]]],
    files: Iterable[Place],
    recording: str,
) -> pa.Table:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in (row for file in files for row in read(file)):
        whole = {"recording": recording, **row}
        found.setdefault(tuple(whole[name] for name in table.key), whole)
    return pa.Table.from_pylist([*found.values()], schema=table.arrow_schema)


def _hidden(rows: pa.Table, pseudonyms: Pseudonyms | None) -> pa.Table:
    if pseudonyms is None:
        return rows
    anonymous = Anonymous(pseudonyms)
    for name in ("operation", "topic"):
        place = rows.schema.get_field_index(name)
        texts = rows.column(place).combine_chunks()
        rows = rows.set_column(place, rows.field(place), anonymous.texts(texts, name))
    return rows


class _Operation(msgspec.Struct):
    """A line of ``CLIENT_OPS``, as far as it is read."""

    op: str
    topic: str
    requested_at: float
    visible: dict[Annotated[int, msgspec.Meta(ge=0, lt=2**31)], float | None] | None
    responded_at: float | None = None


def _seen(file: Place) -> Iterator[dict[str, Any]]:
    """Yields rows of client_observations: one per operation and broker that showed it."""
    if file.name != CLIENT_OPS:
        return
    for line in file.read_bytes().splitlines():
        try:
            of = msgspec.json.decode(line, type=_Operation)
            at = {"requested_at": _at(of.requested_at), "responded_at": _at(of.responded_at)}
            seen = {broker: _at(seconds) for broker, seconds in (of.visible or {}).items()}
        except (ValueError, ArithmeticError, msgspec.MsgspecError):
            continue  # another kind of operation, or a line that was cut
        for broker, visible_at in seen.items():
            named = {"operation": of.op, "topic": of.topic, "broker_id": broker}
            yield {**named, **at, "visible_at": visible_at}


def _applied(file: Place) -> Iterator[dict[str, Any]]:
    for broker, (offset, at) in _noted(file, "applied", r"^(\d{1,18}) (\d{16})$"):
        yield {"broker_id": broker, "metadata_offset": offset, "applied_at": moment(at)}


def _lowest_acked(file: Place) -> Iterator[dict[str, Any]]:
    line = r"^(\d{1,9}) (-?\d{1,18}) (-?\d{1,19}) (\d{16})$"
    for controller, (broker, offset, lowest, at) in _noted(file, "lowest-acked", line):
        of = {"controller_id": controller, "noted_at": moment(at), "broker_id": broker}
        lowest_offset = lowest if lowest < 2**63 - 1 else None
        yield {**of, "metadata_offset": offset, "lowest_active_offset": lowest_offset}


def _noted(file: Place, what: str, line: str) -> Iterator[tuple[int, list[int]]]:
    """The node that noted something, and the numbers of each line that was not cut."""
    name = NOTES.fullmatch(file.name)
    if name is not None and name[1] == what:
        text = file.read_bytes().decode(errors="replace")
        for numbers in re.findall(line, text, re.MULTILINE):
            yield int(name[2]), [*map(int, numbers)]


def _at(seconds: Any) -> datetime | None:
    if seconds is None:
        return None
    return moment(math.floor(seconds * 1_000_000 + 0.5))
