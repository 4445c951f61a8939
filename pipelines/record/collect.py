"""Commands whose standard output is a node's log, and what came of them.

Whatever ``--logs`` names, a command follows it: so rotation is followed, and what comes is counted,
in the same way. Commands end when their standard input does: also where this process is killed.
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
from kip_replay.pipelines.record.cluster import Node
from kip_replay.replay.kafka.request_log.layouts import Framing, LineReader
from kip_replay.replay.kafka.request_log.layouts.wrappers import marker_in

#: As Kafka names it.
LOG_NAME, _ERRORS = "kafka-request.log", "collect.stderr"
_KUBECTL = re.compile(r"kubectl:(?:([\w.-]+)/)?([\w.-]+)(?::([\w.-]+))?")
_SSH = re.compile(r"ssh:([^:/]+):(/.+)")
#: Reads a little and says so, then follows. All of the process group ends with the standard input.
_READS = "it reads\n"
_FOLLOW = (
    "({} >/dev/null && echo it reads >&2 && {}; echo it ended early >&2) & cat >/dev/null; kill 0"
)
_END_S_MAX = 5
#: In this much of a log there is a request, if it has any.
_HEAD_BYTES = 1 << 20
#: Lines are read soon after they were stamped, where clocks are set.
_QUARTER, _LATE_MAX = timedelta(minutes=15), timedelta(minutes=5)


def source_of(node: Node, given: Sequence[str]) -> str | None:
    """Finds a node's log by ``--logs``; ``ID=SOURCE`` wins. Raises UserError."""
    of_one = f"{node.node_id}="
    own = [text.removeprefix(of_one) for text in given if text.startswith(of_one)]
    texts = own or [text for text in given if not re.match(r"\d+=", text)]
    try:
        role = node.role.replace(",", "-")
        return texts[-1].format(id=node.node_id, host=node.host, role=role) if texts else None
    except (LookupError, ValueError):
        raise UserError(
            f"--logs {texts[-1]}: in braces there may be {{id}}, {{host}} and {{role}}"
        ) from None


def command_of(source: str) -> list[str]:
    """The command that follows a log until its standard input ends. Raises UserError."""
    if source.startswith("kubectl:"):
        if (match := _KUBECTL.fullmatch(source)) is None:
            raise UserError(f"--logs {source}: write kubectl:[NAMESPACE/]POD[:CONTAINER]")
        options = zip(("--namespace", "--container"), match.group(1, 3), strict=True)
        words = [f"{name}={value}" for name, value in options if value]
        logs, pod = "kubectl logs", shlex.join([*words, match[2]])
        script = _FOLLOW.format(f"{logs} --tail=1 {pod}", f"{logs} --follow --since=1s {pod}")
        return ["sh", "-c", script]
    host, path = None, source
    if source.startswith("ssh:"):
        if (match := _SSH.fullmatch(source)) is None:
            raise UserError(f"--logs {source}: write ssh:[USER@]HOST:/PATH")
        host, path = match.groups()
    elif re.match(r"[a-z]+:", source):
        raise UserError(f"--logs {source}: write /PATH, ssh:[USER@]HOST:/PATH, or kubectl:POD")
    elif Path(path).is_dir():
        path = f"{path}/"
    path = f"{path}{LOG_NAME}" if path.endswith("/") else path
    path = shlex.quote(path)
    script = _FOLLOW.format(f"head -c 1 -- {path}", f"tail -n 0 -F -- {path}")
    if host is not None:
        remote = shlex.join(["sh", "-c", script])
        script = shlex.join(["exec", "ssh", "-o", "BatchMode=yes", "--", host, remote])
    return ["sh", "-c", script]


@dataclass
class Stream:
    """A command that runs, and what came of it so far."""

    node: Node
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
                command_of(self.source),
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
        """Returns the last line that the command wrote to standard error."""
        text = (self.folder / _ERRORS).read_text(errors="replace")
        return "; ".join(text.replace(_READS, "").splitlines()[-2:])

    @property
    def is_reading(self) -> bool | None:
        """Returns whether the log can be read, empty or not; None while that is not known."""
        has_ended = self._process is not None and self._process.poll() is not None
        if has_ended or "ended early" in self.last_line:
            return False
        return _READS in (self.folder / _ERRORS).read_text(errors="replace") or None

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
