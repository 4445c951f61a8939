"""A recording that grows ends with the tables that it has when it is replayed in one go."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import growing
import put_rows
import pytest
from constructed import at
from growing import ArrivingLogs, close, close_anew, read_in, replay_new, rows_of
from put_rows import versions
from small_logs import folder_of

from kip_replay.jobs import maintain, run
from kip_replay.pipelines.engines import local
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.replaying import clocks
from kip_replay.pipelines.replaying.increments import finalized
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.closest_replica.replay import ClosestReplicaOutcome
from kip_replay.replay.tables import ClockBounds, Lineage, ReplayState, TopicUsage, Usage

#: Brokers that stop and come back; one of them logs nearly nothing.
RECORDING = "acks-not-enough"
OUTCOMES = [table for steps in RULES for table in steps.outcomes]


def is_left_alone(run: Callable[[], object], warehouse: Warehouse) -> bool:
    before = versions(warehouse)
    run()
    return versions(warehouse) == before


def piece_by_piece(logs: ArrivingLogs, warehouse: Warehouse) -> Recording:
    for number in range(len(logs.pieces)):
        recording = logs.arrive(number)
        read_in(warehouse, recording)
        replay_new(warehouse, recording)
    return recording


@pytest.mark.parametrize(
    "cuts", [[0.6], pytest.param([0.45, 0.65, 0.85], marks=pytest.mark.slow)], ids=len
)
def test_a_growing_recording_ends_with_the_tables_of_one_go(
    cuts: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it grows, rules are replayed in processes beside each other."""
    monkeypatch.setattr(local, "_REQUESTS_MIN", 0)
    logs = ArrivingLogs(RECORDING, tmp_path, cuts)
    warehouse = Warehouse(tmp_path / "warehouse")
    emitted = []
    for number in range(len(cuts) + 1):
        recording = logs.arrive(number)
        read_in(warehouse, recording)
        assert f"replay {RECORDING} until 2026-11-20 20:5" in replay_new(warehouse, recording)
        emitted.append(rows_of(warehouse, OUTCOMES, recording))
    states = warehouse.rows(ReplayState, [RECORDING])
    keys = [tuple(row.values()) for row in states.select(ReplayState.key).to_pylist()]
    assert len({*keys}) == len(keys) >= 5
    assert {"2", "3"} <= {k[2] for k in keys}
    assert is_left_alone(lambda: replay_new(warehouse, recording), warehouse)

    close(warehouse, recording)
    assert warehouse.rows(ReplayState, [RECORDING]).num_rows == 0
    assert is_left_alone(lambda: close(warehouse, recording), warehouse)
    # The timer runs once more: there is nothing to go back to.
    assert is_left_alone(lambda: replay_new(warehouse, recording), warehouse)

    grown = rows_of(warehouse, OUTCOMES, recording)
    monkeypatch.undo()
    close_anew(warehouse, recording)
    in_one_go = rows_of(warehouse, OUTCOMES, recording)
    for table in OUTCOMES:
        assert grown[table.name] == in_one_go[table.name], table.name
        assert in_one_go[table.name] or table is ClosestReplicaOutcome, table.name
        # What was written stays: nothing to come could change it.
        for earlier in emitted:
            assert Counter(earlier[table.name]) <= Counter(grown[table.name]), table.name
    # Of what a log begins with nothing is final: broker 13 logs some lines, then is waited for.
    produced = [len(rows["produce_ack_outcomes"]) for rows in emitted]
    assert 0 < produced[-2] < produced[-1]


@pytest.mark.golden
def test_usage_of_a_growing_recording_is_that_of_one_go(tmp_path: Path) -> None:
    whole, grown = (Warehouse(tmp_path / name) for name in ("whole", "grown"))
    assert run.main([str(folder_of("failover-4.0")), "--warehouse", whole.path, "--quiet"]) == 0
    logs = ArrivingLogs("failover-4.0", tmp_path, [0.5])
    for number, more in ((0, "--growing"), (1, "--growing"), (1, "--final")):
        arrived = str(logs.arrive(number).path)
        assert run.main([arrived, "--warehouse", grown.path, "--quiet", more]) in (0, 3)
    for table in (Usage, TopicUsage):
        rows = [
            sorted(map(str, w.rows(table, ["failover-4.0"]).to_pylist())) for w in (whole, grown)
        ]
        assert rows[0] == rows[1]
        assert rows[0]


@pytest.mark.slow
def test_what_consumers_read_is_that_of_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("growing.RULES", [s for s in RULES if s.name == "closest_replica"])
    found = []
    for name, cuts in {"grown": [0.5, 0.8], "in one go": []}.items():
        logs = ArrivingLogs("racks-leader", tmp_path / name, cuts)
        warehouse = Warehouse(tmp_path / name / "warehouse")
        recording = piece_by_piece(logs, warehouse)
        emitted = rows_of(warehouse, [ClosestReplicaOutcome], recording)
        close(warehouse, recording)
        found.append(rows_of(warehouse, [ClosestReplicaOutcome], recording))
        [of_table] = emitted.values()
        assert 0 < len(of_table) < len(found[-1][ClosestReplicaOutcome.name])
    assert found[0] == found[1]


def test_a_recording_without_lines_for_a_rule_is_left_alone_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody produces: min_isr_acks has no leader, and nothing to save."""
    only = [steps for steps in RULES if steps.name == "min_isr_acks"]
    monkeypatch.setattr("growing.RULES", only)
    logs = ArrivingLogs("freeze-4.1", tmp_path, [0.5])
    warehouse = Warehouse(tmp_path / "warehouse")
    recording = logs.arrive(0)
    read_in(warehouse, recording)
    replay_new(warehouse, recording)
    assert is_left_alone(lambda: replay_new(warehouse, recording), warehouse)


def test_clock_bounds_are_the_same_whatever_the_cuts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of new lines and what was kept, and of all lines at once."""
    monkeypatch.setattr("growing.RULES", ())
    monkeypatch.setattr(clocks, "_REACH_US", 3_000_000)
    found = []
    for name, cuts in {"grown": [0.2, 0.5, 0.99], "in one go": []}.items():
        logs = ArrivingLogs("metadata-4.0", tmp_path / name, cuts)
        warehouse = Warehouse(tmp_path / name / "warehouse")
        recording = piece_by_piece(logs, warehouse)
        found.append(warehouse.rows(ClockBounds, [recording.name]).sort_by("node_id").to_pylist())
    assert found[0] == found[1]
    assert [row["clocks"] for row in found[0]].count("same") == 3
    close(warehouse, recording)
    assert warehouse.rows(ReplayState, [recording.name]).num_rows == 0


def test_who_logs_little_is_not_waited_for() -> None:
    def file(node: int, requests: int, first_s: float, last_s: float) -> dict[str, Any]:
        span = {"first_received_at": at(first_s), "last_completed_at": at(last_s)}
        return {"node_id": node, "requests": requests, **span}

    begin_us = round(at(0).timestamp() * 1_000_000)
    busy, behind = file(1, 900, 0, 300), file(2, 900, 0, 200)
    quiet, rotated = file(3, 2, 0, 10), file(2, 90, 200, 295)
    assert finalized([], 10) is None
    assert finalized([busy, quiet], 10) == (begin_us + 290_000_000, ())
    assert finalized([busy, behind, quiet], 10) == (begin_us + 190_000_000, (2,))
    assert finalized([busy, behind, rotated, quiet], 10) == (begin_us + 285_000_000, ())
    assert finalized([quiet], 10) == (begin_us, ())


def test_of_a_log_that_has_just_begun_nothing_is_final_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does a check fail: outcomes are still to come."""
    logs = ArrivingLogs("metadata-4.0", tmp_path, [0.5])
    logs.arrive(0)
    arguments = [str(logs.folder), "--growing", "--warehouse", str(tmp_path / "warehouse")]
    assert run.main([*arguments, "--quiet"]) == 0
    said = capsys.readouterr().out
    assert said.count("not enough data. Too little is final yet, since these logs still grow.") == 5
    assert "failed: 0 critical, 0 warning" in said


# --- maintenance between two runs -----------------------------------------------------------------


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
    outcomes = {table: put_rows.rows_of(warehouse, table) for table in rule.outcomes}
    before = versions(warehouse)
    assert maintain.main(["--warehouse", warehouse.path]) == 0
    after = versions(warehouse)
    assert all(before[table.name] == after[table.name] for table in (ReplayState, Lineage))
    assert {table: put_rows.rows_of(warehouse, table) for table in rule.outcomes} == outcomes
    assert all(len(warehouse.files(table)) == 1 for table in rule.outcomes)
    optimized = {table: warehouse.files(table)[0]["path"] for table in rule.outcomes}

    recording = logs.arrive(2)
    read_in(warehouse, recording)
    replay_new(warehouse, recording)
    for table in rule.outcomes:  # a rebuild would have taken its file out
        paths = {file["path"] for file in warehouse.files(table)}
        assert optimized[table] in paths
        assert {*outcomes[table]} < {*put_rows.rows_of(warehouse, table)}
