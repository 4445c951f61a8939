"""Checks: whatever is wrong is counted and located, and others can open the project."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from put_rows import put

from kip_replay.pipelines.analysis.summarize import SUMMARIES, accuracy_step
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality import QualitySettings, check, step, summary
from kip_replay.pipelines.quality.project import gx, write_project
from kip_replay.pipelines.quality.step import validated
from kip_replay.pipelines.quality.suites import Expectation, Severity, load_suites
from kip_replay.pipelines.quality.words import Result
from kip_replay.pipelines.warehouse.data_files import microseconds
from kip_replay.pipelines.warehouse.steps import Covered
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import INGESTED_FILES, REQUESTS
from kip_replay.replay.tables import TABLES

AT = datetime(2026, 1, 1, tzinfo=UTC)
LATE = AT + timedelta(seconds=1)
LATER = AT + timedelta(seconds=2)
HOSTILE = "<script>alert(1)</script><img src=x onerror='alert(2)'> $sql ${sql} {x} \"' \\ OR 1=1 --"
SQL = "unexpected_rows_expectation"


def written(path: Path, rows: Mapping[str, list[dict[str, Any]]]) -> Warehouse:
    """A warehouse of rows; columns that are not named are null."""
    warehouse = Warehouse(path)
    names = {each["recording"] for of_table in rows.values() for each in of_table}
    made = {TABLES[n]: pa.Table.from_pylist(of, TABLES[n].arrow_schema) for n, of in rows.items()}
    warehouse.replace("test", dict.fromkeys(names, "rows"), made)
    return warehouse


def row(table: str, **values: Any) -> dict[str, Any]:
    """A row of a recording "r": columns that may not be null are filled where not given."""
    fillers = {pa.string(): "x", pa.int32(): 1, pa.int64(): 1, pa.timestamp("us", tz="UTC"): AT}
    filled = {c.name: fillers.get(c.type) for c in TABLES[table].columns if not c.nullable}
    if "parameter" in filled:
        filled |= {"rule": "hwm_parking", "parameter": "none", "parameter_value": -1}
    if "verdict" in filled:
        filled["verdict"] = "replayed"
    if table == "requests":
        filled["request_id"] = "logged"
    return {**filled, "recording": "r", **values}


def sent(connection: str, *ids: int, **values: Any) -> list[dict[str, Any]]:
    """Requests on one connection, in the lines of their ids."""
    whole = f"10.0.0.1:9092-10.0.0.2:{connection}-0-1"
    return [
        row("requests", request_id=f"{connection}-{i}", correlation_id=i, line_number=i,
            connection=whole, is_forwarded=False, **values)
        for i in ids
    ]  # fmt: skip


def fetch(request_id: str, **values: Any) -> dict[str, Any]:
    return row("fetches", request_id=request_id, error_code=0, connection="c", **values)


def response(high_watermark: int, **values: Any) -> list[dict[str, Any]]:
    partition = {"topic": "t", "partition": 0, "error_code": 0, "high_watermark": high_watermark}
    return [{**partition, **values}]


def fetched(**values: Any) -> dict[str, Any]:
    sizes = {"request_partitions": 0, "forgotten_partitions": 0, "record_bytes": 0}
    given = {"variant": "full", "api_version": 17, "response_partitions": 1} | sizes | values
    return row("fetch_session_outcomes", **given)


def beat(handled_at: datetime | None = None, **values: Any) -> dict[str, Any]:
    counts = {"broker_id": 7, "error_code": 0, "is_fenced": False, "want_shut_down": False}
    at = handled_at or AT
    return row("broker_heartbeats", handled_at=at, built_at=at, **(counts | values))


RAFT = {"client_id": "raft-client-2"}
AT_9 = [{"fetch_offset": 9, "high_watermark": 10, "current_leader_epoch": 1}]
AT_8 = [{"fetch_offset": 8, "high_watermark": 8, "current_leader_epoch": 1}]
METADATA = {"is_cluster_metadata": True, "client_id": "raft-client-2"}
SESSION = {"is_cluster_metadata": False, "session_id": 7, "response_session_id": 7}
TIMES = ("request_queue_ms", "local_ms", "response_queue_ms", "send_ms")
#: At least one wrong row for every expectation in SQL.
WRONG: dict[str, list[dict[str, Any]]] = {
    "ingested_files": [
        row("ingested_files", lines_read=9, requests=1, rejected=1, repeated=0, damage="x"),
    ],
    "requests": [
        *sent("1", 1, 2, 4, client_id="broker-12-fetcher-0"),
        *sent("2", 1, 3, client_id="java"),
        *sent("3", 1, 3, **RAFT),
        row("requests", request_id="body", api_name="FETCH"),
        row("requests", total_ms=9.0, remote_ms=1.0, **dict.fromkeys(TIMES, 1.0)),
    ],
    "log_gaps": [
        row("log_gaps", evidence="correlation_id", lines_missing=3, last_request_id="2-1",
            next_request_id="2-3"),
        row("log_gaps", evidence="no_log", node_id=7),
    ],
    "clock_bounds": [row("clock_bounds", node_id=8, clocks="differ")],
    "rejected_lines": [row("rejected_lines")],
    "fetches": [
        fetch("nowhere", request_bytes=60, response_bytes=70),
        fetch("3-1", response_partitions=response(5), **METADATA),
        fetch("3-3", response_partitions=response(5), **METADATA),
        fetch("1-1", session_epoch=1, **SESSION),
        fetch("1-2", session_epoch=3, **SESSION),
        fetch("a", correlation_id=1, request_partitions=AT_9, **METADATA),
        fetch("b", correlation_id=2, request_partitions=AT_8, **METADATA),
        fetch("c", correlation_id=1, response_partitions=response(5, log_start_offset=6)),
        fetch("d", correlation_id=2, response_partitions=response(4)),
    ],
    "broker_heartbeats": [
        row("broker_heartbeats", request_id="h1", received_at=AT, current_metadata_offset=5),
        row("broker_heartbeats", request_id="h2", received_at=LATE, current_metadata_offset=4),
        beat(),
    ],
    "metadata_offsets": [
        row("metadata_offsets", kind="high_watermark", metadata_offset=9),
        row("metadata_offsets", kind="log_end_offset", metadata_offset=8),
    ],
    "isr_changes": [row("isr_changes", isr=[1, 9], replicas=[1, 2])],
    "produces": [row("produces", partitions=[{"topic": "t", "partition": 0}])],
    "fetch_parking_outcomes": [
        row("fetch_parking_outcomes", recorded_request_id="nowhere", response_high_watermark=5),
        row("fetch_parking_outcomes", sequence=2, response_high_watermark=4),
    ],
    "high_watermark_lag": [row("high_watermark_lag", phase="steady")],
    "fetch_session_outcomes": [
        row("fetch_session_outcomes", variant="incremental", attempt=0, equals_recorded=False),
        row("fetch_session_outcomes", variant="recorded", request_id="a", response_bytes=9),
        fetched(request_id="nowhere", response_bytes=470),
    ],
    "produce_ack_outcomes": [
        row("produce_ack_outcomes", min_isr_acked_at=AT, min_isr_error=0, partition=2,
            min_insync_replicas_at_ack=2, replicas_at_min_isr_ack=1),
    ],
    "heartbeat_outcomes": [
        row("heartbeat_outcomes", request_id="h1", built_at=AT, lowest_acknowledged_offset=5),
        row("heartbeat_outcomes", request_id="h2", built_at=LATE, lowest_acknowledged_offset=4),
    ],
    "metadata_write_outcomes": [
        row("metadata_write_outcomes", via_broker=7, known_everywhere_at=LATE, known_at=LATER),
    ],
    "metadata_write_visibility": [
        row("metadata_write_visibility", broker_id=7, known_at=LATE, shown_at=LATER),
    ],
    "latency_summary": [
        row("latency_summary", metric="high_watermark_lag", group_kind="all", count=7,
            unknown_count=0, mean_ms=3.0, max_ms=2.0),
        row("latency_summary", metric="high_watermark_lag", group_kind="node", count=8000,
            unknown_count=0),
        row("latency_summary", rule="lowest_acked_offset", variant="y", metric="stale_window",
            count=9, unknown_count=0),
    ],
    "bandwidth_summary": [
        row("bandwidth_summary", rule="incremental_fetch", direction="request", requests=9000,
            bytes=9, record_bytes=1, overhead_bytes=1),
    ],
    "paired_differences": [
        row("paired_differences", before=1.0, after=3.0, low=2.5, high=3.0),
    ],
    "prediction_accuracy": [row("prediction_accuracy", error=5.0, predicted=1.0, recorded=1.0)],
}  # fmt: skip


def fails(expectation: Expectation) -> dict[str, Any]:
    """A row that fails one of Great Expectations' types, but for uniqueness."""
    arguments, table = expectation.arguments, expectation.table
    values: dict[str, Any] = {}
    if condition := arguments.get("row_condition"):
        parameter, is_equal = condition["parameter"], condition["operator"] == "=="
        values[condition["column"]["name"]] = parameter if is_equal else "unknown"
    kinds = TABLES[table].arrow_schema
    if "column_A" in arguments:
        is_time = pa.types.is_timestamp(kinds.field(arguments["column_A"]).type)
        low, high = (AT, LATE) if is_time else (1, 2)
        return row(table, **values, **{arguments["column_A"]: low, arguments["column_B"]: high})
    column = arguments.get("column")
    if column is None or "not_be_null" in expectation.type:
        return row(table, **values)
    strange = {pa.string(): "perhaps", pa.bool_(): False}.get(kinds.field(column).type)
    wrong = arguments.get("min_value", 0) - 1 if strange is None else strange
    return row(table, **values, **{column: wrong})


def of(results: Sequence[Result], name: str) -> Result:
    (found,) = (each for each in results if each.expectation == name)
    return found


def shipped(name: str) -> Expectation:
    (found,) = (each for each in load_suites() if each.name == name)
    return found


def checked(warehouse: Warehouse, *expectations: Expectation) -> list[Result]:
    return validated(Local(warehouse), ["r"], expectations, kept_rows=2)


def counted_by_great_expectations(folder: Path) -> dict[tuple[str, ...], int]:
    """Failing rows by suite, table and name, as the validation results in a project have them."""
    counts = {}
    for file in (folder / "gx" / "uncommitted" / "validations").rglob("*.json"):
        for each in json.loads(file.read_text())["results"]:
            result, meta = each["result"], each["expectation_config"]["meta"]
            place = meta["suite"], meta["table"], meta["name"]
            counts[place] = result.get("unexpected_count", result.get("observed_value"))
    return counts


def failing_everywhere(path: Path) -> tuple[Warehouse, dict[str, int]]:
    """A warehouse in which every expectation that ships fails, and how many rows tables have."""
    rows = {name: [*WRONG.get(name, [])] for name in TABLES}
    for each in load_suites():
        rows[each.table].append(fails(each))
    rows = {name: [*wrong, wrong[-1]] for name, wrong in rows.items() if wrong}
    return written(path, rows), {name: len(of) for name, of in rows.items()}


def test_every_expectation_that_ships_can_fail(tmp_path: Path) -> None:
    warehouse, rows = failing_everywhere(tmp_path)
    results = checked(warehouse, *load_suites())
    assert [each.key for each in results if each.success] == []
    assert [each.key for each in results if not 1 <= len(each.kept) <= 2] == []
    assert all(each.rows_checked == rows[each.table_name] for each in results)
    hole = json.loads(of(results, "log_has_no_gap").kept[0])
    assert (hole["lines_missing"], hole["client_id"]) == (3, "java")
    assert (hole["line_number_before"], hole["line_number"]) == (1, 3)
    assert list(tmp_path.glob("gx*")) == []


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_both_ways_count_the_same(tmp_path: Path, every: int) -> None:
    """All expectations take Great Expectations half a minute: some, and all where time is."""
    warehouse, suites = failing_everywhere(tmp_path)[0], load_suites()[::every]
    write_project(warehouse.path, ["r"], suites)
    ours = {each.key[1:]: each.failing_rows for each in checked(warehouse, *suites)}
    assert counted_by_great_expectations(tmp_path) == ours


def test_what_is_not_there_is_not_wrong(tmp_path: Path) -> None:
    results = checked(Warehouse(tmp_path), *load_suites())
    assert {(each.failing_rows, each.rows_checked, each.kept) for each in results} == {(0, 0, ())}


KNOWN = AT + timedelta(minutes=1)
JUST_AFTER = KNOWN + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("heartbeat", "success"),
    [
        (beat(KNOWN - timedelta(microseconds=1)), False),
        (beat(KNOWN - timedelta(seconds=10.124)), False),
        (beat(KNOWN - timedelta(seconds=10.125)), True),
        (beat(KNOWN - timedelta(seconds=1), want_shut_down=True), True),
        (beat(KNOWN - timedelta(seconds=1), is_fenced=True), True),
    ],
)
def test_who_does_not_count_may_know_after_all_that_do_and_before_it_has_applied(
    tmp_path: Path, heartbeat: dict[str, Any], success: bool
) -> None:
    """Fenced, silent for a session timeout and an eighth of it, or shutting down."""
    rows = {
        "broker_heartbeats": [beat(AT, request_id="before"), heartbeat],
        "metadata_write_outcomes": [
            row("metadata_write_outcomes", via_broker=7, known_everywhere_at=KNOWN,
                known_at=JUST_AFTER)
        ],
        "metadata_write_visibility": [
            row("metadata_write_visibility", broker_id=7, known_at=KNOWN, shown_at=JUST_AFTER)
        ],
    }  # fmt: skip
    suites = map(shipped, ("all_that_count_know_no_sooner_than_who_forwarded",
                           "who_counts_knows_no_sooner_than_it_shows"))  # fmt: skip
    assert {each.success for each in checked(written(tmp_path, rows), *suites)} == {success}


def test_sizes_are_bounded_by_what_is_carried(tmp_path: Path) -> None:
    sizes: dict[str, list[dict[str, int]]] = {
        "fits": [
            {"response_bytes": 68},
            {"response_bytes": 5068, "record_bytes": 5000},
            {"response_bytes": 490, "response_partitions": 10},
            {"request_bytes": 60},
        ],
        "wrong": [
            {"response_bytes": 680},
            {"response_bytes": 17},
            {"response_bytes": 50680, "record_bytes": 5000},
            {"response_bytes": 4900, "response_partitions": 10},
            {"request_bytes": 600},
        ],
    }
    named = {f"{kind} {n}": size for kind, of in sizes.items() for n, size in enumerate(of)}
    rows = {
        "fetches": [fetch(name, request_bytes=60, response_bytes=70) for name in named],
        "fetch_session_outcomes": [fetched(request_id=name, **of) for name, of in named.items()],
    }
    warehouse = Local(written(tmp_path, rows))
    (result,) = validated(warehouse, ["r"], [shipped("sizes_fit_the_partitions")], kept_rows=9)
    found = {json.loads(kept)["request_id"] for kept in result.kept}
    assert found == {name for name in named if name.startswith("wrong")}


@pytest.mark.parametrize(
    ("covered", "success"),
    [(Covered(identity="rule", is_growing=True), True), (Covered(identity="rule"), False)],
)
def test_what_is_not_complete_yet_lacks_no_outcomes(
    tmp_path: Path, covered: Covered, success: bool
) -> None:
    """Whether or not any rule has a state: at first nothing is old enough to be replayed."""
    suites = [shipped(f"{name}_conserved") for name in (
        "metadata_fetches_are", "session_fetches_are", "heartbeats_are",
        "produced_partitions_are", "producers_that_react_are")]  # fmt: skip
    partition = [{"topic": "t", "partition": 0}]
    rows = {
        "fetches": [fetch("a", **METADATA), fetch("b", **SESSION)],
        "broker_heartbeats": [beat()],
        "produces": [row("produces", acks=-1, partitions=partition)],
    }
    warehouse = written(tmp_path, rows)
    for rule in {each.suite for each in suites}:
        warehouse.replace(rule, {"r": str(covered)}, {})
    results = checked(warehouse, *suites)
    assert [each.success for each in results] == [success] * 5


def test_a_run_checks_what_is_new_and_its_keys_against_older_rows(tmp_path: Path) -> None:
    """Of a recording that grows; what failed fails until all is checked."""
    warehouse, keys = Warehouse(tmp_path), ("log", "requests", "compound_columns_to_be_unique")
    for step_name in (SUMMARIES, accuracy_step("r")):
        warehouse.replace(step_name, {"r": "outcomes"}, {})

    def found(hour: int, anew: bool = False, **hours: int) -> list[tuple[bool, int]]:
        """Whether keys of requests are unique, and of how many, after a run that read some."""
        at = {name: AT + timedelta(hours=of) for name, of in hours.items()}
        logged = [row("requests", request_id=n, received_at=t) for n, t in at.items()]
        read = {"first_received_at": min(at.values()), "last_completed_at": max(at.values())}
        read |= {"ingest_epoch": hour, "requests": len(at), "content_hash": str(hour)}
        until_us = microseconds(max(at.values()))
        until = Covered(identity="rule", until_us=until_us, is_growing=True)
        warehouse.replace("hwm_parking", {"r": str(until)}, {})
        files = [row("ingested_files", **read)]
        put(warehouse, "ingest", {REQUESTS: logged, INGESTED_FILES: files})
        results = check(Local(warehouse), ["r"], QualitySettings(data_docs=False), anew).results
        return [(each.success, each.rows_checked) for each in results if each.place == keys]

    assert found(1, a=0, b=1) == [(True, 2)]
    [old] = tmp_path.glob("requests/recording=r/*.parquet")
    away = old.rename(tmp_path / "away")
    assert found(3, c=3) == [(True, 1)]
    away.rename(old)
    assert found(4, d=4, c=3) == [(False, 5)]
    assert found(6, e=6) == [(False, 5)]
    assert found(7, anew=True, f=7) == [(False, 7)]


def mine(query: str, **more: Any) -> Expectation:
    """An expectation of rejected_lines in SQL."""
    arguments = {"unexpected_rows_query": query}
    return Expectation(
        "mine", "rejected_lines", "none", SQL, Severity.WARNING, arguments | more, "no such row"
    )


def lines_are(kind: str, **arguments: Any) -> Expectation:
    return Expectation("mine", "rejected_lines", kind, kind, Severity.INFO, arguments)


SHORT = lines_are("expect_column_values_to_be_between", column="line_bytes", max_value=9)


def test_each_recording_has_its_own_failures(tmp_path: Path) -> None:
    lines = [
        row("rejected_lines", recording=name, line_id=f"{size}", line_bytes=size)
        for name, sizes in (("r", (10, 12, 11)), ("s", (9,)), ("t é", (99,)))
        for size in sizes
    ]
    warehouse = written(tmp_path, {"rejected_lines": lines})
    results = validated(Local(warehouse), ["r", "s", "t é"], [SHORT], kept_rows=2)
    assert [each.failing_rows for each in results] == [3, 0, 1]
    assert [each.rows_checked for each in results] == [3, 1, 1]
    assert [len(each.kept) for each in results] == [2, 0, 1]
    assert json.loads(results[2].kept[0]) == {"line_id": "99", "line_bytes": 99}


def where(operator: str, value: object) -> dict[str, Any]:
    column = {"name": "reason"}
    return {"type": "comparison", "column": column, "operator": operator, "parameter": value}


def test_any_type_and_argument_of_great_expectations_serves(tmp_path: Path) -> None:
    lengths = "expect_column_value_lengths_to_equal"
    cases = [
        (replace(SHORT, arguments=SHORT.arguments | more), failing_rows)
        for more, failing_rows in (
            ({"row_condition": where("==", "none")}, 0),
            ({"row_condition": where("!=", "none")}, 1),
            ({"max_value": 10, "strict_max": True}, 2),
            ({"mostly": 0.3}, 0),
            ({"mostly": 0.5}, 2),
        )
    ]
    cases += [
        (lines_are(lengths, column="reason", value=1), 1),
        (lines_are("expect_column_max_to_be_between", column="line_bytes", max_value=9), 1),
        (lines_are(lengths, column="reason", value=1, row_condition=where("==", "none")), 0),
    ]
    lines = [
        row("rejected_lines", line_id="a", line_bytes=10),
        row("rejected_lines", line_id="b", line_bytes=12, reason="xy"),
        row("rejected_lines", line_id="c", line_bytes=1),
    ]
    warehouse = written(tmp_path, {"rejected_lines": lines})
    for expectation, failing_rows in cases:
        (result,) = checked(warehouse, expectation)
        assert (result.failing_rows, len(result.kept)) == (failing_rows, failing_rows), expectation


def test_without_great_expectations_a_run_says_what_was_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = written(tmp_path / "a", {"rejected_lines": [row("rejected_lines", reason="xy")]})
    for name in (SUMMARIES, accuracy_step("r")):
        warehouse.replace(name, {"r": "summed up"}, {})
    lengths = 'type = "expect_column_value_lengths_to_equal"\ncolumns = ["reason"]\nvalue = 1'
    (tmp_path / "mine.toml").write_text(f'[[expectation]]\ntables = ["rejected_lines"]\n{lengths}')
    engine, settings = Local(warehouse), QualitySettings((str(tmp_path),))
    monkeypatch.setattr(step, "find_spec", lambda _: None)
    left_out = check(engine, ["r"], settings)
    needed = "pip install 'kip-replay[quality]'"
    assert f"  left out: 1 expectations of yours: {needed}" in summary(left_out)
    with pytest.raises(UserError, match=re.escape(needed)):
        check(engine, ["r"], settings, anew=True)
    shipped_only = check(engine, ["r"], QualitySettings(), anew=True)
    assert summary(shipped_only)[-1] == f"  left out: data docs: {needed}"
    monkeypatch.undo()
    assert len(check(engine, ["r"], settings).results) == len(left_out.results) + 1


def test_others_open_the_project_and_run_its_checkpoints(tmp_path: Path) -> None:
    lines = [row("rejected_lines", reason=HOSTILE, recording=HOSTILE, line_bytes=10)]
    warehouse = written(tmp_path / "a", {"rejected_lines": lines})
    wrong = mine("SELECT recording, reason FROM {batch} WHERE reason LIKE '<script>%'")
    results = validated(Local(warehouse), [HOSTILE], [wrong, SHORT], kept_rows=5)
    assert json.loads(results[0].kept[0]) == {"reason": HOSTILE}
    page = Path(write_project(warehouse.path, [HOSTILE], [wrong, SHORT]))
    text = "".join(each.read_text() for each in page.parent.rglob("*.html"))
    assert "rejected_lines" in text
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert not re.search(r"https?://|<script|<link|<img|url\(|@import", text), "opens offline"
    assert passed(tmp_path / "a") == {"quality": False, "information": False}


def test_what_is_worth_knowing_fails_no_checkpoint_but_its_own(tmp_path: Path) -> None:
    """And a copy of a warehouse reads its own tables, from wherever it is opened."""
    sound = mine("SELECT recording FROM {batch} WHERE reason = 'wrong'")
    rows = {"rejected_lines": [row("rejected_lines", reason="right", line_bytes=10)]}
    warehouse = written(tmp_path / "a", rows)
    write_project(warehouse.path, ["r"], [sound, SHORT])
    assert passed(tmp_path / "a") == {"quality": True, "information": False}
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    written(tmp_path / "b", {"rejected_lines": [row("rejected_lines", reason="wrong")]})
    assert passed(tmp_path / "b") == {"quality": False, "information": True}
    assert passed(tmp_path / "a") == {"quality": True, "information": False}


def passed(warehouse: Path) -> dict[str, bool]:
    """Whether each checkpoint of a warehouse's project does."""
    context = gx.get_context(mode="file", project_root_dir=warehouse)
    assert context.variables.analytics_enabled is False
    return {each.name: each.run().success for each in context.checkpoints.all()}


@pytest.mark.parametrize(
    "wrong",
    [
        mine("SELECT * FROM nowhere JOIN {batch} USING (recording)"),
        mine("SELECT recording, CAST(reason AS INTEGER) FROM {batch}"),
        mine("SELECT * FROM {batch", name="unpaired"),
        mine("SELECT * FROM {batch"),
        mine("SELECT * FROM {batch}", colunm="reason"),
        lines_are("expect_what_nobody_has"),
        lines_are("expect_column_values_to_match_regex", column="reason", regex="x"),
    ],
)
def test_what_cannot_be_validated_is_one_sentence(tmp_path: Path, wrong: Expectation) -> None:
    warehouse = written(tmp_path, {"rejected_lines": [row("rejected_lines", reason="x")]})
    with pytest.raises(UserError, match="see docs/quality") as error:
        checked(warehouse, SHORT, wrong)
    assert "\n" not in str(error.value)
