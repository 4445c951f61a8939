"""Whole replays of hwm_parking by hand: drains, errors, absences, and what is blanked."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from golden.recorded import VOTERS, events_of
from notation.cluster import Cluster, Member, every
from notation.recorded import EPOCH, Replayed, fetched, in_order, micros, replay_of

from kip_replay.replay.hwm_parking.closed_loop import ClosedLoop
from kip_replay.replay.hwm_parking.evidence import Evidence, RecordedMetadataFetch
from kip_replay.replay.hwm_parking.outcomes import (
    NOT_IN_LOG,
    NOT_LEADER,
    WITH_KIP,
    WITHOUT_KIP,
    Epoch,
    variants,
)
from kip_replay.replay.model.raft import NO_RESPONSE, UNKNOWN_OFFSET, ReplicaState
from kip_replay.replay.records import RECORDED, Variant

NINE = {"record_bytes": 9}


def drained(carried: int = -1, late_ms: int = 0) -> Replayed:
    """2, 3 and 11 have 15 and wait; completed at 300 ms (11 late), and with records at 350 ms."""
    first = [fetched(r, 0, 50 + r, 14, **NINE, last_fetched_epoch=EPOCH - 1) for r in (2, 3, 11)]
    late = {2: 0, 3: 0, 11: late_ms}
    empty = [fetched(r, 100 + r, 300 + late[r], 15, response_high_watermark=carried) for r in late]
    then = [fetched(r, 301 + r + late[r], 350 + late_ms, 15, **NINE) for r in late]
    last = [fetched(r, 360 + late_ms + r, 860 + late_ms + r, 16) for r in late]
    return replay_of(1, [1, 2, 3], variants(), [in_order([*first, *empty, *then, *last])])


@pytest.mark.parametrize("late_ms", [0, 70])
def test_drain_is_in_the_log_and_in_every_variant(late_ms: int) -> None:
    """One drain for the three of them, though they fetch again at once."""
    out = drained(15, late_ms)
    for variant in (RECORDED, WITHOUT_KIP, WITH_KIP):
        rows = [r for r in out.variant(variant).parking if r["completion"] == "drain"]
        assert [(r["replica_id"], r["decision"], r["verdict"]) for r in rows] == [
            (replica, "parked", "replayed") for replica in (2, 3, 11)
        ]


def test_drain_whose_high_watermark_was_not_the_leaders_is_unexplained() -> None:
    out = drained(99)
    assert "drain" not in {r["completion"] for r in out.variant(RECORDED).parking}
    assert out.variant(WITHOUT_KIP) == drained(15).variant(WITHOUT_KIP)


@pytest.mark.parametrize(
    ("correlation_id", "returns_at", "replica"),
    [
        (81, 15, ReplicaState(15, EPOCH, 12)),
        (1, 14, ReplicaState(14, 4, UNKNOWN_OFFSET)),
        (1, 20, ReplicaState(15, 4, UNKNOWN_OFFSET)),
    ],
    ids=["frozen", "restarted", "restarted with more log than the loop gave it"],
)
def test_replica_returns(correlation_id: int, returns_at: int, replica: ReplicaState) -> None:
    """A restart forgets the high watermark, and maybe log."""
    before = fetched(9, 0, 500, 15, correlation_id=80, high_watermark=12)
    after = {"correlation_id": correlation_id, "last_fetched_epoch": 4, "high_watermark": 12}
    evidence, epoch = Evidence(EPOCH), Epoch(1, EPOCH, frozenset({1, 2, 3}))
    for row in (before, fetched(9, 3_000, 3_500, returns_at, **after)):
        evidence.add(row)
    loop = ClosedLoop.begin(epoch, Variant(WITH_KIP))
    loop.advance(evidence, micros(2_999))
    assert loop.replicas == {9: replica}


def test_swept_rows_have_their_parameter_and_wait_as_long() -> None:
    rows = replay_of(1, [1, 2, 3], variants([100])[2:], [SMALL.log()])
    swept = {(r["parameter"], r["parameter_value"]) for r in rows.variant(WITH_KIP).parking}
    assert swept == {("max_wait_ms", 100)}
    assert 100 <= max(r["parked_ms"] for r in rows.variant(WITHOUT_KIP).parking) <= 101


SMALL = Cluster(
    (Member(2, gaps_ms=(3, 5)), Member(3, 20, (4, 3)), Member(11, 40, (6, 2))),
    appends=every(430, 10_000, records=2),
)


def small_replay(cluster: Cluster = SMALL) -> Replayed:
    return replay_of(1, cluster.voters, variants(), [cluster.log()])


def of_log(rows: Sequence[RecordedMetadataFetch]) -> Replayed:
    return replay_of(1, [1, 2, 3], variants(), [in_order(rows)])


#: A stranger's FETCH in SMALL, by ms of its clock, the high watermark carried, and why it completed
#: by the rule. The leader appends up to 32 at 4,730, a voter moves the high watermark from 30 to 32
#: at 4,733.
EXPLAINED: dict[str, tuple[tuple[float, float, int, int], dict[str, int], str]] = {
    "append wakes": ((4_310, 4_731, 30, 30), NINE, "records"),
    "records wait": ((4_735, 4_736, 30, 32), NINE, "records"),
    "expiry carries what was known when it was parked": ((4_310, 4_810, 40, 30), {}, "timeout"),
    "move wakes": ((4_731, 4_734, 32, 32), {"high_watermark": 30}, "high_watermark"),
    "4.0 is not woken by the high watermark": ((4_731, 4_734, 32, 32), {}, "unexplained"),
    "empty and early": ((4_310, 4_600, 30, 30), {}, "unexplained"),
    "woken before the move": ((4_310, 4_600, 40, 30), {"high_watermark": 30}, "unexplained"),
    "records kept back": ((4_310, 5_300, 30, 30), NINE, "unexplained"),
    "move kept back": ((5_150, 5_620, 40, 34), {"high_watermark": 30}, "unexplained"),
    "parked too long": ((4_310, 6_500, 40, 30), {}, "unexplained"),
    "high watermark from the past": ((4_900, 5_400, 40, 28), {}, "unexplained"),
    "high watermark from the future": ((4_310, 4_810, 40, 36), {}, "unexplained"),
}


@pytest.mark.parametrize(("fetch", "more", "completion"), EXPLAINED.values(), ids=EXPLAINED)
def test_rule_explains(
    fetch: tuple[float, float, int, int], more: dict[str, int], completion: str
) -> None:
    dequeued, built, offset, carried = fetch
    begin_ms = SMALL.epoch_us / 1000
    row = fetched(99, begin_ms + dequeued, begin_ms + built, offset, **more)
    row = row._replace(response_high_watermark=carried)
    found = of_log([*SMALL.log(), row]).variant(RECORDED).parking
    assert [r["completion"] for r in found if r["replica_id"] == 99] == [completion]


def test_feed_is_in_order_of_built_us_and_request_id() -> None:
    """Within a batch and from one to the next."""
    first, second, *_ = SMALL.log()
    a, b = (fetched(r, 0, 5, 15, request_id=name) for r, name in ((9, "a"), (8, "b")))
    for batches in ([[second, first]], [[second], [first]], [[b, a]]):
        with pytest.raises(ValueError, match="in order of built_us, request_id"):
            replay_of(1, [1, 2, 3], variants(), batches)
    rows = replay_of(1, [1, 2, 3], variants(), [[a, b]]).variant(RECORDED).parking
    assert [row["recorded_request_id"] for row in rows] == ["a", "b"]


def test_controller_that_did_not_lead_is_not_replayed() -> None:
    codes = (6, 8, 74, 75)
    out = of_log([fetched(9, 5 * i, 5 * i + 1, 15, error_code=e) for i, e in enumerate(codes)])
    found = [(r["completion"], r["verdict"], r["reason"], r["sequence"]) for r in out.parking]
    assert found == [("error", "not_applicable", NOT_LEADER, i) for i in range(4)]
    assert out.lag == []


def test_leader_that_resigns_rejects_who_is_parked() -> None:
    """In the log, and in the loop under 4.0; with the KIP its FETCH moved the high watermark."""
    rows = of_log([*ENDED.log(), REJECTED])
    last = rows.variant(RECORDED).parking[-1]
    found = (last["completion"], last["decision"], last["verdict"])
    assert found == ("error", "parked", "replayed")
    for variant in (WITHOUT_KIP, WITH_KIP):
        built = [r["built_at"] for r in rows.variant(variant).parking]
        assert max(built) <= REJECTED.built_us
    rejected = [r for r in rows.variant(WITHOUT_KIP).parking if r["completion"] == "error"]
    assert [(r["replica_id"], r["built_at"]) for r in rejected] == [(2, REJECTED.built_us)]


def test_leader_that_rejects_at_once_had_resigned_when_the_fetch_came() -> None:
    """Nobody knows since when; the FETCHes that the loops have parked then are rejected."""
    at_ms = ENDED.epoch_us / 1000 + 10_000
    rejected = fetched(3, at_ms, at_ms + 5, REJECTED.fetch_offset, error_code=6)
    earlier = [row for row in ENDED.log() if row.replica_id != 3]
    others = [fetched(3, at_ms - 108, at_ms - 107, REJECTED.fetch_offset - 1, **NINE)]
    parking = of_log([*earlier, *others, rejected]).parking
    assert max(r["built_at"] for r in parking if r["variant"] != RECORDED) <= rejected.dequeued_us


ENDED = replace(SMALL, appends=every(430, 10_000))
#: Replica 2 had the last record, FETCHed again, and was rejected after 200 ms.
REJECTED = fetched(
    2,
    ENDED.epoch_us / 1000 + 9_894,
    ENDED.epoch_us / 1000 + 10_094,
    ENDED.log()[-1].fetch_offset + 1,
    error_code=6,
)


def test_other_errors_are_rows_and_no_loop_has_a_replica_that_only_got_errors() -> None:
    """CORRUPT_MESSAGE (2) is no response of the rule and bounds no epoch."""
    rows = of_log([*SMALL.log(), fetched(99, 0, 1, 15, error_code=2)])
    found = [
        (r["replica_id"], r["variant"], r["decision"], r["verdict"])
        for r in rows.parking
        if r["completion"] == "error" or r["replica_id"] == 99
    ]
    assert found == [(99, RECORDED, "immediate", "replayed")]
    never_led = of_log([fetched(9, 0, 1, 15, error_code=3), fetched(9, 5, 6, 15, error_code=3)])
    assert [r["completion"] for r in never_led.parking] == ["error", "error"]


def test_fetch_whose_response_is_not_in_the_log_is_unknown_and_moves_no_loop() -> None:
    """The logger's level was switched while it waited."""
    at_ms = SMALL.epoch_us / 1000 + 5_000
    rows = of_log([*SMALL.log(), fetched(99, at_ms, at_ms + 1, 900, error_code=NO_RESPONSE)])
    (row,) = (row for row in rows.parking if row["replica_id"] == 99)
    found = (row["variant"], row["completion"], row["verdict"], row["reason"])
    assert found == (RECORDED, "unexplained", "unknown", NOT_IN_LOG)
    assert rows.variant(WITH_KIP) == small_replay().variant(WITH_KIP)


@pytest.mark.parametrize("invalid", ["is_diverging", "is_snapshot"])
def test_voter_whose_log_cannot_be_continued_moves_nothing(invalid: str) -> None:
    """Synthetic: the voter's FETCH at 900 does not count, so nobody has 900."""
    at_ms = SMALL.epoch_us / 1000 + 5_000
    rows = of_log([*SMALL.log(), fetched(3, at_ms, at_ms + 1, 900, **{invalid: True})])
    assert max(lag["high_watermark"] for lag in rows.variant(RECORDED).lag) < 900


def test_no_response_carries_less_than_nothing() -> None:
    """The log begins within the epoch: 9 waits at 100, and later 8 comes from 98."""
    parking = of_log(
        [
            *(fetched(9, 0, 500, 100), fetched(9, 505, 1_005, 100)),
            *(fetched(8, 550, 551, 98, record_bytes=200), fetched(8, 555, 1_055, 100)),
        ]
    ).parking
    assert min(row["record_bytes"] or 0 for row in parking) >= 0


# --- what the closed loop does not read ----------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize(
    ("name", "leader"),
    [
        ("metadata-4.0", 2),
        ("metadata-4.1", 2),
        ("freeze-4.1", 2),
        ("failover-4.0", 1),
        ("failover-4.0", 2),
    ],
)
def test_loops_do_not_read_what_the_rule_explains(name: str, leader: int) -> None:
    """Blank what the rule explains in every recorded FETCH: the closed-loop rows stay the same.

    Blanked: the high watermark carried, and when it was sent (moved by a minute). What stays,
    since the loop takes it as input: ``built_us`` (as the begin of a gap, as the time of an append
    or a drain, and since when its cause had been), ``record_bytes`` (which appends a response
    carried), whether it is diverging or a snapshot (no drain), the sizes on the wire, and whether
    an error is "not the leader" (it ends the leader's epoch).
    """
    recorded = events_of(name, "hwm_parking")[leader].to_pylist()
    before, after = (
        replay_of(leader, VOTERS, variants(), [[RecordedMetadataFetch(**row) for row in rows]])
        for rows in (recorded, map(blanked, recorded))
    )
    for variant in (WITHOUT_KIP, WITH_KIP):
        assert before.variant(variant).parking
        assert before.variant(variant).lag
        assert after.variant(variant) == before.variant(variant)


def blanked(row: dict[str, Any]) -> dict[str, Any]:
    completed_us = row["completed_us"] + 60_000_000
    return row | {"response_high_watermark": -7, "completed_us": completed_us}
