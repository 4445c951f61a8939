"""A request is the same request in whatever layout and wrapper its line is read from."""

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import parsed_lines
import pytest
from layouts.log4j import LAYOUTS, event, written
from layouts.wrappers import WRAPPERS, Record, mixed, noise, parts
from small_logs import folder_of

from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.parse_task import parse_together
from kip_replay.pipelines.ingest.survey import Survey, SurveySettings, survey
from kip_replay.replay.kafka.request_log.layouts import Framing, LineReader, Lines, LongLine
from kip_replay.replay.kafka.request_log.layouts.labels import labels
from kip_replay.replay.kafka.request_log.line import LOGGER as SUFFIX
from kip_replay.replay.kafka.request_log.line import json_of

ZONE = "Europe/Berlin"
SESSIONS = gzip.decompress((folder_of("sessions-on") / "broker-11.log.gz").read_bytes())
LINES = [*parsed_lines.LINES, *SESSIONS.splitlines()[300:380]]
EVENTS = [event(line, ZONE) for line in LINES]
#: When a carrier read each.
STAMPS_US = [e.millis * 1000 + 3456 for e in EVENTS]
CARRIED = ("kafka", "json-compact", "highlight")
SPLITTING = [name for name, wrapper in WRAPPERS.items() if wrapper.long == "splits"]
SPLITTING.remove("journald-json")  # leaves long lines out
RANGED = ["kubectl-prefix", *SPLITTING, "gcloud", "cloudwatch-filter"]


@cache
def logs() -> dict[str, bytes]:
    return written(EVENTS, zone=ZONE)


def read(log: bytes, batch: int = 1 << 30) -> Lines:
    """All lines of a log, read so many physical ones at a time."""
    reader, found = LineReader(ZONE, Framing().of_head(log[: 1 << 20])), Lines()
    physical = log.removesuffix(b"\n").split(b"\n")
    for at in range(0, len(physical), batch):
        found.add(reader.read(physical[at : at + batch], at + 1))
    found.add(reader.ended())
    assert found.physical == len(physical)
    return found


def reasons(found: Lines) -> set[str]:
    return {unreadable.reason.name for unreadable in found.rejections.values()}


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_log4j_writes_is_read_or_refused(name: str) -> None:
    layout, found = LAYOUTS[name], read(logs()[name])
    refused = {
        "seconds": "stamp_without_milliseconds",
        "time": "bad_stamp",
        "none": "bad_stamp",
    }.get(layout.stamp)
    if name == "US_MONTH_DAY_YEAR4_TIME":  # day before month whatever its name
        refused = "bad_stamp"
    if refused:
        assert (found.requests(), reasons(found)) == ([], {refused})
        return
    kept = [i for i, e in enumerate(EVENTS) if len(e.message) <= (layout.longest or 1 << 30)]
    assert found.requests() == [LINES[i] for i in kept]
    assert reasons(found) == ({"truncated"} if len(kept) < len(LINES) else set())
    assert not found.others


def in_turn(names: Iterable[str], values: Iterable[Any]) -> list[tuple[str, Any]]:
    """Each name with one of the values."""
    return [*zip(names, cycle(values), strict=False)]


@pytest.mark.parametrize(("name", "layout"), in_turn(WRAPPERS, CARRIED))
def test_what_carries_lines_changes_nothing(name: str, layout: str) -> None:
    wrapper, lines = WRAPPERS[name], logs()[layout].splitlines()
    found = read(wrapper.wrapped(lines, STAMPS_US))
    limit = wrapper.limit if wrapper.long == "cuts" else 4088 if name == "journald-json" else None
    kept = [i for i, line in enumerate(lines) if len(line) <= (limit or 1 << 30)]
    assert sorted(found.requests()) == sorted(LINES[i] for i in kept)
    assert reasons(found) <= {"truncated"}
    assert len(found.lines) == len(LINES)
    assert found.others.total() <= ("csv" in name or "insights" in name)


@pytest.mark.parametrize(("name", "newest_first"), in_turn(WRAPPERS, (False, True)))
def test_lines_of_others_are_others(name: str, newest_first: bool) -> None:
    wrapper, lines = WRAPPERS[name], zip(LINES[::2], STAMPS_US[::2], strict=True)
    short = [(line, us) for line, us in lines if len(line) < 4000]
    records = [Record(line, us) for line, us in short]
    others = list(noise([us - 50 for _, us in short[::7]]))
    found = read(wrapper.of(mixed(records, others, newest_first=newest_first)))
    assert sorted(found.requests()) == sorted(line for line, _ in short)
    assert not found.rejections
    assert len(others) <= found.others.total() <= len(others) + 1
    assert found.others["kafka.server.KafkaApis"] == len(others) // 3


@pytest.mark.parametrize("name", SPLITTING)
def test_lines_split_between_those_of_other_streams(name: str) -> None:
    wrapper = WRAPPERS[name]
    stamps_us = range(STAMPS_US[0], STAMPS_US[0] + 100 * len(LINES), 100)
    whole = map(Record, LINES, stamps_us)
    split = [part for record in whole for part in parts(record, wrapper.limit or 1)]
    others = [r for r in noise(us + 1 for us in stamps_us) if r.stream == "stderr"]
    if "stream" not in wrapper.line:  # nothing tells it from a part
        others = []
    found = read(wrapper.of(mixed(split, others)), batch=7)
    assert sorted(found.requests()) == sorted(LINES)
    assert (found.rejections, found.others.total()) == ({}, len(others))


def surveyed(folder: Path, log: bytes, range_bytes: int, final: bool = True) -> Survey:
    (folder / "log").write_bytes(log)
    file = LogFile("r", 11, ZONE, "log", str(folder / "log"))
    return survey(file, SurveySettings(range_bytes, final))


def ids(found: Survey) -> Iterator[tuple[str, bool]]:
    for part in found.ranges:
        for rows, _ in parse_together([part]):
            yield from ((id, True) for id in rows["requests"].column("request_id").to_pylist())
            yield from ((id, False) for id in rows["rejected_lines"].column("line_id").to_pylist())


@pytest.mark.parametrize(("name", "range_bytes"), in_turn(RANGED, (1, 20_000)))
def test_ranges_change_nothing(tmp_path: Path, name: str, range_bytes: int) -> None:
    step = 20 if range_bytes == 1 else 4
    lines = LINES[::step]
    whole = [*ids(surveyed(tmp_path, b"\n".join(lines), 1 << 30))]
    found = surveyed(tmp_path, WRAPPERS[name].wrapped(lines, STAMPS_US[::step]), range_bytes)
    assert len(found.ranges) > 3
    assert sorted(map(str, ids(found))) == sorted(map(str, whole))


@pytest.mark.parametrize("name", SPLITTING[1:])  # the first has its parts on one line
def test_a_line_of_which_a_part_is_there_is_left_for_later(tmp_path: Path, name: str) -> None:
    records = map(Record, (LINES[0], max(LINES, key=len)), STAMPS_US)
    begun = WRAPPERS[name].of(records, limit=10_000).splitlines(keepends=True)[:3]
    found = surveyed(tmp_path, b"".join(begun), 1 << 20, final=False)
    assert (found.end, found.left_bytes) == (len(begun[0]), len(begun[1] + begun[2]))


def test_a_file_whose_layout_changes_is_read_to_its_end() -> None:
    third = len(LINES) // 3
    log = b"\n".join(LINES[:third]) + b"\n"
    log += WRAPPERS["docker-json"].wrapped(LINES[third : 2 * third], STAMPS_US[third : 2 * third])
    log += b"\n".join(logs()["ISO8601_OFFSET_DATE_TIME_HHCMM"].splitlines()[2 * third :])
    assert read(log, batch=50).requests() == LINES


Fields = dict[str, Any]
LOGGER = SUFFIX.decode().strip("()")
#: What a layout or a collector makes of a request's fields, and of when it was logged.
FLAT: dict[str, Callable[[Fields, float], Fields]] = {
    "beside": lambda all_, at: {
        **all_,
        "@timestamp": f"{utc(at)}Z",
        "logger": LOGGER,
    },
    "before": lambda all_, at: {"ts": at, "level": "DEBUG", **dict(reversed(all_.items()))},
    "in a key": lambda all_, at: {"kafka": {"body": all_}, "time": int(at * 1000 + 0.5)},
    "stamp elsewhere": lambda all_, at: {
        "event": {"created": f"{utc(at)}+00:00"},
        "json": [all_],
    },
}


def utc(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}.{round(at * 1000) % 1000:03d}"


@pytest.mark.parametrize(("name", "flat"), in_turn(WRAPPERS, FLAT))
def test_a_request_is_read_by_its_fields(name: str, flat: str) -> None:
    wrapper, kept = WRAPPERS[name], [i for i, line in enumerate(LINES) if len(line) < 2000]
    if not (name.endswith("csv") or "insights" in name):  # whose texts are not known by a key
        kept += [i for i, line in enumerate(LINES) if len(line) >= 2000 and wrapper.long != "cuts"]
    fields = [json.loads(EVENTS[i].message.partition(":")[2]) for i in kept]
    at = [EVENTS[i].millis / 1000 for i in kept]
    log = [json.dumps(it, ensure_ascii=False).encode() for it in map(FLAT[flat], fields, at)]
    found = read(wrapper.wrapped(log, [STAMPS_US[i] for i in kept]))
    if name in ("splunk-csv", "cloudwatch-insights"):
        assert (found.requests(), reasons(found)) == ([], {"other_form"})
        return
    if name == "journald-json":
        assert reasons(found) == {"truncated"}
        return
    assert not found.rejections
    assert sorted(map(content, found.requests())) == sorted(content(LINES[i]) for i in kept)


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ({"logger": "org.example.audit"}, Counter({"org.example.audit": 1})),
        ({"loggerName": "k.r.logger"}, set()),
        ({"requestHeader": '{"requestApiKey":0}'}, {"other_form"}),
        ({"requestHeader": None, "requestHeader.requestApiKey": 0}, {"other_form"}),
        ({"time": 1_795_205_000}, {"stamp_without_milliseconds"}),
        ({"time": None}, {"bad_stamp"}),
    ],
)
def test_fields_that_are_none_of_a_request(change: Fields, result: Any) -> None:
    whole = json.loads(EVENTS[0].message.partition(":")[2]) | {"time": "2026-11-20T20:30:34.831Z"}
    found = read(json.dumps(whole | change).encode())
    assert (found.others or reasons(found)) == result
    assert len(found.requests()) == (not result)
    pretty = json.dumps(whole | change, indent=1).encode()
    assert len(read(pretty + b"\n" + pretty).requests()) == 2 * (not result)


def content(line: bytes) -> tuple[bytes, str]:
    """A line's stamp, and its JSON in the order of its keys."""
    return line[:25], json.dumps(json.loads(json_of(line)), sort_keys=True)


@pytest.mark.parametrize("name", WRAPPERS)
def test_the_label_that_names_a_node_is_found(name: str) -> None:
    records = [
        Record(line, us, f"my-kafka-{i % 3}")
        for i, (line, us) in enumerate(zip(LINES, STAMPS_US, strict=True))
        if len(line) < 4000
    ]
    log = WRAPPERS[name].of(records)
    if b"my-kafka-1" not in log.replace(b"my-kafka-10", b""):
        return  # says nothing of its pod
    found = labels(log, Framing().of_head(log))
    assert found.values == ("my-kafka-0", "my-kafka-1", "my-kafka-2") or [
        value.strip("[]").split("/")[1] for value in found.values
    ] == ["my-kafka-0", "my-kafka-1", "my-kafka-2"]


@pytest.mark.parametrize(
    ("second", "nano", "reason"),
    [
        ("x", 0, "bad_stamp"),
        ([1], 0, "bad_stamp"),
        (1, "x", "bad_stamp"),
        (10**30, 0, "stamp_out_of_range"),
    ],
)
def test_an_instant_that_is_none_is_refused(second: object, nano: object, reason: str) -> None:
    instant = {"epochSecond": second, "nanoOfSecond": nano}
    found = read(json.dumps({"instant": instant, "message": EVENTS[0].message}).encode())
    assert (found.requests(), reasons(found)) == ([], {reason})


def test_a_line_too_long_in_an_array_has_a_number() -> None:
    lines = [b"[", LongLine(b"x", 9), b"  {", b'    "message": "other"', b"  }"]
    elements = LineReader(ZONE, Framing(indent=b"  ")).elements(lines, 1)
    assert [number for number, _ in elements] == [2, 3]


def mutations(count: int, seed: int) -> Iterator[bytes]:
    """Lines of all layouts and wrappers, some of their bytes changed, cut or doubled."""
    chosen = random.Random(seed)
    short = [i for i, line in enumerate(LINES) if len(line) < 3000]
    wrapped = [
        line
        for name, wrapper in WRAPPERS.items()
        for i in chosen.sample(short, 8)
        for line in wrapper.wrapped([LINES[i]], [STAMPS_US[i]]).splitlines()
    ] + [line for log in logs().values() for line in log.splitlines()[:8]]
    for _ in range(count):
        line = bytearray(chosen.choice(wrapped))
        for _ in range(chosen.randint(1, 4)):
            at = chosen.randrange(len(line) + 1)
            end = at + chosen.choice([0, 1, 1, 2, 30])
            line[at:end] = chosen.choice(
                [b"", b'"', b"\\", b"{", b"}", bytes([at % 256]), line[:at]]
            )
            line = line[:20_000] or bytearray(b"{")
        yield bytes(line.replace(b"\n", b" "))


@pytest.mark.parametrize("count", [3000, pytest.param(30_000, marks=pytest.mark.slow)])
def test_mutated_lines_raise_nothing_and_all_are_counted(count: int) -> None:
    lines = [*mutations(count, seed=22)]
    reader, found = LineReader(ZONE), Lines()
    for at in range(0, count, 500):
        found.add(reader.read(lines[at : at + 500], at + 1))
    found.add(reader.ended())
    assert found.physical == count
    # A line can be a part of another, and one can hold several.
    assert 0.9 * count < len(found.lines) + found.others.total() < 1.2 * count
    assert all(0 < number <= count for number in found.numbers)
