"""Quality checks of real recordings: a flaw is found, kept and printed."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from put_rows import versions
from recorded_logs import folder_of

from kip_replay.jobs import check as check_job
from kip_replay.pipelines.quality.suites import load_suites
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import REQUESTS
from kip_replay.replay.tables import QUALITY_FAILURES

FAILOVER = folder_of("failover-4.0")
FREEZE = folder_of("freeze-4.1")
BOTH = ("failover-4.0", "freeze-4.1")


@pytest.mark.slow
def test_a_flaw_ends_with_3_is_kept_and_printed_and_goes_away_when_mended(
    finished: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(finished.path, tmp_path / "copy")
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
    assert {each.suite for each in load_suites() if each.suite not in text} == set()
    kept = warehouse.rows(QUALITY_FAILURES, BOTH).to_pylist()
    failed = {r["recording"] for r in kept if r["expectation"] == "time_parts_sum_to_total"}
    assert failed == {"freeze-4.1"}
    before = versions(warehouse)
    assert check_job.main(arguments) == 3
    assert versions(warehouse) == before
    DeltaTable(warehouse.uri_of(REQUESTS)).restore(sound)
    assert check_job.main(arguments) == 0
