"""A recording fed piece by piece gives the tables that it gives in one go, whatever goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from growing import ArrivingLogs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.ingest import ingest
from pipelines.pieces import CarriedReplay
from pipelines.recording import Recording
from pipelines.rules import RULES
from pipelines.steps import ReplaySettings, replay, replay_what_is_new
from pipelines.warehouse import Warehouse
from replay.schema import REPLAY_STATE, TYPED_TABLES, Table

RECORDING = "sessions-on"
#: Longer than the longest request of the recording (3.2 s).
LATE_AFTER_S = 4.0
SETTINGS = ReplaySettings(
    max_wait_ms=(250,),
    session_slots=(0, 8),
    min_insync_replicas=(1, 2),
    broker_heartbeat_interval_ms=(500,),
)
OUTCOMES = [table for steps in RULES for table in steps.outcomes]


def read_in(warehouse: Warehouse, recording: Recording) -> None:
    ingest(warehouse.spark, [recording], warehouse, say=lambda line: None)


def replay_new(warehouse: Warehouse, recording: Recording, late_s: float = LATE_AFTER_S) -> str:
    """Replays what is new; what was said."""
    said: list[str] = []
    replay_what_is_new([recording], warehouse, SETTINGS, late_s, said.append)
    return "\n".join(said)


def close(warehouse: Warehouse, recording: Recording) -> None:
    replay([recording], warehouse, SETTINGS, say=lambda line: None)


def rows(frame: DataFrame) -> list[str]:
    kept = [name for name in frame.columns if name not in ("source_file", "line_number")]
    return sorted(map(repr, frame.select(*kept).collect()))


@pytest.fixture(scope="module")
def in_one_go(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[Table, list[str]]:
    """Rows of every typed and outcome table of the whole recording."""
    folder = tmp_path_factory.mktemp("in_one_go")
    recording = ArrivingLogs(RECORDING, folder, []).arrive(0)
    warehouse = Warehouse(spark, folder / "warehouse")
    read_in(warehouse, recording)
    close(warehouse, recording)
    return {table: rows(warehouse.read(table)) for table in (*TYPED_TABLES, *OUTCOMES)}


class Watched:
    """Counts the pieces that start from a saved state, and those that start anew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gone_on = self.anew = 0
        replayed = CarriedReplay._replay

        def counting(carried: CarriedReplay, piece: Any, mark: str, saved: Any) -> None:
            if saved is None:
                self.anew += 1
            else:
                self.gone_on += 1
            replayed(carried, piece, mark, saved)

        monkeypatch.setattr(CarriedReplay, "_replay", counting)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_pieces_give_the_tables_of_one_go(
    spark: SparkSession,
    tmp_path: Path,
    in_one_go: dict[Table, list[str]],
    watched: Watched,
) -> None:
    logs = ArrivingLogs(RECORDING, tmp_path, [0.45, 0.6, 0.85])
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    before: dict[Table, set[str]] = {table: set() for table in OUTCOMES}
    for number in range(4):
        recording = logs.arrive(number)
        read_in(warehouse, recording)
        said = replay_new(warehouse, recording)
        assert f"replay {RECORDING} until 2026-11-20 20:4" in said
        for table in OUTCOMES:
            # What was written stays, and is what one go gives: nothing to come could change it.
            now = {*rows(warehouse.read(table))}
            assert before[table] <= now <= {*in_one_go[table]}
            before[table] = now
    assert watched.gone_on >= 2 * len(RULES)
    assert replay_new(warehouse, recording).endswith("nothing is new")
    assert warehouse.read(REPLAY_STATE).count() > 0

    close(warehouse, recording)
    for table, expected in in_one_go.items():
        assert rows(warehouse.read(table)) == expected, table.name
    assert warehouse.read(REPLAY_STATE).count() == 0
    versions = [DeltaTable.forPath(spark, warehouse.path_of(t)).history().count() for t in OUTCOMES]
    close(warehouse, recording)
    again = [DeltaTable.forPath(spark, warehouse.path_of(t)).history().count() for t in OUTCOMES]
    assert again == versions


def test_a_killed_run_is_completed_and_a_late_file_starts_again(
    spark: SparkSession,
    tmp_path: Path,
    in_one_go: dict[Table, list[str]],
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = ArrivingLogs(RECORDING, tmp_path, [0.5, 0.75])
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    late = logs.pieces[0].pop(11)  # a broker whose first file comes last
    logs.pieces[1][11], logs.pieces[2][11] = b"", logs.pieces[1][11] + logs.pieces[2][11]
    logs.pieces[0][11] = b""
    recording = logs.arrive(0)
    read_in(warehouse, recording)
    replay_new(warehouse, recording)

    # Killed after the outcomes, before the states.
    recording = logs.arrive(1)
    read_in(warehouse, recording)
    with monkeypatch.context() as killing:
        killing.setattr(CarriedReplay, "_save", _killed)
        with pytest.raises(KeyboardInterrupt):
            replay_new(warehouse, recording)
    anew = watched.anew
    replay_new(warehouse, recording)
    assert watched.anew == anew

    logs.pieces[2][11] = late + logs.pieces[2][11]
    recording = logs.arrive(2)
    read_in(warehouse, recording)
    replay_new(warehouse, recording)
    assert watched.anew > anew  # what was replayed without the late file is replayed again
    close(warehouse, recording)
    for table, expected in in_one_go.items():
        assert rows(warehouse.read(table)) == expected, table.name


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_rebuild_needs_no_logs(
    spark: SparkSession, tmp_path: Path, in_one_go: dict[Table, list[str]]
) -> None:
    logs = ArrivingLogs(RECORDING, tmp_path, [])
    recording = logs.arrive(0)
    warehouse = Warehouse(spark, tmp_path / "warehouse")
    read_in(warehouse, recording)
    for file in logs.folder.glob("node-*"):
        file.unlink()
    close(warehouse, recording)
    table = RULES[0].outcomes[0]
    spoiled = warehouse.read(table).where(F.col("variant") == "recorded")
    mark = warehouse.fingerprint_of(table, {"recording": RECORDING, "rule": RULES[0].name})
    assert mark
    scope = {"recording": RECORDING, "rule": RULES[0].name}
    warehouse.replace(table, spoiled.localCheckpoint(), scope, mark)
    replay([recording], warehouse, SETTINGS, say=lambda line: None, rebuild=True)
    for outcome in OUTCOMES:
        assert rows(warehouse.read(outcome)) == in_one_go[outcome], outcome.name
