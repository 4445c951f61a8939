"""How each rule is judged: prediction_accuracy of constructed tables is the reviewed one."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from constructed import accuracy, assert_reviewed, produces, sessions

#: Columns that are the same in every row, or in every row of a file.
LEFT_OUT = ("recording", "rule", "parameter", "parameter_value", "relative_error", "error")


@pytest.mark.parametrize("of", [sessions, produces], ids=lambda of: of.__name__)
def test_judgement(tmp_path: Path, of: Any) -> None:
    pairs = product(of.RECORDINGS, of.RECORDINGS)
    held = accuracy(of.STEPS, of.tables(), of.RECORDINGS, pairs)
    rows = [{n: v for n, v in held[key].items() if n not in LEFT_OUT} for key in sorted(held)]
    assert_reviewed(rows, "judgements", of.STEPS.name, tmp_path)
