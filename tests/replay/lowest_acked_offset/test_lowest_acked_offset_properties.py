"""Whatever brokers do: what must hold of the offset carried, and of every claim about a write."""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation.heartbeats import (
    CONTROLLER,
    Replayed,
    Row,
    api_versions,
    beat,
    born_empty,
    create_topic,
    in_order,
    learned,
    metadata,
    raft_fetch,
    replayed,
    us,
)

from kip_replay.replay.log_gaps import Gaps, LogGap
from kip_replay.replay.lowest_acked_offset.events import (
    ESTIMATED,
    LOWEST_ACKED,
    NOT_SENT,
    ClusterEvent,
)
from kip_replay.replay.model import STAMP_US
from kip_replay.replay.simulation import Rising

pytestmark = pytest.mark.property

BROKERS = (11, 12, 13)

# --- whole clusters ------------------------------------------------------------------------------


#: What can happen at a heartbeat.
ROUGH: list[dict[str, Any]] = [
    *[{}] * 12,
    {"is_fenced": True},
    {"want_shut_down": True},
    {"is_fenced": True, "want_fence": True, "broker_epoch": 6_000},
    {"error_code": 6},
    {"node_id": 1},
]


@dataclass
class Cluster:
    """A cluster whose truth is known: when each offset was committed and applied by whom."""

    events: list[ClusterEvent] = field(default_factory=list)
    committed: Rising = field(default_factory=Rising)
    applied: dict[int, Rising] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)

    def applied_us(self, broker: int, offset: int) -> int | None:
        reached = self.applied[broker].reached(offset)
        return reached[0] if reached else None


@st.composite
def clusters(draw: st.DrawFn, *, is_rough: bool = False) -> Cluster:
    """Writes some time apart, brokers that apply late, send heartbeats at a phase, and freeze.

    A rough one has all that can happen: brokers restart, are fenced, stop and are refused, the
    controller changes, and there are all kinds of evidence. Its truth is not meant.
    """
    cluster = Cluster(born_empty() if not is_rough or draw(st.booleans()) else [])
    ms, offset = 3_000, 10
    cluster.events += [raft_fetch(v, 10, 11, offset) for v in (1, 3)]
    cluster.committed.add(0, offset)
    for number in range(draw(st.integers(1, 6))):
        ms += draw(st.integers(60, 30_000 if is_rough else 3_000))
        partitions = draw(st.integers(1, 4))
        extra = draw(st.integers(0, 1))
        of = {"correlation_id": number, "topics": ["t"], "replicas": [draw(st.integers(0, 6))]}
        write = create_topic(ms, ms + 50, partitions=partitions, **of)
        offset += 1 + partitions
        cluster.writes[write.request_id] = offset - 1
        offset += extra
        cluster.events.append(write)
        cluster.events += [raft_fetch(v, ms + 30, ms + 31, offset) for v in (1, 3)]
        cluster.committed.add(us(ms + 30), offset)
    end = ms + draw(st.integers(500, 16_000))
    for broker in BROKERS[: draw(st.integers(1, 3))]:
        _lives(draw, cluster, broker, end, is_rough)
    cluster.events = in_order(cluster.events)
    return cluster


def _lives(draw: st.DrawFn, cluster: Cluster, broker: int, end_ms: int, is_rough: bool) -> None:
    """Commits reach a broker, heartbeats carry that; it may be frozen for a while."""
    delays = draw(st.lists(st.integers(1, 700), min_size=8, max_size=8))
    frozen_at = draw(st.one_of(st.none(), st.integers(3_000, end_ms)))
    thaws_at = 0 if frozen_at is None else frozen_at + draw(st.integers(500, 14_000))
    truth = cluster.applied[broker] = Rising()
    commits = zip(cluster.committed.at, cluster.committed.values, strict=True)
    for number, (at, high_watermark) in enumerate(commits):
        ms = at // 1000 + delays[number]
        if frozen_at is not None and frozen_at <= ms < thaws_at:
            ms = thaws_at + delays[number]
        truth.add(us(ms), high_watermark - 1, broker)
        cluster.events.append(learned(broker, ms, high_watermark))
        if is_rough:
            known = {"high_watermark": draw(st.sampled_from([NOT_SENT, high_watermark]))}
            known["response_high_watermark"] = draw(st.sampled_from([-1, high_watermark]))
            known["correlation_id"] = draw(st.sampled_from([ms, ms, 1]))
            until = ms + draw(st.integers(2, 400))
            fetch = raft_fetch(broker, ms + 1, until, high_watermark, **known)
            image = api_versions(broker, ms + 40, ms + 41, high_watermark - 1)
            shown_ms = max(0, ms + draw(st.integers(-20, 400)))
            shown = metadata(broker, shown_ms, "t", draw(st.integers(0, 1)))
            cluster.events += draw(st.sampled_from([(fetch,), (fetch, image), (fetch, shown), ()]))
    ms = draw(st.integers(1_000, 2_999))
    interval = draw(st.sampled_from([400, 2_000]))
    while ms < end_ms:
        if frozen_at is None or not frozen_at <= ms < thaws_at:
            index = bisect_right(truth.at, us(ms))
            others = draw(st.sampled_from(ROUGH)) if is_rough else {}
            offset = truth.values[index - 1] if index else -1
            cluster.events.append(beat(broker, ms, offset, **others))
        ms += interval + draw(st.integers(2, 9))


HOW = {"intervals_ms": (300, 2_000), "recorded_interval_ms": 2_000}


def check_heartbeats(rows: list[Row]) -> None:
    """The offset never falls, and raw is no more than it and than what the broker has."""
    carried = [row for row in rows if row["lowest_acknowledged_offset"] is not None]
    offsets = [row["lowest_acknowledged_offset"] for row in carried]
    assert offsets == sorted(offsets)
    for row in carried:
        assert row["lowest_acknowledged_offset_raw"] <= row["lowest_acknowledged_offset"]


def check_estimates(rows: Replayed) -> None:
    """Learned, then shown, then applied, one offset after the other; a heartbeat is the bound."""
    for broker in BROKERS:
        applied = [row for row in rows.applied if row["broker_id"] == broker]
        offsets = [row["metadata_offset"] for row in applied]
        assert offsets == sorted(set(offsets))
        known = [row for row in applied if row["verdict"] == "replayed"]
        for name in ("shown_at", "applied_at"):
            assert [row[name] for row in known] == sorted(row[name] for row in known)
        for row in known:
            assert row["learned_at"] <= row["shown_at"] + STAMP_US
            assert row["shown_at"] <= row["applied_at"]
    for row in rows.visibility:
        if row["evidence"] == ESTIMATED and None not in (
            row["applied_at"],
            row["applied_at_latest"],
        ):
            assert row["applied_at"] <= row["applied_at_latest"] + STAMP_US


@given(clusters())
def test_every_claim_holds(cluster: Cluster) -> None:
    heartbeats, writes, visibility, *_ = replayed(cluster.events, **HOW)
    # Two variants of the record, and three simulated ones at two intervals.
    assert len(writes) == len(cluster.writes) * (2 + 3 * 2)
    for row in writes:
        check_write(row, cluster)
    check_heartbeats(heartbeats)
    for row in heartbeats:
        raw = row["lowest_acknowledged_offset_raw"]
        assert raw is None or raw <= row["current_metadata_offset"]
    for row in visibility:
        check_visibility(row, cluster)


def check_write(row: Row, cluster: Cluster) -> None:
    """Its last record lies in the interval, and nobody knows before all that counted had it."""
    offset = cluster.writes[row["request_id"]]
    if row["offset_low"] is not None:
        assert row["offset_low"] <= offset <= row["offset_high"]
    for known in (row["known_at"], row["known_everywhere_at"]):
        if known is not None:
            assert row["applied_everywhere_at"] is not None
            assert known >= row["applied_everywhere_at"]
    if row["parameter"] == "none" and row["applied_everywhere_at"] is not None:
        had = [cluster.applied_us(broker, offset) for broker in cluster.applied]
        # At least the one that came last without being fenced had it.
        assert min(at for at in had if at is not None) <= row["applied_everywhere_at"]


def check_visibility(row: Row, cluster: Cluster) -> None:
    """No broker is claimed to have applied what it has not."""
    truth = cluster.applied_us(row["broker_id"], cluster.writes[row["request_id"]])
    latest = row["applied_at_latest"]
    if latest is not None:
        assert truth is not None
        assert truth <= latest
        assert row["applied_at_earliest"] <= latest
    if truth is not None:
        assert row["applied_at_earliest"] <= truth


#: Holes in the log of a controller that is active, or is not, or of a broker.
GAPS = st.lists(
    st.builds(
        lambda node, since, length: LogGap(node, us(since), us(since + length)),
        st.sampled_from([1, CONTROLLER, BROKERS[0]]),
        st.integers(0, 12_000),
        st.integers(1, 4_000),
    ),
    max_size=2,
)


@given(
    clusters(is_rough=True),
    st.lists(st.floats(0, 1), max_size=4),
    st.booleans(),
    st.sampled_from([20, 100, 32_768]),
    GAPS,
)
def test_rows_depend_neither_on_cuts_nor_on_resuming(
    cluster: Cluster,
    cuts: list[float],
    resumed: bool,
    step_rows: int,
    gaps: list[LogGap],
) -> None:
    places = tuple(round(cut * len(cluster.events)) for cut in cuts)
    how = HOW | {"step_rows": step_rows, "gaps": Gaps(gaps)}
    rows = replayed(cluster.events, **how)
    assert replayed(cluster.events, places, resumed=resumed, **how) == rows
    check_heartbeats(rows.heartbeats)
    check_estimates(rows)
    for row in rows.writes_of(LOWEST_ACKED):
        known = row["known_everywhere_at"]
        assert known is None or known >= row["applied_everywhere_at"]
