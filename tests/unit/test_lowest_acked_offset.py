"""lowest_acked_offset on constructed logs: what is written, who has applied it, who knows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from notation.heartbeats import (
    VOTERS,
    Replayed,
    Row,
    batch_of,
    beat,
    born_empty,
    create_topic,
    in_order,
    learned,
    raft_fetch,
    replay_of,
    us,
)

from kip_replay.replay.lowest_acked_offset import LowestAckedOffset, reasons
from kip_replay.replay.lowest_acked_offset.cadence import Recorded
from kip_replay.replay.lowest_acked_offset.controller import Heartbeat, HeartbeatManager
from kip_replay.replay.lowest_acked_offset.events import NOT_SENT, WRITE, Event
from kip_replay.replay.lowest_acked_offset.evidence import API_VERSIONS, APPLY_GRACE_US, Claims
from kip_replay.replay.lowest_acked_offset.lines import Lines
from kip_replay.replay.lowest_acked_offset.progress import ApplyDelay, Progress, apply_delays_us
from kip_replay.replay.lowest_acked_offset.reasons import (
    NO_HIGH_WATERMARK,
    NOT_ANSWERED,
    NOTHING_WRITTEN,
    SINGLE_VOTER,
)
from kip_replay.replay.lowest_acked_offset.writes import (
    CommittedOffsets,
    Forwarding,
    Offsets,
    is_write,
    least_records,
    remote_host,
)

# --- a small cluster -----------------------------------------------------------------------------

#: The write takes offsets 20 and 21: the voters are at 20 before, and at 22 when it is answered.
WRITE_OFFSET = 21


def voters_fetch(ms: float, offset: int) -> list[Event]:
    """Both followers of leader 2 have everything below an offset."""
    return [raft_fetch(voter, ms, ms + 1, offset) for voter in (1, 3)]


def steady(offset: int, start_ms: float, brokers: Sequence[int] = (11, 12)) -> list[Event]:
    """Brokers unfence and send a heartbeat 2 s later, 100 ms apart."""
    return [
        beat(broker, start_ms + 100 * place + round_ * 2002, offset)
        for place, broker in enumerate(brokers)
        for round_ in (0, 1)
    ]


def cluster(*more: Event) -> list[Event]:
    """Two brokers, steady at 19 from 3 s on, and one write at 5.0 s that commits at 5.04 s."""
    return in_order(
        [
            *born_empty(),
            *voters_fetch(10, 20),
            *steady(19, 1000),
            create_topic(5000, 5050),
            *voters_fetch(5040, 22),
            *more,
        ]
    )


#: Both brokers report the write with their next two heartbeats.
REPORTS = [
    beat(11, 5006, 21),
    beat(12, 5106, 21),
    beat(11, 7010, 21),
    beat(12, 7110, 21),
]


def replayed(events: Sequence[Event], **settings: object) -> Replayed:
    return replay_of([events], lambda: LowestAckedOffset(VOTERS, **settings))  # type: ignore[arg-type]


def only(rows: Sequence[Row]) -> Row:
    (row,) = rows
    return row


def write_row(events: Sequence[Event], **settings: object) -> Row:
    return only(replayed(events, **settings).writes_of("lowest_acked_offset"))


# --- a write -------------------------------------------------------------------------------------


def test_write_is_followed_from_request_to_known() -> None:
    row = write_row(cluster(*REPORTS))

    assert (row["offset_low"], row["offset_high"]) == (WRITE_OFFSET, WRITE_OFFSET)
    # The last to report it is 12, 5.106 s, worked off a millisecond later.
    assert row["applied_everywhere_at"] == us(5107)
    assert row["last_broker_id"] == 12
    # 12's own answer says so at once, 11 hears it with its next heartbeat.
    assert row["known_at"] == us(7012)
    assert row["known_everywhere_at"] == us(7012)
    assert row["stale_window_ms"] == 57
    assert row["read_after_write_ms"] == 2012
    assert (row["via_broker"], row["verdict"], row["reason"]) == (11, "replayed", None)


def test_broker_that_reports_last_knows_at_once() -> None:
    forwarded_by_12 = create_topic(
        5000, 5050, connection="10.0.0.2:9093-10.0.1.12:1-1", request_id="w"
    )
    events = [e for e in cluster(*REPORTS) if e.kind != WRITE]
    row = write_row(in_order([*events, forwarded_by_12]))
    assert (row["via_broker"], row["known_at"]) == (12, us(5108))


def test_write_sent_to_the_controller_waits_for_every_broker() -> None:
    events = [e._replace(is_forwarded=False) if e.kind == WRITE else e for e in cluster(*REPORTS)]
    row = write_row(events)
    assert row["via_broker"] is None
    assert row["known_at"] is None
    assert row["read_after_write_ms"] == 2012


def test_broker_with_fewer_offsets_holds_the_write_back() -> None:
    late = [beat(11, 5006, 21), beat(12, 5106, 20), beat(11, 7010, 21), beat(12, 7110, 21)]
    row = write_row(cluster(*late, beat(11, 9014, 21)))
    assert row["applied_everywhere_at"] == us(7111)
    assert row["known_at"] == us(9016)


def test_frozen_broker_holds_the_write_back_until_it_is_fenced() -> None:
    """12 was last heard at 3.103 s (in hand): fenced at the latest 10.125 s later."""
    alive = [beat(11, 5006 + 2004 * n, 21) for n in range(6)]
    row = write_row(cluster(*alive))
    assert row["applied_everywhere_at"] == us(3103) + 10_125_000
    assert row["last_broker_id"] == 12
    assert row["known_at"] == us(15028)


def test_who_is_fenced_need_not_be_told() -> None:
    """11 reports the write, then is silent: fenced at the latest at 5.007 + 10.125 s."""
    alive = [beat(12, 5106 + 2004 * n, 21) for n in range(8)]
    row = write_row(cluster(beat(11, 5006, 21), *alive))
    assert row["applied_everywhere_at"] == us(5107)
    assert row["known_everywhere_at"] == us(5007) + 10_125_000
    assert (row["known_at"], row["reason"]) == (None, reasons.LEFT)


def test_new_controller_begins_to_count_silence_when_it_takes_over() -> None:
    """12 is frozen, and the next that is heard of any controller is another one, 11 s later."""
    row = write_row(
        cluster(
            *(beat(11, ms, 21, node_id=3) for ms in (14_000, 16_004, 24_100, 24_200)),
        )
    )
    # First heard in office at 14.001 s.
    assert row["applied_everywhere_at"] == us(14_001) + 10_125_000


@pytest.mark.parametrize("others", [{"error_code": 41}, {"validate_only": True}, {"written": 0}])
def test_what_wrote_nothing_is_no_write(others: dict[str, object]) -> None:
    row = create_topic(5000, 5050)._replace(**others)
    assert not is_write(row)
    assert not replayed(in_order([*voters_fetch(10, 20), row])).writes


def test_write_without_an_answer_is_unknown() -> None:
    events = [e._replace(error_code=-2) if e.kind == WRITE else e for e in cluster(*REPORTS)]
    row = write_row(events)
    assert (row["verdict"], row["reason"]) == ("unknown", NOT_ANSWERED)


def test_write_that_changed_nothing_is_not_applicable() -> None:
    """A config set to the value it has: no record, and the high watermark stays."""
    events = [
        *born_empty(),
        *voters_fetch(10, 20),
        create_topic(5000, 5002, api_name="INCREMENTAL_ALTER_CONFIGS", partitions=0, configs=1),
    ]
    row = write_row(in_order(events))
    assert (row["verdict"], row["reason"]) == ("not_applicable", NOTHING_WRITTEN)
    assert row["offset_high"] is None


def test_log_that_ends_first_leaves_the_write_unknown() -> None:
    row = write_row(cluster(*REPORTS[:2]))
    assert row["applied_everywhere_at"] == us(5107)
    assert (row["known_at"], row["verdict"], row["reason"]) == (None, "unknown", reasons.LOG_ENDS)


def test_write_is_given_up_after_its_horizon() -> None:
    beats = [beat(b, 5006 + 2004 * n + b, 19) for n in range(40) for b in (11, 12)]
    row = write_row(cluster(*beats))
    assert (row["verdict"], row["reason"]) == ("unknown", reasons.HORIZON)


def test_what_happens_after_the_horizon_is_not_looked_at() -> None:
    """Whenever the rows are handed out: 65.1 s after the answer is too late."""
    late = [beat(b, 5006 + 2004 * n + b, 19 if n < 32 else 21) for n in range(40) for b in (11, 12)]
    row = write_row(cluster(*late))
    assert (row["applied_everywhere_at"], row["known_at"]) == (None, None)
    assert row["reason"] == reasons.HORIZON


def test_answer_to_a_former_life_of_a_broker_tells_the_new_one_nothing() -> None:
    manager = HeartbeatManager(certain_from_us=0)

    def sends(epoch: int, handled: int, built: int, *, is_fenced: bool) -> None:
        beat_ = Heartbeat(2, 11, epoch, us(handled), us(built), 20, is_fenced, False)
        manager.heartbeat(beat_)

    sends(5, 1000, 1500, is_fenced=False)
    sends(6, 1100, 1101, is_fenced=True)
    sends(6, 1600, 1700, is_fenced=False)
    # What was built at 1.5 s went to the process that had stopped by then.
    assert manager.told.by_node == {11: -1}
    manager.advance(us(1700))
    assert manager.told.by_node == {11: 20}


def test_forwarding_broker_that_left_is_never_told() -> None:
    events = cluster(
        beat(11, 5006, 19, want_shut_down=True, is_fenced=True),
        beat(12, 5106, 21),
        beat(12, 7110, 21),
    )
    row = write_row(events)
    assert row["applied_everywhere_at"] is not None
    assert (row["verdict"], row["reason"]) == ("not_applicable", reasons.LEFT)


def test_update_features_says_when_each_broker_can_renegotiate() -> None:
    """ "ApiVersions": a broker waits for the record's offset to be known everywhere."""
    events = [
        e._replace(api_name="UPDATE_FEATURES", partitions=0) if e.kind == WRITE else e
        for e in cluster(*REPORTS)
    ]
    known = {
        row["broker_id"]: row["known_at"]
        for row in replayed(events).visibility
        if row["evidence"] == "heartbeat"
    }
    assert known == {11: us(7012), 12: us(5108)}


# --- kinds of evidence ---------------------------------------------------------------------------


def sign(events: Sequence[Event], broker_id: int, evidence: str) -> Row:
    rows = replayed(events).visibility
    return only([r for r in rows if (r["broker_id"], r["evidence"]) == (broker_id, evidence)])


def test_heartbeat_bounds_from_the_answer_before_to_the_arrival() -> None:
    late = [beat(11, 5006, 21), beat(12, 5106, 20), beat(12, 7110, 21)]
    row = sign(cluster(*late), 12, "heartbeat")
    # What the one at 5.106 s lacked was read after the answer to the one before: at 3.104 s. The
    # write was committed later.
    assert row["applied_at_earliest"] == us(5040)
    assert row["applied_at_latest"] == us(7110)


def api_versions(broker_id: int, dequeued_ms: float, built_ms: float, offset: int) -> Event:
    return Event(
        us(built_ms),
        API_VERSIONS,
        f"api {dequeued_ms}",
        broker_id,
        dequeued_us=us(dequeued_ms),
        error_code=0,
        broker_id=broker_id,
        offset=offset,
    )


def test_api_versions_bounds_from_dequeue_to_answer() -> None:
    seen = [api_versions(12, 5070, 5071, 20), api_versions(12, 5080, 5082, 21)]
    row = sign(cluster(*REPORTS, *seen), 12, "api_versions")
    assert (row["applied_at_earliest"], row["applied_at_latest"]) == (us(5070), us(5082))


def test_api_versions_of_a_controller_is_no_image_offset() -> None:
    rows = replayed(cluster(*REPORTS, api_versions(1, 5080, 5082, 21))).visibility
    assert {row["evidence"] for row in rows} == {"heartbeat", "fetch_high_watermark"}


def test_fetch_bounds_from_the_answer_that_could_tell_to_the_grace() -> None:
    fetches = [
        raft_fetch(12, 4900, 5045, 20, high_watermark=20),
        raft_fetch(12, 5046, 5060, 22, high_watermark=20),
        raft_fetch(12, 5061, 5500, 22, high_watermark=22),
    ]
    row = sign(cluster(*REPORTS, beat(12, 9200, 21), *fetches), 12, "fetch_high_watermark")
    assert row["applied_at_earliest"] == us(5060)
    assert row["applied_at_latest"] == us(5061) + APPLY_GRACE_US


def test_fetch_without_the_field_says_what_the_one_before_was_told() -> None:
    """Dequeued at 5.046 s, after the high watermark moved: its answer told 22 at least."""
    fetches = [
        raft_fetch(12, 4900, 5045, 20),
        raft_fetch(12, 5046, 5060, 22),
        raft_fetch(12, 5061, 5500, 22),
    ]
    assert {f.high_watermark for f in fetches} == {NOT_SENT}
    row = sign(cluster(*REPORTS, beat(12, 9200, 21), *fetches), 12, "fetch_high_watermark")
    # It may have known after the answer that brought it the records.
    assert row["applied_at_earliest"] == us(5045)
    assert row["applied_at_latest"] == us(5061) + APPLY_GRACE_US


def test_fetch_is_not_believed_against_a_heartbeat() -> None:
    known = raft_fetch(12, 5061, 5500, 22, high_watermark=22)
    slow = [beat(11, 5006, 21), beat(12, 5106, 19), beat(12, 7110, 19), beat(12, 9114, 21)]
    row = sign(cluster(*slow, known), 12, "fetch_high_watermark")
    assert (row["verdict"], row["reason"]) == ("unknown", reasons.DENIED)
    assert row["applied_at_latest"] is None


def claims_of(claims: Claims, at_ms: float, offset: int) -> list[tuple[int, int]]:
    return [(c.at_us, c.offset) for c in claims.heartbeat(us(at_ms), offset)]


def test_claim_of_a_fetch_is_cut_to_what_the_next_heartbeat_has() -> None:
    claims = Claims(12)
    claims.fetch(us(100), 30)
    assert claims_of(claims, 2000, 25) == [(us(600), 25), (us(2000), 25)]


def test_slow_broker_is_not_believed_until_it_has_caught_up() -> None:
    claims = Claims(12)
    claims.fetch(us(100), 30)
    claims_of(claims, 2000, 25)
    claims.fetch(us(2100), 31)
    assert claims_of(claims, 4000, 31) == [(us(4000), 31)]
    claims.fetch(us(4100), 40)
    assert claims_of(claims, 6000, 40) == [(us(4600), 40), (us(6000), 40)]


def test_claim_within_its_grace_waits_for_the_heartbeat_after() -> None:
    claims = Claims(12)
    claims.fetch(us(1900), 30)
    assert claims_of(claims, 2000, 25) == [(us(2000), 25)]
    assert claims_of(claims, 4000, 30) == [(us(2400), 30), (us(4000), 30)]


def test_finest_evidence_knows_sooner_than_heartbeats() -> None:
    fetches = [
        raft_fetch(broker, ms, ms + 14, 22, high_watermark=high_watermark)
        for broker in (11, 12)
        for ms, high_watermark in ((5046, 20), (5061, 22))
    ]
    late = [beat(11, 5030, 19), beat(12, 5035, 19), beat(11, 7034, 21), beat(12, 7139, 21)]
    rows = replayed(cluster(*late, beat(11, 9040, 21), beat(12, 9140, 21), *fetches))
    finest = only(rows.writes_of("finest_evidence"))
    assert finest["applied_everywhere_at"] == us(5061) + APPLY_GRACE_US
    assert finest["known_at"] == us(7036)
    assert only(rows.writes_of("lowest_acked_offset"))["known_at"] == us(9042)


# --- heartbeats ----------------------------------------------------------------------------------


def test_every_heartbeat_is_a_row_with_eight_bytes_more() -> None:
    rows = replayed(cluster(*REPORTS)).heartbeats
    assert len(rows) == 8
    assert {(r["response_bytes"], r["replayed_response_bytes"]) for r in rows} == {(19, 27)}
    last = rows[-1]
    assert (last["lowest_acknowledged_offset"], last["unfenced_brokers"]) == (21, 2)


def test_heartbeat_to_an_inactive_controller_carries_nothing() -> None:
    refused = beat(11, 6000, 30, error_code=41, node_id=3, is_fenced=True)
    rows = replayed(cluster(*REPORTS, refused)).heartbeats
    row = only([r for r in rows if r["controller_id"] == 3])
    assert (row["verdict"], row["reason"]) == ("not_applicable", reasons.NOT_ACTIVE)
    assert row["lowest_acknowledged_offset"] is None
    # Its offset 30 changed nothing.
    assert rows[-1]["lowest_acknowledged_offset"] == 21


def test_heartbeat_without_an_answer_is_unknown() -> None:
    rows = replayed(cluster(beat(11, 6000, 30, error_code=-2, response_bytes=None))).heartbeats
    row = only([r for r in rows if r["verdict"] == "unknown"])
    assert (row["reason"], row["replayed_response_bytes"]) == (NOT_ANSWERED, None)


def test_nothing_is_told_while_a_broker_may_not_have_been_heard() -> None:
    """A log from the middle: a silent broker may be unfenced until its session is over."""
    events = in_order(
        [*voters_fetch(10, 20), *(beat(11, 1000 + 2002 * n, 19 + n) for n in range(8))]
    )
    rows = replayed(events).heartbeats
    # First heartbeat in hand at 1.001 s: certain from 11.126 s on.
    assert [r["verdict"] for r in rows] == ["unknown"] * 6 + ["replayed"] * 2
    assert {r["reason"] for r in rows[:6]} == {reasons.NOT_HEARD_YET}


def test_log_that_begins_empty_is_certain_at_once() -> None:
    events = in_order([*born_empty(), *voters_fetch(10, 20), beat(11, 1000, 19)])
    assert only(replayed(events).heartbeats)["verdict"] == "replayed"


def test_answers_are_worked_off_in_the_order_of_hand_off() -> None:
    """12 is handed over first and answered last: 11's answer has 12's offset already."""
    events = cluster(
        beat(12, 5010, 21, built_ms=5300, handled_us=us(5011)),
        beat(11, 5100, 21, handled_us=us(5101)),
    )
    last = replayed(events).heartbeats[-1]
    assert (last["broker_id"], last["lowest_acknowledged_offset"]) == (11, 21)


# --- which offsets a write has -------------------------------------------------------------------


def committed(*events: Event, voters: Sequence[int] = VOTERS) -> CommittedOffsets:
    log = CommittedOffsets(frozenset(voters))
    log.take(Lines.of(sorted(events, key=lambda e: e.dequeued_us)))
    return log


BEFORE = [*born_empty(), *voters_fetch(10, 20)]


def test_offsets_are_between_the_log_end_before_and_the_high_watermark_after() -> None:
    log = committed(*BEFORE, raft_fetch(1, 5040, 5041, 24))
    # At least two records at or behind 20; the high watermark is 24: 21, 22 or 23 is the last.
    assert log.offsets(create_topic(5000, 5050)) == Offsets(21, 23, us(5040))


def test_any_replica_s_fetch_offset_shows_how_long_the_log_was() -> None:
    """11 has fetched up to 22 already, uncommitted: the write begins there at the soonest."""
    log = committed(*BEFORE, raft_fetch(11, 4990, 4991, 22), raft_fetch(1, 5040, 5041, 24))
    assert log.offsets(create_topic(5000, 5050)) == Offsets(23, 23, us(5040))


def test_diverging_fetch_says_nothing_of_the_log() -> None:
    log = committed(
        *BEFORE,
        raft_fetch(11, 4990, 4991, 90, is_diverging=True),
        raft_fetch(1, 4991, 4992, 90, is_diverging=True),
        raft_fetch(1, 5040, 5041, 22),
    )
    assert log.offsets(create_topic(5000, 5050)) == Offsets(21, 21, us(5040))


def test_record_of_an_earlier_epoch_does_not_commit() -> None:
    """LeaderState: the high watermark must pass the epoch's first record."""
    log = committed(*BEFORE, raft_fetch(1, 40, 41, 30, leader_epoch=2, last_fetched_epoch=1))
    assert list(log.high_watermark.values) == [20]


@pytest.mark.parametrize(
    ("voters", "offsets", "high_watermark"),
    [((1, 2, 3), {1: 15, 3: 10}, 15), ((1, 2, 3, 4, 5), {1: 15, 3: 20, 4: 12, 5: 9}, 15)],
)
def test_update_high_watermark(
    voters: tuple[int, ...], offsets: dict[int, int], high_watermark: int
) -> None:
    """LeaderStateTest.testUpdateHighWatermarkQuorumSizeThree, and five."""
    log = committed(*(raft_fetch(v, 10, 11, o) for v, o in offsets.items()), voters=voters)
    assert log.high_watermark.values[-1] == high_watermark


def test_single_voter_shows_no_high_watermark() -> None:
    log = committed(raft_fetch(11, 10, 11, 20), voters=(2,))
    assert log.offsets(create_topic(5000, 5050)) == SINGLE_VOTER


def test_high_watermark_is_not_known_until_every_voter_would_have_fetched() -> None:
    log = committed(*voters_fetch(4500, 20))
    assert log.offsets(create_topic(5000, 5050)) == NO_HIGH_WATERMARK
    assert isinstance(log.offsets(create_topic(5600, 5650, written=0)), Offsets | str)
    log.take(Lines.of([raft_fetch(1, 5640, 5641, 22)]))
    assert log.offsets(create_topic(5600, 5650)) == Offsets(21, 21, us(5640))


@pytest.mark.parametrize(
    ("api_name", "others", "least"),
    [
        ("CREATE_TOPICS", {"written": 2, "partitions": 7, "configs": 1}, 10),
        ("CREATE_TOPICS", {"written": 2, "partitions": 0, "configs": 0}, 4),
        ("DELETE_TOPICS", {"written": 3}, 3),
        ("CREATE_PARTITIONS", {"written": 1, "partitions": 12}, 1),
        ("INCREMENTAL_ALTER_CONFIGS", {"written": 2, "configs": 5}, 1),
    ],
)
def test_least_records(api_name: str, others: dict[str, int], least: int) -> None:
    row = create_topic(0, 1, api_name=api_name, **({"partitions": 0} | others))
    assert least_records(row) == least


# --- who forwarded it ----------------------------------------------------------------------------


def broker_line(broker_id: int, received_ms: float, built_ms: float) -> Event:
    return create_topic(
        received_ms,
        built_ms,
        node_id=broker_id,
        is_forwarded=False,
        request_id=f"line {broker_id} {received_ms}",
        connection=f"10.0.9.9:9092-10.0.7.7:{broker_id}-1",
    )


def forwarding(*lines: Event) -> Forwarding:
    known = Forwarding()
    beats = [beat(broker, 0, 1) for broker in (11, 12)]
    known.take(batch_of([*beats, *lines]), VOTERS)
    return known


def test_forwarded_write_is_joined_by_host_and_time() -> None:
    """The same client and correlation id at two brokers, and at 11 twice."""
    known = forwarding(
        broker_line(12, 4990, 5060), broker_line(11, 4000, 4100), broker_line(11, 4995, 5061)
    )
    assert known.via(create_topic(5000, 5050)) == (11, us(4995))


def test_of_two_requests_around_the_shorter_is_taken() -> None:
    known = forwarding(broker_line(11, 4000, 9000), broker_line(11, 4995, 5061))
    assert known.via(create_topic(5000, 5050)) == (11, us(4995))


def test_retry_after_a_refusal_is_inside_the_same_line() -> None:
    """The first attempt was answered 41 by another controller; it is no write."""
    known = forwarding(broker_line(11, 1000, 5061))
    assert known.via(create_topic(5000, 5050)) == (11, us(1000))
    assert not is_write(create_topic(1001, 1002, error_code=41))


def test_broker_without_a_log_is_known_by_its_host() -> None:
    assert forwarding().via(create_topic(5000, 5050)) == (11, us(5000))


def test_host_of_nobody_and_of_two_tells_nothing() -> None:
    unknown = create_topic(5000, 5050, connection="10.0.0.2:9093-10.0.5.5:1-1")
    assert forwarding(broker_line(11, 4995, 5061)).via(unknown) == (None, us(5000))
    shared = forwarding()
    shared.take(batch_of([beat(12, 0, 1, connection="10.0.0.2:9093-10.0.1.11:2-1")]), VOTERS)
    assert shared.via(create_topic(5000, 5050)) == (None, us(5000))


@pytest.mark.parametrize(
    ("connection", "host"),
    [
        ("10.0.0.2:9093-10.0.1.11:50000-1", "10.0.1.11"),
        ("10.0.0.2:9093-10.0.1.11:50000-1-2", "10.0.1.11"),
        ("0:0:0:0:0:0:0:1:9093-fe80:0:0:0:0:0:0:1%eth-0:50000-1-2", "fe80:0:0:0:0:0:0:1%eth-0"),
        ("nonsense", None),
        (None, None),
    ],
)
def test_remote_host(connection: str | None, host: str | None) -> None:
    assert remote_host(connection) == host


# --- simulated heartbeats ------------------------------------------------------------------------

LONG = [
    *(beat(b, 5106 + 2004 * n + 100 * (b == 12), 21) for n in range(6) for b in (11, 12)),
    *(learned(b, 5055 + b, 22) for b in (11, 12)),
    *(learned(b, 20, 20) for b in (11, 12)),
]


def test_simulation_at_the_recorded_interval_is_what_was_recorded() -> None:
    rows = replayed(cluster(*LONG), intervals_ms=(2000,), recorded_interval_ms=2000)
    recorded = only(rows.writes_of("lowest_acked_offset"))
    simulated = only(rows.writes_of("lowest_acked_offset", 2000))
    assert simulated["known_at"] == recorded["known_at"]
    # What brokers learned is there before they report it.
    assert simulated["applied_everywhere_at"] == us(5067)
    assert recorded["applied_everywhere_at"] == us(5207)


def test_shorter_interval_is_known_sooner() -> None:
    rows = replayed(cluster(*LONG), intervals_ms=(100, 500, 1000), recorded_interval_ms=2000)
    waits = [
        only(rows.writes_of("lowest_acked_offset", ms))["read_after_write_ms"]
        for ms in (100, 500, 1000)
    ]
    assert waits == sorted(waits)
    # Reported, then heard of: within two intervals and what each is later than its interval.
    assert waits[0] < 67 + 2 * 104
    assert waits[-1] > 500


def test_learning_later_is_known_later() -> None:
    later = [
        learned(b, at, hw, "without_kip_1166")
        for b in (11, 12)
        for at, hw in ((20, 20), (5500, 22))
    ]
    rows = replayed(cluster(*LONG, *later), intervals_ms=(100,), recorded_interval_ms=2000)
    without = only(rows.writes_of("without_kip_1166", 100))
    assert without["applied_everywhere_at"] == us(5500)
    assert without["known_at"] > only(rows.writes_of("lowest_acked_offset", 100))["known_at"]


def test_simulation_without_learned_times_is_unknown() -> None:
    row = only(replayed(cluster(*LONG), intervals_ms=(100,)).writes_of("with_kip_1166", 100))
    assert (row["verdict"], row["reason"]) == ("unknown", reasons.NOT_LEARNED)


def test_simulated_broker_sends_nothing_while_it_is_away() -> None:
    """12 is silent from 3.1 s on: at any interval it holds the write back until it is fenced."""
    alive = [beat(11, 5006 + 2004 * n, 21) for n in range(10)]
    known = [
        learned(b, at, hw)
        for b in (11, 12)
        for at, hw in ((20, 20), (5055, 22))
        if (b, hw) != (12, 22)
    ]
    rows = replayed(cluster(*alive, *known), intervals_ms=(100,), recorded_interval_ms=2000)
    row = only(rows.writes_of("lowest_acked_offset", 100))
    assert row["last_broker_id"] == 12
    assert us(3103) + 10_125_000 <= row["applied_everywhere_at"] <= us(3103) + 13_200_000


def test_interval_is_measured_where_the_manifest_is_silent() -> None:
    recorded = Recorded()
    beats = [beat(11, at, n) for n, at in enumerate((0, 2006, 4013, 6018))]
    recorded.take(Lines.of(beats), Lines.of(()), frozenset(VOTERS))
    assert recorded.settle_interval() == 2_000_000


@pytest.mark.parametrize(
    ("seen", "delay"),
    [
        ([(30, True), (50, True)], 0),
        ([(10, False), (30, True)], 10),
        ([(10, False), (20, True), (30, False), (40, True), (50, True)], 10),
        ([(10, False), (20, False)], 20),
    ],
)
def test_apply_delay_parts_what_was_applied_from_what_was_not(
    seen: list[tuple[int, bool]], delay: int
) -> None:
    ages, applied = [age for age, _ in seen], [applied for _, applied in seen]
    assert apply_delays_us(np.array([ages]), np.array([applied])) == [delay]


def test_one_late_heartbeat_is_no_measure_of_the_delay() -> None:
    delay = ApplyDelay()
    delay.add(us(69), applied=False)
    assert delay.us == 0
    for age in (12, 13, 14, 15, 16):
        delay.add(us(age), applied=False)
    assert delay.us == us(69)


def applied(progress: Progress, at: int) -> int:
    (offset,) = progress.applied("recorded", np.array([at]))
    return int(offset)


def test_slow_broker_catches_up_half_way_to_the_heartbeat_that_shows_it() -> None:
    progress, delay = Progress(), ApplyDelay()
    progress.learn("recorded", us(1000), us(1000), 31)
    assert progress.heartbeat(us(3000), 20, delay) == []
    assert applied(progress, us(4900)) == 20
    assert progress.heartbeat(us(5000), 30, delay) == [us(4000)]
    assert applied(progress, us(3999)) == 20
    assert applied(progress, us(4000)) == 30
    assert delay.seen == []


# --- pieces of log, order, and what is not read --------------------------------------------------


def test_events_out_of_order_are_refused() -> None:
    replay = LowestAckedOffset(VOTERS)
    with pytest.raises(ValueError, match="order of at_us, kind, request_id"):
        replay.feed(batch_of(list(reversed(cluster(*REPORTS)))))


def test_rows_are_handed_out_once_nothing_can_change_them() -> None:
    replay = LowestAckedOffset(VOTERS, step_rows=20)
    beats = [beat(b, 5006 + 2004 * n + b, 21) for n in range(70) for b in (11, 12)]
    handed_out = replay.feed(batch_of(cluster(*beats)))
    assert handed_out.writes.num_rows == 2
    assert handed_out.heartbeats.num_rows > 50
    assert replay.finish().writes.num_rows == 0


def test_sizes_of_responses_change_no_offset_and_no_time() -> None:
    """Nothing else that a response tells and the rule explains is in the input at all."""
    events = cluster(*LONG)
    blank = [e._replace(response_bytes=None) for e in events]
    settings = {"intervals_ms": (500,), "recorded_interval_ms": 2000}
    told, untold = replayed(events, **settings), replayed(blank, **settings)
    assert told.writes == untold.writes
    assert told.visibility == untold.visibility
    sizes = {"response_bytes": None, "replayed_response_bytes": None}
    assert [row | sizes for row in told.heartbeats] == untold.heartbeats


# --- saved ---------------------------------------------------------------------------------------


def saved_version(version: int) -> bytes:
    return msgspec.msgpack.encode([version, []])


@pytest.mark.parametrize(
    ("saved", "what"),
    [
        (saved_version(99), "has version 99, and this code reads version 1"),
        (b"anything", "is no saved state"),
        (LowestAckedOffset(VOTERS, (500,)).saved(), "was saved with"),
    ],
)
def test_saved_state_of_another_kind_is_refused(saved: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        LowestAckedOffset(VOTERS, saved=saved)


def test_saved_state_does_not_grow_with_the_log() -> None:
    def size(rounds: int) -> int:
        replay = LowestAckedOffset(VOTERS, (500,), 2000, step_rows=100)
        beats = [beat(b, 5006 + 2004 * n + b, 21) for n in range(rounds) for b in (11, 12)]
        replay.feed(batch_of(cluster(*beats)))
        return len(replay.saved())

    # Three minutes are looked at, 300 s fill that.
    assert size(600) < 1.2 * size(150)
