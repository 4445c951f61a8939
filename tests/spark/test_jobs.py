"""The commands: what they print, how they end, and that a second run changes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from kip_replay.jobs import compare, replay, run, summarize
from kip_replay.pipelines.replaying import steps
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.schema import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG, TABLES

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
FAILOVER, FREEZE = RECORDINGS / "failover-4.0", RECORDINGS / "freeze-4.1"


def versions(spark: SparkSession, warehouse: Warehouse) -> dict[str, int]:
    """The newest version of every table that is there."""
    return {
        table.name: DeltaTable.forPath(spark, warehouse.uri_of(table)).history(1).head()["version"]
        for table in TABLES.values()
        if warehouse.exists(table)
    }


def test_a_second_run_changes_nothing(
    spark: SparkSession, finished: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Path(finished.path) / "report.html"
    before, page = versions(spark, finished), report.read_bytes()
    assert run.main([str(FAILOVER), str(FREEZE), "--warehouse", finished.path]) == 0
    assert versions(spark, finished) == before
    assert report.read_bytes() == page
    said = capsys.readouterr().out
    assert "hwm_parking on freeze-4.1" in said
    assert "predictions within their tolerance" in said
    assert f"report: {report}" in said
    assert "seconds: start Spark" in said


def test_compare_prints_prediction_beside_recording(
    finished: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished.path, copy)
    status = compare.main([str(FAILOVER), "freeze-4.1", "--warehouse", str(copy)])
    said = capsys.readouterr().out
    assert status == 0
    assert "freeze-4.1 predicted from failover-4.0" in said
    assert "hwm_parking (variant with_kip_1166)" in said
    # Both ran fetch sessions, so the one predicts nothing of the other.
    assert "incremental_fetch: failover-4.0 can't tell anything that freeze-4.1 recorded" in said
    assert "fetches_per_second, 1/s" in said
    assert "baseline" in said


def test_compare_of_an_unknown_recording_says_what_to_do(
    finished: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare.main(["failover-4.0", "nowhere", "--warehouse", finished.path]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "'nowhere'" in said
    assert "jobs.run" in said
    assert "Traceback" not in said


def test_a_replay_killed_between_two_tables_is_completed(
    spark: SparkSession,
    finished: Warehouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished.path, copy)
    warehouse = Warehouse(copy)
    arguments = [str(FAILOVER), "--warehouse", str(copy), "--set", "hwm_parking.max_wait_ms=[50]"]
    real = Warehouse.replace_all

    def dies(self: Warehouse, table: object, *rest: object) -> None:
        if table is HIGH_WATERMARK_LAG:
            raise RuntimeError("killed")
        real(self, table, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Warehouse, "replace_all", dies)
    assert replay.main(arguments) == 1
    monkeypatch.setattr(Warehouse, "replace_all", real)
    assert replay.main(arguments) == 0
    for table in (FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG):
        swept = warehouse.read(table).where("recording = 'failover-4.0' AND parameter != 'none'")
        assert [row[0] for row in swept.select("parameter_value").distinct().collect()] == ["50"]


def test_a_changed_rule_is_never_taken_for_the_old_one(
    finished: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = {"recording": "failover-4.0", "rule": "hwm_parking"}
    written = finished.fingerprint_of(FETCH_PARKING_OUTCOMES, name)
    assert written is not None
    monkeypatch.setattr(
        "kip_replay.pipelines.warehouse.fingerprint._code", lambda patterns: "another rule"
    )
    changed = steps.fingerprint("hwm_parking", "the same logs")
    monkeypatch.undo()
    assert changed != steps.fingerprint("hwm_parking", "the same logs")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("hwm_parking.max_wait_ms=[0]", "1 or more"),
        ("hwm_parking.max_wait_ms=['a']", "1 or more"),
        ("hwm_parking.nonsense=1", "nonsense"),
    ],
)
def test_a_senseless_setting_is_one_sentence(
    setting: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run.main([str(FAILOVER), "--warehouse", str(tmp_path), "--set", setting])
    error = capsys.readouterr().err
    assert status == 2
    assert said in error
    assert error.count("\n") == 1


def test_who_votes_is_asked_for_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "quiet"
    shutil.copytree(FAILOVER, folder)
    manifest = json.loads((folder / "recording.json").read_text())
    del manifest["voters"]
    for node in manifest["nodes"]:
        del node["role"]
    (folder / "recording.json").write_text(json.dumps(manifest))
    assert run.main([str(folder), "--warehouse", str(tmp_path / "w")]) == 2
    assert "voters" in capsys.readouterr().err


def test_summaries_without_outcomes_say_what_to_do(
    finished: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert summarize.main([str(FAILOVER), "--warehouse", str(tmp_path / "empty")]) == 2
    assert "jobs.run" in capsys.readouterr().err
