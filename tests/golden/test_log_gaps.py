"""Lines of recordings are missing: every outcome is as on the whole log, or unknown."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from typing import NamedTuple, TypeVar

import pytest

from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.lowest_acked_offset.events import LEARNED, Event
from kip_replay.replay.rules import RULES

from .damaged import Row, compared, outcomes
from .naive_heartbeats import observed
from .naive_log import recording

pytestmark = pytest.mark.golden

Line = TypeVar("Line")
#: Whose log a line is in, and when it was completed (microseconds).
Span = tuple[int, int]


class Damage(NamedTuple):
    """Lines of one node's log are missing: those of a span (seconds), or then some at random."""

    since_s: float = 0
    length_s: float = 0
    share: float = 0

    def of(
        self, lines: Sequence[Line], node_id: int, span_of: Callable[[Line], Span]
    ) -> tuple[list[Line], list[LogGap]]:
        """The lines that are left, and the gaps."""
        spans, random = [span_of(line) for line in lines], Random(1)
        since_us = min(at for _, at in spans) + round(self.since_s * 1e6)
        until_us = since_us + round(self.length_s * 1e6)
        missing = [
            node == node_id
            and (since_us <= at < until_us or (at >= since_us and random.random() < self.share))
            for node, at in spans
        ]
        left = [line for line, is_lost in zip(lines, missing, strict=True) if not is_lost]
        if self.length_s:
            return left, [LogGap(node_id, since_us - 1, until_us)]
        lost = [at for (_, at), is_lost in zip(spans, missing, strict=True) if is_lost]
        return left, [LogGap(node_id, at - 1, at + 1) for at in lost]


DAMAGES = {
    "2 s": Damage(24, 2),
    "10 s": Damage(24, 10),
    "the first 20 s": Damage(0, 20),
    "one line in 300": Damage(10, share=1 / 300),
}


# --- hwm_parking ---------------------------------------------------------------------------------


def of_parking(row: Row) -> tuple[object, ...]:
    what = ("variant", "leader_epoch", "replica_id")
    return *(row[name] for name in what), row["recorded_request_id"] or row["dequeued_at"]


def of_lag(row: Row) -> tuple[object, ...]:
    return tuple(row[n] for n in ("variant", "leader_epoch", "replica_id", "high_watermark"))


#: A FETCH's number follows from the log; and what lies in a gap has no size.
COUNTED = ("sequence", "record_bytes", "response_bytes")


def same_but_counts(one: Row, other: Row) -> bool:
    return all(one[name] == other[name] for name in one if name not in COUNTED)


@cache
def parked(name: str, node: int) -> dict[str, list[Row]]:
    log = recording(name)
    return outcomes(RULES["hwm_parking"], log.fetches[node], log.voters, node_id=node)


#: By recording and damage of its leader's log: how many rows are unknown, of all.
UNKNOWN_FETCHES = {
    ("metadata-4.0", "2 s"): 0.05,
    ("metadata-4.0", "the first 20 s"): 0.05,
    ("metadata-4.0", "one line in 300"): 0.25,
    ("failover-4.0", "10 s"): 0.05,
}


@pytest.mark.parametrize(("name", "damage"), UNKNOWN_FETCHES)
def test_fetches_beside_a_gap_are_what_they_were_or_unknown(name: str, damage: str) -> None:
    node, log = 2, recording(name)
    rows, whole = log.fetches[node], parked(name, node)
    kept, gaps = DAMAGES[damage].of(rows, node, lambda row: (node, row.completed_us))
    found = outcomes(RULES["hwm_parking"], kept, log.voters, gaps, node_id=node)
    parking = compared(
        *(each["fetch_parking_outcomes"] for each in (whole, found)), of_parking, same_but_counts
    )
    lags = compared(
        *(each["high_watermark_lag"] for each in (whole, found)), of_lag, same_but_counts
    )
    for counts in (parking, lags):
        assert counts.keys() <= {"equal", "unknown"}
        assert counts["unknown"] <= UNKNOWN_FETCHES[name, damage] * sum(counts.values())
        assert counts["unknown"] > 0


@pytest.mark.parametrize(
    ("field", "value"), [("fetch_offset", 940), ("leader_epoch", 7), ("last_fetched_epoch", 0)]
)
@pytest.mark.parametrize("at", [400, 700])
def test_line_that_contradicts_those_around_it_changes_nothing_that_is_known(
    field: str, value: int, at: int
) -> None:
    """The gap that ``log_gaps`` finds is from its replica's line before the last to the next."""
    log = recording("metadata-4.0")
    rows = list(log.fetches[2])
    of_replica = [n for n, row in enumerate(rows) if row.replica_id == rows[at].replica_id]
    place = of_replica.index(at)
    gap = LogGap(2, *(rows[of_replica[place + n]].completed_us for n in (-2, 1)))
    rows[at] = rows[at]._replace(**{field: value})
    whole, rule = parked("metadata-4.0", 2), RULES["hwm_parking"]
    found = outcomes(rule, rows, log.voters, [gap], node_id=2)
    for table, key in (("fetch_parking_outcomes", of_parking), ("high_watermark_lag", of_lag)):
        counts = compared(whole[table], found[table], key, same_but_counts)
        assert counts.keys() <= {"equal", "unknown"}
        assert 0 < counts["unknown"] <= 0.2 * sum(counts.values())


# --- lowest_acked_offset -------------------------------------------------------------------------

RULE = RULES["lowest_acked_offset"]


KEYS: Mapping[str, Callable[[Row], object]] = {
    "heartbeat_outcomes": lambda row: row["request_id"],
    "metadata_write_outcomes": lambda row: (row["variant"], row["request_id"]),
    "metadata_write_visibility": lambda r: (r["request_id"], r["broker_id"], r["evidence"]),
    "applied_offsets": lambda row: (row["broker_id"], row["metadata_offset"]),
}


@cache
def events_of(name: str) -> list[Event]:
    return [event for event in observed(name).events if event.kind != LEARNED]


@cache
def applied(name: str) -> dict[str, list[Row]]:
    return outcomes(RULE, events_of(name), recording(name).voters)


def of_all(name: str, kept: list[Event], gaps: list[LogGap]) -> dict[str, Counter[str]]:
    whole, found = applied(name), outcomes(RULE, kept, recording(name).voters, gaps)
    return {
        table: compared(whole[table], found[table], key, lambda one, other: one == other)
        for table, key in KEYS.items()
    }


#: What a FETCH claims waits for work on replicas, and some of that may be seen no more.
CLAIMED_SOONER = 2

#: By recording and damage of its active controller's log: how many writes are unknown, of all.
UNKNOWN_WRITES = {
    ("metadata-4.0", "2 s"): 0.32,
    ("metadata-4.0", "the first 20 s"): 0.52,
    ("freeze-4.1", "10 s"): 0.45,
    ("failover-4.0", "10 s"): 0.35,
}


@pytest.mark.parametrize(("name", "damage"), UNKNOWN_WRITES)
def test_writes_beside_a_gap_are_what_they_were_or_unknown(name: str, damage: str) -> None:
    found = of_all(
        name, *DAMAGES[damage].of(events_of(name), 2, lambda row: (row.node_id, row.at_us))
    )
    assert found["metadata_write_visibility"].pop("different", 0) <= CLAIMED_SOONER
    for counts in found.values():
        assert counts.keys() <= {"equal", "unknown"}
        assert counts["equal"] > 0
    writes = found["metadata_write_outcomes"]
    assert 0 < writes["unknown"] <= UNKNOWN_WRITES[name, damage] * sum(writes.values())


def test_recording_that_begins_later_is_what_the_whole_one_is_or_unknown() -> None:
    name = "metadata-4.0"
    begins_us = events_of(name)[0].at_us + 20_000_000
    found = of_all(name, [row for row in events_of(name) if row.at_us > begins_us], [])
    for counts in found.values():
        assert counts.keys() <= {"equal", "unknown"}
        assert counts["equal"] > 0.4 * sum(counts.values())
