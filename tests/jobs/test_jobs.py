"""The commands: what they print, how they end, and that a second run changes nothing."""

import json
import shutil
from pathlib import Path

import pytest
from put_rows import versions
from recorded_logs import folder_of
from small_logs import BROKER, CONTROLLER, write_recording

from kip_replay.jobs import compare, ingest, report, run
from kip_replay.pipelines.warehouse.tables import Warehouse

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
    assert [line.split()[0] for line in lines] == ["Kafka", "1", "1"]  # its state, findings
    assert "self-checks lie within tolerance" in printed
    assert f"report: {report}" in printed
    assert "seconds: ingest" in printed


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        (
            {
                "already in use": "use: hwm_parking of freeze-4.1",
                "high_watermark_lag_p50_ms >= 300": " ms in failover-4.0",
                "produce_p99_ms > 100": "produce_p99_ms > 100: not known\n",
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
    assert run.main([str(FREEZE), "--quiet", "--warehouse", copy.path]) == 0
    printed = capsys.readouterr().out
    read, printed = printed.split("\n", 1)
    assert read.startswith("ingest freeze-4.1: lines read 0 = requests 0 + ")
    assert printed.startswith("\nfreeze-4.1\n")
    assert printed.endswith(f"report: {page}\n")
    assert "\nfailover-4.0\n" not in printed  # whose page stays
    assert "<h2><bdi>failover-4.0</bdi></h2>" in page.read_text()
    assert run.main(arguments) == 0
    assert page.read_bytes() == (Path(finished.path) / "report.html").read_bytes()


def test_compare_says_in_a_few_lines_what_was_predicted_and_what_came(
    finished: Warehouse, tmp_path: Path, capsys: Capsys
) -> None:
    copy = str(shutil.copytree(finished.path, tmp_path / "copy"))
    assert compare.main([str(FAILOVER), "freeze-4.1", "--warehouse", copy]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) <= 13
    assert printed[0].startswith("freeze-4.1 predicted from failover-4.0: ")
    assert any("lag of a change, median, brokers" in line for line in printed)
    nothing = [line.split()[0] for line in printed if "nothing that both" in line]
    assert nothing == ["KIP-392", "KIP-926", "Lowest"]
    assert printed[-1] == "written: prediction_accuracy"
    again = ["failover-4.0", "freeze-4.1", "--warehouse", copy]
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
