"""Outcomes of recordings: reviewed sums by column, the same when resumed; and what stands out."""

from pathlib import Path

import pyarrow as pa
import pytest
from constructed import assert_reviewed

from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.table import Column

from . import some_of
from .recorded import STEPS, Row, events_of, fed, session

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


FINDINGS = {
    "acks-not-enough": "lagging_follower 13 494 of 498",
    "sessions-on": "no_fetch_session consumer-9 2124688 of 2465502",
}


@pytest.mark.golden
@pytest.mark.parametrize("name", FINDINGS)
def test_findings_are_what_was_done(name: str) -> None:
    each = "concat_ws(' ', code, subject, detail, count, 'of', population)"
    with session(name, "min_isr_acks", "incremental_fetch") as database:
        query = f"SELECT string_agg({each}, '; ' ORDER BY rank) FROM findings"
        assert database.execute(query).fetchone() == (FINDINGS[name],)


pytestmark = pytest.mark.golden

#: What is swept, and after how many events the state is saved.
HOW = {
    "hwm_parking": ({"max_wait_ms": [100]}, 97),
    "incremental_fetch": ({"session_slots": [8, 16]}, 211),
    "min_isr_acks": ({"min_insync_replicas": [1, 3]}, 701),
    "closest_replica": ({"replica_fetch_wait_ms": [100]}, 401),
    "lowest_acked_offset": ({"broker_heartbeat_interval_ms": [500]}, 301),
}


def in_order(rows: dict[str, list[Row]]) -> dict[str, list[str]]:
    return {table: sorted(map(repr, of)) for table, of in rows.items()}


@pytest.mark.parametrize("rule", STEPS)
@pytest.mark.parametrize(
    "name",
    some_of(["acks-not-enough", "racks-aware", "sessions-on"], "acks-not-enough"),
)
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "with a gap"])
def test_recording_in_increments_is_the_recording(name: str, rule: str, is_whole: bool) -> None:
    """Where there is a gap, in a second of each log, of the active controller's and others."""
    options, every = HOW[rule]
    for node, events in events_of(name, rule).items():
        middle_us = events.column(STEPS[rule].rule.order[0])[len(events) // 2].as_py()
        gaps = [LogGap(one, middle_us, middle_us + 1_000_000) for one in (1, 2, 3, 11, 12)]
        how = {"gaps": () if is_whole else gaps, **options}
        expected = fed(rule, events, node, **how)
        assert in_order(fed(rule, events, node, every=every, **how)) == in_order(expected)
