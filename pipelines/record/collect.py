"""Commands whose standard output is a node's log, and what came of them.

A file is followed by a command too, so that all is counted in the same way. Commands end with this
process, also where it is killed.
"""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.record.cluster import ClusterNode
from kip_replay.replay.kafka.request_log.layouts import Framing, LineReader
from kip_replay.replay.kafka.request_log.layouts.wrappers import marker_in

#: As Kafka names it.
LOG_NAME, _ERRORS = "kafka-request.log", "collect.stderr"
_ENDED = "it ended early, with status"
#: Runs a command until it ends or the standard input does, which ends all of the process group.
_RUN = f'(sh -c "$1"; echo "{_ENDED} $?" >&2) & cat >/dev/null; kill 0'
#: Of names and addresses; a cluster states them, and a shell reads them.
_HOST = re.compile(r"\w[\w.:%-]*")
_END_S_MAX = 5
#: In this much of a log there is a request, if it has any.
_HEAD_BYTES = 1 << 20
#: Lines are read soon after they were stamped, where clocks are set.
_QUARTER, _LATE_MAX = timedelta(minutes=15), timedelta(minutes=5)


def source_of(node: ClusterNode, logs: Sequence[str]) -> str | None:
    """Finds a node's log by ``--logs``; ``ID=SOURCE`` wins. Raises UserError."""
    of_one = f"{node.node_id}="
    own = [text.removeprefix(of_one) for text in logs if text.startswith(of_one)]
    texts = own or [text for text in logs if not re.match(r"\d+=", text)]
    if not texts:
        return None
    if "{host}" in texts[-1] and not _HOST.fullmatch(node.host):
        raise UserError(f"{node} calls its host {node.host!r}: name its log by {of_one}SOURCE")
    names = {"{id}": str(node.node_id), "{host}": node.host, "{role}": node.role.replace(",", "-")}
    return re.sub(r"\{(id|host|role)\}", lambda match: names[match[0]], texts[-1])


def command_of(source: str) -> str:
    """Returns the shell command whose output is the log; without a blank, ``source`` is a path."""
    if " " in source:
        return source
    path = shlex.quote(f"{source}/{LOG_NAME}" if Path(source).is_dir() else source)
    return f"head -c 1 -- {path} >/dev/null && exec tail -n 0 -F -- {path}"


@dataclass
class LogStream:
    """A command that runs, and what came of it so far."""

    node: ClusterNode
    source: str
    folder: Path
    bytes_read: int = 0
    lines_read: int = 0
    has_requests: bool = False
    zone: str | None = None
    _process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        self.folder.mkdir(parents=True)
        with (
            (self.folder / LOG_NAME).open("wb") as log,
            (self.folder / _ERRORS).open("wb") as errors,
        ):
            # In a session of its own, so that Ctrl-C ends this process and not the command.
            self._process = subprocess.Popen(
                ["sh", "-c", _RUN, "sh", command_of(self.source)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=errors,
                start_new_session=True,
            )

    def look(self) -> None:
        """Counts what has come since the last look."""
        with (self.folder / LOG_NAME).open("rb") as log:
            log.seek(self.bytes_read)
            while chunk := log.read(_HEAD_BYTES):
                if self.zone is None and self.bytes_read < _HEAD_BYTES:
                    self.zone = zone_of(chunk, datetime.now(UTC))
                self.has_requests = self.has_requests or marker_in(chunk)
                self.bytes_read += len(chunk)
                self.lines_read += chunk.count(b"\n")

    @property
    def last_line(self) -> str:
        """Returns what the command wrote to standard error last, and with which status it ended."""
        text = (self.folder / _ERRORS).read_text(errors="replace")
        return "; ".join(text.splitlines()[-2:])

    @property
    def has_ended(self) -> bool:
        """Returns whether the command ended by itself, which it should not."""
        return _ENDED in self.last_line

    def stop(self) -> None:
        """Ends the command, once, and counts what is left of it."""
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S_MAX)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.look()


def zone_of(head: bytes, read_at: datetime) -> str | None:
    """A zone in which the first request was stamped just before it was read, if there is one.

    Only its offset shows, so of the zones with it a fixed one is taken.
    """
    requests = LineReader("UTC", Framing().of_head(head)).read(head.splitlines(), 1).requests()
    if not requests:
        return None
    stamp = f"{requests[0][1:24].decode()}+0000"
    ahead = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f%z") - read_at
    offset = round(ahead / _QUARTER) * _QUARTER
    names = sorted(available_timezones(), key=lambda name: (not name.startswith("Etc/"), name))
    if abs(ahead - offset) <= _LATE_MAX:
        for name in ["UTC", *names]:
            if read_at.astimezone(ZoneInfo(name)).utcoffset() == offset:
                return name
    return None
