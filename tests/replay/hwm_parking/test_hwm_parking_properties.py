"""Whatever leader and replicas do: what must hold of every whole replay."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from notation.cluster import Cluster, Member, Silence, cut, every, repeating
from notation.recorded import EPOCH, Replayed, batch_of, fetched, in_order, micros, replay_of

from kip_replay.replay.hwm_parking import replay as hwm_parking
from kip_replay.replay.hwm_parking.evidence import (
    ABSENCE_US,
    RecordedMetadataFetch,
)
from kip_replay.replay.hwm_parking.outcomes import WITH_KIP, WITHOUT_KIP, variants
from kip_replay.replay.hwm_parking.replay import HwmParking, LeaderEpoch, State
from kip_replay.replay.model.raft import MAX_FETCH_WAIT_US as WAIT_US
from kip_replay.replay.model.raft import NO_RESPONSE
from kip_replay.replay.records import RECORDED, Variant

pytestmark = pytest.mark.property

#: Shorter than the log, so that short logs are replayed step by step as hours are.
LOOKAHEAD_US = 4_000_000
LENGTH_MS = 12_000

gaps_ms = st.lists(
    st.integers(200, 30_000).map(lambda micros: micros / 1000), min_size=1, max_size=5
).map(tuple)


def appends(least_ms: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    """Waits and records, repeated; up to longer than two FETCHes are parked."""
    drawn = st.lists(
        st.tuples(st.integers(least_ms, 1_200), st.integers(1, 3)), min_size=1, max_size=6
    )
    return drawn.filter(lambda pattern: sum(wait for wait, _ in pattern) >= 300)


@st.composite
def silences(draw: st.DrawFn) -> tuple[Silence, ...]:
    """Up to two, apart; a frozen replica is silent for long, a restart may be quick."""
    starts = draw(st.lists(st.integers(1, 4), max_size=2, unique=True).map(sorted))
    return tuple(
        Silence(
            2_200 * start + draw(st.integers(0, 300)),
            draw(st.integers(200, 1_700)),
            draw(st.booleans()),
        )
        for start in starts
    )


@st.composite
def clusters(draw: st.DrawFn, least_ms: int = 3) -> Cluster:
    """One to five voters, one or two observers, appends at odd times."""
    count = draw(st.integers(1, 5))
    others = (*range(2, count + 1), *range(11, 12 + draw(st.integers(0, 1))))
    return Cluster(
        members=tuple(
            Member(replica, draw(st.integers(0, 300)), draw(gaps_ms), draw(silences()))
            for replica in others
        ),
        voters=tuple(range(1, count + 1)),
        appends=repeating(draw(appends(least_ms)), LENGTH_MS),
        hwm_aware=draw(st.booleans()),
        service_us=draw(st.integers(50, 900)),
        length_ms=LENGTH_MS,
    )


def replayed(cluster: Cluster, increments: Sequence[Sequence[RecordedMetadataFetch]]) -> Replayed:
    return replay_of(1, cluster.voters, variants(), increments)


def by_replica(rows: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    grouped: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["sequence"]):
        grouped[row["replica_id"]].append(row)
    return grouped


@given(cluster=clusters())
def test_whole_replay_keeps_the_protocol(cluster: Cluster) -> None:
    log = cluster.log()
    rows = replayed(cluster, [log])
    for name in (RECORDED, WITHOUT_KIP, WITH_KIP):
        parking, lags = rows.variant(name)
        check_responses(parking)
        check_lags(lags)
        if name != RECORDED:
            check_waits(parking)
            check_absences(parking, log)


def check_responses(parking: list[dict[str, Any]]) -> None:
    """Each FETCH is completed once, and a replica has one FETCH at a time."""
    for rows in by_replica(parking).values():
        assert [row["sequence"] for row in rows] == list(range(len(rows)))
        for row in rows:
            assert row["dequeued_at"] <= row["built_at"]
        for row, following in pairwise(rows):
            assert following["dequeued_at"] >= row["built_at"]
            assert following["fetch_offset"] >= row["fetch_offset"]


def check_lags(lags: list[dict[str, Any]]) -> None:
    """No lag is negative, and no replica learns of an advance twice."""
    for lag in lags:
        assert lag["lag_ms"] is None or lag["lag_ms"] >= 0
        assert lag["previous_high_watermark"] < lag["high_watermark"]
        assert (lag["verdict"] == "replayed") or lag["reason"]
    learned = [(lag["replica_id"], lag["high_watermark"]) for lag in lags]
    assert len(learned) == len(set(learned))


def check_waits(parking: list[dict[str, Any]]) -> None:
    """Nobody waits for longer than maxWaitMs, the Raft thread, and responses before its own."""
    service_ms = 10
    for row in parking:
        assert row["parked_ms"] <= 500 + service_ms
        assert (row["completion"] == "timeout") <= (row["parked_ms"] >= 500)
        assert (row["decision"] == "parked") or row["parked_ms"] == 0


def check_absences(parking: list[dict[str, Any]], log: list[RecordedMetadataFetch]) -> None:
    """No variant lets a replica FETCH while it was away."""
    last: dict[int, int] = {}
    for row in log:
        since = last.get(row.replica_id, row.dequeued_us)
        last[row.replica_id] = row.built_us
        if row.dequeued_us - since > ABSENCE_US:
            assert not any(
                since < fetch["dequeued_at"] < row.dequeued_us
                for fetch in parking
                if fetch["replica_id"] == row.replica_id
            )


#: Within this time of an append, what comes first is left to chance.
RACE_US = 10_000


@st.composite
def orderly_clusters(draw: st.DrawFn) -> Cluster:
    """Replicas that always take the same time, and appends that no FETCH and no timeout is near."""
    drawn = draw(clusters(least_ms=60))
    members = tuple(Member(m.replica_id, m.starts_ms, m.gaps_ms[:1]) for m in drawn.members)
    # How long the Raft thread takes shows in an append's responses to two replicas or more.
    cluster = replace(drawn, members=members, service_us=drawn.service_us * (len(members) > 1))
    log, begin_us = cluster.log(), cluster.epoch_us
    for at_ms in accumulate(wait_ms for wait_ms, _ in cluster.appends):
        before_us = [begin_us + micros(at_ms) - row.dequeued_us for row in log]
        assume(not any(0 < us < RACE_US or abs(us - WAIT_US) < RACE_US for us in before_us))
    return cluster


@given(cluster=orderly_clusters())
def test_loop_under_the_recorded_rule_writes_the_recorded_log(cluster: Cluster) -> None:
    """Each FETCH, and when: but for the last ones, of which no later FETCH shows what came."""
    rows = replayed(cluster, [cluster.log()])
    key, same = itemgetter("replica_id", "sequence"), itemgetter(*SAME)
    own = rows.variant(WITH_KIP if cluster.hwm_aware else WITHOUT_KIP).parking
    simulated = {key(row): row for row in own}
    for row in rows.variant(RECORDED).parking:
        if row["built_at"] < cluster.epoch_us + micros(LENGTH_MS - 1_600):
            assert same(simulated[key(row)]) == same(row)


SAME = ("dequeued_at", "built_at", "completion", "fetch_offset")
SAME += ("response_high_watermark", "record_bytes", "request_bytes", "response_bytes")


@st.composite
def troubled_logs(draw: st.DrawFn) -> tuple[Cluster, list[RecordedMetadataFetch]]:
    """A cluster's log in which some responses are missing or errors, and the leader may resign."""
    cluster = draw(clusters())
    log = cluster.log()
    places = st.integers(0, max(0, len(log) - 1))
    for place in draw(st.lists(places, max_size=4)) if log else []:
        log[place] = refused(log[place], draw(st.sampled_from([NO_RESPONSE, 3, 6])))
    if log and draw(st.booleans()):
        since = draw(places)
        log[since:] = [refused(row, 6) for row in log[since:]]
    return cluster, log


def refused(row: RecordedMetadataFetch, error_code: int) -> RecordedMetadataFetch:
    return row._replace(error_code=error_code, record_bytes=0, response_high_watermark=-1)


@given(troubled=troubled_logs(), size=st.integers(1, 90))
def test_log_cut_anywhere_saved_and_resumed_gives_the_same_rows(
    troubled: tuple[Cluster, list[RecordedMetadataFetch]], size: int
) -> None:
    """In the same order, too."""
    cut_anywhere(*troubled, size)


def cut_anywhere(cluster: Cluster, log: list[RecordedMetadataFetch], size: int) -> Replayed:
    """The rows of a log in increments; checks that they are those of the whole log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hwm_parking, "LOOKAHEAD_US", LOOKAHEAD_US)
        rows = replay_of(1, cluster.voters, variants(), cut(log, size), resumed=True)
        assert rows == replayed(cluster, [log])
    return rows


@pytest.mark.parametrize("size", [1, 5, 20])
def test_log_with_a_long_silence_cut_anywhere_gives_the_same_rows(size: int) -> None:
    """Broker 11 is frozen for longer than the lookahead, as for a minute in reality; it returns."""
    cluster = quiet_cluster(Member(11, 50, (4.0,), (Silence(3_000, 6_000),)))
    returns_us = cluster.epoch_us + micros(9_000)
    rows = cut_anywhere(cluster, cluster.log(), size)
    for variant in (WITHOUT_KIP, WITH_KIP):
        parking = rows.variant(variant).parking
        check_responses(parking)
        dequeued = [row["dequeued_at"] for row in by_replica(parking)[11]]
        after = [at for at in dequeued if at >= returns_us]
        assert min(after) == returns_us
        assert len(after) >= 8


def test_snapshot_that_shows_late_cut_anywhere_gives_the_same_rows() -> None:
    """Synthetic: broker 12 is new, is sent to a snapshot of 0..12 and goes on behind it."""
    cluster = quiet_cluster(Member(11, 50, (4.0,)))
    at_ms = cluster.epoch_us / 1000 + 9_000
    joining = [
        fetched(12, at_ms, at_ms + 0.5, 0, last_fetched_epoch=0, is_snapshot=True),
        fetched(12, at_ms + 50, at_ms + 51, 12, record_bytes=2_800),
        fetched(12, at_ms + 60, at_ms + 300.8, 40, record_bytes=100),
        fetched(12, at_ms + 310, at_ms + 600.8, 41, record_bytes=100),
    ]
    cut_anywhere(cluster, in_order([*cluster.log(), *joining]), 5)


def quiet_cluster(observer: Member) -> Cluster:
    """Two steady voters beside an observer."""
    steady = (Member(2, 0, (3.0,)), Member(3, 100, (5.0,)))
    return Cluster((*steady, observer), appends=every(300, LENGTH_MS), length_ms=LENGTH_MS)


# --- memory --------------------------------------------------------------------------------------

HOUR_MS = 3_600_000


def sizes_of(epoch: LeaderEpoch) -> dict[str, int]:
    """Bytes saved of everything that is carried, by name."""
    carried = [*map(msgspec.structs.asdict, (epoch, epoch.evidence, epoch.open_loop))]
    return {name: len(msgspec.msgpack.encode(part[name])) for part in carried for name in part}


def grown(cluster: Cluster, warm_ms: int) -> dict[str, tuple[int, int]]:
    """Sizes that are larger after the warm-up than within it: (within, after)."""
    replay = HwmParking(1, cluster.voters, [Variant(WITHOUT_KIP)])
    within: dict[str, int] = defaultdict(int)
    after: dict[str, int] = defaultdict(int)
    for increment in cut(cluster.log(), 100):
        replay.feed(batch_of(increment))
        is_warm = increment[-1].built_us - cluster.epoch_us > micros(warm_ms)
        state = msgspec.msgpack.decode(replay.saved(), type=State)
        for name, size in sizes_of(state.epochs[EPOCH]).items():
            largest = after if is_warm else within
            largest[name] = max(largest[name], size)
    # Increments are of one length, what lies in them is not: a little more is no growth.
    return {n: (within[n], s) for n, s in after.items() if s > 1.2 * within[n] + 10}


@pytest.mark.parametrize(
    ("gaps_ms", "silences", "length_ms", "warm_ms"),
    [
        # Broker 11 is removed after five seconds; the log goes on.
        pytest.param((3.0,), (Silence(5_000, HOUR_MS),), 600_000, 300_000, id="a replica left"),
        pytest.param((3.0, 7.0), (), 2 * HOUR_MS, 40 * 60_000, id="2 h", marks=pytest.mark.slow),
    ],
)
def test_memory_is_a_span_of_the_log_and_not_the_log(
    gaps_ms: tuple[float, ...], silences: tuple[Silence, ...], length_ms: int, warm_ms: int
) -> None:
    """At two appends a second; no size is larger than within the warm-up."""
    cluster = Cluster(
        (Member(2, 0, gaps_ms), Member(11, 50, (4.0,), silences)),
        voters=(1, 2),
        appends=every(490, length_ms),
        length_ms=length_ms,
    )
    assert grown(cluster, warm_ms=warm_ms) == {}
