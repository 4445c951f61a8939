"""Sums of a log that grows: kept from run to run, so that a run adds only those of new lines.

They are in ``replay_state`` beside the states of rules, each table of sums as an Arrow stream.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import pyarrow as pa

from kip_replay.pipelines.engines import NO_INPUTS, Engine, Inputs, TableSlice, tables_of
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.states import FollowsFrom, checksum, saved_by
from kip_replay.pipelines.warehouse.commits import of_epochs_after
from kip_replay.pipelines.warehouse.data_files import TableFiles
from kip_replay.pipelines.warehouse.tables import sql_text
from kip_replay.replay.table import Table
from kip_replay.replay.tables import REPLAY_STATE

#: The step that keeps what orders of events and heartbeats show.
CLOCKS = "clocks"
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
    def of(
        cls,
        engine: Engine,
        recording: str,
        step: str,
        names: Collection[str],
        inputs: Inputs = NO_INPUTS,
    ) -> Self | None:
        """Returns what a step keeps of a recording; None where its states are not as saved."""
        query = f"SELECT * FROM replay_state WHERE rule = {sql_text(step)}"
        rows = engine.rows(Text(query), [recording], inputs).to_pylist()
        saved, states = saved_by(rows, step), {row["state_key"]: row["state"] for row in rows}
        return saved and cls(saved, {n: unpacked(states[n]) for n in names if n in states})


def kept_of_clocks(engine: Engine, recording: str) -> Kept | None:
    return Kept.of(engine, recording, CLOCKS, ("pairs", "heartbeats"))


def write_states(
    files: TableFiles,
    recording: str,
    step: str,
    fingerprint: str,
    as_of: int,
    states: Mapping[str, bytes],
) -> None:
    """Writes a recording's rows of ``replay_state``, given states by key."""
    rows = []
    for key, state in states.items():
        row = {"rule": step, "state_key": key, "fingerprint": fingerprint, "state": state}
        rows.append(row | {"as_of": as_of, "checksum": checksum(row)})
    schema = REPLAY_STATE.without("recording")
    files.write(REPLAY_STATE, pa.RecordBatch.from_pylist(rows, schema), recording)


def packed(sums: Mapping[str, pa.Table]) -> dict[str, bytes]:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    states = {}
    for name, table in sums.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
            stream.write_table(table)
        states[name] = bytes(sink.getvalue())
    return states


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
    """Sums up all heartbeats of a recording, given what was kept of them."""
    return summed(engine, Text.read(HEARTBEATS), recording, "heartbeats", kept)


def summed(engine: Engine, text: Text, recording: str, name: str, kept: Kept | None) -> pa.Table:
    """The sums of a text on all ingests, given those that are kept under a name."""
    before = [kept.sums[name]] if kept and name in kept.sums else []
    # Of no ingest: also files that maintenance has put together are new then.
    epoch = kept.saved.ingest_epoch if kept and before else -1
    tables = tables_of(text, NO_INPUTS)
    inputs = {table.name: new_files(engine, table, recording, epoch) for table in tables}
    return added([*before, engine.rows(text, [recording], inputs)])


def new_files(engine: Engine, table: Table, recording: str, epoch: int) -> TableSlice:
    """The files of a table that ingests after an epoch have written."""
    return TableSlice(table, of_epochs_after(engine.warehouse.files(table, [recording]), epoch))
