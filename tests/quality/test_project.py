"""The Great Expectations project of a warehouse: others open it, and read it without a network."""

import re
import shutil
from pathlib import Path
from typing import Any

from kip_replay.pipelines.quality.step import QualityOutcome, Result
from kip_replay.pipelines.rule_files import Severity

HOSTILE = "<script>alert(1)</script><img src=x onerror='alert(2)'> $sql ${sql} {x} \"' \\ OR 1=1 --"


def result(severity: Severity, failing_rows: int, recording: str = "r") -> Result:
    return Result(
        recording=recording,
        suite="log",
        table_name="requests",
        expectation=f"{severity}, \"a\" >= 'b'",
        column_name="a",
        severity=severity.value,
        success=not failing_rows,
        observed="",
        failing_rows=failing_rows,
        rows_checked=9,
        says=HOSTILE,
    )


def opened(warehouse: Path) -> Any:
    """The project as others open it; importing Great Expectations takes seconds."""
    from kip_replay.pipelines.quality.project import gx

    return gx.get_context(mode="file", project_root_dir=warehouse)


def passed(warehouse: Path) -> dict[str, bool]:
    """Whether each checkpoint of a warehouse's project does."""
    context = opened(warehouse)
    assert context.variables.analytics_enabled is False
    return {each.name: each.run().success for each in context.checkpoints.all()}


def written(warehouse: Path, *results: Result) -> Path:
    from kip_replay.pipelines.quality.project import write_project

    recordings = [*dict.fromkeys(result.recording for result in results)]
    return Path(write_project(QualityOutcome(recordings, results, str(warehouse))))


def test_others_open_the_project_and_run_its_checkpoints(tmp_path: Path) -> None:
    written(tmp_path, result(Severity.WARNING, 0), result(Severity.CRITICAL, 0))
    assert passed(tmp_path) == {"quality": True}
    written(tmp_path, result(Severity.WARNING, 3), result(Severity.CRITICAL, 0))
    assert passed(tmp_path) == {"quality": False}
    suite = opened(tmp_path).suites.get("log")
    assert {each.severity.value for each in suite.expectations} == {"warning", "critical"}


def test_pages_load_nothing_and_name_recordings_and_counts(tmp_path: Path) -> None:
    sound, wrong = result(Severity.CRITICAL, 0), result(Severity.CRITICAL, 4321, HOSTILE)
    page = written(tmp_path, sound, wrong)
    text = "".join(each.read_text() for each in page.parent.rglob("*.html"))
    assert "4321" in text
    assert "requests: critical" in text
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert not re.search(r"https?://|<script|<link|<img|url\(|@import", text), "opens offline"


def test_what_others_have_added_stays(tmp_path: Path) -> None:
    written(tmp_path, result(Severity.WARNING, 1))
    context = opened(tmp_path)
    context.suites.add(type(context.suites.get("log"))("theirs"))
    shutil.rmtree(tmp_path / "gx" / "results")
    written(tmp_path, result(Severity.WARNING, 0))
    context = opened(tmp_path)
    assert {each.name for each in context.suites.all()} == {"theirs", "log"}
    assert passed(tmp_path) == {"quality": True}
