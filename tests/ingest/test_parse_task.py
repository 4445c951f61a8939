"""What a task counts, and that the longest line does not need a large machine."""

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_logs import BROKER, CONTROLLER, folder_of, lines_of

from kip_replay.pipelines.ingest.line_accounting import Counts
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.parse_task import (
    LINE_BYTES_MAX,
    Parsed,
    parse_task,
    tasks_of,
    together,
)
from kip_replay.pipelines.ingest.step import newer_versions_warning
from kip_replay.pipelines.ingest.survey import ParsedRange, survey
from kip_replay.pipelines.warehouse.data_files import TableFiles

REPOSITORY = Path(__file__).resolve().parents[2]
#: A FETCH of all of them is a line of 10 MB.
PARTITIONS = 32_768

_PARSE = """
import resource, sys
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.parse_task import LINE_BYTES_MAX, parse_task, tasks_of
from kip_replay.pipelines.ingest.survey import survey
from kip_replay.pipelines.warehouse.data_files import TableFiles

found = survey(LogFile("r", 11, "UTC", "big.log", sys.argv[1]))
(task,) = tasks_of(found.ranges, 1, TableFiles(sys.argv[2], "part"), LINE_BYTES_MAX)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
parse_task(task)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def large_fetch() -> bytes:
    """A line of a real full FETCH, its first partition in the place of all."""
    log = gzip.decompress((folder_of("sessions-off") / "broker-11.log.gz").read_bytes())
    real = next(line for line in log.splitlines() if len(line) > 10_000 and b'"FETCH"' in line)
    begin, end = real.index(b"{"), real.rindex(b"}") + 1
    line = json.loads(real[begin:end])
    for message, topics, number in (
        ("request", "topics", "partition"),
        ("response", "responses", "partitionIndex"),
    ):
        topic = line[message][topics][0]
        every = [topic["partitions"][0] | {number: n} for n in range(PARTITIONS)]
        line[message][topics] = [topic | {"partitions": every}]
    return real[:begin] + json.dumps(line, separators=(",", ":")).encode() + real[end:] + b"\n"


def test_lines_of_10_mb_pass_one_after_the_other(tmp_path: Path) -> None:
    log, warehouse = tmp_path / "big.log", tmp_path / "warehouse"
    line = large_fetch()
    lines = [line[:21] + b"%03d" % n + line[24:] for n in range(3)]
    assert log.write_bytes(b"".join(lines)) > 3 * 9_700_000
    command = [sys.executable, "-c", _PARSE, str(log), str(warehouse)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    kib = int(done.stdout)
    assert kib < 1 << 18, f"{kib / 1024:.0f} MiB to parse three lines of 10 MB"
    (file,) = (warehouse / "fetches").rglob("*.parquet")
    fetches = pq.read_table(file, columns=["request_partitions", "response_partitions"])
    for column in fetches.columns:
        assert [len(partitions) for partitions in column] == [PARTITIONS] * 3


def test_versions_newer_than_the_schemas_are_read_and_counted(tmp_path: Path) -> None:
    line = (REPOSITORY / "tests" / "data" / "ingest" / "broker-11.log").read_bytes().splitlines()
    fetch = next(text for text in line if b'"requestApiKey":1,"requestApiVersion":17' in text)
    newer = [fetch.replace(b'Version":17', b'Version":%d' % v) for v in (18, 19, 20, 19)]
    stamps = [text.replace(b"[2026", b"[203%d" % i, 1) for i, text in enumerate(newer)]
    log = tmp_path / "broker.log"
    log.write_bytes(b"\n".join(stamps) + b"\n")
    found = survey(LogFile("r", 11, "UTC", "broker.log", str(log)))
    (task,) = tasks_of(found.ranges, 1, TableFiles(str(tmp_path / "w"), "part"), LINE_BYTES_MAX)
    parsed = parse_task(task)
    assert parsed.newer_versions == {(1, 19): 2, (1, 20): 1}
    (file,) = (tmp_path / "w" / "fetches").rglob("*.parquet")
    rows = pq.read_table(file, columns=["api_version", "max_wait_ms", "request_bytes"]).to_pylist()
    sized = {row["api_version"]: row["request_bytes"] is not None for row in rows}
    assert sized == {18: True, 19: False, 20: False}
    assert all(row["max_wait_ms"] is not None for row in rows)
    warning = newer_versions_warning(parsed.newer_versions)
    assert warning.endswith("API key 1 version 19 (2 requests), API key 1 version 20 (1 request)")


def _ranges_of_files(folder: Path, contents: list[bytes], node_id: int = 11) -> list[ParsedRange]:
    ranges = []
    for number, content in enumerate(contents):
        path = folder / f"{node_id}.log.{number}"
        path.write_bytes(content)
        ranges += survey(LogFile("r", node_id, "UTC", path.name, str(path))).ranges
    return ranges


def test_small_files_are_parsed_together_and_give_what_they_give_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = lines_of(BROKER)
    files = [b"".join(lines[at : at + 3]) for at in range(0, len(lines), 3)]
    files[1] = files[1].removesuffix(b"\n")
    files[2] = files[2].replace(b"\n", b"\r\n")
    files[3:3] = [b"", b"Completed request:{}\n\nhello\n", files[0]]
    controller = _ranges_of_files(tmp_path, [CONTROLLER[:9000]], 2)
    ranges = [*_ranges_of_files(tmp_path, files), *controller]

    def parsed(name: str) -> tuple[int, Parsed, dict[str, list[str]]]:
        root = tmp_path / name
        (task,) = tasks_of(ranges, 1, TableFiles(str(root), "part"), LINE_BYTES_MAX)
        batches = [*together(task.ranges)]
        assert [part for parts in batches for part in parts] == [*task.ranges]
        of = parse_task(task)
        rows = {
            table.name: sorted(map(repr, pq.read_table(table, partitioning=None).to_pylist()))
            for table in root.iterdir()
        }
        return len(batches), of, rows

    batches, of, rows = parsed("together")
    monkeypatch.setattr("kip_replay.pipelines.ingest.parse_task._TOGETHER_BYTES", 0)
    batches_apart, of_apart, rows_apart = parsed("apart")
    assert (batches, batches_apart) == (2, len(ranges))
    assert of.counts == of_apart.counts
    assert of.times == of_apart.times
    assert of.newer_versions == of_apart.newer_versions
    assert rows == rows_apart
    assert of.counts["r", 11, "11.log.4"] == Counts(rejected=1, other=2, physical=3)
    assert of.counts["r", 11, "11.log.5"] == Counts(repeated=3, physical=3)


def test_what_is_not_read_by_its_zone_alone_is_parsed_alone(tmp_path: Path) -> None:
    one, two, three, four = _ranges_of_files(tmp_path, [b"1\n", b"2\n", b"3\n", b"4\n"])
    late = replace(two, second_pass_line=1)
    elsewhere = replace(four, file=replace(four.file, timezone="Asia/Tokyo"))
    large = replace(one, end=LINE_BYTES_MAX)

    def counts(*ranges: ParsedRange) -> list[int]:
        return [len(parts) for parts in together(ranges)]

    assert counts(one, two, three, four) == [4]
    assert counts(one, late, three, four) == [1, 1, 2]
    assert counts(one, two, three, elsewhere) == [3, 1]
    assert counts(large, two, three, large) == [1, 2, 1]
