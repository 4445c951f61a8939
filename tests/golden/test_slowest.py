"""Sentences on slow requests: what each names is in the line that it names."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from notation.heartbeats import VOTERS
from notation.heartbeats import replay_of as heartbeats_replayed
from notation.recorded import replay_of as fetches_replayed

from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.view import Slow
from kip_replay.pipelines.rules.hwm_parking.slowest import slowest as hwm_parking
from kip_replay.pipelines.rules.lowest_acked_offset.slowest import slowest as lowest_acked_offset
from kip_replay.pipelines.rules.min_isr_acks.slowest import slowest as min_isr_acks
from kip_replay.replay.hwm_parking import variants
from kip_replay.replay.lowest_acked_offset import LowestAckedOffset
from kip_replay.replay.tables import TABLES

from .naive_heartbeats import observed
from .naive_leader_log import rows_of
from .naive_log import recording
from .recorded_tables import Log, log_of, session

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


def beyond(log: Log, produce: str, partition: str, offset: float) -> Iterator[tuple[str, int]]:
    """Followers' FETCHes beyond an offset in the log that a PRODUCE is in, and who sent each."""
    batches = log.tables["topics"]
    names = {row["topic_id"]: row["topic"] for b in batches for row in b.to_pylist()}
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
    log, outcomes = log_of(name), rows_of(name)
    database = session(log, {TABLES["produce_ack_outcomes"]: outcomes})
    rows = min_isr_acks(database)[name].rows
    slowest = sorted(
        (
            row["total_ms"]
            for b in log.tables["requests"]
            for row in b.to_pylist()
            if row["api_name"] == "PRODUCE"
        ),
        reverse=True,
    )
    assert [row.ms for row in rows] == slowest[:20]
    early = {(r["topic"], r["partition"], r["base_offset"]): r for r in outcomes}
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
        fetches = [*beyond(log, row.source, to, figure(offset))]
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
    log, of = log_of(name), recording(name)
    replays = [fetches_replayed(n, of.voters, variants(), [f]) for n, f in of.fetches.items()]
    lag = [
        {**row, "phase": "steady" if row["leader_at"] in of.steady else "starting"}
        for replay in replays
        for row in replay.lag
    ]
    parking = [row for replay in replays for row in replay.parking]
    outcomes = {TABLES["high_watermark_lag"]: lag, TABLES["fetch_parking_outcomes"]: parking}
    rows = hwm_parking(session(log, outcomes))[name].rows
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
    replay = heartbeats_replayed(
        [observed(name).events], partial(LowestAckedOffset, VOTERS, [100], 2000)
    )
    outcomes = {
        TABLES["metadata_write_outcomes"]: replay.writes,
        TABLES["metadata_write_visibility"]: replay.visibility,
    }
    rows = lowest_acked_offset(session(log, outcomes))[name].rows
    stale = [row["stale_window_ms"] for row in replay.writes_of("estimated")]
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
