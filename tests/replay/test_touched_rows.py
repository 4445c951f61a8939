"""Which rows holes in logs touch."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from kip_replay.replay.log_gaps import LOG_GAP, LogGap, Touch
from kip_replay.replay.table import AT

_TOUCH = Touch(("sent_at", "received_at"), ("built_at",), "node_id", clears=("lag_ms",))
_HOLE = LogGap(node_id=1, after_us=100, before_us=200)


def _rows(*rows: Sequence[object]) -> pa.RecordBatch:
    names = ("node_id", "sent_at", "received_at", "built_at", "lag_ms", "verdict", "reason")
    types = (pa.int32(), AT, AT, AT, pa.float64(), pa.string(), pa.string())
    named = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(named, pa.schema([*zip(names, types, strict=True)]))


@pytest.mark.parametrize(
    ("row", "is_touched"),
    [
        pytest.param((1, None, 20, 100), False, id="ends where it begins"),
        pytest.param((1, None, 20, 101), True, id="reaches into it"),
        pytest.param((1, None, 120, 130), True, id="within"),
        pytest.param((1, None, 20, 900), True, id="spans it"),
        pytest.param((1, None, 200, 300), False, id="begins where it ends"),
        pytest.param((1, 150, 200, 300), True, id="the earliest time counts"),
        pytest.param((2, None, 20, 900), False, id="another node"),
        pytest.param((1, None, None, None), False, id="no time at all"),
    ],
)
def test_rows_whose_span_overlaps_a_hole_of_their_node(
    row: tuple[object, ...], is_touched: bool
) -> None:
    rows = _rows((*row, 5.0, "replayed", None))
    marked = _TOUCH.marked(rows, [_HOLE]).select(["lag_ms", "verdict", "reason"]).to_pylist()
    expected = (None, "unknown", LOG_GAP) if is_touched else (5.0, "replayed", None)
    assert [tuple(each.values()) for each in marked] == [expected]


def test_a_row_can_rest_on_lines_before_and_after_it() -> None:
    touch = Touch(("received_at",), ("built_at",), "node_id", back_us=50, ahead_us=30)
    rows = _rows(
        (1, None, 249, 260, 5.0, "replayed", None),
        (1, None, 250, 260, 5.0, "replayed", None),
        (1, None, 60, 71, 5.0, "replayed", None),
        (1, None, 60, 70, 5.0, "replayed", None),
    )
    marked = touch.marked(rows, [_HOLE])
    assert marked.column("verdict").to_pylist() == ["unknown", "replayed"] * 2


def test_a_row_that_was_unknown_keeps_its_reason() -> None:
    rows = _rows((1, None, 120, 130, None, "unknown", "the ISR is not in the log"))
    assert _TOUCH.marked(rows, [_HOLE]).equals(rows)
