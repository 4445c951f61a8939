"""The check as a step: what a run checks of a log that grows, and what it leaves out."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs
from put_rows import put, row

from kip_replay.pipelines.analysis.summarize import SUMMARIES, accuracy_step
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.quality import QualitySettings, check, step
from kip_replay.pipelines.quality.step import QualityOutcome, Result, summary
from kip_replay.pipelines.rule_files import Severity
from kip_replay.pipelines.warehouse.data_files import microseconds
from kip_replay.pipelines.warehouse.steps import Covered
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import IngestedFiles, Requests

AT = datetime(2026, 1, 1, tzinfo=UTC)


def summed_up(path: Path) -> Warehouse:
    warehouse = Warehouse(path)
    for name in (SUMMARIES, accuracy_step("r")):
        warehouse.replace(name, {"r": "outcomes"}, {})
    return warehouse


def test_a_run_checks_what_is_new_and_its_keys_against_older_rows(tmp_path: Path) -> None:
    """Of a recording that grows; what failed fails until all is checked."""
    warehouse, keys = summed_up(tmp_path), ("keys", "requests", "key_is_unique")

    def checked(hour: int, anew: bool = False, **hours: int) -> list[tuple[bool, int]]:
        """Whether keys of requests are unique, and of how many, after a run that read some."""
        at = {name: AT + timedelta(hours=of) for name, of in hours.items()}
        logged = [row(Requests, "r", request_id=n, received_at=t) for n, t in at.items()]
        read = {"first_received_at": min(at.values()), "last_completed_at": max(at.values())}
        read |= {"ingest_epoch": hour, "requests": len(at), "content_hash": str(hour)}
        until_us = microseconds(max(at.values()))
        until = Covered(identity="rule", until_us=until_us, is_growing=True)
        warehouse.replace("hwm_parking", {"r": str(until)}, {})
        put(
            warehouse,
            "ingest",
            {Requests: logged, IngestedFiles: [row(IngestedFiles, "r", **read)]},
        )
        results = check(Local(warehouse), ["r"], QualitySettings(data_docs=False), anew).results
        return [(each.success, each.rows_checked) for each in results if each.place == keys]

    assert checked(1, a=0, b=1) == [(True, 2)]
    [old] = tmp_path.glob("requests/recording=r/*.parquet")
    away = old.rename(tmp_path / "away")
    assert checked(3, c=3) == [(True, 1)]
    away.rename(old)
    assert checked(4, d=4, c=3) == [(False, 5)]
    assert checked(6, e=6) == [(False, 5)]
    assert checked(7, anew=True, f=7) == [(False, 7)]


def test_without_great_expectations_a_check_says_what_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Local(summed_up(tmp_path))
    monkeypatch.setattr(step, "find_spec", lambda _: None)
    last = summary(check(engine, ["r"], QualitySettings(), anew=True))[-1]
    assert last == "  left out: data docs: pip install 'kip-replay[quality]'"
    assert "left out" not in " ".join(summary(check(engine, ["r"], QualitySettings())))


def failure(severity: Severity, **example: object) -> Result:
    kept = (json.dumps(example),)
    named = {"recording": "one", "suite": "log", "table_name": "requests"}
    named |= {"expectation": "no_hole", "says": "no id lacks", "severity": severity}
    return Result(**named, success=False, observed="", failing_rows=3, rows_checked=9, kept=kept)


def outcome(*failures: Result) -> QualityOutcome:
    """Of two recordings, with one result that is met."""
    met = structs.replace(failure(Severity.CRITICAL), success=True)
    return QualityOutcome(("one", "two"), [met, *failures], "/w", "/w/docs/index.html")


def test_long_lists_endless_strings_and_terminal_codes_are_harmless() -> None:
    assert "  and 10 more" in summary(outcome(*[failure(Severity.WARNING)] * 40))
    hostile = failure(Severity.WARNING, client_id="\x1b[2J" + "x" * 500)
    printed = "\n".join(summary(outcome(hostile)))
    assert "\x1b" not in printed
    assert "\\x1b[2J" in printed
    assert "x" * 100 not in printed
