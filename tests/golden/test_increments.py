"""Recordings in increments, saved after each: rows are those of the whole log."""

import pytest

from kip_replay.replay.log_gaps import LogGap

from . import some_of
from .recorded import STEPS, Row, events_of, fed

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
    some_of(["acks-not-enough", "racks-aware", "sessions-on", "mixed-4.2"], "acks-not-enough"),
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
