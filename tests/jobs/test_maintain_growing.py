"""Maintenance between two runs: what grows is resumed, and what is done stays done."""

import shutil
from pathlib import Path

import pytest
from growing import ArrivingLogs
from put_rows import rows_of
from recorded_logs import folder_of

from kip_replay.jobs import maintain, run
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying import increments, replay
from kip_replay.pipelines.replaying.replay import replay_what_is_new
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import LINEAGE, REPLAY_STATE, TABLES

RECORDING = "sessions-on"
LATE_AFTER_S = 4.0


def versions(warehouse: Warehouse) -> dict[str, int]:
    return {t.name: warehouse.open(t).version() for t in TABLES.values() if warehouse.exists(t)}


def test_a_run_after_maintenance_has_nothing_to_do(finished: Warehouse, tmp_path: Path) -> None:
    copy = Warehouse(shutil.copytree(finished.path, tmp_path / "copy"))
    short = ["--retention-hours", "0", "--allow-short-retention"]
    assert maintain.main(["--warehouse", copy.path, *short]) == 0
    before = versions(copy)
    assert sum(before.values()) > sum(versions(finished).values())
    folders = [str(folder_of(name)) for name in ("failover-4.0", "freeze-4.1")]
    assert run.main([*folders, "--warehouse", copy.path]) == 0
    assert versions(copy) == before
    for table in TABLES.values():
        assert rows_of(copy, table) == rows_of(finished, table)


def test_a_recording_that_grows_is_resumed_after_maintenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = next(steps for steps in RULES if steps.name == "incremental_fetch")
    for module in (replay, increments):
        monkeypatch.setattr(module, "RULES", [rule], raising=False)
    logs = ArrivingLogs(RECORDING, tmp_path, [0.6, 0.85])
    warehouse = Warehouse(tmp_path / "warehouse")

    def replayed(recording: Recording) -> None:
        ingest([recording], Local(warehouse), say=lambda _: None)
        replay_what_is_new([recording], Local(warehouse), RULES, {}, LATE_AFTER_S, lambda _: None)

    for number in range(2):
        replayed(logs.arrive(number))
    outcomes = {table: rows_of(warehouse, table) for table in rule.outcomes}
    states, lineage = (warehouse.open(t).version() for t in (REPLAY_STATE, LINEAGE))
    assert maintain.main(["--warehouse", warehouse.path]) == 0
    assert (states, lineage) == tuple(warehouse.open(t).version() for t in (REPLAY_STATE, LINEAGE))
    assert {table: rows_of(warehouse, table) for table in rule.outcomes} == outcomes
    assert all(len(warehouse.files(table)) == 1 for table in rule.outcomes)
    optimized = {table: warehouse.files(table)[0]["path"] for table in rule.outcomes}

    replayed(logs.arrive(2))
    for table in rule.outcomes:  # a rebuild would have taken its file out
        paths = {file["path"] for file in warehouse.files(table)}
        assert optimized[table] in paths
        assert {*outcomes[table]} < {*rows_of(warehouse, table)}
