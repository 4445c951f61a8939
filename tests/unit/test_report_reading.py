"""The report from tables: bounded, and the same whatever the order of the rows.

That its figures are those of the tables is held against other queries, on recordings, in
``tests/spark/test_report_figures.py``.
"""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from duckdb_tables import rows_in
from made_rows import made_rows
from report_examples import CONFIG

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.report.data import read_report
from kip_replay.pipelines.report.logs import EXAMPLE_CHARACTERS, EXAMPLES
from kip_replay.pipelines.report.page import text_of, write_page
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.hwm_parking import WITH_KIP
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES


class InMemory(Warehouse):
    """Rows of recordings one and two, in an order that nothing may depend on; some are given."""

    def __init__(self, shuffle: int = 1, **given: list[dict[str, Any]]) -> None:
        super().__init__("in memory")
        self._shuffle, self._given = random.Random(shuffle), given

    def _dataset(self, table: Table) -> pa.Table:
        given = self._given.get(table.name)
        rows = made_rows(table, 500) if given is None else rows_in(table, given)
        return rows.take(pa.array(self._shuffle.sample(range(len(rows)), len(rows)), pa.int64()))


def test_same_tables_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "new" / "report.html", tmp_path / "again.html"
    for path, shuffle in ((first, 1), (second, 2)):
        report = read_report(InMemory(shuffle), ["one", "one"], is_drawn=False)
        write_page(path, text_of(report, CONFIG, "html"))
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 100_000
    # Nothing unfinished is left beside it.
    assert [path.name for path in first.parent.iterdir()] == ["report.html"]


def test_of_rejected_lines_few_and_their_heads_are_shown() -> None:
    line = {"recording": "one", "node_id": 1, "source_file": "a.log", "reason": "bad_json"}
    rejected = [
        {**line, "line_id": str(n), "line_number": n, "line": "x" * 900, "line_bytes": 5000}
        for n in range(1, 11)
    ]
    (logs,) = read_report(InMemory(rejected_lines=rejected), ["one"], is_drawn=False).logs
    (found,) = logs.rejected
    assert (found["reason"], found["n"]) == ("bad_json", 10)
    assert [of["line_number"] for of in found["examples"]] == list(range(1, EXAMPLES + 1))
    assert {len(of["line"]) for of in found["examples"]} == {EXAMPLE_CHARACTERS}


def test_latencies_are_read_as_they_stand_and_what_was_never_logged_is_not_drawn() -> None:
    rule = {"recording": "one", "rule": "hwm_parking", "variant": WITH_KIP, "parameter": "none"}
    rule |= {"metric": "high_watermark_lag", "group_kind": "replica_kind", "group_value": "broker"}
    # Of nine values one is unknown, and never reached.
    curve = [
        rule | {"total": 9, "value_us": value_us, "up_to": up_to, "from_us": from_us}
        for value_us, up_to, from_us in ((250, 4, 100), (900, 8, 300))
    ]
    spread = rule | {"parameter_value": -1, "count": 8, "unknown_count": 1, "p50_ms": 0.3}
    spread |= {"p50_low_ms": 0.2, "p50_high_ms": 0.4, "p90_ms": 0.8, "p99_ms": 0.9, "max_ms": 1.0}
    rows = {name: [] for name in TABLES} | {"latency_curves": curve, "latency_summary": [spread]}
    rows["ingested_files"] = [{"recording": "one", "node_id": 1, "content_hash": "x"}]
    report = read_report(InMemory(**rows), ["one"])
    (figures,) = report.figures["hwm_parking"]
    found = figures.curves["high_watermark_lag", WITH_KIP, "broker"]
    assert (found.start_ms, found.points) == (0.1, ((0.25, 4 / 9), (0.9, 8 / 9)))
    of = figures.spread("high_watermark_lag", WITH_KIP, "replica_kind", "broker")
    assert (of.count, of.unknown, of.p50, of.p90, of.p99, of.max) == (8, 1, 0.3, 0.8, 0.9, 1.0)
    assert of.intervals["p50"].low <= 0.2 < 0.4 <= of.intervals["p50"].high
    assert of.intervals["p99"] is None
    assert {*map(len, report.over_time.values())} == {0}


def test_unknown_recording_is_the_users_error() -> None:
    with pytest.raises(UserError, match="'another' is not in the warehouse"):
        read_report(InMemory(), ["one", "another"])
