"""Finds a recording's log files by the manifest's file names, globs, folders and archives.

Rotated siblings of a name are read where it is a glob or a folder. A manifest may come from anyone,
so it names files of its own folder only, unless the user says otherwise. What is no regular file is
never opened: a FIFO has no end, and reading a device or ``/proc`` can do more than read.
"""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatch
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.log_bytes import WITHIN, is_compressed, members, unpacked_size
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.storage import Place, joined, name_within, place_of
from kip_replay.pipelines.warehouse.data_files import moment
from kip_replay.replay.kafka.request_log.layouts import WHOLE_LINES, Framing, NodeBy

#: Files looked at by as many threads: a store takes its time for each.
_AT_ONCE = 32
#: What the kernel makes up as it is read, also where it looks like a regular file.
_OF_THE_KERNEL = (Path("/proc"), Path("/sys"))
#: What a folder stands for: Kafka's own name first, else whatever looks like a log.
_FOLDER_GLOBS = ("kafka-request.log*", "*.log*")


@dataclass(frozen=True)
class LogFile:
    """A log file of a node. ``source_file`` is its name within its recording.

    ``selection``: which of its lines are read: all, or those of a node or a time. ``listed``: of a
    store, what its listing has of the file.
    """

    recording: str
    node_id: int
    timezone: str
    source_file: str
    path: str
    clock_offset_ms: int = 0
    selection: Framing = WHOLE_LINES
    listed: "OnDisk | None" = field(default=None, compare=False)

    @property
    def part(self) -> bytes:
        """Names the part of a file that is read; empty where all is read."""
        return repr(self.selection).encode() if self.selection.is_part else b""


def find_log_files(*recordings: Recording) -> list[LogFile]:
    """Returns all files, by node and name. Raises UserError where one is missing or shared."""
    files = [f for recording in recordings for n in recording.nodes for f in files_of(n, recording)]
    for text in shared(files):
        raise UserError(text)
    return files


def shared(files: Iterable[LogFile]) -> Iterator[str]:
    """Yields a sentence for each file that is given to two nodes."""
    owners: dict[tuple[str, str], int] = {}
    for file in files:
        owner = owners.setdefault((file.recording, file.path), file.node_id)
        if owner != file.node_id and file.selection.node_by is None:
            yield (
                f"{file.source_file} of recording {file.recording!r} is given as the log of node "
                f"{owner} and of node {file.node_id}: correct the manifest's 'log' or --node, or, "
                "if it holds the lines of both, say with 'node_by' what tells them apart"
            )


def files_of(node: Node, recording: Recording) -> list[LogFile]:
    """Returns the files of one node, by name. Raises UserError where it has none."""
    files: dict[tuple[str, str], Place] = {}
    base = recording.path if recording.path is not None else Path.cwd()
    who = f"node {node.node_id} of recording {recording.name!r}"
    for log in node.log:
        matches = _allowed_matches(node, base, log, who)
        archive, _, pattern = log.partition(WITHIN)
        names = [_name_within(path, base, archive) for path in matches]
        look = partial(in_archive, pattern=pattern, who=who)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for path, inside in zip(matches, pool.map(look, matches, names), strict=True):
                files.update(dict.fromkeys(inside.items(), path))
    ahead_ms = node.clock_offset_ms
    since, until = (_stamp(at, node) for at in (recording.since, recording.until))
    part = Framing(node_by=_node_by(node, recording), since=since, until=until)
    return [
        LogFile(recording.name, node.node_id, node.timezone, name, path, ahead_ms, part, listed)
        for (path, name), place in sorted(files.items(), key=lambda item: item[0][1])
        for listed in [None if isinstance(place, Path) else _on_disk(place)]
    ]


def _allowed_matches(node: Node, base: Place, log: str, who: str) -> list[Place]:
    """Returns the files that a name matches. Raises UserError for none, or one not to be read."""
    root, named = base.resolve(), joined(base, log)
    if not node.is_anywhere and name_within(_absolute(named), _absolute(base)) is None:
        # Before a folder elsewhere is listed.
        _require_within(root, named.resolve(), f"{who} has a log {log!r}")
    try:
        matches = list(_matches(base, log))
    except (OSError, ValueError) as error:  # no rights, too long a name, no pattern
        raise UserError(
            f"the log {log!r} of {who} cannot be read ({error}): correct its rights or its name"
        ) from None
    if not matches:
        is_special = not has_magic(log) and named.exists()
        why = "this is no regular file" if is_special else "nothing there"
        raise UserError(
            f"{who} has no log: {why} matches {log!r}, correct its 'log' in the manifest or "
            f"pass --node {node.node_id}=PATH"
        )
    for path in matches:
        if not node.is_anywhere:
            _require_within(root, path.resolve(), f"{who} has a log {str(path)!r}")
        _require_readable(path.resolve(), who)
    return matches


def in_archive(path: Place, name: str, pattern: str, who: str) -> dict[str, str]:
    """A file's path and name; of an archive those of its files, which ``pattern`` may choose."""
    place = path.resolve()
    try:
        inside = members(place)
    except OSError as error:
        raise UserError(f"the log {name!r} of {who} cannot be read ({error})") from None
    if inside is None:
        return {str(place): name}
    for glob in [pattern] if pattern else [*_FOLDER_GLOBS, "*"]:
        chosen = [m for m in inside if fnmatch(m, glob) or fnmatch(m, f"*/{glob}")]
        if chosen:
            return {f"{place}{WITHIN}{m}": f"{name}{WITHIN}{m}" for m in chosen}
    raise UserError(f"{who} has no log: nothing in {name} matches {pattern!r}, correct its 'log'")


def _node_by(node: Node, recording: Recording) -> NodeBy | None:
    if node.node_by is None:
        return None
    labels = {n.node_id: n.node_by[1] for n in recording.nodes if n.node_by and n.log == node.log}
    others = sorted({label for node_id, label in labels.items() if node_id != node.node_id})
    return NodeBy(*node.node_by, tuple(others), counts_rest=node.node_id == min(labels))


def _stamp(at: datetime | None, node: Node) -> bytes | None:
    """Returns a time as the node's clock stamps it."""
    if at is None:
        return None
    local = at.astimezone(ZoneInfo(node.timezone)) - timedelta(milliseconds=node.clock_offset_ms)
    return f"{local:%Y-%m-%d %H:%M:%S},{local.microsecond // 1000:03d}".encode()


def _require_within(root: Place, place: Place, subject: str) -> None:
    if name_within(place, root) is None:
        raise UserError(
            f"{subject}, which leads out of the recording's folder to {place}: move the log there, "
            "name it with --node ID=PATH, or add --allow-outside if this manifest is yours"
        )


def _require_readable(place: Place, who: str) -> None:
    if not isinstance(place, Path):
        return  # a store says so when it is read
    if any(place.is_relative_to(folder) for folder in _OF_THE_KERNEL):
        wrong = "is no file of a disk"
    elif any("\ud800" <= c <= "\udfff" for c in str(place)):
        wrong = "has a name that is no UTF-8"
    elif not os.access(place, os.R_OK):
        wrong = "may not be read by this user"
    else:
        return
    raise UserError(f"the log {str(place)!r} of {who} {wrong}: name another, or correct it")


def _absolute(path: Place) -> Place:
    """Returns a path without ``..``, its links as they are."""
    return Path(os.path.normpath(path.absolute())) if isinstance(path, Path) else path.resolve()


def _matches(base: Place, log: str) -> Iterator[Place]:
    """Yields files for a name, a glob or a folder, relative to ``base`` or absolute."""
    path = joined(base, log.partition(WITHIN)[0])
    if path.is_file():
        yield path
    elif path.is_dir():
        for pattern in _FOLDER_GLOBS:
            in_folder = _globbed(path, pattern)
            if in_folder:
                yield from in_folder
                return
    elif has_magic(log):
        root = base if path.is_relative_to(base) else place_of(path.anchor)
        yield from _globbed(root, name_within(path, root) or log)


def _globbed(folder: Place, pattern: str) -> list[Place]:
    return sorted(
        path for path in folder.glob(pattern) if path.is_file() and not path.name.startswith(".")
    )


def _name_within(path: Place, base: Place, log: str) -> str:
    """Names a file from the recording's folder, or from the one that ``log`` names outside it."""
    if (name := name_within(path, base)) is not None:
        return name
    folder = joined(base, log)
    if not folder.is_dir():
        folder = folder.parent
        while has_magic(folder.name):
            folder = folder.parent
    return name_within(path, folder) or path.name


class OnDisk(NamedTuple):
    bytes: int
    modified_at: datetime


def on_disk(file: LogFile) -> OnDisk:
    """The file as it is now. Raises UserError where it cannot be found."""
    if file.listed is not None:
        return file.listed
    with readable(file):
        return _on_disk(place_of(file.path.partition(WITHIN)[0]))


def _on_disk(place: Place) -> OnDisk:
    stat = place.stat()
    return OnDisk(stat.st_size, moment(stat.st_mtime_ns // 1000))


def log_bytes_of(files: Iterable[LogFile]) -> int:
    """Returns how many bytes files have uncompressed, about."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return sum(pool.map(_log_bytes, files))


def _log_bytes(file: LogFile) -> int:
    size = on_disk(file).bytes
    with readable(file):
        return unpacked_size(file.path) if size and is_compressed(file.path) else size


@contextmanager
def readable(file: LogFile) -> Iterator[None]:
    """Raises UserError where the system does not let the file be read."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{file.source_file} of recording {file.recording!r} cannot be read "
            f"({error.strerror or error}): correct its rights or its name"
        ) from None
