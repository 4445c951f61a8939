"""A recording: what it will do, switching on, watching, and switching off however it ends."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

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
from kip_replay.pipelines.record.collect import LOG_NAME, LogStream, source_of

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
