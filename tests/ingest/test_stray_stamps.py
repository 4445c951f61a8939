"""Stamps that cannot be where they are: found wherever they are, and nothing else is."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from parsed_lines import line_of
from small_logs import BROKER, CONTROLLER, lines_of, moved

from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.ingest.line_accounting import Times
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.pipelines.ingest.parse_task import LINE_BYTES_MAX, parse_task, tasks_of
from kip_replay.pipelines.ingest.second_parse import rejecting, stray_stamps
from kip_replay.pipelines.ingest.survey import SurveySettings, survey
from kip_replay.pipelines.warehouse.data_files import TableFiles
from kip_replay.pipelines.warehouse.tables import Warehouse

LINES = lines_of(BROKER)
START = datetime(2026, 11, 20, 20, 30)  # noqa: DTZ001 - local times


def line(at: datetime, correlation_id: int) -> bytes:
    stamp, api = f"{at:%Y-%m-%d %H:%M:%S,%f}"[:-3], ("API_VERSIONS", 18, 4)
    return line_of(api, {}, {"errorCode": 0}, stamp, correlation_id) + b"\n"


def log(*seconds: float) -> list[bytes]:
    """Lines so many seconds after the start."""
    return [line(START + timedelta(seconds=second), n) for n, second in enumerate(seconds)]


def found(
    folder: Path, lines: list[bytes], zone: str = "UTC", range_bytes: int = 1 << 20, tasks: int = 1
) -> dict[int, str]:
    """Numbers of stray lines; those and no others are rejected when tasks parse once more."""
    path = folder / "a.log"
    path.write_bytes(b"".join(lines))
    of_file = survey(LogFile("r", 1, zone, "a.log", str(path)), SurveySettings(range_bytes))
    files = TableFiles(str(folder / "warehouse"), "part")
    todo = tasks_of(of_file.ranges, tasks, files, LINE_BYTES_MAX)
    parsed = [parse_task(task) for task in todo]
    times = Times()
    for of in parsed:
        times = times.with_other(of.times["r", 1, "a.log"])
    stepping = [("r", 1, "a.log")] if times.is_stepping and of_file.fold_is_known else []
    engine = Local(Warehouse(files.root))
    strays = stray_stamps(engine, [file for of in parsed for file in of.files], stepping)
    again = [parse_task(task) for task in rejecting(todo, strays, {})]
    rejected = sum(of.counts["r", 1, "a.log"].rejected for of in again)
    assert rejected == sum(map(len, strays.values()))
    return dict(strays.get(("r", 1, "a.log"), {}))


# --- what is stray


@pytest.mark.parametrize("lines", [LINES, lines_of(CONTROLLER)])
def test_recorded_lines_stand_where_they_are(tmp_path: Path, lines: list[bytes]) -> None:
    assert found(tmp_path, lines) == {}


@pytest.mark.parametrize("at", [1, len(LINES) // 2, len(LINES) - 2])
@pytest.mark.parametrize("seconds", [-3600, 1e6])
def test_one_line_elsewhere_is_one_stray(tmp_path: Path, at: int, seconds: float) -> None:
    lines = [*LINES]
    lines[at] = moved(lines[at], seconds)
    strays = found(tmp_path, lines)
    assert [*strays] == [at + 1]
    assert strays[at + 1].startswith(lines[at][1:20].decode())
    assert strays[at + 1].endswith(" UTC")


@pytest.mark.parametrize(
    ("at", "seconds"), [(0, 9e6), (39, 9e6), (39, -9e6), (20, 59), (20, -59), (20, 0)]
)
def test_ends_and_less_than_a_minute_are_believed(tmp_path: Path, at: int, seconds: float) -> None:
    lines = log(*range(40))
    lines[at] = moved(lines[at], seconds)
    assert found(tmp_path, lines) == {}


@pytest.mark.parametrize("days", [-4, 4])
@pytest.mark.parametrize("beside", [[], [21], [30], [1, 38]])
def test_strays_may_be_close_together(tmp_path: Path, days: int, beside: list[int]) -> None:
    lines = log(*range(40))
    for at in (19, *beside):
        lines[at] = moved(lines[at], days * 86_400 + at % 3 * 3600)
    assert {*found(tmp_path, lines)} == {at + 1 for at in (19, *beside)}


# --- what is not


CLOCKS: dict[str, Callable[[int], float]] = {
    "gap": lambda t: t + (t >= 10) * 4000 + (t >= 20) * 40_000,
    "set": lambda t: t - (t >= 15) * 7200 - (t >= 36) * 7200,
    "set a little": lambda t: t - (t >= 15) * 40,
    "wave": lambda t: t - (t % 2) * 9,
    "slow, set": lambda t: t * 1000 - (t >= 15) * 7200,
    "newest first": lambda t: -t * 7 - (t >= 9) * 5000,
}


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("count", [2, 12, 21, 40])
def test_what_clocks_and_pauses_do_is_no_stray(tmp_path: Path, clock: str, count: int) -> None:
    assert found(tmp_path, log(*map(CLOCKS[clock], range(count)))) == {}


@pytest.mark.parametrize("minutes", [1, 25, 100])
@pytest.mark.parametrize("pause", [0, 30])
def test_an_hour_that_occurs_twice(tmp_path: Path, minutes: int, pause: int) -> None:
    """However few lines there are, and however they lie around the change."""
    begin = datetime(2026, 10, 24, 22, 0)  # noqa: DTZ001 - UTC: 00:00 in Berlin
    lines = []
    for i in range(0, 360, minutes):
        utc = begin + timedelta(minutes=i + (i > 180) * pause)
        local = utc + timedelta(hours=2 if utc.hour in (22, 23, 0) and utc.day < 26 else 1)
        lines.append(line(local, i))
    assert found(tmp_path, lines, "Europe/Berlin") == {}


def test_a_stray_does_not_change_where_an_hour_begins_again(tmp_path: Path) -> None:
    begin = datetime(2026, 10, 25, 1, 50)  # noqa: DTZ001 - in Berlin
    times = [begin + timedelta(seconds=30 * i - (i >= 140) * 3600) for i in range(320)]
    lines = [line(at, i) for i, at in enumerate(times)]
    lines[60] = moved(lines[60], 4e5)
    assert [*found(tmp_path, lines, "Europe/Berlin")] == [61]
    of_file = survey(LogFile("r", 1, "Europe/Berlin", "a.log", str(tmp_path / "a.log")))
    assert of_file.second_pass_line == 141


@pytest.mark.parametrize("tasks", [1, 7])
def test_ranges_and_tasks_change_nothing(tmp_path: Path, tasks: int) -> None:
    lines = log(*range(40), *range(40_000, 40_040))
    for at in (20, 31, 46, 62):
        lines[at] = moved(lines[at], 9e6 if at % 2 else -70)
    expected = [21, 32, 47, 63]
    assert [*found(tmp_path, lines, range_bytes=1500, tasks=tasks)] == expected
