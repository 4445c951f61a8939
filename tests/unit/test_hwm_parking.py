"""hwm_parking by hand: the open-loop check, lags, the closed loop, whole replays, the blanking."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from golden.recorded import VOTERS, events_of
from notation.cluster import Cluster, Member, Silence, every
from notation.recorded import EPOCH, Replayed, fetched, in_order, micros, replay_of

from kip_replay.replay.hwm_parking import (
    NO_RESPONSE,
    UNKNOWN_OFFSET,
    WITH_KIP,
    WITHOUT_KIP,
    RecordedFetch,
    variants,
)
from kip_replay.replay.hwm_parking.closed_loop import ClosedLoop, SimulatedFetch
from kip_replay.replay.hwm_parking.evidence import Evidence
from kip_replay.replay.hwm_parking.explain import (
    DRAIN_APPEND_US,
    HANDLING_SLACK_US,
    causes_of,
    completed_by_drain,
    explain,
    woken_by,
)
from kip_replay.replay.hwm_parking.lag import Advance, LagTracker, NoOps
from kip_replay.replay.hwm_parking.metadata_log import WAKE_SPREAD_US
from kip_replay.replay.hwm_parking.outcomes import AWAY, NOT_IN_LOG, NOT_LEADER
from kip_replay.replay.hwm_parking.timelines import Timeline
from kip_replay.replay.model.raft import Completion, Leader, Replica
from kip_replay.replay.outcomes import RECORDED

HANDLING_SLACK_MS, SPREAD_MS = HANDLING_SLACK_US / 1000, WAKE_SPREAD_US / 1000

# --- explain -------------------------------------------------------------------------------------

#: The leader appends to 16 at 1,000 ms, a voter's FETCH moves the high watermark there at 1,010.
LOG_END = Timeline([0, micros(1_000)], [15, 16])
HIGH_WATERMARK = Timeline([0, micros(1_010)], [15, 16])
#: The leader completes FETCHes all the time, or none that came later.
EACH_MS = [micros(at) for at in range(2_000)]
BUSY, STALLED = Timeline(EACH_MS, EACH_MS), Timeline()

RECORDS, TIMEOUT, MOVE = Completion.RECORDS, Completion.TIMEOUT, Completion.HIGH_WATERMARK
UNEXPLAINED = Completion.UNEXPLAINED
NINE = {"record_bytes": 9}


def of_9(
    dequeued: float, built: float, offset: int, carried: int = 15, **others: Any
) -> RecordedFetch:
    """A FETCH of replica 9, of 4.0 unless it has a high_watermark; its response ``carried`` one."""
    return fetched(9, dequeued, built, offset, response_high_watermark=carried, **others)


#: Each FETCH, why it completed by the rule, and whether it was parked.
EXPLAINED = {
    "append wakes": (of_9(900, 1_001, 15, **NINE), RECORDS, True),
    "records wait": (of_9(1_005, 1_006, 15, **NINE), RECORDS, False),
    "500 ms": (of_9(300, 800, 15), TIMEOUT, True),
    "500 ms, cut stamps": (of_9(300, 798, 15), TIMEOUT, True),
    "expiry carries what was known when it was parked": (of_9(1_005, 1_505, 16), TIMEOUT, True),
    "move wakes": (of_9(1_005, 1_011, 16, 16, high_watermark=15), MOVE, True),
    "replica knows less": (of_9(1_020, 1_021, 16, 16, high_watermark=15), MOVE, False),
    "move wakes who claims to know it": (of_9(1_005, 1_012, 16, 16, high_watermark=16), MOVE, True),
    "replica knows as much": (of_9(1_100, 1_600, 16, 16, high_watermark=16), TIMEOUT, True),
    "diverging (synthetic)": (
        fetched(9, 900, 901, 15, is_diverging=True),
        *(Completion.DIVERGING, False),
    ),
    "snapshot (synthetic)": (
        fetched(9, 900, 901, 15, is_snapshot=True),
        *(Completion.SNAPSHOT, False),
    ),
    "records before the append": (of_9(800, 900, 15, **NINE), UNEXPLAINED, True),
    "empty and early": (of_9(300, 600, 15), UNEXPLAINED, True),
    "4.0 is not woken by the high watermark": (of_9(1_005, 1_011, 16, 16), UNEXPLAINED, True),
    "move kept back": (of_9(1_020, 1_300, 16, 16, high_watermark=15), UNEXPLAINED, False),
    "records kept back": (of_9(900, 1_200, 15, **NINE), UNEXPLAINED, True),
    "parked too long": (of_9(100, 800, 15), UNEXPLAINED, True),
    "move from the past": (of_9(1_100, 1_600, 16, 15, high_watermark=16), UNEXPLAINED, True),
    "built this late": (of_9(900, 1_000 + HANDLING_SLACK_MS, 15, **NINE), RECORDS, True),
    "too late": (of_9(900, 1_000.001 + HANDLING_SLACK_MS, 15, **NINE), UNEXPLAINED, True),
    "stamps put it this early": (of_9(900, 998, 15, **NINE), RECORDS, True),
    "too early": (of_9(900, 997.999, 15, **NINE), UNEXPLAINED, True),
    # A late stamp of the voter's FETCH puts the move too late, one of this FETCH the FETCH.
    "carries a move this early": (of_9(485, 985, 16, 16), TIMEOUT, True),
    "carries it too early": (of_9(484, 984.999, 16, 16), UNEXPLAINED, True),
    "woken by a move this early": (of_9(900, 985, 16, 16, high_watermark=15), MOVE, True),
    "woken too early": (of_9(900, 984.999, 16, 16, high_watermark=15), UNEXPLAINED, True),
    "woken early without the move": (
        *(of_9(900, 1_007.999, 16, 15, high_watermark=15), UNEXPLAINED, True),
    ),
    "does not carry a move this late": (of_9(1_034.999, 1_535, 16, 15), TIMEOUT, True),
    "it is too late": (of_9(1_035, 1_535, 16, 15), UNEXPLAINED, True),
}


@pytest.mark.parametrize(("row", "completion", "parked"), EXPLAINED.values(), ids=EXPLAINED)
def test_rule_explains(row: RecordedFetch, completion: Completion, parked: bool) -> None:
    causes = causes_of(row, LOG_END, HIGH_WATERMARK)
    assert explain(row, causes, HIGH_WATERMARK, BUSY) == (completion, parked)


def test_stall_does_not_explain_a_response_that_should_have_had_another_cause() -> None:
    """The move at 1,010 completes it, long before the append at 1,300."""
    log_end = Timeline([0, micros(1_300)], [16, 17])
    row = of_9(1_005, 1_300, 16, 16, high_watermark=15, **NINE)
    causes = causes_of(row, log_end, HIGH_WATERMARK)
    assert explain(row, causes, HIGH_WATERMARK, STALLED) == (UNEXPLAINED, True)


def test_leader_without_a_high_watermark_may_be_busy_for_longer() -> None:
    row = fetched(9, 900, 2_500, 15, **NINE, response_high_watermark=UNKNOWN_OFFSET)
    causes = causes_of(row, LOG_END, Timeline())
    assert explain(row, causes, Timeline(), BUSY) == (Completion.RECORDS, True)


def test_move_that_the_fetch_knows_does_not_make_it_due() -> None:
    """A quick replica: completed at 1,010.5, it FETCHes at 1,011 knowing that, until an append."""
    log_end = Timeline([0, micros(1_300)], [16, 17])
    row = fetched(9, 1_011, 1_300, 16, high_watermark=16, response_high_watermark=16, **NINE)
    causes = causes_of(row, log_end, HIGH_WATERMARK)
    assert explain(row, causes, HIGH_WATERMARK, BUSY) == (Completion.RECORDS, True)


#: A FETCH, and what the Raft thread did when it built the response.
WOKEN = {
    "append, as late as it may be": (of_9(900, 1_000 + HANDLING_SLACK_MS, 15, **NINE), RECORDS),
    "too late": (of_9(900, 1_000.001 + HANDLING_SLACK_MS, 15, **NINE), None),
    "records were there": (of_9(1_005, 1_006, 15, **NINE), None),
}


@pytest.mark.parametrize(("row", "completion"), WOKEN.values(), ids=WOKEN)
def test_raft_thread_builds_a_response_because_of(
    row: RecordedFetch, completion: Completion | None
) -> None:
    assert woken_by(row, causes_of(row, LOG_END, HIGH_WATERMARK)) is completion


#: An empty response to 9 before the append at 1,000 ms, another FETCH, and whether a drain without
#: a batch completed it.
LATER = fetched(8, 980, 1_000, 15, **NINE)
EARLIEST_MS = 1_000 - DRAIN_APPEND_US / 1000
DRAINED = {
    "with another": (of_9(800, 950, 15), fetched(8, 810, 960, 15), True),
    "another comes later": (of_9(800, 950, 15), LATER, True),
    "another stays": (of_9(800, 950, 15), fetched(8, 810, 1_000, 15, **NINE), False),
    "another stays for long": (of_9(800, 850, 15), fetched(8, 810, 1_310, 15), False),
    "came just then": (of_9(800, 950, 15), fetched(8, 950 - SPREAD_MS, 1_000, 15, **NINE), True),
    "thread takes long": (of_9(800, 850, 15), fetched(8, 810, 850 + HANDLING_SLACK_MS, 15), True),
    "too long": (of_9(800, 850, 15), fetched(8, 810, 850.001 + HANDLING_SLACK_MS, 15), False),
    "append follows": (of_9(300, EARLIEST_MS, 15), LATER, True),
    "append is far": (of_9(300, EARLIEST_MS - 0.001, 15), LATER, False),
    "no append follows": (of_9(1_020, 1_100, 16), LATER, False),
    "append was before": (of_9(800, 1_000, 15), LATER, False),
    "records": (of_9(800, 950, 15, **NINE), LATER, False),
    "timeout": (of_9(450, 950, 15), LATER, False),
    "diverging": (of_9(800, 950, 15, is_diverging=True), LATER, False),
    "snapshot": (of_9(800, 950, 15, is_snapshot=True), LATER, False),
    "replica knows less": (of_9(800, 950, 15, 15, high_watermark=14), LATER, False),
    "replica knows as much": (of_9(800, 950, 15, 15, high_watermark=15), LATER, True),
    "a move after the append": (of_9(800, 990, 15, 15, high_watermark=15), LATER, True),
}


@pytest.mark.parametrize(("row", "other", "is_drain"), DRAINED.values(), ids=DRAINED)
def test_drain_completes_all_who_are_parked_and_the_append_follows(
    row: RecordedFetch, other: RecordedFetch, is_drain: bool
) -> None:
    rows = in_order([row, other, fetched(7, 1_900, 1_901, 16)])
    assert completed_by_drain(row, causes_of(row, LOG_END, HIGH_WATERMARK), rows) == is_drain


def test_move_that_may_have_come_before_the_append_is_no_drain() -> None:
    """At 1,010, append at 1,020: a voter's FETCH stamped 25 ms late moved it at 985."""
    row, log_end = of_9(800, 985, 15, 15, high_watermark=15), Timeline([0, micros(1_020)], [15, 16])
    causes = causes_of(row, log_end, HIGH_WATERMARK)
    assert not completed_by_drain(row, causes, [row])
    assert completed_by_drain(row._replace(built_us=row.built_us - 1), causes, [row])


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


class Loop:
    """A closed loop over a log; the leader's log ends at 15."""

    def __init__(self, *rows: RecordedFetch, hwm_aware: bool = False, **others: Any) -> None:
        self.evidence = Evidence(EPOCH)
        for row in in_order(rows):
            self.evidence.add(row)
        leader = Leader(hwm_aware, EPOCH, frozenset({2, 3}), 3, 10, log_end_offset=15)
        self.loop = ClosedLoop(leader, **({"max_wait_us": None} | others))

    def advance(self, until_ms: float) -> list[SimulatedFetch]:
        return self.loop.advance(self.evidence, micros(until_ms))


@pytest.mark.parametrize(
    ("correlation_id", "returns_at", "replica"),
    [
        (81, 15, Replica(15, EPOCH, 12)),
        (1, 14, Replica(14, 4, UNKNOWN_OFFSET)),
        (1, 20, Replica(15, 4, UNKNOWN_OFFSET)),
    ],
    ids=["frozen", "restarted", "restarted with more log than the loop gave it"],
)
def test_replica_returns(correlation_id: int, returns_at: int, replica: Replica) -> None:
    """A restart forgets the high watermark, and maybe log."""
    before = fetched(9, 0, 500, 15, correlation_id=80, high_watermark=12)
    after = {"correlation_id": correlation_id, "last_fetched_epoch": 4, "high_watermark": 12}
    loop = Loop(before, fetched(9, 3_000, 3_500, returns_at, **after), hwm_aware=True)
    loop.advance(2_999)
    assert loop.loop.replicas == {9: replica}


# --- lags ----------------------------------------------------------------------------------------


class Lags:
    """Who has FETCHed, and nothing else; by default replica 9 from the beginning on."""

    def __init__(self, *rows: RecordedFetch) -> None:
        self.evidence = Evidence(EPOCH)
        for row in rows or (fetched(9, 0, 1, 15), fetched(9, 900, 2_000, 15)):
            self.evidence.add(row)
        self.tracker = LagTracker()

    def advanced(self, *advance: int) -> None:
        self.tracker.advanced(Advance(*advance), self.evidence.replicas)


@pytest.mark.parametrize(
    ("carried", "learned_us"),
    [
        ([(101, 14), (102, 15), (103, 16)], 102),
        ([(at, 15) for at in range(101, 150)], 101),
        ([(100 + i, i) for i in range(1, 31)], 115),
        ([(100 + i, i) for i in range(1, 32)], 116),
        ([(99, 15)], 100),
    ],
    ids=["the first with enough", "repeated", "16 are kept", "no more than 16", "cut stamps"],
)
def test_advance_that_shows_late_joins_what_was_carried_before(
    carried: list[tuple[int, int]], learned_us: int
) -> None:
    lags = Lags()
    for built, high_watermark in carried:
        lags.tracker.learned(9, built, high_watermark)
    lags.advanced(100, 14, 15)
    assert [lag.learned_us for lag in lags.tracker.take()] == [learned_us]


def test_changes_are_what_has_more_than_the_no_op_that_is_due() -> None:
    """Milliseconds of advances, and their records: NoOpRecords come each 500 ms, +-30."""
    no_ops, offset, told = NoOps(), 0, []
    advances = [(0, 1), (120, 1), (500, 1), (800, 1), (1_010, 1), (1_500, 3), (2_000, 1)]
    for at, records in [*advances, (2_600, 1), (2_700, 2), (3_100, 1)]:
        advance = no_ops.told_apart(Advance(micros(at), offset, offset + records))
        told.append(advance.is_change)
        offset += records
    # Where none was seen 500 ms before, one record may be either.
    assert told == [None, None, False, True, False, True, False, None, True, False]


def test_lags_follow_one_another_without_the_time_away() -> None:
    lags = Lags(fetched(9, 0, 1, 15), fetched(9, 900, 901, 15), fetched(9, 9_000, 9_001, 15))
    lags.advanced(micros(100), 14, 15)
    lags.tracker.learned(9, micros(600), 15, aware=True)
    for at in (700, 800, 5_000):
        lags.advanced(micros(at), at, at + 1)
    lags.tracker.learned(9, micros(9_001), 5_001)
    taken = lags.tracker.take()
    times = {lag.advance.at: (lag.since_us, lag.learned_us, lag.hwm_aware) for lag in taken}
    assert times == {
        micros(100): (None, micros(600), True),
        micros(700): (micros(5_000), micros(9_001), False),
        micros(800): (micros(9_001), micros(9_001), False),
        micros(5_000): (micros(600), None, None),
    }


def test_what_is_never_learned_shows_at_the_end_but_not_for_a_replica_that_came_later() -> None:
    lags = Lags(fetched(9, 0, 1, 15), fetched(8, 5, 6, 15), fetched(7, 4, 7, 15))
    lags.advanced(micros(4), 14, 15)
    assert lags.tracker.take() == []
    lags.tracker.close()
    taken = lags.tracker.take()
    assert [(lag.replica_id, lag.learned_us, lag.away) for lag in taken] == [
        (9, None, False),
        (7, None, False),
    ]
    lags.tracker.close()
    assert lags.tracker.take() == []


# --- variants ------------------------------------------------------------------------------------


def test_swept_rows_have_their_parameter_and_wait_as_long() -> None:
    rows = replay_of(1, [1, 2, 3], variants([100])[2:], [SMALL.log()])
    swept = {(r["parameter"], r["parameter_value"]) for r in rows.variant(WITH_KIP).parking}
    assert swept == {("max_wait_ms", 100)}
    assert 100 <= max(r["parked_ms"] for r in rows.variant(WITHOUT_KIP).parking) <= 101


# --- whole replays -------------------------------------------------------------------------------

SMALL = Cluster(
    (Member(2, gaps_ms=(3, 5)), Member(3, 20, (4, 3)), Member(11, 40, (6, 2))),
    appends=every(430, 10_000, records=2),
)


def small_replay(cluster: Cluster = SMALL) -> Replayed:
    return replay_of(1, cluster.voters, variants(), [cluster.log()])


def of_log(rows: Sequence[RecordedFetch]) -> Replayed:
    return replay_of(1, [1, 2, 3], variants(), [in_order(rows)])


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


def test_absent_replicas_lag_is_not_applicable() -> None:
    members = (*SMALL.members[:2], Member(11, silences=(Silence(2_000, 3_000),)))
    lags = small_replay(replace(SMALL, members=members)).lag
    away = [r for r in lags if r["verdict"] == "not_applicable"]
    assert {(r["replica_id"], r["reason"]) for r in away} == {(11, AWAY)}
    start = SMALL.epoch_us
    assert all(start + micros(2_000) < r["leader_at"] < start + micros(5_000) for r in away)


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
        replay_of(leader, VOTERS, variants(), [[RecordedFetch(**row) for row in rows]])
        for rows in (recorded, map(blanked, recorded))
    )
    for variant in (WITHOUT_KIP, WITH_KIP):
        assert before.variant(variant).parking
        assert before.variant(variant).lag
        assert after.variant(variant) == before.variant(variant)


def blanked(row: dict[str, Any]) -> dict[str, Any]:
    completed_us = row["completed_us"] + 60_000_000
    return row | {"response_high_watermark": -7, "completed_us": completed_us}
