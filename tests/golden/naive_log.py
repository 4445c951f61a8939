"""A second, naive reader of request logs: json.loads a line, one FETCH a ``RecordedFetch``.

It shares no code with ``kafka.request_log``, so that a golden test which passes with both is also
a differential test of the parser. It is slow, reads only what ``hwm_parking`` needs, and leaves
sizes on the wire out (``tests/unit`` has those on constructed logs).
"""

import gzip
import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from notation.recorded import in_order
from recorded_logs import folder_of

from kip_replay.replay.hwm_parking import NOT_SENT, UNKNOWN_OFFSET, RecordedFetch

RECORDINGS = {
    name: folder_of(name) for name in ("metadata-4.0", "metadata-4.1", "freeze-4.1", "failover-4.0")
}
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
FETCH, BROKER_HEARTBEAT = 1, 63


class Line(NamedTuple):
    """One line of a request log: when things happened (microseconds) and its JSON."""

    node_id: int
    received_us: int
    dequeued_us: int
    built_us: int
    completed_us: int
    what: dict[str, Any]
    digest: str

    @property
    def api(self) -> int:
        return int(self.what["requestHeader"]["requestApiKey"])


class SteadyPhase(NamedTuple):
    """From the last broker's first unfencing to the first wantShutDown, microseconds."""

    since_us: int
    until_us: int

    def __contains__(self, at: object) -> bool:
        return isinstance(at, int) and self.since_us <= at < self.until_us

    @property
    def seconds(self) -> float:
        return (self.until_us - self.since_us) / 1e6


def lines_of(path: Path, node_id: int) -> Iterator[Line]:
    """Every request of one node's log, as written."""
    with gzip.open(path, "rt", encoding="utf-8") as log:
        for text in log:
            stamp, _, rest = text[1:].partition("] DEBUG Completed request:")
            what = json.loads(rest[: rest.rindex("} (kafka.request.logger)") + 1])
            completed = _micros(stamp)
            received = completed - _ms(what["totalTimeMs"])
            yield Line(
                node_id,
                received,
                received + _ms(what["requestQueueTimeMs"]),
                completed - _ms(what["sendTimeMs"]) - _ms(what["responseQueueTimeMs"]),
                completed,
                what,
                hashlib.sha256(f"{node_id} {text}".encode()).hexdigest()[:16],
            )


@lru_cache(1)
def lines_of_recording(name: str) -> list[Line]:
    """All nodes' lines."""
    folder = folder_of(name)
    nodes = json.loads((folder / "recording.json").read_text())["nodes"]
    return [line for n in nodes for line in lines_of(folder / n["log"], n["node_id"])]


def metadata_fetch(line: Line) -> RecordedFetch | None:
    """The FETCH of the metadata log in a line, if there is one."""
    header, request, response = (line.what[k] for k in ("requestHeader", "request", "response"))
    if line.api != FETCH or not request["topics"]:
        return None
    if request["topics"][0].get("topicId") != METADATA_TOPIC_ID:
        return None
    asked = request["topics"][0]["partitions"][0]
    told = response["responses"][0]["partitions"][0] if response["responses"] else {}
    return RecordedFetch(
        request_id=line.digest,
        replica_id=request["replicaState"]["replicaId"],
        leader_epoch=asked["currentLeaderEpoch"],
        correlation_id=header["correlationId"],
        api_version=header["requestApiVersion"],
        received_us=line.received_us,
        dequeued_us=line.dequeued_us,
        built_us=line.built_us,
        completed_us=line.completed_us,
        max_wait_us=_ms(request["maxWaitMs"]),
        fetch_offset=asked["fetchOffset"],
        last_fetched_epoch=asked["lastFetchedEpoch"],
        high_watermark=asked.get("highWatermark", NOT_SENT),
        error_code=response["errorCode"] or told.get("errorCode", 0),
        response_high_watermark=told.get("highWatermark", UNKNOWN_OFFSET),
        record_bytes=told.get("recordsSizeInBytes", 0),
        is_diverging="divergingEpoch" in told,
        is_snapshot="snapshotId" in told,
        request_bytes=None,
        response_bytes=None,
    )


class Recording(NamedTuple):
    """What the golden tests need of one recording."""

    name: str
    voters: tuple[int, ...]
    fetches: dict[int, list[RecordedFetch]]
    steady: SteadyPhase


@cache
def recording(name: str) -> Recording:
    """Read a recording: each controller's FETCHes in replay order, and the steady phase."""
    folder = folder_of(name)
    manifest = json.loads((folder / "recording.json").read_text())
    controllers = {n["node_id"]: n["log"] for n in manifest["nodes"] if n["role"] == "controller"}
    lines = {node: list(lines_of(folder / log, node)) for node, log in controllers.items()}
    fetches = {
        node: in_order(fetch for line in rows if (fetch := metadata_fetch(line)) is not None)
        for node, rows in lines.items()
    }
    everything = [line for rows in lines.values() for line in rows]
    return Recording(name, tuple(manifest["voters"]), fetches, steady_phase(everything))


def steady_phase(lines: Iterable[Line]) -> SteadyPhase:
    """From heartbeats that controllers answered: all brokers unfenced, none wants to stop."""
    unfenced: dict[int, int] = {}
    stopping: list[int] = []
    for line in lines:
        if line.api != BROKER_HEARTBEAT:
            continue
        asked, told = line.what["request"], line.what["response"]
        if asked["wantShutDown"]:
            stopping.append(line.received_us)
        if told["errorCode"] == 0 and not told["isFenced"]:
            first = unfenced.get(asked["brokerId"], line.built_us)
            unfenced[asked["brokerId"]] = min(first, line.built_us)
    return SteadyPhase(max(unfenced.values()), min(stopping))


def percentile(values: Iterable[float], q: float) -> float:
    """The value at rank floor(q * (n - 1)) of the sorted values, from 0."""
    ranked = sorted(values)
    return ranked[math.floor(q * (len(ranked) - 1))]


def _ms(milliseconds: float) -> int:
    """Milliseconds with up to three decimals, as microseconds."""
    return round(milliseconds * 1000)


def _micros(stamp: str) -> int:
    at = datetime.fromisoformat(stamp).replace(tzinfo=UTC)
    return int(at.timestamp()) * 1_000_000 + at.microsecond
