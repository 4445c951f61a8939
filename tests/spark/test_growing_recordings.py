"""A recording fed piece by piece gives the tables that it gives in one go, whatever goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from growing import ArrivingLogs
from pyspark.sql import DataFrame, SparkSession

from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.increments import CarriedReplay
from kip_replay.pipelines.replaying.steps import ReplaySettings, replay, replay_what_is_new
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import REPLAY_STATE, TYPED_TABLES, Table

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
    warehouse = Warehouse(folder / "warehouse")
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


@pytest.mark.parametrize(
    "cuts", [[0.55], pytest.param([0.45, 0.6, 0.85], marks=pytest.mark.slow)], ids=len
)
def test_pieces_give_the_tables_of_one_go(
    cuts: list[float],
    spark: SparkSession,
    tmp_path: Path,
    in_one_go: dict[Table, list[str]],
    watched: Watched,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = ArrivingLogs(RECORDING, tmp_path, cuts)
    warehouse = Warehouse(tmp_path / "warehouse")
    before: dict[Table, set[str]] = {table: set() for table in OUTCOMES}
    for number in range(len(cuts) + 1):
        recording = logs.arrive(number)
        read_in(warehouse, recording)
        if number == 1:  # killed after the outcomes of the first rule, before its states
            with monkeypatch.context() as killing:
                killing.setattr(CarriedReplay, "_save", _killed)
                with pytest.raises(KeyboardInterrupt):
                    replay_new(warehouse, recording)
        said = replay_new(warehouse, recording)
        assert f"replay {RECORDING} until 2026-11-20 20:4" in said
        for table in OUTCOMES:
            # What was written stays, and is what one go gives: nothing to come could change it.
            now = {*rows(warehouse.read(table))}
            assert before[table] <= now <= {*in_one_go[table]}
            before[table] = now
    assert watched.gone_on >= len(RULES)
    assert replay_new(warehouse, recording).endswith("nothing is new")
    keys = warehouse.read(REPLAY_STATE).select(*REPLAY_STATE.key).collect()
    assert len({*keys}) == len(keys) > len(RULES)

    close(warehouse, recording)
    assert_same(warehouse, in_one_go)
    assert warehouse.read(REPLAY_STATE).count() == 0
    versions = [DeltaTable.forPath(spark, warehouse.uri_of(t)).history().count() for t in OUTCOMES]
    close(warehouse, recording)
    again = [DeltaTable.forPath(spark, warehouse.uri_of(t)).history().count() for t in OUTCOMES]
    assert again == versions


@pytest.mark.slow
def test_a_late_file_starts_again_and_a_rebuild_needs_no_logs(
    spark: SparkSession,
    tmp_path: Path,
    in_one_go: dict[Table, list[str]],
    watched: Watched,
) -> None:
    logs = ArrivingLogs(RECORDING, tmp_path, [0.7])
    warehouse = Warehouse(tmp_path / "warehouse")
    lines = logs.pieces[0][11].splitlines(keepends=True)
    half = len(lines) // 2
    logs.pieces[0][11] = b"".join(lines[half:])  # of a broker, the first file comes last
    logs.pieces[1][11] = b"".join(lines[:half]) + logs.pieces[1][11]
    recording = logs.arrive(0)
    read_in(warehouse, recording)
    replay_new(warehouse, recording)
    recording = logs.arrive(1)
    read_in(warehouse, recording)
    close(warehouse, recording)
    assert watched.gone_on < len(RULES)  # what was replayed without the late file is not gone on
    assert_same(warehouse, in_one_go)

    for file in logs.folder.glob("node-*"):
        file.unlink()
    scope = {"recording": RECORDING, "rule": RULES[0].name}
    table = RULES[0].outcomes[0]
    mark = warehouse.fingerprint_of(table, scope)
    spoiled = warehouse.read(table).where("variant = 'recorded'")
    warehouse.replace(table, spoiled.localCheckpoint(), scope, mark)
    close(warehouse, recording)
    assert rows(warehouse.read(table)) != in_one_go[table]  # its mark says that it is as it was
    replay([recording], warehouse, SETTINGS, say=lambda line: None, rebuild=True)
    assert_same(warehouse, in_one_go)


def assert_same(warehouse: Warehouse, expected: dict[Table, list[str]]) -> None:
    for table, rows_of_table in expected.items():
        assert rows(warehouse.read(table)) == rows_of_table, table.name


def _killed(*_: object) -> None:
    raise KeyboardInterrupt
