"""Quality checks of real recordings: sound ones pass, and a flaw is found, kept and printed."""

import gzip
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from kip_replay.jobs import check as check_job
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.quality.step import validated
from kip_replay.pipelines.quality.suites import load_suites
from kip_replay.pipelines.replaying.log_gaps import find_log_gaps
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import REQUESTS
from kip_replay.replay.table import Table
from kip_replay.replay.tables import QUALITY_FAILURES, QUALITY_RESULTS

FAILOVER = Path(__file__).resolve().parents[1] / "recordings" / "failover-4.0"
FREEZE = FAILOVER.with_name("freeze-4.1")
BOTH = ("failover-4.0", "freeze-4.1")


def test_a_line_taken_out_of_a_real_log_is_located(tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(FAILOVER, folder)
    manifest = json.loads((folder / "recording.json").read_text())
    (node,) = (n for n in manifest["nodes"] if n["node_id"] == 11)
    lines = whole_log(folder, node["log"]).splitlines(keepends=True)
    followers = [i for i, line in enumerate(lines) if b'"broker-12-fetcher-0"' in line]
    taken = followers[len(followers) // 2]
    for file in folder.glob(node["log"]):
        file.unlink()
    (folder / "cut.log").write_bytes(b"".join(lines[:taken] + lines[taken + 1 :]))
    node["log"] = "cut.log"
    manifest["name"] = "cut"
    (folder / "recording.json").write_text(json.dumps(manifest))
    warehouse = Warehouse(tmp_path / "warehouse")
    ingest([load_recording(folder)], Local(warehouse))
    find_log_gaps(Local(warehouse), {"cut": (1, 2, 3)}, is_final=True)
    log = [each for each in load_suites() if each.suite == "log"]
    results = validated(Local(warehouse), ["cut"], log, kept_rows=5)
    failed = {r.expectation: r for r in results if not r.success}
    critical = {name for name, r in failed.items() if r.severity == "critical"}
    assert critical == {"log_has_no_hole"}
    hole = json.loads(failed["log_has_no_hole"].kept[0])
    assert (hole["node_id"], hole["client_id"]) == (11, "broker-12-fetcher-0")
    assert hole["lines_missing"] == 1
    # Lines are numbered from 1, and the one taken out would have had the number taken + 1.
    assert hole["line_number_before"] <= taken < hole["line_number"]


def whole_log(folder: Path, pattern: str) -> bytes:
    """The uncompressed bytes of a node's one log file."""
    (file,) = folder.glob(pattern)
    content = file.read_bytes()
    return gzip.decompress(content) if file.suffix == ".gz" else content


def test_real_recordings_have_no_critical_flaw(finished: Warehouse) -> None:
    results = finished.rows(QUALITY_RESULTS, BOTH).to_pylist()
    assert [r for r in results if r["severity"] == "critical" and not r["success"]] == []
    checked = {(r["suite"], r["table_name"], r["expectation"]) for r in results}
    assert checked == {each.place for each in load_suites()}


@pytest.mark.slow
def test_a_flaw_ends_with_3_is_kept_and_printed_and_goes_away_when_mended(
    finished: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished.path, copy)
    warehouse = Warehouse(copy)
    requests = DeltaTable(warehouse.uri_of(REQUESTS))
    sound = requests.version()
    rows = requests.to_pyarrow_table()
    is_wrong = (pc.field("recording") == "freeze-4.1") & (pc.field("line_number") == 7)
    wrong = rows.filter(is_wrong)
    late = pc.add(wrong["total_ms"], 1.0)
    wrong = wrong.set_column(rows.schema.get_field_index("total_ms"), "total_ms", late)
    parts = [rows.filter(~is_wrong), wrong.cast(rows.schema)]
    write_deltalake(requests, pa.concat_tables(parts), mode="overwrite")
    arguments = [str(FAILOVER), str(FREEZE), "--warehouse", str(copy)]
    assert check_job.main(arguments) == 3
    printed = capsys.readouterr().out
    assert "critical in freeze-4.1: requests, time_parts_sum_to_total" in printed
    assert "line_number 7" in printed
    page = copy / "gx/uncommitted/data_docs/local_site/index.html"
    assert f"data docs: {page}" in printed
    text = page.read_text()
    assert ", ".join(BOTH) in text
    assert {each.table for each in load_suites() if each.table not in text} == set()
    kept = warehouse.rows(QUALITY_FAILURES, BOTH).to_pylist()
    failed = {r["recording"] for r in kept if r["expectation"] == "time_parts_sum_to_total"}
    assert failed == {"freeze-4.1"}
    versions = [version(warehouse, t) for t in (QUALITY_RESULTS, QUALITY_FAILURES)]
    assert check_job.main(arguments) == 3
    assert [version(warehouse, t) for t in (QUALITY_RESULTS, QUALITY_FAILURES)] == versions
    DeltaTable(warehouse.uri_of(REQUESTS)).restore(sound)
    assert check_job.main(arguments) == 0


def version(warehouse: Warehouse, table: Table) -> int:
    return DeltaTable(warehouse.uri_of(table)).version()
