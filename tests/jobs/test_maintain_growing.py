"""Maintenance between two runs: what grows is resumed."""

from pathlib import Path

import growing
import pytest
from growing import ArrivingLogs, read_in, replay_new, versions
from put_rows import rows_of

from kip_replay.jobs import maintain
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import LINEAGE, REPLAY_STATE


def test_a_recording_that_grows_is_resumed_after_maintenance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = next(steps for steps in RULES if steps.name == "incremental_fetch")
    monkeypatch.setattr(growing, "RULES", [rule])
    logs = ArrivingLogs("sessions-on", tmp_path, [0.6, 0.85])
    warehouse = Warehouse(tmp_path / "warehouse")
    for number in range(2):
        recording = logs.arrive(number)
        read_in(warehouse, recording)
        replay_new(warehouse, recording)
    outcomes = {table: rows_of(warehouse, table) for table in rule.outcomes}
    before = versions(warehouse)
    assert maintain.main(["--warehouse", warehouse.path]) == 0
    after = versions(warehouse)
    assert all(before[table.name] == after[table.name] for table in (REPLAY_STATE, LINEAGE))
    assert {table: rows_of(warehouse, table) for table in rule.outcomes} == outcomes
    assert all(len(warehouse.files(table)) == 1 for table in rule.outcomes)
    optimized = {table: warehouse.files(table)[0]["path"] for table in rule.outcomes}

    recording = logs.arrive(2)
    read_in(warehouse, recording)
    replay_new(warehouse, recording)
    for table in rule.outcomes:  # a rebuild would have taken its file out
        paths = {file["path"] for file in warehouse.files(table)}
        assert optimized[table] in paths
        assert {*outcomes[table]} < {*rows_of(warehouse, table)}
