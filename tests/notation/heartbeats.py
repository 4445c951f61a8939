"""Histories of heartbeats by hand: as text that reads like the draft KIP, and as events.

A history is a line an event, ``event -> outcome``::

    A unfences with 7     -> lowest 7
    B fetches 8
    A heartbeats 10       -> lowest 7
    12 s pass
    controller 2 takes over
    A heartbeats 11       -> lowest 10, raw -1

``raw`` stands where it differs from the offset that never falls. ``nobody counts`` is an outcome
too. Brokers are letters; a heartbeat comes 10 ms after the event before it. ``A, B run with 7``:
each unfences and sends one more heartbeat.
"""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import constructed

from kip_replay.replay.lowest_acked_offset import events
from kip_replay.replay.lowest_acked_offset.events import INPUT_SCHEMA, ClusterEvent
from kip_replay.replay.lowest_acked_offset.replay import LowestAckedOffset
from kip_replay.replay.lowest_acked_offset.state import ClusterSettings
from kip_replay.replay.model.brokers import (
    BrokerHeartbeatManager,
    Heartbeat,
    LowestAcknowledged,
)

VOTERS = (1, 2, 3)
CONTROLLER = 2
MS = 1000


_EVENT = re.compile(
    r"(?P<broker>[A-Z]) (?P<what>registers|unfences with|heartbeats|stops with|is gone with|"
    r"fetches|restarts)(?: (?P<offset>\d+))?|(?P<running>[A-Z](?:, [A-Z])*) run with (?P<at>\d+)"
    r"|(?P<seconds>[\d.]+) s pass|controller (?P<controller>\d+) takes over"
)


def check(history: str) -> None:
    """Play a history and compare every outcome."""
    player = _Player()
    for number, line in enumerate(history.splitlines(), 1):
        if text := line.partition("#")[0].strip():
            player.play(number, text)


class _Player:
    """One controller after the other, and the brokers as they last were."""

    def __init__(self) -> None:
        self._manager = BrokerHeartbeatManager(warm_from_us=0)
        self._at = 0
        self._controller = 1
        self._epochs: dict[int, int] = {}

    def play(self, number: int, text: str) -> None:
        cause, _, expected = (part.strip() for part in text.partition("->"))
        event = _EVENT.fullmatch(cause)
        assert event, f"line {number}: {cause!r} is no event"
        carried = self._cause(event)
        if expected:
            found = _outcome(carried)
            assert found == expected, f"line {number}: {text}\n  found: {found}"

    def _cause(self, event: re.Match[str]) -> LowestAcknowledged | None:
        self._at += 10 * MS
        if event["seconds"]:
            self._at += round(float(event["seconds"]) * 1_000_000)
            self._manager.advance(self._at)
        elif event["controller"]:
            self._controller = int(event["controller"])
        elif event["running"]:
            for what in ("unfences with", "heartbeats"):
                for broker in event["running"].split(", "):
                    self._at += 10 * MS
                    self._heartbeat(ord(broker), what, int(event["at"]))
        elif event["what"] == "fetches":
            self._manager.apply(self._at, ord(event["broker"]), int(event["offset"]))
        else:
            return self._heartbeat(ord(event["broker"]), event["what"], int(event["offset"] or -1))
        return None

    def _heartbeat(self, broker_id: int, what: str, offset: int) -> LowestAcknowledged | None:
        if what == "restarts":
            self._epochs[broker_id] = self._epochs.get(broker_id, 0) + 1
        identity = (self._controller, broker_id, self._epochs.get(broker_id, 0))
        is_fenced = what in ("registers", "is gone with", "restarts")
        stops = what in ("stops with", "is gone with")
        beat = Heartbeat(*identity, self._at, self._at + MS, offset, is_fenced, stops)
        return self._manager.heartbeat(beat)


def _outcome(carried: LowestAcknowledged | None) -> str:
    assert carried is not None
    if carried.raw is None:
        return "nobody counts"
    raw = "" if carried.raw == carried.offset else f", raw {carried.raw}"
    return f"lowest {carried.offset}{raw}"


# --- events --------------------------------------------------------------------------------------


def us(milliseconds: float) -> int:
    return round(milliseconds * MS)


def _at_controller(
    kind: str, name: str, times: tuple[float, float], defaults: dict[str, Any]
) -> ClusterEvent:
    """What the controller took up and built at two times (milliseconds) without error."""
    taken, built = map(us, times)
    clock = {"node_id": CONTROLLER, "received_us": taken, "dequeued_us": taken}
    request_id = f"{name} {times[0]:012.3f}"
    return ClusterEvent(
        built, kind, **({"request_id": request_id, **clock, "error_code": 0} | defaults)
    )


def beat(
    broker_id: int, received_ms: float, offset: int, built_ms: float | None = None, **others: Any
) -> ClusterEvent:
    """A heartbeat of an unfenced broker, its response built 2 ms later unless given."""
    defaults = {"broker_id": broker_id, "broker_epoch": 5_000, "offset": offset}
    defaults |= {"handled_us": us(received_ms + 1), "response_bytes": 19}
    defaults["connection"] = f"10.0.0.2:9093-10.0.1.{broker_id}:40000-1-2"
    times = (received_ms, received_ms + 2 if built_ms is None else built_ms)
    return _at_controller(events.HEARTBEAT, f"beat {broker_id}", times, defaults | others)


def raft_fetch(
    replica_id: int, dequeued_ms: float, built_ms: float, offset: int, **others: Any
) -> ClusterEvent:
    """A Raft FETCH to the leader of epoch 1; its sender's last record is of it."""
    defaults = {"broker_id": replica_id, "offset": offset}
    defaults |= {"leader_epoch": 1, "last_fetched_epoch": 1}
    times = (dequeued_ms, built_ms)
    return _at_controller(events.FETCH, f"fetch {replica_id}", times, defaults | others)


def create_topic(dequeued_ms: float, built_ms: float, **others: Any) -> ClusterEvent:
    """CREATE_TOPICS of one topic with one partition, forwarded to the controller by broker 11."""
    defaults = {"api_name": "CREATE_TOPICS", "written": 1, "partitions": 1}
    defaults |= {"client_id": "admin", "correlation_id": 7, "is_forwarded": True}
    defaults["connection"] = "10.0.0.2:9093-10.0.1.11:50000-1-2"
    defaults["sizes"] = [0] * len(others.get("topics", ()))
    return _at_controller(events.WRITE, "write", (dequeued_ms, built_ms), defaults | others)


def through_its_broker(write: ClusterEvent) -> list[ClusterEvent]:
    """A write, and the line of the broker that forwarded it: as its connection shows."""
    broker_id = int((write.connection or "").split(":")[1].rpartition(".")[2])
    request_id = f"{write.request_id} at {broker_id}"
    line = write._replace(request_id=request_id, node_id=broker_id, is_forwarded=False)
    return [write, line]


def api_versions(broker_id: int, dequeued_ms: float, built_ms: float, offset: int) -> ClusterEvent:
    where = {"node_id": broker_id, "broker_id": broker_id, "offset": offset}
    name = f"versions {broker_id}"
    return _at_controller(events.API_VERSIONS, name, (dequeued_ms, built_ms), where)


def metadata(broker_id: int, built_ms: float, topic: str, size: int) -> ClusterEvent:
    """METADATA of a broker: how many partitions a topic has, 0 if there is none."""
    where = {"node_id": broker_id, "broker_id": broker_id, "topics": [topic], "sizes": [size]}
    return _at_controller(
        events.METADATA, f"metadata {broker_id} {topic}", (built_ms, built_ms), where
    )


def learned(
    broker_id: int, at_ms: float, high_watermark: int, variant: str = "recorded"
) -> ClusterEvent:
    what = {"broker_id": broker_id, "high_watermark": high_watermark, "variant": variant}
    request_id = f"{variant}/{broker_id}/{high_watermark}"
    return ClusterEvent(us(at_ms), events.LEARNED, request_id, CONTROLLER, error_code=0, **what)


def born_empty(at_ms: float = 0) -> list[ClusterEvent]:
    """Two of three voters begin with an empty log: nothing can have been committed before."""
    return [
        raft_fetch(voter, at_ms, at_ms + 1, 0, last_fetched_epoch=0, error_code=6, node_id=1)
        for voter in (2, 3)
    ]


def in_order(events: Iterable[ClusterEvent]) -> list[ClusterEvent]:
    return sorted(events, key=lambda event: (event.at_us, event.kind, event.request_id))


def voters_fetch(ms: float, offset: int, **others: Any) -> list[ClusterEvent]:
    """Both followers of leader 2 have everything below an offset."""
    return [raft_fetch(voter, ms, ms + 1, offset, **others) for voter in (1, 3)]


BEFORE = [*born_empty(), *voters_fetch(10, 20)]


def cluster(*more: ClusterEvent, **write: Any) -> list[ClusterEvent]:
    """Brokers 11 and 12 at 19 from 1 s on, and a write at 5.0 s of offsets 20 and 21."""
    steady = [beat(b, 1000 + 100 * (b - 11) + ms, 19) for b in (11, 12) for ms in (0, 2002)]
    written = through_its_broker(create_topic(5000, 5050, **write))
    return in_order([*BEFORE, *steady, *written, *voters_fetch(5040, 22), *more])


def beats(
    broker: int, first_ms: float, count: int, offset: int = 21, **others: Any
) -> list[ClusterEvent]:
    """Heartbeats every 2.004 s."""
    return [beat(broker, first_ms + 2004 * n, offset, **others) for n in range(count)]


batch_of = partial(constructed.batch_of, schema=INPUT_SCHEMA)


Row = dict[str, Any]


class Replayed(NamedTuple):
    """Rows of the outputs, times as microseconds since the epoch."""

    heartbeats: list[Row]
    writes: list[Row]
    visibility: list[Row]
    applied: list[Row]
    everywhere: list[Row]

    def writes_of(self, variant: str, interval_ms: int | None = None) -> list[Row]:
        """Writes under one variant, in the order of their responses."""
        value = -1 if interval_ms is None else interval_ms
        return [
            row
            for row in self.writes
            if row["variant"] == variant and row["parameter_value"] == value
        ]


def replayed(
    events: Sequence[ClusterEvent],
    cuts: Iterable[int] = (),
    *,
    resumed: bool = False,
    **settings: Any,
) -> Replayed:
    """Feeds a log, cut into increments, and gathers all outcomes.

    ``resumed``: after each increment the replay is saved, and another one resumes.
    """
    start = partial(LowestAckedOffset, ClusterSettings(VOTERS, **settings))
    rows, places = Replayed([], [], [], [], []), [0, *sorted(cuts), len(events)]
    increments = (batch_of(events[begin:end]) for begin, end in pairwise(places))
    for of_increment in constructed.fed(start, increments, resumed=resumed):
        for gathered, batch in zip(rows, of_increment, strict=True):
            gathered += constructed.rows_of(batch)
    return rows
