"""Commands whose standard output is a node's log, and what runs them.

A source is where a node's log is, as ``--logs`` names it. Whatever it is, a command follows it: so
rotation is followed, and what comes is counted, in the same way. Commands end with this process,
also where it is killed: what they write to is closed, and what they read from.
"""

import os
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.record.cluster import Node

#: As Kafka names it.
LOG_NAME = "kafka-request.log"
_OF_ONE = re.compile(r"(?P<node_id>\d+)=(?P<source>.+)")
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_KUBECTL = re.compile(
    r"kubectl:(?:(?P<namespace>[\w.-]+)/)?(?P<pod>[\w.-]+)(?::(?P<container>[\w.-]+))?"
)
_SSH = re.compile(r"ssh:(?P<host>[^:/]+):(?P<path>/.+)")
#: Follows a file by its name until standard input ends.
_FOLLOW = "tail -n 0 -F -- {path} & cat > /dev/null; kill $!"
_CHECK = "test ! -e {path} || test -r {path}"
_CHECK_S_MAX, _END_S_MAX = 30, 5
_READ_BYTES, _HEAD_BYTES = 1 << 20, 1 << 20


@dataclass(frozen=True)
class Source:
    """The commands that follow a node's log, and that find out whether it can be read."""

    text: str
    follow: tuple[str, ...]
    check: tuple[str, ...]


def source_of(node: Node, given: Sequence[str]) -> Source | None:
    """Where ``--logs`` says that a node's log is; ``ID=SOURCE`` wins. Raises UserError."""
    of_all = of_one = ""
    for text in given:
        match = _OF_ONE.fullmatch(text)
        if match is None:
            of_all = text
        elif int(match["node_id"]) == node.node_id:
            of_one = match["source"]
    text = of_one or of_all
    return _source(_filled(text, node)) if text else None


def folder_of(node: Node) -> str:
    """The folder of a node's log in a recording."""
    return f"{node.role.replace(',', '-')}-{node.node_id}"


def _filled(text: str, node: Node) -> str:
    known = {"id": str(node.node_id), "host": node.host, "role": node.role.replace(",", "-")}

    def value(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise UserError(f"--logs {text}: {match[0]} is none of {{id}}, {{host}} and {{role}}")
        return known[match[1]]

    return _PLACEHOLDER.sub(value, text)


def _source(text: str) -> Source:
    if text.startswith("kubectl:"):
        if (match := _KUBECTL.fullmatch(text)) is None:
            raise UserError(f"--logs {text}: write kubectl:[NAMESPACE/]POD[:CONTAINER]")
        logs = ["kubectl", "logs", match["pod"]]
        logs += [f"--namespace={match['namespace']}"] if match["namespace"] else []
        logs += [f"--container={match['container']}"] if match["container"] else []
        return Source(text, (*logs, "--follow", "--since=1s"), (*logs, "--tail=1"))
    if text.startswith("ssh:"):
        if (match := _SSH.fullmatch(text)) is None:
            raise UserError(f"--logs {text}: write ssh:[USER@]HOST:/PATH")
        remote = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", match["host"])
        path = shlex.quote(_log_in(match["path"]))
        follow, check = (shlex.quote(each.format(path=path)) for each in (_FOLLOW, _CHECK))
        return Source(text, (*remote, f"sh -c {follow}"), (*remote, f"sh -c {check}"))
    path = shlex.quote(os.path.abspath(_log_in(text)))  # noqa: PTH100 (does not follow links)
    return Source(
        text, ("sh", "-c", _FOLLOW.format(path=path)), ("sh", "-c", _CHECK.format(path=path))
    )


def _log_in(path: str) -> str:
    """The log's path where only its folder is named."""
    is_folder = path.endswith("/") or Path(path).is_dir()
    return f"{path.rstrip('/')}/{LOG_NAME}" if is_folder else path


def require_readable(node: Node, source: Source) -> None:
    """Runs a source's check. Raises UserError with what it said."""
    what = f"the log of node {node.node_id} cannot be read from {source.text}"
    if shutil.which(source.check[0]) is None:
        raise UserError(f"{what}: there is no {source.check[0]} on this machine")
    try:
        done = subprocess.run(
            source.check,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CHECK_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{what}: no answer in {_CHECK_S_MAX} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or "permission denied"
        raise UserError(f"{what}: {said.splitlines()[-1]}")


@dataclass
class Stream:
    """A command that is running, and what came of it so far."""

    node: Node
    source: Source
    folder: Path
    bytes_read: int = 0
    lines_read: int = 0
    #: The first bytes, and when they came: in seconds since 1970.
    head: bytes = b""
    head_at: float = 0.0
    #: The command ended before it was stopped.
    has_ended_early: bool = False
    #: Why the log could not be written here.
    failure: OSError | None = None
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._errors.open("wb") as errors:
            # In a session of its own, so that Ctrl-C ends this process and not the command.
            self._process = subprocess.Popen(
                self.source.follow,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    @property
    def said(self) -> str:
        """The last line that the command wrote to standard error."""
        with suppress(OSError):
            lines = self._errors.read_text(errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def stop(self) -> None:
        """Ends the command, and writes what is still to come of it."""
        process = self._process
        if process is None or process.stdin is None:
            return
        self.has_ended_early = process.poll() is not None
        with suppress(OSError):
            process.stdin.close()
        if self.source.follow[0] == "kubectl":  # does not read it
            process.terminate()
        try:
            process.wait(_END_S_MAX)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
        if self._thread is not None:
            self._thread.join(_END_S_MAX)
        if not self.said:
            self._errors.unlink(missing_ok=True)

    @property
    def _errors(self) -> Path:
        return self.folder / "collect.stderr"

    def _copy(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            with (
                self._process.stdout as stream,
                (self.folder / LOG_NAME).open("ab", buffering=0) as log,
            ):
                while chunk := os.read(stream.fileno(), _READ_BYTES):
                    self.head_at = self.head_at or time.time()
                    if len(self.head) < _HEAD_BYTES:
                        self.head += chunk
                    log.write(chunk)
                    self.bytes_read += len(chunk)
                    self.lines_read += chunk.count(b"\n")
        except OSError as error:
            self.failure = error
