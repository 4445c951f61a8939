"""Sums of a log that grows: kept from run to run, so that a run adds only those of new lines.

They stand in ``replay_state`` beside the states of rules, each table of sums as an Arrow stream.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa

from kip_replay.pipelines.engines import NO_INPUTS, Engine, TableSlice, tables_of
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.states import FollowsFrom, checksum, saved_by
from kip_replay.pipelines.warehouse.commits import of_epochs_after
from kip_replay.pipelines.warehouse.tables import sql_text
from kip_replay.replay.table import Table

#: The step that keeps what orders of events and heartbeats show.
CLOCKS = "clocks"
#: Of no ingest: also files that maintenance has put together are new then.
NOTHING = (-1, None)
HEARTBEATS = Path(__file__).with_name("heartbeat_sums.sql")
#: How columns of sums add up; all others are their key.
_HOW = {
    **dict.fromkeys(("pairs", "responded"), "sum"),
    **dict.fromkeys(("first_us", "unfenced_us", "shut_down_us"), "min"),
    **dict.fromkeys(("created_us", "stated_us"), "min"),
}


class Kept(NamedTuple):
    """Tables of sums by name, and what they follow from."""

    saved: FollowsFrom
    sums: Mapping[str, pa.Table]

    @classmethod
    def of(cls, engine: Engine, recording: str, step: str) -> Self | None:
        """What a step has kept of a recording; None where it is not as it was kept."""
        query = f"SELECT * FROM replay_state WHERE rule = {sql_text(step)}"
        rows = engine.rows(Text(query), [recording]).to_pylist()
        saved = saved_by(rows, step)
        return saved and cls(saved, {row["state_key"]: unpacked(row["state"]) for row in rows})


def state_row(fingerprint: str, rule: str, key: str, as_of: int, state: bytes) -> dict[str, Any]:
    """A row of ``replay_state``, without its recording."""
    row = {
        "rule": rule,
        "state_key": key,
        "as_of": as_of,
        "state": state,
        "fingerprint": fingerprint,
    }
    return row | {"checksum": checksum(row)}


def packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def unpacked(state: bytes) -> pa.Table:
    return pa.ipc.open_stream(state).read_all()


def added(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of sums as one."""
    rows = pa.concat_tables(tables)
    how = {name: _HOW[name] for name in rows.column_names if name in _HOW}
    key = [name for name in rows.column_names if name not in how]
    sums = rows.group_by(key).aggregate([*how.items()])
    return sums.rename_columns([*key, *how]).select(rows.column_names).cast(rows.schema)


def heartbeats_of(engine: Engine, recording: str, kept: Kept | None) -> pa.Table:
    """What all heartbeats of a recording show, given what was kept of them."""
    since = (kept.saved.ingest_epoch, kept.sums["heartbeats"]) if kept else NOTHING
    return summed(engine, Text.read(HEARTBEATS), recording, *since)


def summed(
    engine: Engine, text: Text, recording: str, epoch: int, kept: pa.Table | None
) -> pa.Table:
    """The sums of a text on all ingests, given those until an epoch."""
    inputs = {
        table.name: new_files(engine, table, recording, epoch)
        for table in tables_of(text, NO_INPUTS)
    }
    new = engine.rows(text, [recording], inputs)
    return added([new] if kept is None else [kept, new])


def new_files(engine: Engine, table: Table, recording: str, epoch: int) -> TableSlice:
    """The files of a table that ingests after an epoch have written."""
    return TableSlice(table, of_epochs_after(engine.warehouse.files(table, [recording]), epoch))
