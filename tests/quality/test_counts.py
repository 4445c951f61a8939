"""Expectations: every one that ships can fail, and what fails is counted and located."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from made_rows import made_rows

from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.step import Result, validated
from kip_replay.pipelines.quality.suites import Expectation, load_suites
from kip_replay.pipelines.warehouse.steps import Covered
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES, Lineage

AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = AT + timedelta(minutes=1)
Row = dict[str, Any]


def written(path: Path, rows: Mapping[str, list[Row]]) -> Warehouse:
    """A warehouse of rows; columns that are not named are null."""
    warehouse = Warehouse(path)
    names = {row["recording"] for of_table in rows.values() for row in of_table}
    made = {TABLES[n]: pa.Table.from_pylist(of, TABLES[n].arrow_schema) for n, of in rows.items()}
    warehouse.replace("test", dict.fromkeys(names, "rows"), made)
    return warehouse


def row(table: str, **values: Any) -> Row:
    """A row of a recording "r": columns that may not be null are filled where not given."""
    fillers = {pa.string(): "x", pa.int32(): 1, pa.int64(): 1, pa.timestamp("us", tz="UTC"): AT}
    filled = {c.name: fillers.get(c.type) for c in TABLES[table].columns if not c.nullable}
    if "parameter" in filled:
        filled |= {"rule": "hwm_parking", "parameter": "none", "parameter_value": -1}
    return {**filled, "recording": "r", **values}


def fetch(request_id: str, **values: Any) -> Row:
    return row("fetches", request_id=request_id, error_code=0, connection="c", **values)


METADATA = {"is_cluster_metadata": True, "client_id": "raft-client-2"}
#: What rows at random have the same, so that there is one before each.
SAME = {"recording": "r", "node_id": 1, "client_id": "c", "connection": "c"}
#: Wrong rows for what such rows do not fail.
WRONG = {
    "requests": [row("requests", request_id="body", api_name="FETCH")],
    "metadata_offsets": [
        row("metadata_offsets", kind="high_watermark", metadata_offset=9),
        row("metadata_offsets", kind="log_end_offset", metadata_offset=8),
    ],
    "clock_bounds": [row("clock_bounds", clocks="differ")],
    "fetch_session_outcomes": [
        row("fetch_session_outcomes", variant=variant, request_id="body", equals_recorded=False)
        | {"parameter": "none", "request_bytes": size, "response_bytes": 1}
        for variant, size in (("incremental", 7), ("recorded", 8))
    ],
    "latency_summary": [
        row("latency_summary", rule="hwm_parking", group_kind=group, count=count, unknown_count=0)
        for group, count in (("all", 7), ("node", 8000))
    ],
}


def failing(expectation: Expectation, row: Row) -> list[Row]:
    """Rows that differ in what a condition names, in every way that might matter."""
    kinds = TABLES[expectation.table].arrow_schema
    texts = [*re.findall(r"'(\w+)'", expectation.query), "perhaps"]
    values = {
        pa.string(): texts,
        pa.bool_(): [False, True],
        pa.timestamp("us", tz="UTC"): [AT, LATER],
    }
    named = dict.fromkeys(re.findall(r"\w+", expectation.condition or ""))
    fields = [kinds.field(name) for name in named if name in kinds.names]
    plain = [field for field in fields if not pa.types.is_nested(field.type)]
    choices = product(*(values.get(field.type, [-1, 0, 2]) for field in plain))
    return [row | dict(zip([field.name for field in plain], of, strict=True)) for of in choices]


def failing_everywhere(path: Path) -> tuple[Warehouse, dict[str, int]]:
    """A warehouse in which every expectation that ships fails, and how many rows tables have."""
    rows = {}
    for name, table in TABLES.items():
        same = {column: value for column, value in SAME.items() if column in table.names}
        made = [made | same for made in made_rows(table, 100).to_pylist()]
        strange = {"request_id": "nowhere"} if "request_id" in made[0] else {}
        rows[name] = [*made, made[0], made[0] | strange, *WRONG.get(name, [])]
    for expectation in load_suites():
        if expectation.condition:
            rows[expectation.table] += failing(expectation, rows[expectation.table][0])
    rows["requests"] = [made for made in rows["requests"] if made["request_id"] != "nowhere"]
    del rows[Lineage.name]
    return written(path, rows), {name: len(of) for name, of in rows.items()}


def shipped(*names: str) -> list[Expectation]:
    return [expectation for expectation in load_suites() if expectation.name in names]


def checked(warehouse: Warehouse, *expectations: Expectation, kept_rows: int = 2) -> list[Result]:
    return validated(Local(warehouse), ["r"], expectations, kept_rows)


def test_every_expectation_that_ships_can_fail(tmp_path: Path) -> None:
    warehouse, rows = failing_everywhere(tmp_path)
    results = checked(warehouse, *load_suites())
    assert [result.identity for result in results if result.success] == []
    assert [result.identity for result in results if not 1 <= len(result.kept) <= 2] == []
    assert all(result.rows_checked == rows[result.table_name] for result in results)
    assert list(tmp_path.glob("gx*")) == []


def test_what_is_not_there_is_not_wrong(tmp_path: Path) -> None:
    results = checked(Warehouse(tmp_path), *load_suites())
    assert {(r.failing_rows, r.rows_checked, r.kept) for r in results} == {(0, 0, ())}


def test_a_gap_is_located_between_two_lines(tmp_path: Path) -> None:
    sent = [row("requests", request_id=f"{n}", line_number=n, client_id="java") for n in (1, 3)]
    ends = {"lines_missing": 3, "last_request_id": "1", "next_request_id": "3"}
    gap = row("log_gaps", evidence="correlation_id", **ends)
    warehouse = written(tmp_path, {"requests": sent, "log_gaps": [gap]})
    (result,) = checked(warehouse, *shipped("log_has_no_gap"))
    kept = json.loads(result.kept[0])
    assert (kept["lines_missing"], kept["client_id"]) == (3, "java")
    assert (kept["line_number_before"], kept["line_number"]) == (1, 3)


@pytest.mark.parametrize(
    ("covered", "success"),
    [(Covered(identity="rule", is_growing=True), True), (Covered(identity="rule"), False)],
)
def test_what_is_not_complete_yet_lacks_no_outcomes(
    tmp_path: Path, covered: Covered, success: bool
) -> None:
    """Whether or not any rule has a state: at first nothing is old enough to be replayed."""
    rows = {
        "fetches": [fetch("a", **METADATA), fetch("b", is_cluster_metadata=False)],
        "broker_heartbeats": [row("broker_heartbeats", error_code=0)],
        "produces": [row("produces", acks=-1, partitions=[{"topic": "t", "partition": 0}])],
    }
    names = ("metadata_fetches_are", "session_fetches_are", "heartbeats_are")
    names += ("produced_partitions_are", "producers_that_react_are")
    suites = shipped(*(f"{name}_conserved" for name in names))
    warehouse = written(tmp_path, rows)
    for rule in {expectation.suite for expectation in suites}:
        warehouse.replace(rule, {"r": str(covered)}, {})
    results = checked(warehouse, *suites)
    assert [result.success for result in results] == [success] * 5


def mine(tmp_path: Path, text: str) -> list[Expectation]:
    """Expectations of rejected_lines, as a user writes them."""
    folder = tmp_path / "suites"
    folder.mkdir(exist_ok=True)
    entry = f'[[expectation]]\ntables = ["rejected_lines"]\n{text}'
    (folder / "mine.toml").write_text(entry)
    return [expectation for expectation in load_suites([folder]) if expectation.suite == "mine"]


def test_each_recording_has_its_own_failures(tmp_path: Path) -> None:
    """A condition that is null holds, and so it does in rows that are left out."""
    lines = [
        row("rejected_lines", recording=name, line_id=f"{size}", line_number=7, line_bytes=size)
        for name, sizes in (("r", (10, 12, 11, None)), ("s", (9,)), ("t é", (99,)))
        for size in sizes
    ]
    lines += [row("rejected_lines", line_id="x", line_number=8, line_bytes=99)]
    warehouse = written(tmp_path / "a", {"rejected_lines": lines})
    short = mine(tmp_path, 'holds = ["line_bytes <= 9"]\nwhere = "line_number = 7"')
    results = validated(Local(warehouse), ["r", "s", "t é"], short, kept_rows=2)
    assert [result.failing_rows for result in results] == [3, 0, 1]
    assert [result.rows_checked for result in results] == [5, 1, 1]
    assert [len(result.kept) for result in results] == [2, 0, 1]
    kept = json.loads(results[2].kept[0])
    assert (kept["line_id"], kept["line_number"], kept["line_bytes"]) == ("99", 7, 99)
    assert {result.column_name for result in results} == {"line_bytes"}


@pytest.mark.parametrize(
    "wrong",
    [
        "SELECT * FROM nowhere JOIN {batch} USING (recording)",
        "SELECT recording, CAST(reason AS INTEGER) FROM {batch}",
        "SELECT * FROM {batch} WHERE colunm = 1",
        "SELECT * FROM (SELECT * FROM {batch}",
    ],
)
def test_what_cannot_be_validated_is_one_sentence(tmp_path: Path, wrong: str) -> None:
    warehouse = written(tmp_path / "a", {"rejected_lines": [row("rejected_lines", reason="x")]})
    query = f'name = "n"\nunexpected_rows_query = "{wrong}"'
    with pytest.raises(UserError, match="'n' of rejected_lines in the suite 'mine'") as error:
        checked(warehouse, *shipped("no_line_is_rejected"), *mine(tmp_path, query))
    assert "\n" not in str(error.value)
