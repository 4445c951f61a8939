"""Keeps states and sums of a log that grows from run to run, so that a run adds only what is new.

They are rows of ``replay_state``: what a rule carries, by replay key, and tables of sums, each an
Arrow stream. Of the sums of heartbeats follows the steady phase of a recording.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self, TypeAlias

import pyarrow as pa

from kip_replay.pipelines.engines import NO_INPUTS, Engine, TableSlice, tables_of
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.warehouse.commits import of_epochs_after
from kip_replay.pipelines.warehouse.data_files import TableFiles
from kip_replay.pipelines.warehouse.steps import Covered
from kip_replay.pipelines.warehouse.tables import sql_text
from kip_replay.replay.records import SteadyPhase
from kip_replay.replay.table import LONG, TEXT, Table
from kip_replay.replay.tables import ReplayState

#: By recording; one without requests has none.
Phases: TypeAlias = Mapping[str, SteadyPhase]

_STEADY_PHASES, _LOG_SPANS, HEARTBEATS = (
    Path(__file__).with_name(f"{name}.sql")
    for name in ("steady_phases", "log_spans", "heartbeat_sums")
)
STEADY_PHASES = Text.read(_STEADY_PHASES, {"heartbeat_sums": HEARTBEATS})
#: How columns of sums add up; all others are their key.
_HOW = {"pairs": "sum", "created_us": "min", "stated_us": "min"}


class Kept(NamedTuple):
    """Tables of sums by name, and what they cover."""

    covered: Covered
    sums: Mapping[str, pa.Table]

    @classmethod
    def read(cls, engine: Engine, recording: str, step: str, names: Collection[str]) -> Self | None:
        """Returns what a step keeps of a recording, of its sums those of some names; None: no
        states."""
        query = f"SELECT * FROM replay_state WHERE rule = {sql_text(step)}"
        rows = engine.rows(Text(query), [recording]).to_pylist()
        covered = Covered.stated(rows[0]["fingerprint"]) if rows else None
        if covered is None:
            return None
        sums = {row["state_key"]: row["state"] for row in rows if row["state_key"] in names}
        return cls(covered, {name: unpacked(state) for name, state in sums.items()})


def write_states(
    files: TableFiles, recording: str, step: str, covered: Covered, states: Mapping[str, bytes]
) -> None:
    """Writes a recording's rows of ``replay_state``, given states by key."""
    same = {"rule": step, "as_of": covered.until_us, "fingerprint": str(covered)}
    rows = [{**same, "state_key": key, "state": state} for key, state in states.items()]
    schema = ReplayState.without("recording")
    files.write(ReplayState, pa.RecordBatch.from_pylist(rows, schema), recording)


# --- sums -----------------------------------------------------------------------------------------


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
    """Adds tables of sums up."""
    rows = pa.concat_tables(tables)
    how = {name: _HOW[name] for name in rows.column_names if name in _HOW}
    key = [name for name in rows.column_names if name not in how]
    sums = rows.group_by(key).aggregate([*how.items()])
    return sums.rename_columns([*key, *how]).select(rows.column_names).cast(rows.schema)


def summed(engine: Engine, text: Text, recording: str, name: str, kept: Kept | None) -> pa.Table:
    """Sums up a text on all ingests, given the sums that are kept under a name."""
    before = [kept.sums[name]] if kept and name in kept.sums else []
    # Of no ingest: also files that maintenance has put together are new then.
    epoch = kept.covered.ingest_epoch if kept and before else -1
    tables = tables_of(text, NO_INPUTS)
    inputs = {table.name: new_files(engine, table, recording, epoch) for table in tables}
    return added([*before, engine.rows(text, [recording], inputs)])


def new_files(engine: Engine, table: Table, recording: str, epoch: int) -> TableSlice:
    """Returns the files of a table that ingests after an epoch have written."""
    return TableSlice(table, of_epochs_after(engine.warehouse.files(table, [recording]), epoch))


def steady_phases(engine: Engine, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    return _spans(engine, STEADY_PHASES, recordings)


def log_spans(engine: Engine, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    """From the first to the last request of each recording, as if all of it were steady."""
    return _spans(engine, Text.read(_LOG_SPANS), recordings)


def _spans(engine: Engine, text: Text, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    rows = engine.rows(text, recordings).sort_by("recording").to_pylist()
    return {row["recording"]: SteadyPhase(row["from_us"], row["until_us"]) for row in rows}


def phases_table(phases: Phases) -> pa.Table:
    rows = [{"recording": name, **phase._asdict()} for name, phase in sorted(phases.items())]
    schema = pa.schema({"recording": TEXT, "from_us": LONG, "until_us": LONG})
    return pa.Table.from_pylist(rows, schema)
