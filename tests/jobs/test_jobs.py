"""The commands: what they print, how they end, and that a second run changes nothing."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from put_rows import versions
from ran import ran
from small_logs import BROKER, CONTROLLER, folder_of, write_recording

import kip_replay as kr
from kip_replay.jobs import check as check_job
from kip_replay.jobs import compare, ingest, report, run
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.suites import load_suites
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import Requests
from kip_replay.replay.tables import QualityFailures

Capsys = pytest.CaptureFixture[str]

FAILOVER, FREEZE = folder_of("failover-4.0"), folder_of("freeze-4.1")


def test_a_second_run_changes_nothing(finished: Warehouse, capsys: Capsys) -> None:
    report = Path(finished.path) / "report.html"
    before, page = versions(finished), report.read_bytes()
    assert run.main([str(FAILOVER), str(FREEZE), "--warehouse", finished.path]) == 0
    assert versions(finished) == before
    assert report.read_bytes() == page
    printed = capsys.readouterr().out
    of_freeze = printed.partition("\nfreeze-4.1\n")[2]
    assert "  hwm_parking (KIP-1166): already in use. This cluster runs KIP-1166" in of_freeze
    lines = of_freeze.partition("  hwm_parking (")[0].splitlines()
    assert [line.split()[0] for line in lines] == ["Kafka", "20:46:03"]  # its state, a finding
    assert "self-checks lie within tolerance" in printed
    assert f"report: {report}" in printed
    assert "seconds: ingest" in printed


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        (
            {
                "already in use": "use: hwm_parking (KIP-1166) in freeze-4.1",
                "high_watermark_lag_p50_ms >= 300": ">= 300: time until a commit is known: 3",
                "produce_p99_ms > 100": "> 100: time to the response with acks=all: not known\n",
            },
            4,
        ),
        ({"high_watermark_lag_max_ms<0": "", "self-checks": ""}, 0),
        ({"produce_p9_ms > 100": "of fetch_parked, high_watermark_lag, produce, stale_window)"}, 2),
    ],
)
def test_what_to_fail_on_has_a_status_of_its_own(
    finished: Warehouse, tmp_path: Path, capsys: Capsys, conditions: dict[str, str], status: int
) -> None:
    """The sentence of each condition that is met, by the condition."""
    output = ["--output", str(tmp_path / "page.html"), "--warehouse", finished.path]
    given = [text for condition in conditions for text in ("--fail-on", condition)]
    assert report.main([*given, *output]) == status
    error = capsys.readouterr().err
    assert all(said in error for said in conditions.values())
    assert bool(error) == bool(status)


def test_another_limit_writes_the_page_anew_and_replays_nothing(
    finished: Warehouse, tmp_path: Path, capsys: Capsys
) -> None:
    copy = Warehouse(shutil.copytree(finished.path, tmp_path / "copy"))
    page, before = Path(copy.path) / "report.html", versions(copy)
    arguments = [str(FAILOVER), str(FREEZE), "--warehouse", copy.path]
    assert run.main([*arguments, "--set", "hwm_parking.decide_saved_ms_min=5000"]) == 0
    strict, printed = page.read_text(), capsys.readouterr().out
    assert "hwm_parking.decide_saved_ms_min = 5,000" in strict
    assert (
        "  hwm_parking (KIP-1166): don't. "
        in printed.partition("\nfailover-4.0\n")[2].partition("\nfreeze")[0]
    )
    decided = ("decisions", "headlines", "lineage")
    assert {**versions(copy), **dict.fromkeys(decided)} == {**before, **dict.fromkeys(decided)}
    with patch.object(run, "read_pages", wraps=run.read_pages) as read_pages:
        assert run.main([str(FREEZE), "--quiet", "--warehouse", copy.path]) == 0
    [(_, names), _] = read_pages.call_args
    assert names == ["freeze-4.1"]
    printed = capsys.readouterr().out
    read, printed = printed.split("\n", 1)
    assert read.startswith("ingest freeze-4.1: lines read 0 = requests 0 + ")
    assert printed.startswith("\nfreeze-4.1\n")
    assert printed.endswith(f"report: {page}\n")
    assert "\nfailover-4.0\n" not in printed  # whose page stays
    assert "<h2><bdi>failover-4.0</bdi></h2>" in (kept := page.read_text())
    page.with_suffix(".json").unlink()
    assert run.main([str(FREEZE), "--quiet", "--warehouse", copy.path]) == 0
    assert page.read_text() == kept  # as when all of it is read
    assert run.main(arguments) == 0
    assert page.read_bytes() == (Path(finished.path) / "report.html").read_bytes()


def test_compare_says_in_a_few_lines_what_was_predicted_and_what_came(
    finished: Warehouse, tmp_path: Path, capsys: Capsys
) -> None:
    copy = str(shutil.copytree(finished.path, tmp_path / "copy"))
    assert compare.main(["--predictions", str(FAILOVER), "freeze-4.1", "--warehouse", copy]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) <= 13
    assert printed[0].startswith("freeze-4.1 predicted from failover-4.0: ")
    assert "outside of their tolerance" in printed[1]
    assert printed[-1] == "written: prediction_accuracy"
    again = ["--predictions", "failover-4.0", "freeze-4.1", "--warehouse", copy]
    assert compare.main([*again, "--all"]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) > 20
    # Both ran fetch sessions, so the one predicts nothing of the other: they are two runs.
    assert all(
        line.endswith("two runs of one protocol")
        for line in printed.splitlines()
        if line.startswith("KIP-227")
    )
    assert "written: nothing," in printed


def test_compare_says_in_ten_lines_what_is_different(finished: Warehouse, capsys: Capsys) -> None:
    names = [str(FAILOVER), "freeze-4.1", "--warehouse", finished.path]
    assert compare.main(names) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "freeze-4.1 against failover-4.0"
    assert len(lines) <= 9
    said = dict(line.split("  ", 1) for line in lines)
    rates = "SELECT count(*) / any_value(span_s) FROM requests JOIN time_buckets USING (recording)"
    opened = kr.open(finished.path)
    for name in ("failover-4.0", "freeze-4.1"):
        [rate] = opened.sql(f"{rates} WHERE recording = '{name}'", "arrow").column(0).to_pylist()
        assert f"{rate:.1f}" in said["requests/s"].partition("; clients: ")[0]
    new, gone = ({*re.split("[:,;] ", said[end])} for end in ("new", "gone"))
    assert new & gone <= {"clients", "topics", "none"}
    conditions = {"requests_per_second fell > 1 %": 4, "requests_per_second grew > 1 %": 0}
    for condition, status in {**conditions, "p99_nothing_ms grew > 1 %": 4}.items():
        assert compare.main([*names, "--format", "json", "--fail-on", condition]) == status
        printed = capsys.readouterr()
        assert json.loads(printed.out)["before"] == "failover-4.0"
        assert (condition in printed.err) is (status == 4)
    for wrong in (["--fail-on", "it grew"], [], ["--predictions", "--fail-on", condition]):
        assert compare.main([*(names if wrong else names[2:]), *wrong]) == 2


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("hwm_parking.max_wait_ms=[0]", "write a value such as [100, 150"),
        ("hwm_parking.max_wait_ms=['a']", "Expected `int`"),
        ("hwm_parking.max_wait_ms=1", "Expected `array`"),
        ("replay.evidence_s=0", "Expected `float` > 0"),
        ("quality.kept_rows=0", "Expected `int` >= 1"),
        ("hwm_parking.nonsense=1", "nonsense"),
    ],
)
def test_a_senseless_setting_is_one_sentence(
    setting: str, said: str, tmp_path: Path, capsys: Capsys
) -> None:
    status = run.main([str(FAILOVER), "--warehouse", str(tmp_path), "--set", setting])
    error = capsys.readouterr().err
    assert status == 2
    assert said in error
    assert error.count("\n") == 1


def test_who_votes_is_asked_for_by_name(tmp_path: Path, capsys: Capsys) -> None:
    folder = shutil.copytree(FAILOVER, tmp_path / "quiet")
    manifest = json.loads((folder / "recording.json").read_text())
    del manifest["voters"]
    for node in manifest["nodes"]:
        del node["role"]
    (folder / "recording.json").write_text(json.dumps(manifest))
    assert run.main([str(folder), "--warehouse", str(tmp_path / "w")]) == 2
    assert "voters" in capsys.readouterr().err


def test_reasons_of_rejected_lines_are_counted(tmp_path: Path, capsys: Capsys) -> None:
    cut, *_ = (line[:200] for line in BROKER.splitlines())
    broken = BROKER + b"\n".join([b"what is this?", b"Completed request:{}", b"{}", cut, cut[:90]])
    files = {"c.log": CONTROLLER, "b.log": broken}
    write_recording(tmp_path / "o'clock", files, {2: "c.log", 11: "b.log"})
    arguments = [str(tmp_path / "o'clock"), "--warehouse", str(tmp_path / "w")]
    ingest.main(arguments)
    said = [s for s in capsys.readouterr().out.splitlines() if s.startswith("rejected of")]
    assert said == [
        "rejected of o'clock: 2 truncated, 1 bad_stamp; "
        'kip-replay sql "FROM rejected_lines" shows them'
    ]
    ingest.main(arguments)  # reads nothing
    assert "rejected of" not in capsys.readouterr().out


NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "notebook.ipynb"


def test_a_first_look_needs_neither_java_nor_spark_and_a_notebook_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import sys, webbrowser; from kip_replay.jobs import demo\n"
        "webbrowser.open = lambda page: print('opened', page)\n"
        "status = demo.main(['--warehouse', 'demo'])\n"
        "heavy = {'pyspark', 'py4j', 'great_expectations', 'sqlalchemy'}\n"
        "sys.exit(status or bool(heavy & {*sys.modules}))"
    )
    nowhere = {"PATH": "", "JAVA_HOME": str(tmp_path)}
    # What libraries free twice ends it with 139.
    nowhere["PYTHONMALLOC"] = "debug"
    done = ran(sys.executable, "-c", program, cwd=tmp_path, **nowhere)
    assert done.returncode == 0, done.stderr
    assert f"\nopened {(tmp_path / 'demo' / 'report.html').as_uri()}\n" in done.stdout
    assert "no browser was found" in done.stdout  # print returns None

    monkeypatch.chdir(tmp_path)
    cells = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells)
    names: dict[str, Any] = {}
    for cell in cells:
        exec("".join(cell["source"]), names)
    assert {*names["fetches"].variant} == {*names["lag"].variant}
    assert str(names["fetches"].fetch_offset.dtype) == "Int64"  # exact where some are missing
    assert len(names["slowest"]) == 5

    w = kr.open("demo")
    sweeps = w.outcomes("hwm_parking", ["metadata-4.0"], where="true", as_="arrow")
    assert sweeps.num_rows > len(names["fetches"])
    assert "topic name" in [*w.columns("topic_names").comment]
    for mistake, sentence in (
        (lambda: w.table("requestz"), "is requests or group_requests meant?"),
        (lambda: w.table("requests", "friday"), "there are: metadata-4.0"),
        (lambda: w.outcomes("parking"), "there are: closest_replica, hwm_parking"),
        (lambda: w.sql("SELECT 1", as_="polars"), "write pandas, arrow or spark"),
        (lambda: kr.open("nowhere"), "there are no tables in the warehouse"),
    ):
        with pytest.raises(UserError, match=sentence):
            mistake()


BOTH = ("failover-4.0", "freeze-4.1")


@pytest.mark.slow
def test_a_flaw_ends_with_3_is_kept_and_printed_and_goes_away_when_mended(
    finished: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(finished.path, tmp_path / "copy")
    warehouse = Warehouse(copy)
    requests = DeltaTable(warehouse.uri_of(Requests))
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
    kept = warehouse.rows(QualityFailures, BOTH).to_pylist()
    failed = {r["recording"] for r in kept if r["expectation"] == "time_parts_sum_to_total"}
    assert failed == {"freeze-4.1"}
    before = versions(warehouse)
    assert check_job.main(arguments) == 3
    assert versions(warehouse) == before
    DeltaTable(warehouse.uri_of(Requests)).restore(sound)
    assert check_job.main(arguments) == 0
