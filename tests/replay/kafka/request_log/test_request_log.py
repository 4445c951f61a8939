"""Lines in, rows out: what a line is, what it is not, and that nothing is lost on the way."""

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from parsed_lines import LINES, parsed

from kip_replay.replay.kafka.messages import BROKER_HEARTBEAT, FETCH, PRODUCE
from kip_replay.replay.kafka.messages.layout import Field, Struct

JSON = (
    b'{"isForwarded":false,"requestHeader":{"requestApiKey":18,"requestApiVersion":4,'
    b'"correlationId":7,"clientId":"c","requestApiKeyName":"API_VERSIONS"},"request":{},'
    b'"response":{"errorCode":0},"connection":"10.0.0.1:9092-10.0.0.2:4711-3-0",'
    b'"totalTimeMs":12.345,"requestQueueTimeMs":0.1,"localTimeMs":1.5,"remoteTimeMs":10.0,'
    b'"throttleTimeMs":0,"responseQueueTimeMs":0.245,"sendTimeMs":0.5,'
    b'"securityProtocol":"PLAINTEXT","principal":"User:ANONYMOUS","listener":"PLAINTEXT",'
    b'"clientInformation":{"softwareName":"java","softwareVersion":"4.1.1"}}'
)
LINE = b"[2026-11-20 20:30:34,831] DEBUG Completed request:" + JSON + b" (kafka.request.logger)"


def parse(*lines: bytes, zone: str = "UTC") -> list[dict[str, Any]]:
    return parsed(lines, zone=zone, file="f.log")


def reason(line: bytes) -> str | None:
    (row,) = parse(line)
    assert (row["request"] is None) != (row["rejected"] is None)
    return None if row["rejected"] is None else row["rejected"]["reason"]


def replaced(old: bytes, new: bytes) -> bytes:
    assert LINE.count(old) == 1
    return LINE.replace(old, new)


# What follows from a line


def test_request_columns() -> None:
    (row,) = parse(LINE)
    completed = datetime(2026, 11, 20, 20, 30, 34, 831000, UTC)
    received = completed - timedelta(microseconds=12345)
    assert row["request"] == {
        "received_at": received,
        "dequeued_at": received + timedelta(microseconds=100),
        "handled_at": received + timedelta(microseconds=1600),
        "built_at": completed - timedelta(microseconds=745),
        "completed_at": completed,
        "api_key": 18,
        "api_name": "API_VERSIONS",
        "api_version": 4,
        "correlation_id": 7,
        "client_id": "c",
        "connection": "10.0.0.1:9092-10.0.0.2:4711-3-0",
        "listener": "PLAINTEXT",
        "security_protocol": "PLAINTEXT",
        "principal": "User:ANONYMOUS",
        "software_name": "java",
        "software_version": "4.1.1",
        "is_forwarded": False,
        "is_deprecated_version": False,
        "total_ms": 12.345,
        "request_queue_ms": 0.1,
        "local_ms": 1.5,
        "remote_ms": 10.0,
        "throttle_ms": 0.0,
        "response_queue_ms": 0.245,
        "send_ms": 0.5,
        "has_response": True,
        "request_bytes": None,
        "response_bytes": None,
    }


def test_line_id_is_the_content_on_a_node_whatever_the_line_end() -> None:
    expected = hashlib.blake2b(b"11\0" + LINE, digest_size=16).hexdigest()
    rows = parse(LINE, LINE + b"\n", LINE + b"\r\n", LINE + b"\r")
    assert [row["request_id"] for row in rows] == [expected] * 4
    assert [row["request"] for row in rows] == [rows[0]["request"]] * 4
    (other,) = parsed([LINE], node_id=1)
    assert other["request_id"] != expected


@pytest.mark.parametrize(
    ("fold_changes_at_line", "hours"),
    [(None, [0] * 5), (14, [0, 0, 0, 1, 1]), (11, [1] * 5), (3, [1] * 5), (99, [0] * 5)],
)
def test_second_pass_begins_at_its_line(fold_changes_at_line: int, hours: list[int]) -> None:
    line = LINE.replace(b"2026-11-20 20:30", b"2026-10-25 02:30")
    lines = {"first": 11, "fold_changes_at_line": fold_changes_at_line}
    rows = parsed([line] * 5, zone="Europe/Berlin", **lines)
    assert [row["request"]["completed_at"].hour for row in rows] == hours


# What is tolerated


@pytest.mark.parametrize(
    ("old", "new", "columns"),
    [
        # A field that a newer Kafka adds.
        (b'{"isForwarded"', b'{"new":{"a":[1,"}"]},"isForwarded"', {}),
        (
            b',"clientInformation":{"softwareName":"java","softwareVersion":"4.1.1"}',
            b"",
            {"software_name": None, "software_version": None},
        ),
        (b'"clientId":"c"', b'"clientId":null', {"client_id": None}),
        (
            b'"clientId":"c"',
            '"clientId":"größe \\ud83d\\ude00"'.encode(),
            {"client_id": "größe 😀"},
        ),
        (
            b'"API_VERSIONS"}',
            b'"API_VERSIONS","requestApiVersionDeprecated":true}',
            {"is_deprecated_version": True},
        ),
        (b'"requestApiVersion":4', b'"requestApiVersion":32767', {"api_version": 32767}),
        (b'{"errorCode":0}', b'""', {"has_response": False}),
        (b'{"errorCode":0}', b"null", {"has_response": False}),
    ],
)
def test_tolerated(old: bytes, new: bytes, columns: dict[str, Any]) -> None:
    rows = parse(replaced(old, new), LINE)
    assert rows[0]["request"] == rows[1]["request"] | columns


@pytest.mark.parametrize(
    "line",
    [
        *(replaced(b"DEBUG", level) for level in (b"INFO", b"NOISE", b" WARN", b"DEBUG [thread]")),
        replaced(b"] DEBUG", b"]DEBUG"),
        replaced(b"34,831", b"34.831"),
        replaced(b"} (kafka.request", b"} [handler-3] (kafka.request"),
        replaced(b"kafka.request.logger", b"kafka.other.logger"),
        b"x" + LINE,
        LINE[:-1],
        LINE[: LINE.rindex(b"}") + 1],
    ],
)
def test_what_stands_around_the_json_is_no_content(line: bytes) -> None:
    assert parse(line) == parse(LINE)


@pytest.mark.parametrize(
    ("ms", "expected"), [(31_622_400_000, None), (31_622_400_001, "absurd_times")]
)
def test_a_request_takes_a_leap_year_at_most(ms: int, expected: str | None) -> None:
    line = replaced(b'"remoteTimeMs":10.0', b'"remoteTimeMs":%d' % ms)
    assert reason(line.replace(b'"totalTimeMs":12.345', b'"totalTimeMs":%d' % ms)) == expected


@pytest.mark.parametrize("day", [b"1970-01-01", b"9996-12-31"])
@pytest.mark.parametrize("zone", ["Etc/GMT-14", "Etc/GMT+12"])
def test_what_follows_from_any_stamp_and_duration_is_a_date(day: bytes, zone: str) -> None:
    line = replaced(b"2026-11-20", day)
    for name in (b"totalTimeMs", b"requestQueueTimeMs", b"localTimeMs", b"sendTimeMs"):
        line = re.sub(b'"%s":[0-9.]+' % name, b'"%s":31622400000' % name, line)
    (row,) = parse(line, zone=zone)  # dates of Python, which end with the year 9999
    assert row["rejected"] is None


# What is not


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        *((LINE[:end], "truncated") for end in (50, 300, LINE.rindex(b"}"))),
        (replaced(b'"totalTimeMs":12.345', b'"totalTimeMs":12.3.45'), "bad_json"),
        (replaced(b'"request":{}', b'"request":{"a":}'), "bad_json"),
        (replaced(b"2026-11-20", b"2026-13-20"), "bad_stamp"),
        (replaced(b"2026-11-20", b"20261-1-20"), "bad_stamp"),
        *(
            (replaced(b"2026-11-20", day), "stamp_out_of_range")
            for day in (b"0001-01-01", b"1969-12-31", b"9997-01-01", b"9999-12-31")
        ),
        (replaced(b"20:30:34,831", b"20:30: 4,831"), "bad_stamp"),
        *(
            (replaced(b"34,831", second), "stamp_without_milliseconds")
            for second in (b"34", b"34,8", b"34Z")
        ),
        (replaced(b'"clientId":"c"', b'"clientId":"\xff"'), "binary"),
        (replaced(b'"clientId":"c"', b'"clientId":"\0"'), "binary"),
        (replaced(b'"connection":', b'"connexion":'), "missing_field"),
        (replaced(b'"correlationId":7', b'"correlationId":"7"'), "bad_envelope"),
        (replaced(b'"correlationId":7', b'"correlationId":2147483648'), "bad_envelope"),
        (replaced(b'"requestApiVersion":4', b'"requestApiVersion":32768'), "bad_envelope"),
        (replaced(b'"requestApiVersion":4', b'"requestApiVersion":-1'), "bad_envelope"),
        (replaced(b'"sendTimeMs":0.5', b'"sendTimeMs":-0.5'), "absurd_times"),
        (replaced(b'"throttleTimeMs":0', b'"throttleTimeMs":-0.5'), "absurd_times"),
        (replaced(b'"throttleTimeMs":0', b'"throttleTimeMs":1e15'), "absurd_times"),
        (replaced(b'"throttleTimeMs":0', b'"throttleTimeMs":NaN'), "bad_json"),
        (replaced(b'"totalTimeMs":12.345', b'"totalTimeMs":-1'), "absurd_times"),
        (replaced(b'"totalTimeMs":12.345', b'"totalTimeMs":1e15'), "absurd_times"),
        (replaced(b'"totalTimeMs":12.345', b'"totalTimeMs":1012.4'), "absurd_times"),
        (replaced(b'"remoteTimeMs":10.0', b'"remoteTimeMs":1012.4'), "absurd_times"),
        (replaced(b'"request":{}', b'"request":[]'), "bad_body"),
        (LINE + LINE, "interleaved"),
        (LINE[:400] + LINE[:60] + LINE[400:], "interleaved"),
        (LINE[:400] + LINE[:30] + LINE[400:], "interleaved"),
    ],
)
def test_rejected(line: bytes, expected: str) -> None:
    assert reason(line) == expected


def test_a_rejected_line_is_cut() -> None:
    (row,) = parse(b"Completed request:{\xff" + b"d" * 5000)
    assert row["rejected"]["line_bytes"] == 5020
    assert row["rejected"]["line"] == "Completed request:{\ufffd" + "d" * 980


MESSAGES = {"FETCH": FETCH, "PRODUCE": PRODUCE, "BROKER_HEARTBEAT": BROKER_HEARTBEAT}


def fields_of(
    struct: Struct, body: Any, place: str
) -> Iterator[tuple[dict[str, Any], str, str, Field]]:
    """Yields each field of a body: the object that has it, its key, its path and its schema."""
    for field in struct.fields:
        key = field.name[0].lower() + field.name[1:]
        key += "SizeInBytes" if field.type == "records" else ""
        if key not in body:
            continue
        yield body, key, f"{place}.{key}", field
        value = body[key]
        for inner in value[:1] if isinstance(value, list) else [value]:
            if field.struct and isinstance(inner, dict):
                yield from fields_of(field.struct, inner, f"{place}.{key}")


ABSENT = object()
#: The largest number of each type, and the least where it is not -1.
LARGEST = {"int8": 127, "int16": 2**15 - 1, "int32": 2**31 - 1, "int64": 2**62 - 1}
LARGEST["records"] = LARGEST["int32"]
LEAST = dict.fromkeys(("partition", "partitionIndex", "index", "brokerId", "throttleTimeMs"), 0)
LEAST |= {"recordsSizeInBytes": 0, "acks": -(2**15), "replicaId": -2}


def cases_of(place: str, field: Field) -> Iterator[tuple[object, bool]]:
    """Yields values of a field, and whether it can have them."""
    if not field.may_be_absent:
        yield from ((None, False), (ABSENT, False))
    if (largest := LARGEST.get(field.type)) and not field.is_array:
        least = LEAST.get(place.rpartition(".")[2], -1)
        yield from ((least, True), (largest, True), (least - 1, False), (largest + 1, False))


@pytest.mark.parametrize("api", list(MESSAGES))
def test_a_value_that_a_field_cannot_have_rejects_its_line(api: str) -> None:
    """Of each field of the message schemas that a recorded line of the API has."""
    quoted = b'"requestApiKeyName":"%s"' % api.encode()
    tried = set()
    for text in [line for line in LINES if quoted in line]:
        start, end = text.index(b"{"), text.rindex(b"}") + 1
        for side in ("request", "response"):
            schema = getattr(MESSAGES[api], side).body
            found = [*fields_of(schema, json.loads(text[start:end])[side] or {}, side)]
            for number, (_, key, place, field) in enumerate(found):
                for value, fits in () if place in tried else cases_of(place, field):
                    body = json.loads(text[start:end])
                    struct = [*fields_of(schema, body[side], side)][number][0]
                    struct[key] = value
                    if value is ABSENT:
                        del struct[key]
                    (row,) = parse(text[:start] + json.dumps(body).encode() + text[end:])
                    assert (row["rejected"] is None) == fits, (place, value)
                    if not fits:
                        assert row["rejected"]["reason"] == "bad_body"
                        assert key in row["rejected"]["detail"]
                tried.add(place)
    assert len(tried) >= 10


def test_a_line_that_does_not_fit_changes_no_other() -> None:
    """Those of its API and version are then decoded one by one, and not by Arrow."""
    spoiled = [re.sub(rb'"throttleTimeMs":\d+,', b"", line, count=1) for line in LINES]
    rows = parsed([*LINES, *spoiled])
    expected = parsed(LINES)
    for row in (*rows, *expected):
        del row["position"]
    assert rows[: len(LINES)] == expected
    rejected = [row["rejected"]["reason"] for row in rows[len(LINES) :] if row["rejected"]]
    assert {*rejected} == {"bad_body"}
    assert len(rejected) > 100
