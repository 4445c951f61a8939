"""A recording: what it will do, switching on, watching, and switching off however it ends."""

import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from kip_replay.pipelines import progress
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.record.cluster import LOGGER, Cluster, Node, UnreachableError
from kip_replay.pipelines.record.collect import (
    LOG_NAME,
    Stream,
    folder_of,
    require_readable,
    source_of,
)
from kip_replay.pipelines.record.described import local_zone, write_manifest, zone_of
from kip_replay.pipelines.record.polls import ON, Polls

#: Kafka ships it so.
SHIPPED_LEVEL = "WARN"
_RECORDING_LEVEL = "DEBUG"
#: Lines are on their way for so long after they were written.
_IN_FLIGHT_S = 2.0
#: The first line of a node is waited for so long: brokers are asked for something each second.
_FIRST_LINE_S = 10.0
#: Over so many seconds a rate counts as sustained; the same between two lines of progress.
_RATE_S = 10
_FREE_BYTES_MIN = 500_000_000
_UNDO_TRIES, _UNDO_WAIT_S = 3, 2.0

Say = Callable[..., None]
#: Lines and bytes of each stream so far.
_Counts = Sequence[tuple[int, int]]


class Stop:
    """Why a recording ends before its time; the first reason stays."""

    def __init__(self) -> None:
        self.reason = ""
        #: Somebody ended it, and not a limit.
        self.is_signal = False
        self._event = threading.Event()

    def request(self, reason: str, is_signal: bool = False) -> None:
        """Also called by handlers of signals."""
        if not self.reason:
            self.reason, self.is_signal = reason, is_signal
        self._event.set()

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)

    def __bool__(self) -> bool:
        return self._event.is_set()


@dataclass(frozen=True)
class Limits:
    seconds: float
    #: Of a node, in 10^6 bytes.
    mb_per_second_max: float
    #: Of all nodes together.
    mb_max: float


@dataclass
class Session:
    """One recording. ``undo`` is the command that switches all nodes off."""

    cluster: Cluster
    folder: Path
    logs: Sequence[str]
    limits: Limits
    undo: str
    say: Say
    stop: Stop = field(default_factory=Stop)
    nodes: list[Node] = field(default_factory=list)
    #: The level of each node's request logger as it was found.
    levels: dict[Node, str] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    _changed: list[Node] = field(default_factory=list)

    def prepare(self) -> None:
        """Connects, and says what will be done; changes nothing. Raises UserError."""
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            raise UserError(f"--output {self.folder} is not empty: name a new folder")
        self.levels, unreachable = levels_of(self.cluster)
        self.nodes = [*self.levels]
        for node in self.nodes:
            if source := source_of(node, self.logs):
                require_readable(node, source)
                self.streams.append(Stream(node, source, self.folder / folder_of(node)))
        self.say("to switch off again, whatever becomes of this:", f"  {self.undo}")
        for role, option in (("broker", "server"), ("controller", "controller")):
            if of_role := [n for n in self.nodes if n.role.split(",")[0] == role]:
                self.say(f"  {_by_hand(of_role, option)}")
        for sentence in unreachable:
            self.say(f"not recorded: {sentence}")
        sources = {stream.node: stream.source.text for stream in self.streams}
        for node, level in self.levels.items():
            change = "stays" if level in ON else f"-> {_RECORDING_LEVEL}"
            where = sources.get(node, "not collected, --logs says nothing of it")
            self.say(f"{_named(node)}: {level} {change}; {where}")
        if not any("controller" in node.role for node in self.nodes):
            self.say(
                "without --bootstrap-controller no controller's log is switched on: hwm_parking "
                "and lowest_acked_offset can't be answered"
            )

    def record(self) -> bool:
        """Records until the time is over or ``stop`` is requested: whether all is off again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        began = time.time()
        polls = Polls(self.cluster, self.nodes, {s.node.node_id for s in self.streams})
        try:
            for stream in self.streams:
                stream.start()
            self._describe(polls, began)
            self._switch_on()
            polls.start()
            self._await_first_lines()
            self._describe(polls, began)
            self._watch(time.monotonic() + self.limits.seconds)
            polls.stop()
        finally:
            failures = self._switch_off()
            time.sleep(_IN_FLIGHT_S if self.streams else 0)
            for stream in self.streams:
                stream.stop()
            zones = self._describe(polls, began)
        self._summarize(began, [*polls.lost.values(), *failures], zones)
        return not failures

    # --- levels

    def _switch_on(self) -> None:
        for node, level in self.levels.items():
            if level in ON or self.stop:
                continue
            self._changed.append(node)  # before: a response that is lost may have been a success
            try:
                self.cluster.set_level(node, _RECORDING_LEVEL)
            except UnreachableError as error:
                raise UserError(f"node {node.node_id} was not switched on: {error}") from None

    def _switch_off(self) -> list[str]:
        """Sets every level back to what it was: returns a sentence for each that could not be."""
        return set_levels(self.cluster, {n: self.levels[n] for n in self._changed}, self.undo)

    # --- while it records

    def _await_first_lines(self) -> None:
        until = time.monotonic() + _FIRST_LINE_S
        waiting = [*self.streams]
        while waiting and time.monotonic() < until and not self.stop.wait(0.2):
            waiting = [stream for stream in waiting if not stream.lines_read]
        for stream in waiting if not self.stop else ():
            self.say(
                f"node {stream.node.node_id}: no line in {_FIRST_LINE_S:.0f} s. Is "
                f"{stream.source.text} its request log? {stream.said}"
            )

    def _watch(self, until: float) -> None:
        progress.expect({"recording": until - time.monotonic()})
        progress.stage("recording")
        seen: deque[_Counts] = deque(maxlen=_RATE_S + 1)
        for second in range(sys.maxsize):
            seen.append([(stream.lines_read, stream.bytes_read) for stream in self.streams])
            if len(seen) > _RATE_S:
                self._look_at_rates(seen[0], seen[-1], is_shown=second % _RATE_S == 0)
            self._look_at_limits()
            left_s = until - time.monotonic()
            if left_s <= 0 or self.stop.wait(min(1.0, left_s)):
                return

    def _look_at_rates(self, then: _Counts, now: _Counts, is_shown: bool) -> None:
        lines_per_s, mb_per_s = 0.0, {}
        for stream, before, after in zip(self.streams, then, now, strict=True):
            lines_per_s += (after[0] - before[0]) / _RATE_S
            mb = mb_per_s[stream.node.node_id] = (after[1] - before[1]) / _RATE_S / 1e6
            if mb > self.limits.mb_per_second_max:
                self.stop.request(
                    f"node {stream.node.node_id} wrote {mb:,.1f} MB/s over {_RATE_S} s, more than "
                    f"--mb-per-second-max {self.limits.mb_per_second_max:g}"
                )
        if is_shown and mb_per_s:
            each = ", ".join(f"{node_id}: {mb:,.2f}" for node_id, mb in mb_per_s.items())
            total = f"{lines_per_s:,.0f} lines/s, {sum(mb_per_s.values()):,.2f} MB/s"
            self.say(f"{total} (of node {each})")

    def _look_at_limits(self) -> None:
        total_mb = sum(stream.bytes_read for stream in self.streams) / 1e6
        if total_mb > self.limits.mb_max:
            self.stop.request(f"{total_mb:,.0f} MB are more than --mb-max {self.limits.mb_max:g}")
        free = shutil.disk_usage(self.folder).free
        if free < _FREE_BYTES_MIN:
            self.stop.request(f"the disk of {self.folder} has only {free / 1e6:,.0f} MB left")
        for stream in self.streams:
            if stream.failure:
                self.stop.request(f"{stream.folder} cannot be written ({stream.failure.strerror})")

    # --- what it leaves

    def _describe(self, polls: Polls, began: float) -> str:
        """Writes the manifest with what is known: a recording that was killed has one too."""
        local = local_zone()
        zones = {s.node.node_id: zone_of(s.head, s.head_at, local) for s in self.streams}
        facts = {
            "cluster_id": self.cluster.cluster_id,
            "recorded_at": datetime.fromtimestamp(began, UTC).isoformat(timespec="seconds"),
            "duration_s": round(time.time() - began),
        }
        return write_manifest(self.folder, self.nodes, zones, polls.configs, polls.voters, facts)

    def _summarize(self, began: float, sentences: Iterable[str], zones: str) -> None:
        seconds = time.time() - began
        if self.stop:
            self.say(f"stopped: {self.stop.reason}")
        for stream in self.streams:
            ended = f"; its command ended early: {stream.said}" if stream.has_ended_early else ""
            self.say(
                f"node {stream.node.node_id}: {stream.lines_read:,} lines, "
                f"{stream.bytes_read / 1e6:,.2f} MB in {stream.folder}{ended}"
            )
        for sentence in sentences:
            self.say(sentence)
        collected = {stream.node for stream in self.streams}
        if rest := [node for node in self.nodes if node not in collected]:
            self._say_how_to_collect(rest, (began, time.time() + 1))
        if collected:
            self.say(zones)
        self.say(f"recorded {seconds:.0f} s; next: kip-replay run {self.folder}")

    def _say_how_to_collect(self, nodes: Sequence[Node], span: tuple[float, float]) -> None:
        self.say(f"collect {LOG_NAME} of each node, wherever its log folder is (LOGS here):")
        for node in nodes:
            folder = self.folder / folder_of(node)
            self.say(f"  mkdir -p {folder}; scp '{node.host}:LOGS/{LOG_NAME}*' {folder}/")
        since, until = (f"{datetime.fromtimestamp(t, UTC):%Y-%m-%dT%H:%M:%SZ}" for t in span)
        self.say(f"  kip-replay run {self.folder} --from {since} --until {until}")


def levels_of(cluster: Cluster) -> tuple[dict[Node, str], list[str]]:
    """The level of each node that can be reached, and a sentence for each other."""
    levels, unreachable = {}, []
    for node in cluster.nodes():
        try:
            levels[node] = cluster.level(node)
        except UnreachableError as error:
            unreachable.append(f"node {node.node_id} ({node.role}): {error}")
    if not any("broker" in node.role for node in levels):
        raise UserError(f"no broker can be reached: {'; '.join(unreachable)}")
    return levels, unreachable


def set_levels(cluster: Cluster, levels: dict[Node, str], undo: str) -> list[str]:
    """Sets levels, trying again: returns a sentence for each node whose level could not be set."""
    failures: dict[Node, str] = {}
    for attempt in range(_UNDO_TRIES):
        time.sleep(_UNDO_WAIT_S if attempt else 0)
        left = [node for node in levels if not attempt or node in failures]
        failures = {}
        for node in left:
            try:
                cluster.set_level(node, levels[node])
            except (UnreachableError, UserError) as error:
                failures[node] = str(error)
        if not failures:
            break
    return [
        f"node {node.node_id} may still log requests ({why}): once it is back, {undo}; if it was "
        f"restarted, {LOGGER} has the level of its configuration again"
        for node, why in failures.items()
    ]


def _named(node: Node) -> str:
    return f"node {node.node_id} ({node.role}, {node.address})"


def _by_hand(nodes: Sequence[Node], option: str) -> str:
    """The same by Kafka's own tool."""
    node_ids = " ".join(str(node.node_id) for node in nodes)
    return (
        f"for id in {node_ids}; do kafka-configs.sh --bootstrap-{option} {nodes[0].address} "
        "--alter --entity-type broker-loggers --entity-name $id "
        f"--add-config {LOGGER}={SHIPPED_LEVEL}; done"
    )
