"""The report on the samples: the same JSON to the last digit.

``report.json`` is what it was; who changes it on purpose reads the difference.
"""

import json
import random
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from small_logs import REPOSITORY

from kip_replay.jobs import report
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.report.page import render
from kip_replay.pipelines.report.pages import read_pages
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table

GOLDEN = Path(__file__).with_name("report.json")
SCHEMA = REPOSITORY / "pipelines" / "report" / "report.schema.json"


def test_the_report_says_what_it_said(
    samples: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main(["--warehouse", samples.path, "--format", "json"]) == 0
    found = tmp_path / "report.json"
    found.write_text(capsys.readouterr().out, encoding="utf-8")
    read = json.loads(found.read_text(encoding="utf-8"))
    is_same = read == json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert is_same, f"review {found}, then copy it to {GOLDEN}"


def test_the_schema_describes_it() -> None:
    schema: Any = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    validator.validate(golden)
    golden["recordings"][0]["rules"]["hwm_parking"]["advice"] = "perhaps"
    assert not validator.is_valid(golden)


class Shuffled(Warehouse):
    """The same rows in an order that nothing may depend on."""

    def register_files(self, session: Any, name: str, table: Table, files: Any) -> None:
        rows = self.rows_of(table, files)
        order = random.Random(1).sample(range(len(rows)), len(rows))
        session.register(name, rows.take(pa.array(order, pa.int64())))


def test_the_same_rows_in_any_order_give_the_same_bytes(samples: Warehouse) -> None:
    every = (samples, Shuffled(samples.path))
    made = [render(read_pages(warehouse, ["sessions-off"])) for warehouse in every]
    assert made[0] == made[1]


def test_an_unknown_recording_is_the_users_error(samples: Warehouse) -> None:
    with pytest.raises(UserError, match="'another' is not in the warehouse"):
        read_pages(samples, ["another"])
