"""Outcomes of a real cluster with one broker's clock set off: none is another and not unknown."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from kip_replay.replay.min_isr_acks.events import batch_of
from kip_replay.replay.min_isr_acks.registration import RULE
from kip_replay.replay.other_clocks import CLOCKS_DIFFER
from kip_replay.replay.rule import Settings

from . import naive_leader_log
from .naive_log import Line

pytestmark = [pytest.mark.golden, pytest.mark.slow]

#: Its brokers have METADATA and configs of one another.
NAME, VOTERS, OFF_US = "mixed-4.2", (1, 2, 3), -5_000_000
#: What the clock of a node is not part of.
COLUMNS = (
    "isr",
    "min_insync_replicas",
    "acks_all_error",
    "min_isr_error",
    "request_acks_all_latency_ms",
    "request_min_isr_latency_ms",
    "exposure_ms",
    "verdict",
    "reason",
)


def lines_with_one_off(node: int) -> Iterator[Line]:
    for line in naive_leader_log.lines_of_recording(NAME):
        off_us = OFF_US if line.node_id == node else 0
        times = ("received_us", "dequeued_us", "built_us", "completed_us")
        yield line._replace(**{name: getattr(line, name) + off_us for name in times})


def rows_of(leader: int, events: Sequence[Any], apart: tuple[int, ...]) -> list[dict[str, Any]]:
    settings = Settings({NAME: VOTERS}, clocks_apart={NAME: apart})
    replay = RULE.started(settings, {"recording": NAME, "node_id": leader}, None)
    fed = [replay.feed(batch_of(events[at : at + 1500])) for at in range(0, len(events), 1500)]
    return [row for acks, _ in (*fed, replay.finish()) for row in acks.to_pylist()]


def test_a_broker_whose_clock_is_off_changes_no_outcome_of_others_and_has_none() -> None:
    as_recorded = naive_leader_log.rows_of(NAME)
    events = naive_leader_log.events_in([*lines_with_one_off(12)])
    expected = [[row[name] for name in COLUMNS] for row in as_recorded if row["node_id"] == 11]

    def found(apart: tuple[int, ...]) -> list[list[Any]]:
        return [[row[name] for name in COLUMNS] for row in rows_of(11, events[11], apart)]

    assert found((12,)) == expected
    assert sum(one != two for one, two in zip(found(()), expected, strict=True)) > 300
    own = rows_of(12, events[12], (12,))
    assert {(row["verdict"], row["min_isr_acked_at"]) for row in own} == {("unknown", None)}
    assert sum(row["reason"] == CLOCKS_DIFFER for row in own) > 2000
