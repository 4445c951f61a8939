"""Real recordings that arrive piece by piece, and what a warehouse then holds of them."""

import gzip
import json
import lzma
from collections.abc import Iterable, Sequence
from pathlib import Path

from small_logs import folder_of

from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.ingest.recording import Recording, load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.increments import Options
from kip_replay.pipelines.replaying.replay import replay
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.recordings import delete_derived
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table

_STAMP_BYTES = len("[2026-11-20 20:40:39,900]")
#: Longer than the longest request of the recordings (3.2 s).
LATE_AFTER_S = 4.0
#: The recordings are short.
EVIDENCE_S = 2.0
OPTIONS = {
    "hwm_parking": {"max_wait_ms": (250,)},
    "incremental_fetch": {"session_slots": (0, 8)},
    "min_isr_acks": {"min_insync_replicas": (1, 2)},
    "lowest_acked_offset": {"broker_heartbeat_interval_ms": (500,)},
}


class ArrivingLogs:
    """A recording whose logs grow: some files are appended to, the others rotated.

    ``cuts``: shares of the recording's time at which a piece ends and the next begins.
    """

    def __init__(self, recording: str, folder: Path, cuts: Sequence[float]) -> None:
        self.folder = folder / recording
        self.folder.mkdir(parents=True)
        source = folder_of(recording)
        self._manifest = json.loads((source / "recording.json").read_text())
        logs = {node["node_id"]: _lines(source / node["log"]) for node in self._manifest["nodes"]}
        stamps = sorted(_stamp(line) for lines in logs.values() for line in lines)
        bounds = [stamps[round(cut * (len(stamps) - 1))] for cut in cuts]
        self.pieces = [
            {
                node: b"".join(line for line in lines if _piece(_stamp(line), bounds) == number)
                for node, lines in logs.items()
            }
            for number in range(len(cuts) + 1)
        ]
        for node in self._manifest["nodes"]:
            node["log"] = f"node-{node['node_id']}.log*"

    def arrive(self, number: int) -> Recording:
        """The logs with all pieces until then; the recording as it is then."""
        for node in self.pieces[0]:
            log, pieces = self.folder / f"node-{node}.log", [p[node] for p in self.pieces]
            if node % 2:
                log.write_bytes(b"".join(pieces[: number + 1]))
                continue
            log.write_bytes(pieces[number])
            for older in range(number):
                log.with_suffix(f".log.{number - older}").write_bytes(pieces[older])
        (self.folder / "recording.json").write_text(json.dumps(self._manifest))
        return load_recording(self.folder)


def _lines(log: Path) -> list[bytes]:
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(log.suffix, bytes)
    return unpack(log.read_bytes()).splitlines(keepends=True)


def _stamp(line: bytes) -> bytes:
    return line[:_STAMP_BYTES]


def _piece(stamp: bytes, bounds: Sequence[bytes]) -> int:
    return sum(stamp > bound for bound in bounds)


def read_in(warehouse: Warehouse, *recordings: Recording) -> None:
    ingest(recordings, Local(warehouse), say=lambda line: None)


def replay_new(warehouse: Warehouse, recording: Recording, options: Options = OPTIONS) -> str:
    """Replays what is new; what was said."""
    said: list[str] = []
    how = (said.append, EVIDENCE_S, LATE_AFTER_S)
    replay([recording], Local(warehouse), RULES, options, *how)
    return "\n".join(said)


def close(warehouse: Warehouse, recording: Recording, options: Options = OPTIONS) -> None:
    replay([recording], Local(warehouse), RULES, options, lambda line: None, EVIDENCE_S)


def close_anew(warehouse: Warehouse, recording: Recording) -> None:
    """As ``--rebuild`` does."""
    steps = {rule.name: rule.step.writes for rule in RULES}
    delete_derived(warehouse, recording.name, steps)
    close(warehouse, recording)


def rows_of(
    warehouse: Warehouse, tables: Iterable[Table], recording: Recording
) -> dict[str, list[str]]:
    """All rows of some tables, by name and in an order that says nothing."""
    rows = {table.name: warehouse.rows(table, [recording.name]).to_pylist() for table in tables}
    return {name: sorted(map(repr, of_table)) for name, of_table in rows.items()}
