"""Finding, surveying and cutting log files; whether they look like one recording. No Spark."""

import gzip
import hashlib
import os
import random
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsed_lines import by_line

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest import log_bytes
from kip_replay.pipelines.ingest.checks import notes_of, refusals, warnings_of
from kip_replay.pipelines.ingest.log_bytes import LogBytes, line_batches
from kip_replay.pipelines.ingest.log_files import LogFile, find_log_files
from kip_replay.pipelines.ingest.parse_task import parse_together
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.ingest.survey import Content, Survey, SurveySettings, survey
from kip_replay.replay.kafka.request_log.layouts import LongLine

REST = b"] DEBUG Completed request:{} (kafka.request.logger)\n"


def line(stamp: str) -> bytes:
    return b"[2026-11-20 " + stamp.encode() + b",000" + REST


def recording_of(path: Path, nodes: dict[int, str], is_anywhere: bool = True) -> Recording:
    listed = (Node(i, None, (log,), "UTC", is_anywhere=is_anywhere) for i, log in nodes.items())
    return Recording("r", "UTC", tuple(listed), path)


def survey_of(path: Path, content: bytes, range_bytes: int = 1 << 20, zone: str = "UTC") -> Survey:
    path.write_bytes(content)
    return survey(LogFile("r", 1, zone, path.name, str(path)), SurveySettings(range_bytes))


# --- finding


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a recording in ``r``, and with files and links of every kind."""
    folder, elsewhere = tmp_path / "r", tmp_path / "elsewhere" / "deep"
    for place in (folder / "node-1", folder / "logs", elsewhere):
        place.mkdir(parents=True)
    logs = [f"node-1/{name}" for name in ("server.log", ".hidden.log", *map(Path, KAFKAS))]
    for name in (*logs, "logs/a.log", "\udcff.log", "closed.log"):
        (folder / name).write_bytes(b"")
    for place in (elsewhere / "a.log", tmp_path / "passwd"):
        place.write_bytes(b"")
    links = {"near.log": "logs/a.log", "far.log": "../passwd", "out": "..", "loop": "loop"}
    for name, target in {**links, "logs/round": ".."}.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "closed.log")  # not root
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket"))
        yield tmp_path


KAFKAS = [
    "kafka-request.log",
    "kafka-request.log.2026-11-20-19.gz",
    "kafka-request.log.2026-11-20-20",
]
ROTATED = [f"node-1/{name}" for name in KAFKAS]


def names(root: Path, log: str, is_anywhere: bool = False) -> list[str]:
    recording = recording_of(root / "r", {1: log.format(root)}, is_anywhere=is_anywhere)
    return [file.source_file for file in find_log_files(recording)]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("node-1/kafka-request.log", ROTATED[:1]),
        ("node-1/kafka-request.log*", ROTATED),
        ("node-1", ROTATED),
        ("*/*.log", ["logs/a.log", ROTATED[0], "node-1/server.log"]),
        ("{0}/r/node-1/kafka*", ROTATED),
        ("near.log", ["near.log"]),
        ("logs/round/logs/round/near.log", ["logs/round/logs/round/near.log"]),
        ("**/a.log", ["logs/a.log"]),
    ],
)
def test_a_name_is_one_file_a_glob_many_and_a_folder_kafkas_own(
    root: Path, log: str, expected: list[str]
) -> None:
    assert names(root, log) == expected


@pytest.mark.parametrize(
    ("log", "name"),
    [
        ("../elsewhere/deep/a.log", "../elsewhere/deep/a.log"),
        ("../elsewhere/deep", "../elsewhere/deep/a.log"),
        ("{0}/elsewhere/deep/a.log", "a.log"),
        ("{0}/elsewhere/*/a.log", "deep/a.log"),
        ("node-1/../../elsewhere/deep/*", "node-1/../../elsewhere/deep/a.log"),
        ("far.log", "far.log"),
        ("fa*", "far.log"),
        ("out/passwd", "out/passwd"),
        ("out/p*", "out/passwd"),
    ],
)
def test_a_manifest_names_logs_of_its_folder_unless_the_user_allows_others(
    root: Path, log: str, name: str
) -> None:
    """Links lead no further than names; absolute names begin below what was named."""
    leads_out = r"leads out of the recording's folder to .*: .* --allow-outside"
    with pytest.raises(UserError, match=leads_out):
        names(root, log)
    assert names(root, log, is_anywhere=True) == [name]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        *(
            (log, f"no log: this is no regular file matches '{log}'")
            for log in ("pipe", "socket", "/dev/zero")
        ),
        ("gone*", r"node 1 of recording 'r' has no log: nothing there matches 'gone\*'"),
        ("*t", "no log: nothing there"),
        ("loop", "nothing there matches 'loop'"),
        ("/proc/self/environ", "is no file of a disk"),
        ("/proc/self/root/proc/version", "is no file of a disk"),
        ("x" * 300, "cannot be read .*File name too long"),
        ("**x", "cannot be read .*Invalid pattern"),
        ("\udcff.log", "has a name that is no UTF-8"),
        ("closed.log", r"closed\.log' of node 1 .* may not be read by this user"),
    ],
)
def test_what_cannot_be_opened_is_one_sentence(root: Path, log: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        names(root, log, is_anywhere=True)


def test_a_log_of_two_nodes_is_named(root: Path) -> None:
    with pytest.raises(UserError, match=r"a\.log .* of node 1 and of node 2"):
        find_log_files(recording_of(root / "r" / "logs", {1: "a.log", 2: "*.log"}))


def test_a_nodes_part_of_a_file_goes_by_the_same_name_in_every_process(tmp_path: Path) -> None:
    """By it, what was read is known in a later run: no order of a set may be in it."""
    (tmp_path / "a.log").touch()
    nodes = [Node(n, None, ("a.log",), "UTC", node_by=((), f"pod-{n}")) for n in range(1, 6)]
    first, *_ = find_log_files(Recording("r", "UTC", tuple(nodes), tmp_path))
    assert b"others=('pod-2', 'pod-3', 'pod-4', 'pod-5')" in first.part


# --- bytes and lines


@given(
    content=st.binary(max_size=300) | st.text("a\r\n", max_size=300).map(str.encode),
    cuts=st.lists(st.integers(0, 300)),
    line_bytes_max=st.integers(0, 50),
    batch=st.tuples(st.integers(1, 100), st.integers(1, 9)),
)
def test_lines_are_the_same_however_the_bytes_arrive(
    content: bytes, cuts: list[int], line_bytes_max: int, batch: tuple[int, int]
) -> None:
    edges = sorted({0, len(content), *(min(cut, len(content)) for cut in cuts)})
    chunks = [content[a:b] for a, b in pairwise(edges)]
    expected = content.split(b"\n")
    if not expected[-1]:
        expected.pop()
    batches = [*line_batches(chunks, line_bytes_max, *batch)]
    assert [line for lines in batches for line in lines] == [
        LongLine(line, len(line)) if len(line) > line_bytes_max else line.removesuffix(b"\r")
        for line in expected
    ]
    assert all(len(lines) <= batch[1] for lines in batches)


def read(path: Path, compressed: bytes) -> tuple[bytes, str | None]:
    """What is read of a file, and the damage that was met."""
    path.write_bytes(compressed)
    log = LogBytes(str(path), ratio_max=250)
    content = b"".join(log.chunks())
    return content, None if log.damage is None else log.damage.what


ENDS, DAMAGED = "ends in the middle of its gzip stream", "has a damaged gzip stream"


@pytest.mark.parametrize("chunk_bytes", [7, 1 << 20])
def test_damaged_gzip_gives_what_was_before_the_damage(
    tmp_path: Path, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_bytes, "CHUNK_BYTES", chunk_bytes)
    path, whole = tmp_path / "a.gz", b"".join(line(f"20:00:{n % 60:02}") for n in range(900))
    compressed = gzip.compress(whole)
    assert read(path, compressed) == (whole, None)
    # Members may follow one another, padded.
    assert read(path, (compressed + b"\0" * 99) * 2) == (whole * 2, None)
    for keep in (3, 12, 50, 600):
        head, damage = read(path, compressed[:keep])
        assert whole.startswith(head)
        assert damage == ENDS
    assert len(head) > 300
    wrong_crc, wrong_length = compressed[:-8] + b"\1" + compressed[-7:], compressed[:-1] + b"\1"
    for damaged in (wrong_crc, wrong_length, compressed + b"garbage"):
        assert read(path, damaged) == (whole, DAMAGED)
    flipped = bytearray(gzip.compress(random.Random(1).randbytes(9000)))
    flipped[10] |= 6  # a type of block that deflate does not have
    assert read(path, bytes(flipped)) == (b"", DAMAGED)
    assert read(path, compressed + bytes(flipped)) == (whole, DAMAGED)


def test_a_survey_says_where_a_file_is_damaged_and_leaves_the_line(tmp_path: Path) -> None:
    whole = b"".join(LINES)
    path, keep = tmp_path / "a.gz", len(gzip.compress(whole)) - 20
    found = survey_of(path, gzip.compress(whole)[:keep])
    read_lines = found.lines
    assert 3 < read_lines < len(LINES)
    assert (found.end, found.left_bytes > 0) == (read_lines * len(LINES[0]), True)
    (warning,) = warnings_of([found])
    assert warning == (
        f"a.gz of recording 'r' {ENDS} at its byte {keep}, and is sound up to byte {found.end} "
        f"when unpacked, where line {read_lines + 1} begins: the lines before are read, what "
        "follows is lost"
    )
    assert notes_of([found]) == []
    mended = grown(path, whole[: found.end], gzip.compress(whole))
    assert (mended.first_byte, mended.lines) == (found.end, len(LINES) - read_lines)
    assert mended.damage is None


def test_a_zip_bomb_comes_in_chunks_and_ends_early(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress((b"x" * 1023 + b"\n") * (5 << 10)))
    sizes = [len(chunk) for chunk in LogBytes(str(path)).chunks()]
    assert sum(sizes) == 5 << 20
    assert max(sizes) <= log_bytes.CHUNK_BYTES
    found = survey(LogFile("r", 1, "UTC", "a.gz", str(path)), SurveySettings(gzip_ratio_max=250))
    assert 1 << 20 <= found.bytes_read < 5 << 20
    assert found.damage is not None
    assert found.damage.startswith("unpacks to more than 250 times its size at its byte ")


# --- survey


def test_a_survey_counts_and_cuts_at_line_ends(tmp_path: Path) -> None:
    content = line("20:00:00") + b"x" * 25 + b"\n" + line("20:00:09") + b"half"
    found = survey_of(tmp_path / "a.log", content, range_bytes=10)
    size = len(line("20:00:00"))
    assert (found.bytes_read, found.lines, found.has_requests) == (len(content), 4, True)
    first_us = round(datetime(2026, 11, 20, 20, tzinfo=UTC).timestamp() * 1e6)
    assert (found.first_us, found.last_us) == (first_us, first_us + 9_000_000)
    assert found.content_hash == hashlib.blake2b(content, digest_size=16).hexdigest()
    # A range begins with a request.
    ranges = [(part.start, part.end, part.first_line_number) for part in found.ranges]
    assert ranges == [(0, size + 26, 1), (size + 26, len(content), 3)]
    empty = survey_of(tmp_path / "a.log", b"")
    assert (empty.lines, empty.bytes_read, empty.has_requests, empty.ranges) == (0, 0, False, ())


@pytest.mark.parametrize("chunk_bytes", [1, 2, 7, 100, 1000])
def test_chunks_change_nothing(
    tmp_path: Path, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But where ranges begin: with a line that is whole in its chunk."""
    content = b"".join(line(f"20:00:{second:02}") for second in range(40)) + b"\n\n no line"
    expected = survey_of(tmp_path / "a.log", content, range_bytes=150)
    rows = lines_of(expected)
    assert len(expected.ranges) > 10
    monkeypatch.setattr(log_bytes, "CHUNK_BYTES", chunk_bytes)
    for packed in (content, gzip.compress(content)):
        found = survey_of(tmp_path / "a.log", packed, range_bytes=150)
        assert found.is_compressed == (packed != content)
        assert lines_of(found) == rows
        assert replace(found, is_compressed=False, ranges=expected.ranges) == expected


# --- what has been read before


def content(text: bytes) -> Content:
    return Content(len(text), hashlib.blake2b(text, digest_size=16).hexdigest())


LINES = [line(f"20:00:{second:02}") for second in range(9)]


def grown(path: Path, before: bytes, now: bytes, final: bool = False) -> Survey:
    """A survey of what a file holds now, when something else has been read of its node."""
    path.write_bytes(now)
    file = LogFile("r", 1, "UTC", path.name, str(path))
    known = {content(before), content(b"other\n"), content(LINES[0])}
    return survey(file, SurveySettings(100, final), {("r", 1): known})


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_a_whole_last_line_without_its_end_is_read_and_its_end_is_no_line(
    tmp_path: Path, line_end: bytes
) -> None:
    before = line_end.join(text[:-1] for text in LINES[:5])
    path = tmp_path / "a.log"
    first = grown(path, b"nothing", before)
    assert (first.end, first.left_bytes) == (len(before), 0)
    found = grown(path, before, before + line_end + LINES[5] + b"half")
    assert (found.first_byte, found.lines) == (len(before + line_end), 1)
    assert found.ranges[0].first_line_number == 6
    assert found.left_bytes == 4


def read_of(found: Survey, **options: Any) -> list[tuple[list[dict[str, Any]], int]]:
    """Rows of each batch of lines in the ranges of a survey, and how many physical lines."""
    return [
        (by_line(rows), sum(lines.physical for lines in of_files.values()))
        for part in found.ranges
        for rows, of_files in parse_together([part], **options)
    ]


def lines_of(found: Survey) -> list[tuple[int, str]]:
    """Number and id of each line in the ranges of a survey."""
    return [(row["line_number"], row["request_id"]) for rows, _ in read_of(found) for row in rows]


@settings(max_examples=20)
@given(ends=st.lists(st.integers(0, 8 * 76 + 30), max_size=5).map(sorted), final=st.booleans())
def test_pieces_are_the_whole(
    tmp_path_factory: pytest.TempPathFactory, ends: list[int], final: bool
) -> None:
    """Whenever a growing file is looked at, every line is read once, with its number."""
    path = tmp_path_factory.mktemp("pieces") / "a.log"
    whole = b"".join(LINES[:4]) + b"no line\r\n\n" + b"".join(LINES[4:]) + b"half"
    file = LogFile("r", 1, "UTC", path.name, str(path))
    known: set[Content] = set()
    read: list[tuple[int, str]] = []
    for end in [*ends, len(whole)]:
        path.write_bytes(whole[:end])
        is_last = final and end == len(whole)
        found = survey(file, SurveySettings(50, is_last), {("r", 1): known})
        rows = lines_of(found)
        assert sum(physical for _, physical in read_of(found)) == found.lines
        assert not (found.is_known and rows)
        read += rows
        known.add(Content(found.end, found.content_hash))
    path.write_bytes(whole)
    assert read == lines_of(survey(file, SurveySettings(final=final)))


def test_of_a_line_above_the_limit_its_head_and_length_are_kept(tmp_path: Path) -> None:
    content = line("20:00:00") + b"\xffacme" * 600 + b"\n" + b"acme" * 800
    found = survey_of(tmp_path / "a.log", content)
    batches = read_of(found, line_bytes_max=500)
    rows = [row for rows, _ in batches for row in rows]
    rejected = [row["rejected"] for row in rows[1:]]
    assert [(of["reason"], of["line_bytes"]) for of in rejected] == [
        ("too_long", 3000),
        ("too_long", 3200),
    ]
    assert [of["line"] for of in rejected] == ["\ufffdacme" * 200, "acme" * 250]
    assert len({row["request_id"] for row in rows}) == 3


def test_an_ambiguous_hour_that_stays_ambiguous_is_warned_about(tmp_path: Path) -> None:
    content = b"[2026-10-25 02:30:00,000" + REST
    found = survey_of(tmp_path / "a.log", content, zone="Europe/Berlin")
    assert not found.fold_is_known
    (warning,) = warnings_of([found])
    assert "occurs twice in Europe/Berlin" in warning
    assert survey_of(tmp_path / "a.log", content).fold_is_known


# --- whole recordings


def check(
    tmp_path: Path,
    logs: dict[int, bytes],
    zones: dict[int, str] | None = None,
    ingested: Sequence[Mapping[str, Any]] = (),
    final: bool = True,
) -> list[str]:
    nodes, surveys = [], []
    for node_id, content in logs.items():
        path, zone = tmp_path / f"{node_id}.log", (zones or {}).get(node_id, "UTC")
        path.write_bytes(content)
        nodes.append(Node(node_id, None, (path.name,), zone))
        file = LogFile("r", node_id, zone, path.name, str(path))
        surveys.append(survey(file, SurveySettings(final=final)))
    recording = Recording("r", "UTC", tuple(nodes), tmp_path)
    return [*refusals(recording, surveys, 10, ingested, final), *notes_of(surveys)]


WRONG_ZONE = (
    "node 2 of recording 'r' logged from 2026-11-20 19:00 to 2026-11-20 19:10 UTC (read as "
    "Europe/Berlin) but the other nodes from 2026-11-20 20:00 to 2026-11-20 20:10 UTC: its stamps "
    "look 1 h off, set nodes[].timezone of node 2"
)
SAME = line("20:00:00") + line("20:10:00")
ONE, OTHER_DAY = line("20:00:00"), line("20:00:00").replace(b"-11-", b"-12-")


@pytest.mark.parametrize(
    ("logs", "zones", "sentence"),
    [
        ({1: SAME, 2: line("20:19:00")}, {}, None),
        ({1: ONE}, {}, None),
        ({1: SAME, 2: SAME[:-1], 3: SAME + b"x"}, {2: "Europe/Berlin"}, WRONG_ZONE),
        (
            {1: SAME, 2: SAME + b"2", 3: SAME + b"3", 4: SAME + b"4", 5: SAME + b"5"},
            dict.fromkeys((2, 3), "Asia/Kolkata"),
            "look 5.5 h off",
        ),
        ({1: ONE, 2: OTHER_DAY}, {}, "are these logs of another day"),
        ({1: ONE, 2: gzip.compress(ONE)[:9]}, {}, "(2.log) ends in the middle of its gzip"),
        (
            {1: SAME, 2: b"hello\n"},
            {},
            "(2.log) holds lines of other loggers",
        ),
    ],
)
def test_what_does_not_look_like_one_recording_is_refused(
    tmp_path: Path, logs: dict[int, bytes], zones: dict[int, str], sentence: str | None
) -> None:
    texts = check(tmp_path, logs, zones)
    assert sentence in texts[0] if sentence else texts == []


def test_a_log_that_was_rotated_a_moment_ago_stops_nothing(tmp_path: Path) -> None:
    one = b"".join(line(f"20:00:0{second}") for second in range(5))
    logs = {1: one, 2: b""}
    at = datetime(2026, 11, 20, 20, tzinfo=UTC)
    read = {"recording": "r", "node_id": 2, "source_file": "2.log", "requests": 1}
    read |= {
        "content_hash": "",
        "first_received_at": at,
        "last_completed_at": at,
        "clock_offset_ms": 0,
    }
    empty = ["empty: 2.log"]
    assert check(tmp_path, logs, final=False) == check(tmp_path, logs, ingested=[read]) == empty
    assert check(tmp_path, logs) == empty
    (begun,) = check(tmp_path, {1: line("20:00:00"), 2: line("20:00:00")[:30]}, final=False)
    assert begun.startswith("2.log does not end with a line end: its last 30 bytes are left for a")
    refused = check(tmp_path, {1: one, 2: b"hello\n"}, final=False)
    assert "holds lines of other loggers" in refused[0]
