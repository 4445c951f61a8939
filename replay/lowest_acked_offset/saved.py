"""A replay as bytes: MessagePack of plain values, with columns as bytes and lines as Arrow IPC."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from kip_replay.replay.lowest_acked_offset.events import INPUT_SCHEMA
from kip_replay.replay.lowest_acked_offset.lines import Pending
from kip_replay.replay.lowest_acked_offset.runs import Events
from kip_replay.replay.lowest_acked_offset.state import State
from kip_replay.replay.lowest_acked_offset.timelines import Longs

#: Of what is saved; another one is refused.
VERSION = 1


class Settings(NamedTuple):
    """What a replay was started with: what it saved makes sense with no other."""

    voters: tuple[int, ...]
    intervals_ms: tuple[int, ...]
    recorded_interval_ms: int | None
    counts_stopping: bool
    session_timeout_ms: int
    step_rows: int


class _Saved(NamedTuple):
    settings: Settings
    state: State
    finest_events: list[bytes]
    lines: bytes
    turns: int


def encode(settings: Settings, state: State, finest_events: Events, pending: Pending) -> bytes:
    """All that a replay carries."""
    columns = [column.tobytes() for column in finest_events]
    saved = _Saved(settings, state, columns, _lines(pending.table()), pending.turns)
    return msgspec.msgpack.encode((VERSION, saved), enc_hook=_plain)


def decode(saved: bytes, settings: Settings) -> tuple[State, Events, Pending]:
    """What ``encode`` made; ``ValueError`` for another version, other settings or other bytes."""
    try:
        version, raw = msgspec.msgpack.decode(saved, type=tuple[int, msgspec.Raw])
        if version != VERSION:
            raise ValueError(
                f"the saved state of lowest_acked_offset has version {version}, and this code reads"
                f" version {VERSION}: replay the recording from its beginning"
            )
        found = msgspec.msgpack.decode(raw, type=_Saved, dec_hook=_columns)
    except msgspec.DecodeError as error:
        raise ValueError(f"this is no saved state of lowest_acked_offset: {error}") from error
    if found.settings != settings:
        raise ValueError(
            f"the state of lowest_acked_offset was saved with {found.settings}, not {settings}:"
            " replay the recording from its beginning"
        )
    types = [np.bool_ if name.startswith(("is_", "want_")) else np.int64 for name in Events._fields]
    events = Events(
        *(
            np.frombuffer(column, type_)
            for column, type_ in zip(found.finest_events, types, strict=True)
        )
    )
    with pa.ipc.open_stream(found.lines) as reader:
        return found.state, events, Pending(reader.read_all(), found.turns)


def _lines(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, INPUT_SCHEMA, options=options) as writer:
        writer.write_table(table.combine_chunks())
    whole: bytes = sink.getvalue().to_pybytes()
    return whole


def _plain(value: Any) -> bytes:
    if isinstance(value, array):
        return value.tobytes()
    raise TypeError(f"{type(value)} is not to be saved")


def _columns(type_: type, value: Any) -> Any:
    if type_ is Longs:
        return Longs(value)
    raise TypeError(f"{type_} is not to be saved")
