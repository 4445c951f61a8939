"""However a log is cut, and whether or not its state is saved between: the same rows.

Histories here are wild: offsets that go back, PRODUCEs without a base offset among others, leaders
that change and brokers that are fenced, whether or not a cluster could do that.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from constructed import fed
from hypothesis import given
from hypothesis import strategies as st
from notation.leader_log import LEADER, History, at, batch_of

from kip_replay.replay.log_gaps import Gaps, LogGap
from kip_replay.replay.min_isr_acks.events import (
    KIND_ORDER,
    EventKind,
    LeaderEvent,
    ListedPartition,
)
from kip_replay.replay.min_isr_acks.outcomes import variants
from kip_replay.replay.min_isr_acks.replay import MinIsrAcks

pytestmark = pytest.mark.property

BROKERS = (11, 12, 13, 14)
FOLLOWERS = BROKERS[1:]
ISRS = st.sampled_from([(11,), (11, 12), (11, 13), (12, 13), (11, 12, 13), (11, 12, 13, 14), ()])
SWEEP = (1, 3)
ORDER = [(name, "ascending") for name in ("request_id", "topic", "partition", "parameter_value")]
#: Most steps are short, so that handlers overlap; some are long enough for everything to settle.
STEPS_MS = st.sampled_from([0.1, 0.3, 1, 1, 2, 4, 7, 40, 900, 6_000, 40_000])


def draw_produce(draw: st.DrawFn, history: History, now: float, log_ends: dict[int, int]) -> None:
    listed = []
    for partition in sorted(draw(st.sets(st.integers(0, 2), min_size=1))):
        end = log_ends[partition]
        appended = draw(st.sampled_from([None, None, end, end, end, end, max(0, end - 2), -1]))
        if appended is None or appended >= 0:
            log_ends[partition] = end + draw(st.integers(1, 3))
        size = draw(st.sampled_from([100, 100, 178, None]))
        topic_id = draw(st.sampled_from([None, "id-t"]))
        name = None if topic_id else "t"
        listed.append(ListedPartition(name, topic_id, partition, size, appended, 0))
    how = {"acks": draw(st.sampled_from([-1, -1, 1, 0]))}
    how["timeout_ms"] = draw(st.sampled_from([20, 5_000, 30_000]))
    how["transactional"] = draw(st.sampled_from([False, False, False, True]))
    history.request(now, listed, recorded_ms=now + 1, **how)
    handled = history.events[-1].handled_us
    assert handled is not None
    took_us = draw(st.sampled_from([0, 0, 3_000, 8_000]))
    history.events[-1] = history.events[-1]._replace(handled_us=handled + took_us)


def draw_fetch(draw: st.DrawFn, history: History, now: float, log_ends: dict[int, int]) -> None:
    listed = [
        ListedPartition(
            "t",
            None,
            partition,
            fetch_offset=draw(st.one_of(st.none(), st.integers(0, log_ends[partition]))),
            leader_epoch=draw(st.sampled_from([None, 0, 0, 0, 1, 2])),
            is_refused=draw(st.sampled_from([None, False, False, True])),
        )
        for partition in sorted(draw(st.sets(st.integers(0, 2))))
    ]
    until = now + draw(st.sampled_from([0.5, 0.5, 3, 30]))
    history.fetch(now, draw(st.sampled_from(FOLLOWERS)), None, until_ms=until)
    history.events[-1] = history.events[-1]._replace(
        partitions=listed,
        session_id=draw(st.sampled_from([None, 0, 1, 2])),
        replica_epoch=draw(st.sampled_from([None, -1, 1, 2])),
    )


def draw_consumer(draw: st.DrawFn, history: History, now: float, _: dict[int, int]) -> None:
    session = draw(st.integers(0, 2))
    history.consumer_fetch(
        now,
        *sorted(draw(st.sets(st.integers(0, 2)))),
        forgets=sorted(draw(st.sets(st.integers(0, 2)))),
        until_ms=now + draw(st.sampled_from([0, 0.05, 5, 500])),
        session=session,
        full=draw(st.booleans()),
        min_bytes=draw(st.sampled_from([0, 1, 1, 5])),
    )


def draw_fact(draw: st.DrawFn, history: History, now: float, _: dict[int, int]) -> None:
    one = ListedPartition(
        draw(st.sampled_from(["t", "id-t"])),
        None,
        draw(st.integers(0, 2)),
        leader_epoch=draw(st.sampled_from([None, 0, 1, 2])),
        leader_id=draw(st.sampled_from([None, 11, 11, 12])),
        isr=draw(st.one_of(st.none(), ISRS.map(list))),
        replicas=draw(st.sampled_from([None, [11, 12, 13], [11, 12]])),
    )
    history.metadata(now, ())
    kind = draw(
        st.sampled_from([EventKind.METADATA, EventKind.ISR_REQUESTED, EventKind.ISR_COMMITTED])
    )
    history.events[-1] = history.events[-1]._replace(
        kind=kind.value,
        kind_order=KIND_ORDER[kind],
        replica_id=draw(st.sampled_from(BROKERS)) if kind is EventKind.METADATA else None,
        partitions=[one],
    )


def draw_rest(draw: st.DrawFn, history: History, now: float, _: dict[int, int]) -> None:
    broker, epoch = draw(st.sampled_from(BROKERS)), draw(st.integers(1, 2))
    match draw(st.sampled_from(["config", "beat", "beat", "beat", "metadata", "gap"])):
        case "config":
            history.config(
                now,
                draw(st.sampled_from([None, 1, 2, 3])),
                operation=draw(st.sampled_from(["set", "describe", "delete", "pending"])),
                topic=draw(st.sampled_from(["t", ""])),
                applies=draw(st.booleans()),
            )
        case "beat":
            fenced, stops, silence = (draw(st.booleans()) for _ in range(3))
            history.heartbeat(now, broker, epoch=epoch, fenced=fenced, stops=stops, silence=silence)
        case "metadata":
            offset, high_watermark = draw(st.integers(0, 9)), draw(st.integers(0, 9))
            built = now + draw(st.sampled_from([1, 400]))
            history.metadata_fetch(now, offset, high_watermark, built_ms=built)
        case "gap":
            what = draw(st.sampled_from(["follower", "own log", "metadata log", "configs"]))
            follower = broker if what == "follower" else None
            history.uncertain(now, what, follower, since_ms=now - 2_000, until_ms=now + 9_000)


ACTIONS = [draw_produce] * 5 + [draw_fetch] * 6 + [draw_consumer, draw_fact, draw_rest]


@st.composite
def wild_events(draw: st.DrawFn) -> list[LeaderEvent]:
    history = History(isr=draw(st.sampled_from([None, (11, 12, 13)])))
    if draw(st.booleans()):
        history.fetch(-900, 12, 0)
        history.fetch(-900, 13, 0)
    now, log_ends = 0.0, dict.fromkeys(range(3), 0)
    for action in draw(st.lists(st.sampled_from(ACTIONS), min_size=5, max_size=60)):
        now += draw(STEPS_MS)
        action(draw, history, now, log_ends)
    name = LeaderEvent(-1, KIND_ORDER[EventKind.TOPIC], "id-t", "topic", name="t", value="id-t")
    return [name, *history.in_order()]


def increments_of(events: list[LeaderEvent], cuts: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The events cut at places; each begins with the names of topics."""
    names = [event for event in events if event.kind == EventKind.TOPIC]
    timed = [event for event in events if event.kind != EventKind.TOPIC]
    ends = [*sorted(cut % (len(timed) + 1) for cut in cuts), len(timed)]
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        yield batch_of([*names, *timed[begin:end]])


def rows_of(start: Any, increments: Iterator[pa.RecordBatch], *, resumed: bool = False) -> pa.Table:
    return pa.Table.from_batches(fed(start, increments, resumed=resumed)).sort_by(ORDER)


def assert_same(rows: pa.Table, expected: pa.Table) -> None:
    assert rows.equals(expected), [
        (name, mine, theirs)
        for name in rows.column_names
        for mine, theirs in zip(rows[name].to_pylist(), expected[name].to_pylist(), strict=True)
        if mine != theirs
    ]


cuts = st.lists(st.integers(0, 10_000), max_size=3)


@st.composite
def wild_gaps(draw: st.DrawFn) -> list[LogGap]:
    """Gaps of the leader's own log."""
    moments = st.floats(-1000, 60_000)
    spans = [sorted([draw(moments), draw(moments)]) for _ in range(draw(st.integers(0, 2)))]
    return [LogGap(LEADER, at(since), at(until)) for since, until in spans]


@given(wild_events(), cuts, st.sampled_from([{}, {"": 2}, {"t": 1}]), wild_gaps(), st.booleans())
def test_log_that_is_cut_gives_the_same_rows(
    events: list[LeaderEvent],
    cut: list[int],
    stated: dict[str, int],
    gaps: list[LogGap],
    saves: bool,
) -> None:
    start = partial(MinIsrAcks, LEADER, variants(SWEEP), stated, gaps=Gaps(gaps))
    expected = rows_of(start, increments_of(events, []))
    assert_same(rows_of(start, increments_of(events, cut), resumed=saves), expected)


def test_state_is_bounded_by_what_is_open() -> None:
    """A log ten times as long, single FETCHes of consumers too, leaves as much as is open."""
    sizes = [saved_bytes(rounds) for rounds in (100, 1000)]
    assert sizes[1] < 1.1 * sizes[0]


def saved_bytes(rounds: int) -> int:
    history = History()
    for number in range(rounds):
        begin = 100.0 * number
        history.produce(begin, number)
        history.fetch(begin + 3, 12, number + 1)
        history.fetch(begin + 5, 13, number + 1)
        history.consumer_fetch(begin + 1, 0, until_ms=begin + 5)
    replay = MinIsrAcks(LEADER, variants())
    replay.feed(batch_of(history.in_order()))
    return len(replay.saved())


def test_partitions_that_no_line_names_for_a_day_are_forgotten() -> None:
    """Topics that come and go, one an hour: a hundred days leave as much as three."""
    sizes = []
    for hours in (72, 2400):
        history = History(isr=None)
        for hour in range(hours):
            now = 3_600_000.0 * hour
            partition = ListedPartition(f"t{hour}", None, 0, 100, 0, 0)
            history.request(now, [partition])
            history.metadata(now - 5, (11, 12, 13))
            listed = [partition._replace(leader_id=11, isr=[11], replicas=[11])]
            history.events[-1] = history.events[-1]._replace(partitions=listed)
        replay = MinIsrAcks(LEADER, variants())
        replay.feed(batch_of(history.in_order()))
        sizes.append(len(replay.saved()))
    assert sizes[1] < 1.1 * sizes[0]
