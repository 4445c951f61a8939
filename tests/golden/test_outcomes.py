"""Outcomes of a recording by column: how many values, how many of them differ, and their sum."""

from pathlib import Path

import pyarrow as pa
import pytest
from constructed import assert_reviewed

from kip_replay.replay.table import Column

from .recorded import STEPS, session

pytestmark = pytest.mark.golden

#: Brokers stop and come back, followers have sessions; consumers read from followers.
RECORDING, OF_CONSUMERS = "acks-not-enough", "racks-aware"


def sum_of(column: Column) -> str:
    """Exact in any order: of durations the microseconds, of texts and lists the lengths."""
    if pa.types.is_timestamp(column.type):
        return f"sum(epoch_us({column.name}))"
    if pa.types.is_floating(column.type):
        return f"sum(round({column.name} * 1000)::HUGEINT)"
    if pa.types.is_string(column.type) or pa.types.is_list(column.type):
        return f"sum(len({column.name}))"
    return f"sum({column.name}::HUGEINT)"


@pytest.mark.parametrize("rule", STEPS)
def test_outcomes_are_the_reviewed_ones(rule: str, tmp_path: Path) -> None:
    rows, recording = [], OF_CONSUMERS if rule == "closest_replica" else RECORDING
    with session(recording, rule) as database:
        for table in STEPS[rule].outcomes:
            for column in table.columns:
                of = f"count({column.name}), count(DISTINCT {column.name}), {sum_of(column)}"
                [(count, distinct, total)] = database.sql(
                    f"SELECT {of} FROM {table.name}"
                ).fetchall()
                figures = {"count": count, "distinct": distinct, "sum": str(total)}
                rows.append({"table": table.name, "column": column.name, **figures})
    assert_reviewed(rows, f"outcomes/{recording}", rule, tmp_path)
