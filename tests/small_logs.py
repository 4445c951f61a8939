"""Where recordings are; and some made of the small logs in tests/data/ingest, each with a flaw."""

import gzip
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from kip_replay.pipelines.ingest.recording import Recording, load_recording

REPOSITORY = Path(__file__).resolve().parents[1]
PLACES = (REPOSITORY / "data" / "samples", REPOSITORY / "tests" / "recordings")


def folder_of(recording: str) -> Path:
    """The folder of a recording, whichever of the two places it is in."""
    return next(place / recording for place in PLACES if (place / recording).is_dir())


DATA = Path(__file__).resolve().parent / "data" / "ingest"
CONTROLLER = (DATA / "controller-2.log").read_bytes()
BROKER = (DATA / "broker-11.log").read_bytes()


def lines_of(log: bytes) -> list[bytes]:
    """Lines with their LF."""
    return log.splitlines(keepends=True)


def write_recording(
    folder: Path,
    files: Mapping[str, bytes],
    logs: Mapping[int, str | list[str]],
    timezone: str = "UTC",
    **entries: object,
) -> Recording:
    """Writes files and manifest into ``folder``, whose name is the recording's; loads it.

    A file whose name ends in .gz is compressed here unless it is already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        compress = name.endswith(".gz") and content[:2] != b"\x1f\x8b"
        (folder / name).write_bytes(gzip.compress(content, mtime=0) if compress else content)
    manifest = {
        "name": folder.name,
        "kafka_version": "4.0.0",
        "timezone": timezone,
        "voters": [2],
        "nodes": [
            {"node_id": node_id, "role": "controller" if node_id < 10 else "broker", "log": log}
            for node_id, log in logs.items()
        ],
        **entries,
    }
    (folder / "recording.json").write_text(json.dumps(manifest))
    return load_recording(folder)


def plain(folder: Path) -> Recording:
    """Both logs as they are: what the others are compared with."""
    files = {"controller-2.log": CONTROLLER, "broker-11.log": BROKER}
    return write_recording(folder, files, {2: "controller-2.log", 11: "broker-11.log"})


def stamped(*stamps: str) -> bytes:
    """A log of one API_VERSIONS line again and again, with these stamps."""
    line = next(line for line in lines_of(CONTROLLER) if b"API_VERSIONS" in line)
    return b"".join(b"[" + stamp.encode() + line[24:] for stamp in stamps)


def moved(line: bytes, seconds: float) -> bytes:
    """A line with another stamp."""
    at = datetime.strptime(line[1:24].decode(), "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007
    return f"[{at + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S,%f}"[:-3].encode() + line[24:]
