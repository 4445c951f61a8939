"""lowest_acked_offset where logs have gaps, or begin in the middle."""

import pytest
from notation.heartbeats import (
    BEFORE,
    CONTROLLER,
    Replayed,
    api_versions,
    beats,
    cluster,
    create_topic,
    in_order,
    raft_fetch,
    replayed,
    through_its_broker,
    us,
    voters_fetch,
)

from kip_replay.replay.log_gaps import LOG_GAP, Gaps, LogGap
from kip_replay.replay.lowest_acked_offset.events import (
    ESTIMATED,
    FETCH,
    HEARTBEAT,
    LOWEST_ACKED,
    ClusterEvent,
    Undecided,
)

STANDBY = 3


def gap(node_id: int, since_ms: float, until_ms: float) -> LogGap:
    return LogGap(node_id, us(since_ms), us(until_ms))


def without(events: list[ClusterEvent], *gaps: LogGap) -> list[ClusterEvent]:
    return [
        event
        for event in events
        if not any(
            g.node_id == event.node_id and g.after_us < event.at_us < g.before_us for g in gaps
        )
    ]


def lacking(events: list[ClusterEvent], *gaps: LogGap) -> Replayed:
    return replayed(without(events, *gaps), gaps=Gaps(gaps))


#: Heartbeats and FETCHes go on for 40 s; a topic is created at 5 s (offset 21) and at 30 s (40).
LATER = create_topic(30_000, 30_050, correlation_id=8)
LONG = cluster(
    *voters_fetch(5, 0),
    *beats(11, 5_010, 18),
    *beats(12, 5_510, 18),
    *(
        raft_fetch(replica, ms, ms + 1, end, response_high_watermark=end)
        for replica in (1, 3, 11, 12)
        for ms in range(6_000, 40_000, 490)
        for end in (22 if ms < 30_000 else 41,)
    ),
)
LONG = in_order(
    [
        event._replace(offset=40) if event.kind == HEARTBEAT and event.at_us > us(30_060) else event
        for event in [
            *LONG,
            *through_its_broker(LATER),
            *voters_fetch(30_040, 41, response_high_watermark=41),
        ]
    ]
)


def test_write_that_is_followed_into_a_gap_is_unknown_and_others_are_not() -> None:
    missing = gap(CONTROLLER, 5_060, 7_000)
    first, second = lacking(LONG, missing).writes_of(LOWEST_ACKED)
    assert (first["reason"], first["applied_everywhere_at"]) == (LOG_GAP, None)
    assert second == replayed(LONG).writes_of(LOWEST_ACKED)[1]


@pytest.mark.parametrize(
    "missing", [gap(CONTROLLER, 10_000, 25_000), gap(CONTROLLER, 10_000, 12_500)]
)
def test_brokers_whose_heartbeats_are_missing_are_not_fenced(missing: LogGap) -> None:
    """Nothing is certain before two heartbeats of each."""
    rows = lacking(LONG, missing).heartbeats
    behind = [row for row in rows if row["built_at"] > missing.before_us]
    assert [row["reason"] for row in behind[:4]] == [LOG_GAP] * 4
    assert {row["unfenced_brokers"] for row in behind[4:]} == {2}
    of_whole = {row["request_id"]: row for row in replayed(LONG).heartbeats}
    assert all(row == of_whole[row["request_id"]] for row in behind[4:])


def test_broker_that_is_not_heard_behind_a_gap_may_be_unfenced() -> None:
    """Until its session is over, 10.125 s behind the missing."""
    missing = gap(CONTROLLER, 10_000, 12_000)
    gone = [
        e for e in LONG if e.kind != HEARTBEAT or e.broker_id != 12 or e.at_us < missing.after_us
    ]
    rows = lacking(gone, missing).heartbeats
    certain = [row for row in rows if row["built_at"] > missing.before_us and row["reason"] is None]
    assert certain[0]["built_at"] > missing.before_us + us(10_125)
    assert certain[0]["unfenced_brokers"] == 1


@pytest.mark.parametrize(
    "missing", [gap(STANDBY, 7_000, 20_000), gap(STANDBY, -9e9, 900), gap(1, 7_000, 39_000)]
)
def test_gap_in_the_log_of_who_was_not_active_touches_nothing(missing: LogGap) -> None:
    assert replayed(LONG, gaps=Gaps([missing])) == replayed(LONG)


def test_controller_without_a_log_may_have_been_active_before() -> None:
    """Nobody begins with an empty log at 2, so another one led."""
    running = [event for event in LONG if event.at_us > us(9)]
    rows = replayed(in_order([*BEFORE[:2], *running]), gaps=Gaps([gap(STANDBY, -9e9, 9e9)]))
    assert rows.heartbeats[0]["reason"] == LOG_GAP
    assert replayed(in_order([*BEFORE[:2], *running])).heartbeats[0]["reason"] is None


def test_controller_that_falls_silent_may_have_been_followed_by_one_without_a_log() -> None:
    silent = [event for event in LONG if event.at_us < us(5_500)] + [
        api_versions(11, 9_000, 9_001, 9)
    ]
    (write,) = replayed(silent, gaps=Gaps([gap(STANDBY, -9e9, 9e9)])).writes_of(LOWEST_ACKED)
    assert write["reason"] == LOG_GAP
    (write,) = replayed(silent).writes_of(LOWEST_ACKED)
    assert write["reason"] != LOG_GAP


def test_fetches_count_in_the_order_of_their_ids_where_stamps_have_another() -> None:
    """Stamps are off by up to 1 ms; a replica sends one at a time."""
    sent = [row for row in LONG if row.kind == FETCH and row.broker_id == 11]
    rest = [row for row in LONG if row not in sent]
    sent = [
        row._replace(correlation_id=n, high_watermark=20 + (n > 30)) for n, row in enumerate(sent)
    ]
    before, row = sent[30:32]

    def of(**times: int) -> Replayed:
        return replayed(in_order([*rest, *sent[:31], row._replace(**times), *sent[32:]]))

    dequeued = before.dequeued_us
    assert of(dequeued_us=dequeued - 19) == of(dequeued_us=dequeued + 1)
    built_before = of(dequeued_us=dequeued + 500, at_us=before.at_us - 19)
    assert LOG_GAP not in {row["reason"] for row in built_before.heartbeats}


def test_forwarded_write_whose_brokers_line_is_missing_has_no_arrival() -> None:
    """Whether a gap is known there or not; when it was applied stays known."""
    for missing, reason in (
        (gap(11, 4_900, 5_200), Undecided.NO_ARRIVAL),
        (gap(12, 4_900, 5_200), None),
    ):
        first, second = replayed(without(LONG, missing)).writes_of(LOWEST_ACKED)
        assert first["reason"] == reason
        assert (first["read_after_write_ms"] is None) is (reason is not None)
        assert (first["via_broker"], first["stale_window_ms"]) == (11, 461)
        assert second["reason"] is None


def test_image_of_a_broker_may_have_shown_in_a_gap_of_its_log() -> None:
    log = in_order([*LONG, api_versions(11, 8_000, 8_001, 22)])
    for missing, reason in ((gap(11, 6_000, 7_000), LOG_GAP), (gap(11, 9_000, 9_100), None)):
        (row,) = [
            r
            for r in replayed(log, gaps=Gaps([missing])).visibility
            if r["evidence"] == "api_versions"
        ][:1]
        assert row["reason"] == reason


def test_when_a_topic_that_was_created_in_a_gap_was_deleted_is_no_estimate() -> None:
    """How many replicas it had is not known; that it is gone is shown before they are deleted."""
    missing = gap(CONTROLLER, 10_000, 12_000)
    delete = LATER._replace(
        api_name="DELETE_TOPICS", topics=("lost",), sizes=(0,), is_forwarded=False
    )
    log = [delete if event is LATER else event for event in LONG]
    for gaps, reason in (((), None), ((missing,), Undecided.UNKNOWN_WORK)):
        found = lacking(log, *gaps)
        assert found.writes_of(ESTIMATED)[-1] == replayed(log).writes_of(ESTIMATED)[-1]
        rows = [row for row in found.visibility if row["request_id"] == delete.request_id]
        of_brokers = [row for row in rows if row["evidence"] == ESTIMATED]
        assert [row["reason"] for row in of_brokers] == [reason] * 2
        assert [row["applied_at"] is None for row in of_brokers] == [reason is not None] * 2


def test_replica_that_restarts_contradicts_nothing() -> None:
    """Its first FETCH has no high watermark yet, and correlation ids begin anew."""
    seen = 0
    restarted = []
    for event in LONG:
        if (event.kind, event.broker_id) == (FETCH, 12):
            seen += 1
            number = {"correlation_id": seen if seen < 30 else seen - 30}
            event = event._replace(high_watermark=-1 if seen == 30 else event.offset, **number)
        restarted.append(event)
    assert seen > 40
    rows = replayed(restarted).heartbeats
    assert [row["reason"] for row in rows] == [row["reason"] for row in replayed(LONG).heartbeats]
