"""A recording: what it will do, switching on, watching, and switching off however it ends.

A node's log is the standard output of a command. A file is followed by a command too, so that all
is counted in the same way. Commands end with this process, also where it is killed.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.draft import manifest_text
from kip_replay.pipelines.ingest.manifest import MANIFEST
from kip_replay.pipelines.record.cluster import (
    BROKER_CONFIGS,
    LOGGER,
    ON,
    Cluster,
    ClusterNode,
    Polls,
    UnreachableError,
)
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
#: As Kafka ships it.
OFF = "WARN"
#: Lines are on their way for so long after they were written.
_IN_FLIGHT_S = 2.0
#: A command that can't read its log ends by then, most often.
_START_S = 3.0
#: Over this many seconds a rate counts as sustained; a node that is polled has logged a request.
_RATE_S = 10
_FREE_MB_MIN = 500
_UNDO_TRIES, _UNDO_WAIT_S = 3, 2.0


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


@dataclass
class RecordingSession:
    """One recording. ``undo`` is the command that switches all nodes off.

    ``mb_per_second_max``: the limit of a node's rate, in 10^6 bytes.
    """

    cluster: Cluster
    folder: Path
    logs: Sequence[str]
    seconds: float
    mb_per_second_max: float
    undo: str
    say: Callable[..., None]
    #: Why it ends before its time; the first reason stays.
    stopped: str = ""
    #: The level of each node's request logger as it was found.
    levels: dict[ClusterNode, str] = field(default_factory=dict)
    streams: list[LogStream] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)
    _began: float = 0.0

    def stop(self, reason: str) -> None:
        """Ends it soon; handlers of signals call this."""
        self.stopped = self.stopped or reason
        self._is_over.set()

    def prepare(self) -> None:
        """Connects, and says what will be done; changes nothing. Raises UserError."""
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise UserError(f"--output {self.folder} is not an empty folder: name a new one")
        self.levels, unreachable = levels_of(self.cluster)
        self.say("to switch off again, whatever becomes of this:", f"  {self.undo}")
        self.say(*(f"not recorded: {sentence}" for sentence in unreachable))
        for node, level in self.levels.items():
            source = source_of(node, self.logs)
            self.say(
                f"{node}: {level}{'' if level in ON else ' -> DEBUG'}, {source or 'no --logs'}"
            )
            if source:
                self.streams.append(LogStream(node, source, self.folder / _folder_of(node)))
        if not any("controller" in node.role for node in self.levels):
            self.say(
                "without --bootstrap-controller no controller's log is switched on: nothing can be "
                "stated about the metadata log"
            )

    def record(self) -> bool:
        """Records until its time is over or it is stopped; returns whether all is off again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._began = time.time()
        collected = {stream.node for stream in self.streams}
        polls = Polls(self.cluster, sorted(self.levels, key=lambda node: node not in collected))
        changed: dict[ClusterNode, str] = {}
        self.collect()
        try:
            for node, level in self.levels.items():
                if level not in ON and not self._is_over.is_set():
                    changed[node] = level  # before: a response that is lost may be a success
                    self.cluster.set_level(node, "DEBUG")
            self._write_manifest(polls)
            polls.start()
            self._watch(polls)
            if not self.stopped:  # while requests are still logged
                polls.stop()
        finally:
            failures = set_levels(self.cluster, changed, self.undo)
            self.say(*failures)
            polls.stop()
            time.sleep(_IN_FLIGHT_S)
            for stream in self.streams:
                stream.stop()
            self._write_manifest(polls)
        self._summarize(polls)
        return not failures

    # --- while it records

    def collect(self) -> None:
        """Starts the streams. Raises UserError, and leaves nothing, if one ends at once."""
        for stream in self.streams:
            stream.start()
        until = time.monotonic() + _START_S
        while self.streams and time.monotonic() < until and not self._is_over.wait(0.1):
            for stream in self.streams:
                if stream.has_ended:
                    why = stream.last_line
                    self.discard()
                    raise UserError(f"the log of {stream.node} cannot be read: {why}")

    def discard(self) -> None:
        """Ends the streams, and deletes what came of them."""
        for stream in self.streams:
            stream.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _watch(self, polls: Polls) -> None:
        """Looks each second at limits, and at rates, over as many seconds as make one sustained."""
        begin = time.monotonic()
        read = dict.fromkeys(range(len(self.streams)), (0, 0))
        looks = 0
        while (left_s := begin + self.seconds - time.monotonic()) > 0:
            if self._is_over.wait(min(left_s, 1)):
                return
            looks += 1
            for stream in self.streams:
                stream.look()
            free_mb = shutil.disk_usage(self.folder).free / 1e6
            if free_mb < _FREE_MB_MIN:
                self.stop(f"the disk of {self.folder} has only {free_mb:,.0f} MB left")
            if looks % _RATE_S == 0:
                self._look_at_rates(read, time.monotonic() - begin)
                self._write_manifest(polls)

    def _look_at_rates(self, read: dict[int, tuple[int, int]], passed_s: float) -> None:
        """Prints rates, and stops where one is above its limit.

        ``read``: lines and bytes of each stream at the last look, which become those at this one.
        """
        lines, rates = 0.0, []
        for at, stream in enumerate(self.streams):
            mb = (stream.bytes_read - read[at][1]) / _RATE_S / 1e6
            lines += (stream.lines_read - read[at][0]) / _RATE_S
            read[at] = (stream.lines_read, stream.bytes_read)
            rates.append(f"{stream.node.node_id}: {mb:,.2f}")
            if not stream.has_requests:
                raise UserError(
                    f"no request came from {stream.source} in {_RATE_S} s, though {stream.node} "
                    f"was polled{stream.last_line and f' ({stream.last_line})'}: does {LOGGER} "
                    "write to it?"
                )
            if mb > self.mb_per_second_max:
                limit = f"--mb-per-second-max {self.mb_per_second_max:g}"
                self.stop(f"{stream.node} wrote {mb:,.1f} MB/s over {_RATE_S} s, above {limit}")
        what = f"{lines:,.0f} lines/s; MB/s of each node: {', '.join(rates)}" if rates else ""
        print(f"{passed_s:.0f} of {self.seconds:.0f} s {what}", file=sys.stderr, flush=True)

    # --- what it leaves

    def _write_manifest(self, polls: Polls) -> None:
        """Writes what is known, whole or not at all: a recording that was killed has one too."""
        zones = {stream.node: stream.zone for stream in self.streams if stream.zone}
        most = max(zones.values(), key=[*zones.values()].count, default="UTC")
        nodes = [
            {
                "node_id": node.node_id,
                "role": node.role,
                "log": f"{_folder_of(node)}/{LOG_NAME}*",
                **({"timezone": zones[node]} if zones.get(node, most) != most else {}),
            }
            for node in self.levels
        ]
        manifest = {
            "name": self.folder.resolve().name,
            "timezone": most,
            **({"voters": polls.voters} if polls.voters else {}),
            **_settings([*polls.configs.values()]),
            "cluster_id": self.cluster.cluster_id,
            "recorded_at": datetime.fromtimestamp(self._began, UTC).isoformat(timespec="seconds"),
            "duration_s": round(time.time() - self._began),
            "nodes": nodes,
        }
        new = self.folder / f".{MANIFEST}"
        new.write_text(manifest_text(manifest), encoding="utf-8")
        new.replace(self.folder / MANIFEST)

    def _summarize(self, polls: Polls) -> None:
        if self.stopped:
            self.say(f"stopped: {self.stopped}")
        for stream in self.streams:
            read = f"{stream.lines_read:,} lines, {stream.bytes_read / 1e6:,.2f} MB"
            zone = f"stamps in {stream.zone or 'a zone that is not known: correct the manifest'}"
            self.say(f"{stream.node}: {read}, {zone}{stream.last_line and f'; {stream.last_line}'}")
        self.say(*polls.lost.values())
        if not polls.voters and not any("controller" in node.role for node in self.levels):
            self.say(f"DESCRIBE_QUORUM failed: add 'voters' to {self.folder / MANIFEST}")
        then = f"kip-replay run {self.folder}"
        if rest := self.levels.keys() - {stream.node for stream in self.streams}:
            span = self._began, time.time() + 1
            since, until = (f"{datetime.fromtimestamp(at, UTC):%FT%TZ}" for at in span)
            then += f" --from {since} --until {until}"
            self.say(f"collect {LOG_NAME}, here from a folder LOGS of each node:")
            for node in sorted(rest, key=lambda node: node.node_id):
                folder = self.folder / _folder_of(node)
                self.say(f"  mkdir {folder}; scp '{node.host}:LOGS/{LOG_NAME}*' {folder}/")
        self.say(f"recorded {time.time() - self._began:.0f} s; next: {then}")


def levels_of(cluster: Cluster) -> tuple[dict[ClusterNode, str], list[str]]:
    """Returns the level of each node that can be reached, and a sentence for each other."""
    levels, unreachable = {}, []
    for node in cluster.nodes():
        try:
            levels[node] = cluster.level(node)
        except UnreachableError as error:
            unreachable.append(f"{node}: {error}")
    if not any("broker" in node.role for node in levels):
        raise UserError(f"no broker can be reached: {'; '.join(unreachable)}")
    return levels, unreachable


def set_levels(cluster: Cluster, levels: Mapping[ClusterNode, str], undo: str) -> list[str]:
    """Sets levels, trying again: returns a sentence for each node whose level could not be set."""
    failures: dict[ClusterNode, str] = dict.fromkeys(levels, "")
    for attempt in range(_UNDO_TRIES):
        time.sleep(_UNDO_WAIT_S if attempt and failures else 0)
        for node in [*failures]:
            try:
                cluster.set_level(node, levels[node])
                del failures[node]
            except Exception as error:  # whatever it is, the other nodes are set
                failures[node] = str(error)
    return [
        f"{node} may still log requests ({why}): if it was not restarted, run {undo}"
        for node, why in failures.items()
    ]


def _settings(configs: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """Returns the configs that all brokers have alike, as a manifest names them."""
    alike = set.intersection(*(set(of_broker.items()) for of_broker in configs or [{}]))
    return {BROKER_CONFIGS[name]: int(value) for name, value in sorted(alike)}


def _folder_of(node: ClusterNode) -> str:
    return f"{node.role.replace(',', '-')}-{node.node_id}"
