"""How each rule is judged: prediction_accuracy of constructed tables is the reviewed one.

Reviewed are tests/data/judgements/*.csv, whose figures plain arithmetic over the same rows gave.
"""

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from constructed import accuracy, latency_rows, parking, produces, sessions, writes
from pyarrow import csv

from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_OUTCOMES
from kip_replay.replay.min_isr_acks.tables import PRODUCE_ACK_OUTCOMES
from kip_replay.replay.tables import LATENCY_SUMMARY

REVIEWED = Path(__file__).parents[1] / "data" / "judgements"
#: Columns that are the same in every row, or in every row of a file.
LEFT_OUT = ("recording", "rule", "parameter", "parameter_value", "relative_error", "error")
PRODUCED = {
    PRODUCE_ACK_OUTCOMES: produces.ROWS,
    LATENCY_SUMMARY: latency_rows(produces.STEPS.name, produces.values()),
}


@pytest.mark.parametrize(
    ("of", "tables"),
    [
        (parking, parking.TABLES),
        (sessions, {FETCH_SESSION_OUTCOMES: sessions.ROWS}),
        (writes, writes.TABLES),
        (produces, PRODUCED),
    ],
    ids=lambda of: getattr(of, "__name__", ""),
)
def test_judgement(tmp_path: Path, of: Any, tables: Any) -> None:
    pairs = product(of.RECORDINGS, of.RECORDINGS)
    held = accuracy(of.STEPS, tables, of.RECORDINGS, pairs)
    rows = pa.Table.from_pylist([held[key] for key in sorted(held)]).drop_columns([*LEFT_OUT])
    name = f"{of.STEPS.name}.csv"
    csv.write_csv(rows, tmp_path / name)
    reviewed = (REVIEWED / name).read_text()
    assert (tmp_path / name).read_text() == reviewed, f"review {tmp_path / name}, then take it over"
