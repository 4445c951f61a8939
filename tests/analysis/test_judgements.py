"""How each rule is judged: prediction_accuracy of constructed tables is the reviewed one."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from constructed import accuracy, assert_reviewed, latency_rows, parking, produces, sessions, writes

from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_OUTCOMES
from kip_replay.replay.min_isr_acks.tables import PRODUCE_ACK_OUTCOMES
from kip_replay.replay.tables import LATENCY_SUMMARY

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
    rows = [{n: v for n, v in held[key].items() if n not in LEFT_OUT} for key in sorted(held)]
    assert_reviewed(rows, "judgements", of.STEPS.name, tmp_path)
