"""Stamps that cannot be where they stand: found wherever they are, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_logs import BROKER, CONTROLLER

from kip_replay.pipelines.ingest import log_bytes
from kip_replay.pipelines.ingest.file_reading import Content
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.parse_range import ParsedRange, parse_range
from kip_replay.pipelines.ingest.survey import Survey, SurveySettings, survey
from kip_replay.pipelines.ingest.survey_checks import notes_of, warnings_of

LINES = BROKER.splitlines(keepends=True)
START = datetime(2026, 11, 20, 20, 30)  # noqa: DTZ001 - local times
FORM = (
    '[{}] DEBUG Completed request:{{"isForwarded":false,"requestHeader":{{"requestApiKey":18,'
    '"requestApiVersion":4,"correlationId":{},"requestApiKeyName":"API_VERSIONS"}},"request":{{}},'
    '"response":{{"errorCode":0}},"connection":"{}","totalTimeMs":1,"requestQueueTimeMs":0,'
    '"localTimeMs":1,"remoteTimeMs":0,"responseQueueTimeMs":0,"sendTimeMs":0}} '
    "(kafka.request.logger)\n"
)


def stamp(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}"


def line(at: datetime, correlation_id: int, connection: str = "c") -> bytes:
    return FORM.format(stamp(at), correlation_id, connection).encode()


def log(*seconds: float) -> list[bytes]:
    """Lines of one connection, so many seconds after the start; its ids go on where none are."""
    lines, last, number = [], 0.0, -1
    for second in seconds:
        is_stray = abs(second) > 1e6
        number += 1 if is_stray or abs(second - last) < 3000 else 1000
        lines.append(line(START + timedelta(seconds=second), number))
        last = last if is_stray else second
    return lines


def surveyed(
    folder: Path,
    lines: list[bytes],
    zone: str = "UTC",
    known: set[Content] | None = None,
    **how: Any,
) -> Survey:
    path = folder / "a.log"
    path.write_bytes(b"".join(lines))
    return survey(LogFile("r", 1, zone, "a.log", str(path)), SurveySettings(**how), known or set())


def strays(folder: Path, lines: list[bytes], zone: str = "UTC") -> list[int]:
    return [stray.line_number for stray in surveyed(folder, lines, zone).strays]


def rows_of(found: Survey) -> list[dict[str, Any]]:
    ranges = [ParsedRange.of(found, part) for part in found.ranges]
    return [row for part in ranges for b in parse_range(part) for row in b.to_pylist()]


def moved(line: bytes, by: timedelta) -> bytes:
    at = datetime.strptime(line[1:24].decode() + "000", "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007
    return b"[" + stamp(at + by).encode() + line[24:]


# --- what is stray


@pytest.mark.parametrize("log_lines", [LINES, CONTROLLER.splitlines(keepends=True)])
def test_recorded_lines_stand_where_they_are(tmp_path: Path, log_lines: list[bytes]) -> None:
    assert strays(tmp_path, log_lines) == []


@pytest.mark.parametrize("old_to_new", [(3, b"4"), (6, b"0"), (10, b"4"), (12, b"0")])
@pytest.mark.parametrize("at", [1, 2, 3, len(LINES) // 2, len(LINES) - 2])
def test_a_flipped_digit_of_a_date_or_hour_is_one_rejected_line(
    tmp_path: Path, old_to_new: tuple[int, bytes], at: int
) -> None:
    place, digit = old_to_new
    flipped = LINES[at][:place] + digit + LINES[at][place + 1 :]
    assert flipped != LINES[at]
    whole, found = (
        surveyed(tmp_path, LINES),
        surveyed(tmp_path, [*LINES[:at], flipped, *LINES[at + 1 :]]),
    )
    assert (found.first_stamp, found.last_stamp) == (whole.first_stamp, whole.last_stamp)
    (rejected,) = [row for row in rows_of(found) if row["rejected"]]
    assert rejected["line_number"] == at + 1
    assert rejected["rejected"]["reason"] == "stray_stamp"
    detail = rejected["rejected"]["detail"]
    assert flipped[1:20].decode() in detail
    assert "stands between 2026-11-20 20:" in detail
    (warning,) = warnings_of([found])
    assert detail in warning


@pytest.mark.parametrize("days", [-4, 4])
@pytest.mark.parametrize("beside", [[], [20], [21], [30], [1, 38]])
def test_strays_may_be_close_together(tmp_path: Path, days: int, beside: list[int]) -> None:
    lines = log(*range(40))
    for at in (19, *beside):
        lines[at] = moved(lines[at], timedelta(days=days, hours=at % 3))
    assert strays(tmp_path, lines) == sorted(at + 1 for at in (19, *beside))


def test_a_stray_beside_a_gap_is_found(tmp_path: Path) -> None:
    hours = 5 * 3600
    lines = log(*range(20), 9e6, *range(hours, hours + 20))
    assert strays(tmp_path, lines) == [21]


# --- what is not


def gap(t: float) -> float:
    return t + (t >= 10) * 4000 + (t >= 20) * 40_000


def clock_set(t: float) -> float:
    return t - (t >= 15) * 7200 - (t >= 36) * 7200


def wave(t: float) -> float:
    return t - (t % 2) * 9


def slow(t: float) -> float:
    return t * 5000


@pytest.mark.parametrize("clock", [gap, clock_set, wave, slow])
@pytest.mark.parametrize("count", [1, 2, 3, 11, 12, 18, 21, 40])
def test_what_clocks_and_pauses_do_is_no_stray(
    tmp_path: Path, clock: Callable[[float], float], count: int
) -> None:
    assert strays(tmp_path, log(*map(clock, range(count)))) == []


@settings(deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.integers(6, 30), min_size=2, max_size=6),
    gaps=st.lists(st.integers(0, 100_000), min_size=6, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_files_put_together_in_any_order(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    gaps: list[int],
    order: random.Random,
) -> None:
    parts, t = [], 0.0
    for size, pause in zip(sizes, gaps, strict=False):
        t += pause
        parts.append([line(START + timedelta(seconds=t + i), i, f"c{t}") for i in range(size)])
        t += size
    order.shuffle(parts)
    lines = [text for part in parts for text in part]
    assert strays(tmp_path_factory.mktemp("cat"), lines) == []


@pytest.mark.parametrize("minutes", [1, 7, 25, 60, 100])
@pytest.mark.parametrize("pause", [0, 1, 30, 200])
def test_an_hour_that_occurs_twice(tmp_path: Path, minutes: int, pause: int) -> None:
    """However few lines there are, and however they lie around the change."""
    begin = datetime(2026, 10, 24, 22, 0)  # noqa: DTZ001 - UTC: 00:00 in Berlin
    lines = []
    for i in range(0, 360, minutes):
        utc = begin + timedelta(minutes=i + (i > 180) * pause)
        local = utc + timedelta(hours=2 if utc.hour in (22, 23, 0) and utc.day < 26 else 1)
        lines.append(line(local, i))
    assert strays(tmp_path, lines, "Europe/Berlin") == []
    strange = moved(lines[len(lines) // 2], timedelta(days=4))
    lines[len(lines) // 2] = strange
    if minutes < 60:
        assert strays(tmp_path, lines, "Europe/Berlin") == [len(lines) // 2 + 1]


def test_a_stray_does_not_change_where_an_hour_begins_again(tmp_path: Path) -> None:
    begin = datetime(2026, 10, 25, 1, 50)  # noqa: DTZ001 - in Berlin
    times = [begin + timedelta(minutes=i - (i >= 70) * 60) for i in range(160)]
    lines = [line(at, i) for i, at in enumerate(times)]
    whole = surveyed(tmp_path, lines, "Europe/Berlin")
    assert (whole.second_pass_line, whole.strays) == (71, ())
    lines[30] = moved(lines[30], timedelta(days=4))
    found = surveyed(tmp_path, lines, "Europe/Berlin")
    assert (found.second_pass_line, [stray.line_number for stray in found.strays]) == (71, [31])


def test_a_setting_accepts_them(tmp_path: Path) -> None:
    lines = log(*range(20), 9e6, *range(20, 40))
    assert surveyed(tmp_path, lines, accept_stray_stamps=True).strays == ()


# --- correlation ids


@pytest.mark.parametrize("seconds", [-9, -20, -600, -1700])
def test_back_by_minutes_is_stray_if_an_earlier_id_of_its_connection_is_later(
    tmp_path: Path, seconds: int
) -> None:
    expected = [31] if seconds < -10 else []
    lines = log(*range(30), 30 + seconds, *range(31, 60))
    found = surveyed(tmp_path, lines)
    assert [stray.line_number for stray in found.strays] == expected
    if expected:
        assert "has the correlation id 30 on a connection that has 29 at" in found.strays[0].why
    lines[30] = line(START + timedelta(seconds=30 + seconds), 30, "another")
    assert strays(tmp_path, lines) == []
    lines[30] = line(START + timedelta(seconds=30 + seconds), 20)  # as clients that do not number
    assert strays(tmp_path, lines) == []


@pytest.mark.parametrize("days", [-4, 4])
@pytest.mark.parametrize("at", [0, 19])
def test_at_an_end_of_a_file_correlation_ids_decide(tmp_path: Path, days: int, at: int) -> None:
    lines = log(*range(20))
    whole = surveyed(tmp_path, lines)
    lines[at] = moved(lines[at], timedelta(days=days))
    found = surveyed(tmp_path, lines)
    assert [stray.line_number for stray in found.strays] == [at + 1]
    ends = (found.first_stamp, found.last_stamp)
    assert all(end is not None and end[:16] == b"2026-11-20 20:30" for end in ends)
    assert whole.undecided == found.undecided == ()
    lines[at] = lines[at].replace(b'"connection":"c"', b'"connection":"d"')
    found = surveyed(tmp_path, lines)
    assert found.strays == ()
    (doubt,) = found.undecided
    assert (doubt.line_number, doubt.why[:8]) == (at + 1, "2026-11-")
    (warning,) = warnings_of([found])
    assert warning.startswith(f"line {at + 1} of a.log of recording 'r' has {doubt.why}, and no ")


# --- whatever the file is cut into


_EARLY, _LATE = [*range(20), 9e6, *range(20, 30), 15], range(40_000, 40_030)
WITH_STRAYS = [
    *log(*_EARLY, *_LATE, -9e6, 40_030, 9e6, *range(40_031, 40_040)),
    line(START + timedelta(seconds=9e7), 900, "d"),
]


@pytest.mark.parametrize("chunk_bytes", [97, 1000])
def test_neither_chunks_nor_ranges_matter(
    tmp_path: Path, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = surveyed(tmp_path, WITH_STRAYS)
    assert [stray.line_number for stray in expected.strays] == [21, 32, 63, 65]
    rows = rows_of(expected)
    monkeypatch.setattr(log_bytes, "CHUNK_BYTES", chunk_bytes)
    assert surveyed(tmp_path, WITH_STRAYS) == expected
    assert rows_of(surveyed(tmp_path, WITH_STRAYS, range_bytes=700)) == rows


@settings(deadline=None, max_examples=12)
@given(ends=st.lists(st.integers(0, len(b"".join(WITH_STRAYS))), max_size=6).map(sorted))
def test_a_growing_file_gives_what_it_gives_at_once(
    tmp_path_factory: pytest.TempPathFactory, ends: list[int]
) -> None:
    folder, whole = tmp_path_factory.mktemp("grows"), b"".join(WITH_STRAYS)
    known: set[Content] = set()
    rows: list[Any] = []
    for end in [*ends, len(whole)]:
        found = surveyed(folder, [whole[:end]], known=known, final=end == len(whole))
        if not found.is_known:
            rows += rows_of(found)
        known.add(Content(found.end, found.content_hash))
    assert rows == rows_of(surveyed(folder, [whole]))


def test_a_growing_file_leaves_a_jump_until_more_comes(tmp_path: Path) -> None:
    lines = log(*range(20), *range(40_000, 40_010))
    before = surveyed(tmp_path, lines[:23], final=False)
    assert before.lines == 20
    (note,) = notes_of([before])
    assert "a.log ends with stamps that only what follows can confirm: its last " in note
    known = {Content(before.end, before.content_hash)}
    again = surveyed(tmp_path, lines[:24], known=known, final=False)
    assert again.is_known
    later = surveyed(tmp_path, lines, known=known, final=False)
    assert (later.first_byte, later.lines, later.left_bytes) == (before.end, 10, 0)
