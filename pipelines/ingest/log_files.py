"""Which log files a recording has: the manifest's file names, globs and folders, found.

A name in the manifest stands for itself: rotated siblings (``kafka-request.log.2026-11-20-20``) are
read where the manifest gives a glob (``kafka-request.log*``) or a folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.recording import Node, Recording

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GLOB_CHARACTERS = frozenset("*?[")
#: What a folder stands for: Kafka's own name first, else whatever looks like a log.
_FOLDER_GLOBS = ("kafka-request.log*", "*.log*")


@dataclass(frozen=True)
class LogFile:
    """A log file of a node. ``source_file`` is its name within its recording."""

    recording: str
    node_id: int
    timezone: str
    source_file: str
    path: str
    clock_offset_ms: int = 0


def find_log_files(recording: Recording) -> list[LogFile]:
    """The recording's files, by node and name.

    Raises UserError where a node has no file or where two nodes claim one.
    """
    files = [file for node in recording.nodes for file in _files_of(node, recording)]
    owners: dict[str, int] = {}
    for file in files:
        owner = owners.setdefault(file.path, file.node_id)
        if owner != file.node_id:
            raise UserError(
                f"{file.source_file} of recording {recording.name!r} is given as the log of node "
                f"{owner} and of node {file.node_id}: a request log is one node's, correct the "
                "manifest's 'log' or --node"
            )
    return files


def _files_of(node: Node, recording: Recording) -> list[LogFile]:
    found: dict[str, str] = {}
    for log in node.log:
        base = recording.path if recording.path is not None else Path.cwd()
        matches = list(_matches(base, log))
        if not matches:
            raise UserError(
                f"node {node.node_id} of recording {recording.name!r} has no log: nothing there "
                f"matches {log!r}, correct its 'log' in the manifest or pass --node "
                f"{node.node_id}=PATH"
            )
        for path in matches:
            found[str(path.resolve())] = _name_within(path, base, log)
    return [
        LogFile(
            recording.name, node.node_id, node.timezone, source_file, path, node.clock_offset_ms
        )
        for path, source_file in sorted(found.items(), key=lambda item: item[1])
    ]


def _matches(base: Path, log: str) -> Iterator[Path]:
    """Files for a name, a glob or a folder, relative to ``base`` or absolute."""
    path = base / log
    if path.is_file():
        yield path
    elif path.is_dir():
        for pattern in _FOLDER_GLOBS:
            in_folder = _globbed(path, pattern)
            if in_folder:
                yield from in_folder
                return
    elif _is_glob(log):
        absolute = Path(log).is_absolute()
        root = Path(path.anchor) if absolute else base
        yield from _globbed(root, str(path.relative_to(root)) if absolute else log)


def _globbed(folder: Path, pattern: str) -> list[Path]:
    return sorted(
        path for path in folder.glob(pattern) if path.is_file() and not path.name.startswith(".")
    )


def _is_glob(text: str) -> bool:
    return not _GLOB_CHARACTERS.isdisjoint(text)


def _name_within(path: Path, base: Path, log: str) -> str:
    """Relative to the recording's folder, or to the folder that ``log`` names outside of it."""
    if path.is_relative_to(base):
        return path.relative_to(base).as_posix()
    folder = base / log
    if not folder.is_dir():
        fixed = [part for part in Path(log).parts[:-1] if not _is_glob(part)]
        folder = base.joinpath(*fixed) if fixed else base
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.name


class OnDisk(NamedTuple):
    """A file's size, compressed where it is, and when it was last modified (UTC)."""

    bytes: int
    modified_at: datetime


def on_disk(file: LogFile) -> OnDisk:
    """The file as it is now. Raises UserError where it cannot be found."""
    try:
        found = Path(file.path).stat()
    except OSError as error:
        raise UserError(
            f"{file.source_file} of recording {file.recording!r} cannot be read "
            f"({error.strerror or error}): correct its rights or its name"
        ) from None
    return OnDisk(found.st_size, _EPOCH + timedelta(microseconds=found.st_mtime_ns // 1000))
