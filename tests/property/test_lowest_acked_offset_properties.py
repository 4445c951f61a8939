"""Whatever brokers do: what must hold of the offset told, and of every claim about a write."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from notation.heartbeats import (
    VOTERS,
    Row,
    beat,
    born_empty,
    create_topic,
    in_order,
    learned,
    pieces_of,
    raft_fetch,
    replay_of,
    us,
)

from kip_replay.replay.lowest_acked_offset import LowestAckedOffset
from kip_replay.replay.lowest_acked_offset.controller import Carried, Heartbeat, HeartbeatManager
from kip_replay.replay.lowest_acked_offset.events import Event
from kip_replay.replay.lowest_acked_offset.timelines import Lowest, Rising

pytestmark = pytest.mark.property

BROKERS = (11, 12, 13)

# --- the controller's brokers --------------------------------------------------------------------


class ManagerMachine(RuleBasedStateMachine):
    """A heartbeat manager and a naive account of what each broker has really applied."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = HeartbeatManager(certain_from_us=0)
        self.at = 0
        self.controller = self.office = 1
        self.applied = dict.fromkeys(BROKERS, 0)
        self.epochs = dict.fromkeys(BROKERS, 0)
        self.state: dict[int, tuple[bool, bool]] = {}
        self.heard: dict[int, int] = {}
        self.told: list[int] = []

    @rule(
        broker=st.sampled_from(BROKERS),
        ahead=st.integers(0, 5),
        is_fenced=st.booleans(),
        stops=st.booleans(),
        new_life=st.sampled_from([False, False, False, True]),
    )
    def heartbeats(
        self, broker: int, ahead: int, is_fenced: bool, stops: bool, new_life: bool
    ) -> None:
        self.at += 1_000
        self.applied[broker] += ahead
        self.epochs[broker] += new_life
        self.fence_silent()
        self.office = self.controller
        self.state[broker] = (is_fenced, stops and not is_fenced)
        self.heard[broker] = self.at
        offset = self.applied[broker]
        carried = self.manager.heartbeat(
            Heartbeat(
                self.controller,
                broker,
                self.epochs[broker],
                self.at,
                self.at + 500,
                offset,
                is_fenced,
                stops,
            )
        )
        assert carried is not None
        self.check_carried(carried)

    def check_carried(self, carried: Carried) -> None:
        counted = self.counted()
        assert carried.unfenced_brokers == len(counted)
        if not counted:
            assert carried.raw is None
            assert carried.clamped is None
            return
        assert carried.raw is not None
        assert carried.clamped is not None
        assert carried.raw <= min(self.applied[b] for b in counted)
        assert carried.raw <= carried.clamped
        self.told.append(carried.clamped)

    @rule(seconds=st.integers(1, 12))
    def time_passes(self, seconds: int) -> None:
        self.at += seconds * 1_000_000
        self.manager.advance(self.at)

    @rule()
    def another_controller(self) -> None:
        self.controller = 3 - self.controller

    def fence_silent(self) -> None:
        """By the controller that is heard now: a new one has only begun to count."""
        for broker, at in self.heard.items():
            if self.controller != self.office:
                self.heard[broker] = self.at
            elif self.at - at >= self.manager.fenced_after_us:
                self.state[broker] = (True, False)

    def counted(self) -> list[int]:
        return [b for b, (fenced, stopping) in self.state.items() if not (fenced or stopping)]

    @invariant()
    def value_never_falls(self) -> None:
        assert all(one <= other for one, other in pairwise(self.told))

    @invariant()
    def nobody_was_told_what_nobody_carried(self) -> None:
        for timeline in self.manager.told_by_broker.values():
            assert set(timeline.values) <= set(self.told)


ManagerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


class TestManager(ManagerMachine.TestCase):  # type: ignore[misc,name-defined]
    """The machine, as a test."""


# --- whole clusters ------------------------------------------------------------------------------


@dataclass
class Cluster:
    """A cluster whose truth is known: when each offset was committed and applied by whom."""

    events: list[Event] = field(default_factory=list)
    committed: Rising = field(default_factory=Rising)
    applied: dict[int, Rising] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)

    def applied_us(self, broker: int, offset: int) -> int | None:
        reached = self.applied[broker].reached(offset)
        return reached[0] if reached else None


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Writes some time apart, brokers that apply late, send heartbeats at a phase, and freeze."""
    cluster = Cluster(born_empty())
    ms, offset = 3_000, 10
    cluster.events += [raft_fetch(v, 10, 11, offset) for v in (1, 3)]
    cluster.committed.add(0, offset)
    for number in range(draw(st.integers(1, 6))):
        ms += draw(st.integers(60, 3_000))
        partitions = draw(st.integers(1, 4))
        extra = draw(st.integers(0, 1))
        write = create_topic(ms, ms + 50, partitions=partitions, correlation_id=number)
        offset += 1 + partitions
        cluster.writes[write.request_id] = offset - 1
        offset += extra
        cluster.events.append(write)
        cluster.events += [raft_fetch(v, ms + 30, ms + 31, offset) for v in (1, 3)]
        cluster.committed.add(us(ms + 30), offset)
    end = ms + draw(st.integers(500, 16_000))
    for broker in BROKERS[: draw(st.integers(1, 3))]:
        _lives(draw, cluster, broker, end)
    cluster.events = in_order(cluster.events)
    return cluster


def _lives(draw: st.DrawFn, cluster: Cluster, broker: int, end_ms: int) -> None:
    """Commits reach a broker, heartbeats say so; it may be frozen for a while."""
    delays = draw(st.lists(st.integers(1, 700), min_size=8, max_size=8))
    frozen_at = draw(st.one_of(st.none(), st.integers(3_000, end_ms)))
    thaws_at = 0 if frozen_at is None else frozen_at + draw(st.integers(500, 14_000))
    truth = cluster.applied[broker] = Rising()
    for number, (at, high_watermark) in enumerate(
        zip(cluster.committed.at, cluster.committed.values, strict=True)
    ):
        ms = at // 1000 + delays[number]
        if frozen_at is not None and frozen_at <= ms < thaws_at:
            ms = thaws_at + delays[number]
        truth.add(us(ms), high_watermark - 1, broker)
        cluster.events.append(learned(broker, ms, high_watermark))
    ms = draw(st.integers(1_000, 2_999))
    interval = draw(st.sampled_from([400, 2_000]))
    while ms < end_ms:
        if frozen_at is None or not frozen_at <= ms < thaws_at:
            index = bisect_right(truth.at, us(ms))
            cluster.events.append(beat(broker, ms, truth.values[index - 1] if index else -1))
        ms += interval + draw(st.integers(2, 9))


def replayed(cluster: Cluster, cuts: list[int] | None = None) -> list[list[Row]]:
    pieces = pieces_of(cluster.events, cuts or [])
    return list(replay_of(pieces, lambda: LowestAckedOffset(VOTERS, (300, 2_000), 2_000)))


def rows_of(cluster: Cluster) -> Iterator[tuple[Row, int]]:
    for row in replayed(cluster)[1]:
        yield row, cluster.writes[row["request_id"]]


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_last_record_lies_in_the_interval(cluster: Cluster) -> None:
    rows = list(rows_of(cluster))
    # Two variants of the record, and three simulated ones at two intervals.
    assert len(rows) == len(cluster.writes) * (2 + 3 * 2)
    for row, offset in rows:
        if row["offset_low"] is not None:
            assert row["offset_low"] <= offset <= row["offset_high"]


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_no_write_is_known_before_it_is_applied_everywhere(cluster: Cluster) -> None:
    for row, _ in rows_of(cluster):
        for known in (row["known_at"], row["known_everywhere_at"]):
            if known is not None:
                assert row["applied_everywhere_at"] is not None
                assert known >= row["applied_everywhere_at"]


@given(clusters())
@settings(max_examples=60, deadline=None)
def test_nobody_is_claimed_to_have_applied_what_it_has_not(cluster: Cluster) -> None:
    _, writes, visibility = replayed(cluster)
    for row in visibility:
        offset = cluster.writes[row["request_id"]]
        truth = cluster.applied_us(row["broker_id"], offset)
        latest = row["applied_at_latest"]
        if latest is not None:
            assert truth is not None
            assert truth <= latest
            assert row["applied_at_earliest"] <= latest
        if truth is not None:
            assert row["applied_at_earliest"] <= truth
    for row in writes:
        if row["parameter"] == "none" and row["applied_everywhere_at"] is not None:
            had = [
                at
                for broker in cluster.applied
                if (at := cluster.applied_us(broker, cluster.writes[row["request_id"]])) is not None
            ]
            # At least the one that came last without being fenced had it.
            assert min(had) <= row["applied_everywhere_at"]


@given(clusters(), st.data())
@settings(max_examples=25, deadline=None)
def test_rows_do_not_depend_on_where_the_log_is_cut(cluster: Cluster, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(cluster.events)), max_size=6))
    assert replayed(cluster, cuts) == replayed(cluster)


@given(clusters())
@settings(max_examples=40, deadline=None)
def test_offset_told_never_falls_and_raw_is_no_more(cluster: Cluster) -> None:
    heartbeats = [r for r in replayed(cluster)[0] if r["lowest_acknowledged_offset"] is not None]
    told = [row["lowest_acknowledged_offset"] for row in heartbeats]
    assert told == sorted(told)
    for row in heartbeats:
        assert row["lowest_acknowledged_offset_raw"] <= row["lowest_acknowledged_offset"]
        assert row["lowest_acknowledged_offset_raw"] <= row["current_metadata_offset"]


# --- what they stand on --------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("sd"), st.integers(1, 6), st.integers(-1, 9))))
def test_lowest_is_the_minimum(steps: list[tuple[str, int, int]]) -> None:
    lowest, naive = Lowest(), dict[int, int]()
    for what, node, value in steps:
        if what == "s":
            lowest.set(node, value)
            naive[node] = value
        else:
            lowest.drop(node)
            naive.pop(node, None)
        assert lowest.lowest() == min(naive.values(), default=None)
        assert lowest.by_node == naive


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1), st.integers(0, 50))
def test_rising_answers_as_a_scan_does_also_after_forgetting(
    steps: list[tuple[int, int]], before: int
) -> None:
    timeline = Rising()
    now = 0
    seen: list[tuple[int, int]] = []
    for at, value in steps:
        now = max(now, at)
        timeline.add(now, value)
        seen.append((now, value))
    timeline.forget(before)
    for at in range(before, 51):
        expected = max((value for when, value in seen if when <= at), default=None)
        assert timeline.value(at) == expected
    for value in range(21):
        first = min((when for when, other in seen if other >= value), default=None)
        reached = timeline.reached(value)
        if first is None or first >= before:
            assert (None if reached is None else reached[0]) == first
