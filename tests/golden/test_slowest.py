"""Sentences on slow requests: what each names is in the line that it names."""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from recorded_logs import folder_of

from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.view import Slow
from kip_replay.pipelines.rules.hwm_parking.slowest import slowest as hwm_parking
from kip_replay.pipelines.rules.lowest_acked_offset.slowest import slowest as lowest_acked_offset
from kip_replay.pipelines.rules.min_isr_acks.slowest import slowest as min_isr_acks
from kip_replay.replay.hwm_parking.tables import HIGH_WATERMARK_LAG
from kip_replay.replay.lowest_acked_offset.tables import METADATA_WRITE_OUTCOMES
from kip_replay.replay.min_isr_acks.tables import PRODUCE_ACK_OUTCOMES

from .recorded import found as found_in
from .recorded import outcomes, session

pytestmark = pytest.mark.golden

Line = Mapping[str, Any]
#: A figure, a time of day, and a file and line, in a sentence.
N, AT, IN = r"([\d,]+(?:\.\d+)?)", r"([\d:.]+) UTC", r"\((\S+:\d+)\)"
#: Stamps are whole milliseconds, and durations are printed with three digits.
SLACK_MS, SLACK = 1.5, 0.005


def named(pattern: str, slow: Slow) -> tuple[str, ...]:
    """The groups of a pattern in the sentence; none where it does not say so."""
    match = re.search(pattern, slow.sentence.replace(words.SPACE, " "))
    return match.groups() if match else ()


class Log:
    """A recording's lines, each known by its file and number."""

    def __init__(self, name: str) -> None:
        self._folder = folder_of(name)
        self._read: dict[str, list[str]] = {}

    def _of(self, file: str) -> list[str]:
        if file not in self._read:
            text = gzip.decompress((self._folder / file).read_bytes()).decode()
            self._read[file] = text.splitlines()
        return self._read[file]

    def text(self, source: str) -> str:
        file, _, number = source.rpartition(":")
        return self._of(file)[int(number) - 1]

    def line(self, source: str) -> Line:
        text = self.text(source)
        line: Line = json.loads(text[text.index("{") : text.rindex("}") + 1])
        return line

    def lines(self, source: str, having: str) -> Iterator[tuple[str, Line]]:
        """The lines of its file that have a text."""
        file, _, _ = source.rpartition(":")
        for number, text in enumerate(self._of(file), 1):
            if having in text:
                yield f"{file}:{number}", self.line(f"{file}:{number}")

    def stamp_ms(self, source: str) -> float:
        """When it was written, milliseconds of its day."""
        return moment_ms(self.text(source)[12:24].replace(",", "."))


@cache
def log_of(name: str) -> Log:
    return Log(name)


def figure(text: str) -> float:
    return float(text.replace(",", ""))


def same(printed: str, ms: float) -> bool:
    return abs(figure(printed) - ms) <= SLACK_MS + SLACK * abs(ms)


def moment_ms(text: str) -> float:
    hours, minutes, seconds = text.split(":")
    return (int(hours) * 60 + int(minutes)) * 60_000 + float(seconds) * 1000


def came_ms(log: Log, source: str) -> float:
    return log.stamp_ms(source) - float(log.line(source)["totalTimeMs"])


def built_ms(log: Log, source: str) -> float:
    line = log.line(source)
    return log.stamp_ms(source) - float(line["sendTimeMs"]) - float(line["responseQueueTimeMs"])


def replica_of(line: Line) -> int:
    return int(line["request"].get("replicaState", line["request"]).get("replicaId", -1))


# --- min_isr_acks --------------------------------------------------------------------------------


def beyond(
    log: Log, names: Mapping[str, str], produce: str, partition: str, offset: float
) -> Iterator[tuple[str, int]]:
    """Followers' FETCHes beyond an offset in the log that a PRODUCE is in, and who sent each."""
    for source, line in log.lines(produce, '"clientId":"broker-'):
        for topic in line["request"].get("topics", ()):
            for each in topic["partitions"]:
                of = f"{names.get(topic['topicId'])}-{each['partition']}"
                if of == partition and each["fetchOffset"] > offset:
                    yield source, replica_of(line)


@pytest.mark.parametrize(
    ("name", "waited", "left_the_isr"),
    [("acks-slow-follower", 20, 0), pytest.param("mixed-4.2", 15, 4, marks=pytest.mark.slow)],
)
def test_produces_waited_for_the_followers_that_are_named(
    name: str, waited: int, left_the_isr: int
) -> None:
    log, acks = log_of(name), outcomes(name, PRODUCE_ACK_OUTCOMES)
    rows = min_isr_acks(session(name, "min_isr_acks"))[name].rows
    of_produces = "SELECT total_ms FROM requests WHERE api_name = 'PRODUCE' ORDER BY ALL DESC"
    slowest = [ms for (ms,) in found_in(name, "min_isr_acks", of_produces)]
    names = dict(found_in(name, "min_isr_acks", "SELECT topic_id, topic FROM topics"))
    assert [row.ms for row in rows] == slowest[:20]
    early = {
        (r["topic"], r["partition"], r["base_offset"]): r for r in acks if r["parameter"] == "none"
    }
    for row in rows:
        line = log.line(row.source)
        assert line["totalTimeMs"] == row.ms
        assert line["requestHeader"]["clientId"] == row.client
        to, at, offset = named(
            rf"PRODUCE to (\S+)(?: and \d+ other partitions?)? at {AT} \(offset {N}\)", row
        )
        topic, _, partition = to.rpartition("-")
        assert row.topic == topic
        assert same(str(moment_ms(at)), came_ms(log, row.source))
        responses = line["response"]["responses"] if line["response"] else ()
        offsets = {
            (p["index"], p["baseOffset"]) for t in responses for p in t["partitionResponses"]
        }
        assert not offsets or (int(partition), figure(offset)) in offsets
        fetches = [*beyond(log, names, row.source, to, figure(offset))]
        if found := named(rf"(\d+) had it last: .* of offset {N} {IN}, came after {N} ms", row):
            follower, fetch_offset, source, after = found
            own = [fetch for fetch, replica in fetches if str(replica) == follower]
            assert min(own, key=lambda fetch: came_ms(log, fetch)) == source
            assert f'"fetchOffset":{int(figure(fetch_offset))}' in log.text(source)
            assert same(after, came_ms(log, source) - came_ms(log, row.source))
        if found := named(r"No FETCH of follower (\d+), in sync at the append", row):
            own = [fetch for fetch, replica in fetches if str(replica) == found[0]]
            assert all(came_ms(log, fetch) > built_ms(log, row.source) for fetch in own)
        if found := named(rf"would have been ready after {N} ms, not {N} ms", row):
            outcome = early[topic, int(partition), int(figure(offset))]
            assert same(found[0], outcome["request_min_isr_latency_ms"])
            assert same(found[1], built_ms(log, row.source) - came_ms(log, row.source))
    assert sum("had it last" in row.sentence for row in rows) == waited
    assert sum("had left the ISR" in row.sentence for row in rows) == left_the_isr


# --- hwm_parking ---------------------------------------------------------------------------------


def test_replicas_learned_by_the_fetches_that_are_named() -> None:
    name = "acks-slow-follower"
    log = log_of(name)
    rows = hwm_parking(session(name, "hwm_parking"))[name].rows
    lag = outcomes(name, HIGH_WATERMARK_LAG)
    recorded = [r for r in lag if r["variant"] == "recorded" and r["phase"] == "steady"]
    latest = sorted((r["lag_ms"] for r in recorded if r["lag_ms"] is not None), reverse=True)
    assert [row.ms for row in rows] == latest[:20]
    for row in rows:
        line = log.line(row.source)
        assert str(replica_of(line)) == row.node
        moved_to, at = named(rf"high watermark was {N} at {AT}", row)
        advanced = moment_ms(at)
        assert same(str(row.ms), built_ms(log, row.source) - advanced)
        assert _offset(line) == figure(named(rf", of offset {N}, (?:came|was)", row)[0])
        assert _high_watermark(line) >= figure(moved_to)
        if found := named(rf"came (?:only )?{N} ms after the advance", row):
            assert same(found[0], came_ms(log, row.source) - advanced)
        if found := named(rf"was parked for {N} ms", row):
            assert same(found[0], line["localTimeMs"] + line["remoteTimeMs"])
        if found := named(rf"still with {N} {IN}", row):
            before = log.line(found[1])
            assert replica_of(before) == replica_of(line)
            assert _high_watermark(before) == figure(found[0]) < figure(moved_to)
            assert advanced - 1 <= built_ms(log, found[1]) < built_ms(log, row.source)
    assert sum("still with" in row.sentence for row in rows) == 3


def _offset(line: Line) -> int:
    return int(line["request"]["topics"][0]["partitions"][0]["fetchOffset"])


def _high_watermark(line: Line) -> int:
    return int(line["response"]["responses"][0]["partitions"][0]["highWatermark"])


# --- lowest_acked_offset -------------------------------------------------------------------------


def test_writes_were_stale_at_the_broker_whose_lines_are_named() -> None:
    name = "metadata-4.0"
    log = log_of(name)
    rows = lowest_acked_offset(session(name, "lowest_acked_offset"))[name].rows
    writes = outcomes(name, METADATA_WRITE_OUTCOMES)
    stale = [row["stale_window_ms"] for row in writes if row["variant"] == "estimated"]
    assert [row.ms for row in rows] == sorted((ms for ms in stale if ms is not None), reverse=True)[
        :20
    ]
    for row in rows:
        line = log.line(row.source)
        name_of_api, offset, at = named(rf"’s (\w+) of topic .* \(offset {N}\) at {AT}", row)
        assert line["requestHeader"]["requestApiKeyName"] == name_of_api
        assert f'"{row.topic}"' in log.text(row.source)
        responded = built_ms(log, row.source)
        assert same(str(moment_ms(at)), responded)
        after, when, fetch = named(rf"commit was returned {N} ms (\w+) {IN}", row)
        assert str(replica_of(log.line(fetch))) == row.node
        assert _high_watermark(log.line(fetch)) > figure(offset)
        sign = -1 if when == "earlier" else 1
        assert same(str(sign * figure(after)), built_ms(log, fetch) - responded)
        handling = named(rf"handling that took {N} ms", row)[0]
        assert same(handling, row.ms - sign * figure(after))
        at_offset, after, beat = named(rf"shows it, at offset {N}, came after {N} ms {IN}", row)
        assert log.line(beat)["request"]["currentMetadataOffset"] == figure(at_offset)
        assert same(after, came_ms(log, beat) - responded)
        earlier = [
            source
            for source, each in log.lines(beat, '"BROKER_HEARTBEAT"')
            if str(each["request"]["brokerId"]) == row.node
            and each["request"]["currentMetadataOffset"] >= figure(offset)
        ]
        assert min(earlier, key=lambda source: came_ms(log, source)) == beat
