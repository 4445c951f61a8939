"""The schema module says every table once, and the docs say what it says."""

from pathlib import Path

import pytest

from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES
from tools.docs import table_page

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_keys_are_never_null_and_every_column_says_what_it_holds(table: Table) -> None:
    columns = {column.name: column for column in table.columns}
    assert len(columns) == len(table.columns)
    assert table.key[0] == "recording"
    assert all(not columns[name].nullable for name in table.key)
    assert table.comment
    assert all(column.comment for column in table.columns)


def test_units_stand_at_the_end_of_names() -> None:
    for table in TABLES.values():
        for column in table.columns:
            if column.name.endswith("_ms") and column.name not in ("max_wait_ms", "timeout_ms"):
                assert str(column.type) == "double", (table.name, column.name)
            if column.name.endswith("_bytes") and column.name not in ("min_bytes", "max_bytes"):
                assert str(column.type) == "int64", (table.name, column.name)
            if column.name.endswith("_at"):
                assert str(column.type) == "timestamp[us, tz=UTC]", (table.name, column.name)


def test_the_page_of_tables_is_up_to_date() -> None:
    assert (REPOSITORY / "docs" / "tables.md").read_text(encoding="utf-8") == table_page()
