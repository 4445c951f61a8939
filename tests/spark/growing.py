"""Real recordings that arrive piece by piece."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from recorded_logs import folder_of

from kip_replay.pipelines.ingest.recording import Recording, load_recording

_STAMP_BYTES = len("[2026-11-20 20:40:39,900]")


class ArrivingLogs:
    """A recording whose logs reach a folder in rotated files, one a node and piece.

    ``cuts``: shares of the recording's time at which a file ends and the next begins.
    """

    def __init__(self, recording: str, folder: Path, cuts: Sequence[float]) -> None:
        self.folder = folder / recording
        self.folder.mkdir()
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
            node["log"] = f"node-{node['node_id']}.log.*"

    def arrive(self, number: int) -> Recording:
        """Puts the files of a piece into the folder; the recording as it is then."""
        for node, log in self.pieces[number].items():
            (self.folder / f"node-{node}.log.{number}").write_bytes(log)
        (self.folder / "recording.json").write_text(json.dumps(self._manifest))
        return load_recording(self.folder)


def _lines(log: Path) -> list[bytes]:
    content = log.read_bytes()
    return (gzip.decompress(content) if log.suffix == ".gz" else content).splitlines(keepends=True)


def _stamp(line: bytes) -> bytes:
    return line[:_STAMP_BYTES]


def _piece(stamp: bytes, bounds: Sequence[bytes]) -> int:
    return sum(stamp > bound for bound in bounds)
