"""Ingest: every line once, whatever the files look like and wherever the last run was killed."""

import gzip
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, count, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from put_rows import rows_of
from ran import is_killed
from small_logs import BROKER, CONTROLLER, lines_of, plain, stamped, write_recording

from kip_replay.jobs.ingest import main
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import IngestError, WriteConflictError
from kip_replay.pipelines.ingest import step
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.recording import Recording, RecordingOptions, load_recording
from kip_replay.pipelines.ingest.second_parse import Span, overlaps
from kip_replay.pipelines.ingest.step import IngestSettings, LinesRead, ingest
from kip_replay.pipelines.ingest.survey import Survey, survey
from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import (
    LOG_TABLES,
    TYPED_TABLES,
    IngestedFiles,
    RejectedLines,
    Requests,
    Topics,
)
from kip_replay.replay.table import Table
from kip_replay.replay.tables import Lineage

GROWING = IngestSettings(final=False)
LINES = len(lines_of(CONTROLLER)) + len(lines_of(BROKER))
Row = dict[str, Any]


def contents(warehouse: Warehouse, recording: str, places: bool = False) -> dict[str, list[str]]:
    """All log tables of a recording; ``places`` also compares files and line numbers."""
    tables = LOG_TABLES if places else LOG_TABLES[1:]
    without = ["ingest_epoch"] if places else ["source_file", "line_number"]
    return {table.name: rows_of(warehouse, table, recording, without) for table in tables}


def read(warehouse: Warehouse, table: Table, recording: str) -> list[Row]:
    """Rows in the order of their lines."""
    rows: list[Row] = warehouse.rows(table, [recording]).to_pylist()
    return sorted(rows, key=lambda row: row.get("line_number", 0))


class Ingested:
    """One run over recordings of every kind, shared by the tests below."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = Warehouse(folder / "warehouse")
        self.printed: list[str] = []
        self.recordings = {r.name: r for r in _recordings(folder)}
        recordings = [*self.recordings.values()]
        became = ingest(recordings, Local(self.warehouse), say=self.printed.append)
        self.read: dict[str, LinesRead] = {lines.recording: lines for lines in became}

    def contents(self, recording: str) -> dict[str, list[str]]:
        return contents(self.warehouse, recording)

    def assert_same(self, warehouse: Warehouse, *recordings: str) -> None:
        """The same rows in another warehouse, to the file and line number."""
        for name in recordings:
            expected = contents(self.warehouse, name, places=True)
            assert contents(warehouse, name, places=True) == expected

    def rows(self, table: Table, recording: str) -> list[Row]:
        return read(self.warehouse, table, recording)

    def completed_at(self, recording: str) -> list[str]:
        return [f"{row['completed_at']:%H:%M}" for row in self.rows(Requests, recording)]


def _recordings(folder: Path) -> Iterator[Any]:
    controller, broker = {2: "controller-2.log"}, {11: "broker-11.log"}
    both = {"controller-2.log": CONTROLLER, "broker-11.log": BROKER}
    head, tail = lines_of(CONTROLLER)[:15], lines_of(CONTROLLER)[15:]

    yield plain(folder / "plain")
    # The name does not say what is compressed.
    members = gzip.compress(BROKER[:999]) + gzip.compress(BROKER[999:])
    packed = {"c.log.gz": CONTROLLER, "b.log": members}
    yield write_recording(folder / "gzip", packed, {2: "c.log.gz", 11: "b.log"})
    little, big = CONTROLLER.decode().encode("utf-16"), BROKER.decode().encode("utf-16-be")
    utf_16 = {"c.log": little.replace(b"\n\0", b"\r\0\n\0"), "b.log.gz": b"\xfe\xff" + big}
    yield write_recording(folder / "utf-16", utf_16, {2: "c.log", 11: "b.log.gz"})
    yield write_recording(
        folder / "rotated",
        {
            "kafka-request.log.2026-11-20-20.gz": b"".join(head),
            "kafka-request.log": b"".join(tail),
            "kafka-request.log.2026-11-20-21": b"",
            "server.log": b"[2026-11-20 20:36:00,000] INFO hello (kafka.server)\n",
            "broker-11.log": BROKER,
        },
        {2: ".", 11: ["broker-*.log"]},
    )
    crlf = {name: log.replace(b"\n", b"\r\n") for name, log in both.items()}
    yield write_recording(folder / "crlf", crlf, controller | broker)
    yield write_recording(
        folder / "repeated",
        {"controller-2.log": CONTROLLER, "b.log": BROKER + BROKER, "b.log.1": BROKER[:-1]},
        controller | {11: "b.log*"},
    )
    yield write_recording(
        folder / "half-gzip",
        {"c.log.gz": gzip.compress(CONTROLLER)[:4000], "broker-11.log": BROKER},
        {2: "c.log.gz"} | broker,
    )
    bad = lines_of(BROKER)[0].replace(b'"clientId":"', b'"clientId":"\0')
    garbage = bytes(range(256)) * 40 + b"\n\n\n" + BROKER + bad + bad + b"\0\0\0"
    with_garbage = both | {"broker-11.log": garbage}
    yield write_recording(folder / "garbage", with_garbage, controller | broker)
    once, again = ("01:59:59,000", "02:10:00,000", "02:59:59,000"), ("02:00:00,100", "02:59:59,900")
    changes = {
        "autumn": [f"2026-10-25 {time}" for time in (*once, *again, "03:00:00,000")],
        "spring": [
            f"2026-03-29 {time}" for time in ("01:59:59,999", "02:30:00,000", "03:00:00,000")
        ],
    }
    for name, stamps in changes.items():
        log = {"c.log": stamped(*stamps)}
        yield write_recording(folder / name, log, {2: "c.log"}, timezone="Europe/Berlin")
    lines = lines_of(CONTROLLER)
    lines[3] = b"[0001-01-01 00:00:00,000" + lines[3][24:]
    lines[20] = b"[2426" + lines[20][5:]
    forged = both | {"controller-2.log": b"".join(lines)}
    yield write_recording(folder / "forged", forged, controller | broker)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "c.log").write_bytes(CONTROLLER)
    (elsewhere / "b.log").write_bytes(BROKER)
    nodes = (f"2={elsewhere}/c*", f"11={elsewhere}/b.log")
    options = RecordingOptions(nodes, name="options", timezone="UTC", voters=(2,))
    yield load_recording(None, options)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    return Ingested(tmp_path_factory.mktemp("ingest"))


def test_every_line_of_a_plain_log_becomes_a_request(ingested: Ingested) -> None:
    tables = ingested.contents("plain")
    assert len(tables["requests"]) == LINES
    assert tables["rejected_lines"] == []
    empty = [name for name, rows in tables.items() if not rows]
    assert empty == ["rejected_lines", "group_assignments", "group_requests"]
    became = f"requests {LINES} + other 0 + rejected 0 + repeated 0"
    assert f"ingest plain: lines read {LINES} = {became}" in ingested.printed


@pytest.mark.parametrize("variant", ["gzip", "utf-16", "rotated", "crlf", "repeated", "options"])
def test_the_same_lines_give_the_same_rows_however_they_are_packed(
    ingested: Ingested, variant: str
) -> None:
    assert ingested.contents(variant) == ingested.contents("plain")
    assert ingested.read[variant].requests == LINES


def test_of_repeated_lines_the_least_file_and_line_number_stay(ingested: Ingested) -> None:
    brokers = len(lines_of(BROKER))
    rows = [row for row in ingested.rows(Requests, "repeated") if row["node_id"] == 11]
    assert {row["source_file"] for row in rows} == {"b.log"}
    assert [row["line_number"] for row in rows] == [*range(1, brokers + 1)]
    files = ingested.rows(IngestedFiles, "repeated")
    repeated = {row["source_file"]: row["repeated"] for row in files}
    assert repeated == {"controller-2.log": 0, "b.log": brokers, "b.log.1": brokers}


def test_of_half_a_gzip_stream_what_can_be_read_is(ingested: Ingested) -> None:
    half, whole = ingested.contents("half-gzip"), ingested.contents("plain")
    assert 0 < len(half["requests"]) < LINES
    assert set(half["requests"]) < set(whole["requests"])
    assert half["rejected_lines"] == []  # the half line is left for a mended file
    damage = {
        row["source_file"]: row["damage"] for row in ingested.rows(IngestedFiles, "half-gzip")
    }
    assert damage["broker-11.log"] is None
    assert damage["c.log.gz"].startswith(
        "ends in the middle of its gzip stream at its byte 4,000, "
    )
    said = [text for text in ingested.printed if "'half-gzip'" in text]
    warnings = [text for text in said if text.startswith("warning")]
    assert any("c.log.gz" in w and "in the middle of its gzip stream" in w for w in warnings)


def test_of_binary_garbage_only_what_should_be_a_request_is_rejected(ingested: Ingested) -> None:
    garbage, whole = ingested.contents("garbage"), ingested.contents("plain")
    assert garbage["requests"] == whole["requests"]
    assert [row["reason"] for row in ingested.rows(RejectedLines, "garbage")] == ["binary"]
    lines = ingested.read["garbage"]
    # Of 40 times 256 byte values one is LF.
    assert (lines.requests, lines.other, lines.rejected, lines.repeated) == (LINES, 44, 1, 1)
    assert lines.rejected_share == 1 / (LINES + 2)


def test_stamps_that_cannot_be_reject_their_lines_alone(ingested: Ingested) -> None:
    forged, whole = ingested.contents("forged"), ingested.contents("plain")
    assert set(forged["requests"]) < set(whole["requests"])
    assert len(forged["requests"]) == LINES - 2
    rejected = {r["line_number"]: r for r in ingested.rows(RejectedLines, "forged")}
    reasons = {number: row["reason"] for number, row in rejected.items()}
    assert reasons == {4: "stamp_out_of_range", 21: "stray_stamp"}
    assert rejected[21]["detail"].startswith("2426-11-20 20:")
    files = ingested.rows(IngestedFiles, "forged")
    times = [row[name] for row in files for name in ("first_received_at", "last_completed_at")]
    assert {time.year for time in times} == {2026}


def test_an_hour_occurs_twice_or_never_where_clocks_change(ingested: Ingested) -> None:
    assert ingested.completed_at("autumn") == ["23:59", "00:10", "00:59", "01:00", "01:59", "02:00"]
    assert ingested.completed_at("spring") == ["00:59", "01:00"]
    (rejected,) = ingested.rows(RejectedLines, "spring")
    assert rejected["reason"] == "stamp_not_in_time_zone"


#: What rules read as it comes: all but the names of topics.
TYPED = [table.name for table in TYPED_TABLES if table is not Topics]


def test_files_have_the_times_of_their_requests_and_their_ingest(ingested: Ingested) -> None:
    typed = " UNION ".join(f"SELECT recording, request_id FROM {table}" for table in TYPED)
    with ingested.warehouse.database([*ingested.recordings]) as database:
        (differing, with_events, all_files) = database.sql(f"""
            WITH typed AS ({typed}), times AS (
              SELECT recording, node_id, source_file, min(received_at) AS first_received_at,
                max(completed_at) AS last_completed_at,
                min(received_at) FILTER (WHERE t.request_id IS NOT NULL) AS first_event_at
              FROM requests LEFT JOIN typed AS t USING (recording, request_id) GROUP BY ALL)
            SELECT count(*) FILTER (WHERE f.ingest_epoch <> 1
                OR f.first_received_at IS DISTINCT FROM t.first_received_at
                OR f.last_completed_at IS DISTINCT FROM t.last_completed_at
                OR f.first_event_at IS DISTINCT FROM t.first_event_at),
              count(f.first_event_at), count(*)
            FROM ingested_files AS f LEFT JOIN times AS t USING (recording, node_id, source_file)
            WHERE repeated = 0 OR rejected > 0
            """).fetchall()[0]
    assert differing == 0
    assert 10 < with_events < all_files
    times = {row["source_file"]: row for row in ingested.rows(IngestedFiles, "repeated")}
    for name in ("first_received_at", "last_completed_at", "first_event_at"):
        assert times["b.log.1"][name] == times["b.log"][name]


def test_batches_partitions_and_byte_ranges_change_nothing(
    ingested: Ingested, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many batches are between lines that are repeated."""
    monkeypatch.setattr("kip_replay.pipelines.ingest.parse_task._BATCH_LINES", 10)
    names = ("repeated", "garbage")
    recordings = [ingested.recordings[name] for name in names]
    expected = [ingested.read[name] for name in names]
    small = IngestSettings(range_bytes=10_000, task_bytes_max=9_000, survey_on_driver_bytes_max=0)
    for number, settings in enumerate((IngestSettings(), small)):
        warehouse = Warehouse(tmp_path / str(number))
        assert ingest(recordings, Local(warehouse), settings, str) == expected
        ingested.assert_same(warehouse, *names)


def test_a_file_that_is_in_is_not_read_again(ingested: Ingested) -> None:
    def never(*_: object) -> None:
        raise AssertionError("parsed again")

    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step, "parse_task", never)
        recording = ingested.recordings["plain"]
        (again,) = ingest([recording], Local(ingested.warehouse), say=said.append)
    assert (again.files_read, again.files_known, again.lines) == (0, 2, 0)
    assert said == [
        "ingest plain: 2 files known already",
        "ingest plain: lines read 0 = requests 0 + other 0 + rejected 0 + repeated 0",
    ]


def test_the_same_lines_later_are_known_by_content_or_repeated(tmp_path: Path) -> None:
    """Also where the zone was corrected meanwhile, and where lines stand elsewhere in a file."""
    folder, warehouse = tmp_path / "growing", Warehouse(tmp_path / "warehouse")
    lines = stamped(*(f"2026-11-20 20:{minute}:00,000" for minute in range(10, 50)))
    new = stamped("2026-11-20 20:59:00,000")
    bad, logs = b"Completed request:{}\n", {2: "c.log*"}
    first = write_recording(folder, {"c.log": lines + bad}, logs)
    ingest([first], Local(warehouse), say=str)
    before = contents(warehouse, "growing")
    (folder / "c.log").rename(folder / "c.log.1")
    second = write_recording(folder, {"c.log.0": bad + lines + new}, logs, timezone="Asia/Tokyo")
    (became,) = ingest([second], Local(warehouse), say=str)
    assert (became.files_read, became.files_known) == (1, 1)
    assert (became.requests, became.rejected, became.repeated) == (1, 0, 41)
    after = contents(warehouse, "growing")
    assert after["rejected_lines"] == before["rejected_lines"]
    assert set(before["requests"]) < set(after["requests"])
    assert len(after["requests"]) == 41
    rows = [row for row in read(warehouse, Requests, "growing") if row["source_file"] == "c.log"]
    assert [row["line_number"] for row in rows] == [*range(1, 41)]


def test_a_log_read_while_it_grows_and_rotates_gives_what_it_gives_at_once(
    ingested: Ingested, tmp_path: Path
) -> None:
    warehouse, folder = Warehouse(tmp_path / "warehouse"), tmp_path / "plain"
    nodes = {2: "c.log*", 11: "b.log*"}
    reads = []
    for logs in (
        {"c.log": CONTROLLER[:9000], "b.log": BROKER[:7000]},
        {"c.log": CONTROLLER[:30000], "b.log": BROKER[:20000]},
        # Rotated in between, the older one compressed.
        {"c.log.1.gz": gzip.compress(CONTROLLER), "c.log": b"", "b.log.1": BROKER, "b.log": b""},
    ):
        for old in folder.glob("*log*"):
            old.unlink()
        recording = write_recording(folder, logs, nodes)
        reads += ingest([recording], Local(warehouse), GROWING, str)
    assert [lines.bytes_read > 0 for lines in reads] == [True] * 3
    assert sum(lines.bytes_read for lines in reads) == len(CONTROLLER) + len(BROKER)
    assert sum(lines.lines for lines in reads) == LINES
    assert sum(lines.requests for lines in reads) == LINES
    assert contents(warehouse, "plain") == ingested.contents("plain")
    numbers = [r["line_number"] for r in read(warehouse, Requests, "plain") if r["node_id"] == 2]
    assert numbers == [*range(1, len(lines_of(CONTROLLER)) + 1)]
    epochs = [row["ingest_epoch"] for row in read(warehouse, IngestedFiles, "plain")]
    assert sorted(epochs) == [1, 1, 2, 2, 3, 3, 3, 3]
    (again,) = ingest([recording], Local(warehouse), GROWING, str)
    assert (again.files_read, again.lines) == (0, 0)


def test_a_log_that_was_only_touched_is_noted_once(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    recording = plain(tmp_path / "r")
    ingest([recording], Local(warehouse), say=str)
    for file in (tmp_path / "r").glob("*.log"):
        os.utime(file, (0, 0))
    ingest([recording], Local(warehouse), say=str)
    assert len(read(warehouse, IngestedFiles, "r")) == 2


def killed(recording: Recording, warehouse: Warehouse, number: int) -> bool:
    return is_killed(number, lambda: ingest([recording], Local(warehouse), GROWING, str))


def test_an_ingest_killed_at_any_commit_is_completed_by_the_next(
    ingested: Ingested, tmp_path: Path
) -> None:
    """The first half of the logs is in already; each run is killed one commit later."""
    warehouse, folder = Warehouse(tmp_path / "warehouse"), tmp_path / "plain"
    logs = {2: "c.log", 11: "b.log"}
    half = {"c.log": CONTROLLER[:30000], "b.log": BROKER[:20000]}
    ingest([write_recording(folder, half, logs)], Local(warehouse), GROWING, str)
    lineage = warehouse.lineage(["plain"])
    recording = write_recording(folder, {"c.log": CONTROLLER, "b.log": BROKER}, logs)
    number = 1
    while killed(recording, warehouse, number):
        assert warehouse.lineage(["plain"]) == (lineage if number == 1 else {})
        number += 1
    # All but rejected_lines, group_assignments and group_requests; the lineage first and last.
    assert number == len(LOG_TABLES)
    assert contents(warehouse, "plain") == ingested.contents("plain")
    assert warehouse.lineage(["plain"]) != lineage
    version = warehouse.open(Lineage).version()
    assert not killed(recording, warehouse, 1)
    assert warehouse.open(Lineage).version() == version


def test_what_a_killed_run_left_is_no_copy_of_what_the_next_reads(
    ingested: Ingested, tmp_path: Path
) -> None:
    """Rejected lines have no time: the engine compares them with all that the warehouse holds."""
    warehouse = Warehouse(tmp_path / "warehouse")
    recording, spring = ingested.recordings["garbage"], ingested.recordings["spring"]
    ingest([spring], Local(warehouse), say=str)
    typed = sum(bool(of) for name, of in ingested.contents("garbage").items())
    assert killed(recording, warehouse, 1 + typed + 1)
    assert read(warehouse, IngestedFiles, "garbage") == []
    assert len(read(warehouse, Requests, "garbage")) == LINES
    assert ingest([spring, recording], Local(warehouse), say=str)[1] == ingested.read["garbage"]
    ingested.assert_same(warehouse, "spring", "garbage")


def test_an_ingest_that_another_overtakes_stops_or_is_taken_out(
    ingested: Ingested, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job reads the same recording: before this one writes, and in its middle."""
    recording = ingested.recordings["plain"]
    real = step.parse_task

    def meanwhile(*args: Any) -> Any:
        patch.setattr(step, "parse_task", real)
        ingest([recording], Local(warehouse), say=str)
        return real(*args)

    def in_the_middle(*args: Any) -> None:
        if next(made) == 4:
            ingest([recording], Local(warehouse), say=str)
        commit(*args)

    for number in range(2):
        warehouse = Warehouse(tmp_path / str(number))
        made, commit = count(1), commits.commit
        with monkeypatch.context() as patch:
            if number == 0:
                patch.setattr(step, "parse_task", meanwhile)
            else:
                patch.setattr(commits, "commit", in_the_middle)
            with pytest.raises(WriteConflictError, match="ingest of recording 'plain' meanwhile"):
                ingest([recording], Local(warehouse), say=str)
        ingested.assert_same(warehouse, "plain")
        assert ("plain", "ingest") in warehouse.lineage(["plain"])
        (again,) = ingest([recording], Local(warehouse), say=str)
        assert again.files_read == 0


def test_lines_that_get_lost_stop_the_run_before_anything_is_written(
    ingested: Ingested, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_more(file: LogFile, **_: Any) -> Survey:
        of_file = survey(file)
        return replace(of_file, lines=of_file.lines + 1)

    warehouse = Warehouse(tmp_path / "warehouse")
    monkeypatch.setattr(step, "survey", one_more)
    with pytest.raises(IngestError, match=r"controller-2\.log .* had 41 lines .* and 40 when"):
        ingest([ingested.recordings["plain"]], Local(warehouse), say=str)
    assert not any(warehouse.files(table) for table in LOG_TABLES)


def test_the_job_says_what_it_read_and_ends_with_a_status(
    ingested: Ingested, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, warehouse = str(ingested.recordings["spring"].path), str(tmp_path / "warehouse")
    assert main([folder, "--warehouse", warehouse]) == 3
    out = capsys.readouterr().out
    assert "lines read 3 = requests 2 + other 0 + rejected 1 + repeated 0" in out
    assert "33.3% of the lines of spring could not be read, more than 1.0%" in out


NODE = ("r", 11)


def found(*readings: list[Span], slack: int = 0) -> list[Span]:
    return overlaps([{NODE: spans} for spans in readings], {NODE: slack}).get(NODE, [])


@pytest.mark.parametrize(
    ("readings", "slack", "shared"),
    [
        ([[(0, 9)], [(10, 19)]], 0, []),
        ([[(0, 10)], [(10, 19)]], 0, [(10, 10)]),
        ([[(10, 19)], [(0, 5)]], 5, [(0, 15)]),
        ([[(0, 9), (5, 12), (0, 3)]], 0, []),
        ([[(0, 9), (5, 12)], [(11, 14)]], 0, [(11, 12)]),
        ([[(0, 9)], [(5, 12)], [(11, 14)]], 0, [(5, 9), (11, 12)]),
    ],
)
def test_only_what_overlaps_is_looked_into(
    readings: list[list[Span]], slack: int, shared: list[Span]
) -> None:
    assert found(*readings, slack=slack) == shared


def test_another_node_has_other_lines() -> None:
    assert overlaps([{NODE: [(0, 9)]}, {("r", 12): [(0, 9)]}], {}) == {}


_SPANS = st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 30)), min_size=1, max_size=200)


@given(st.lists(_SPANS, max_size=3))
def test_every_time_that_two_have_is_within_a_span(lengths: list[list[tuple[int, int]]]) -> None:
    readings = [[(at, at + length) for at, length in of] for of in lengths]
    shared = found(*readings)
    times = {us for first, last in shared for us in range(first, last + 1)}
    for one, other in (pair for two in combinations(readings, 2) for pair in product(*two)):
        assert times.issuperset(range(max(one[0], other[0]), min(one[1], other[1]) + 1))
