"""closest_replica by hand: who is read from, since when it could give the records, what is unknown.

All histories are synthetic (notation: ``Reads.then``): several replicas in a rack, read_committed,
ISR changes and renewals are in no recording.
"""

from typing import Any

import pytest
from notation.reads import Reads, at

from kip_replay.replay.closest_replica.events import LineKind
from kip_replay.replay.closest_replica.partition import Zones
from kip_replay.replay.closest_replica.replay import (
    CLOSEST_HWM_AWARE,
    LEADER,
    ClosestReplica,
    UnknownReason,
    variants,
)
from kip_replay.replay.log_gaps import LOG_GAP, Gaps, LogGap
from kip_replay.replay.model.partition import is_same_rack
from kip_replay.replay.rule import CLOCKS_DIFFER

#: Record 4 is on all replicas at 20 ms, and the responses of 70 and 80 ms say so.
COMMITTED = (
    "12:4@0 13:4@0 14:4@0 12<4@1 13<4@1 14<4@1 12:5@10 14:5@15 13:5@20 12<5@70 14<5@75 13<5@80"
)


def committed() -> Reads:
    return Reads().then(COMMITTED)


def read(zone: str = "c", **more: Any) -> Reads:
    """A FETCH that came at 5 ms, and that the leader responds to at 21 ms."""
    return committed().read(zone, 4, 5, 21, **more)


def test_a_follower_gives_a_record_once_a_response_has_told_it() -> None:
    row = read().row()
    assert (row["replica_id"], row["replica_zone"], row["is_cross_zone"]) == (13, "c", False)
    assert row["is_redirected"]
    # The leader at 20 ms; the follower is 1 ms from the response of 80 ms.
    assert (row["given_at_earliest"], row["given_at"], row["added_ms"]) == (80, 81, 61)


def test_of_several_in_a_zone_the_most_caught_up_is_read_from() -> None:
    """Both have all of it; 14 has fetched last."""
    assert read("b").row()["replica_id"] == 14
    ahead = committed().then("12:7@40 13:7@40 14:6@45").read("b", 5, 50, 60)
    assert ahead.row()["replica_id"] == 12


@pytest.mark.parametrize(
    ("zone", "more", "crosses", "share"),
    [
        ("a", {}, False, None),
        ("d", {}, True, None),
        (None, {}, None, 1 / 3),
        ("c", {"api_version": 10}, True, None),
    ],
    ids=["the leader's zone", "no replica there", "no rack id", "before FETCH v11"],
)
def test_others_read_from_the_leader(
    zone: Any, more: Any, crosses: bool | None, share: float | None
) -> None:
    """Of who is anywhere two in three cross to a leader, and none where each zone has a replica."""
    reads = read(zone, **more)
    row = reads.row()
    assert (row["replica_id"], row["is_cross_zone"], row["added_ms"]) == (11, crosses, 0)
    assert row["even_share"] == (None if share is None else 0)
    leader = reads.row(LEADER)["even_share"]
    assert leader is None if share is None else leader == pytest.approx(1 - share)


@pytest.mark.parametrize(
    ("client", "zone"),
    [({}, "b"), ({"client_id": "d", "client_host": "10.0.1.9"}, "c"), ({"client_id": "e"}, None)],
)
def test_the_manifest_says_where_clients_are(client: Any, zone: str | None) -> None:
    stated = {"c": "b", "10.0.0.0/16": "a", "10.0.1.0/24": "c"}
    row = read(None, **client).row(stated=stated)
    assert (row["client_zone"], row["has_rack_id"]) == (zone, False)
    assert Zones({}, stated).zone("z", "c", None) == "z"


def test_a_follower_that_the_high_watermark_passed_is_not_in_sync() -> None:
    """It is not named. Whoever reads from it already goes on for five minutes."""
    history = committed().then("12:6@90 14:6@90 12<6@100 14<6@100 13:6@400 13<6@410")
    assert history.read("c", 4, 110, 111).row()["replica_id"] == 11
    kept = read().then("12:6@90 14:6@90 12<6@100 14<6@100 13:6@400 13<6@410").read("c", 5, 92, 101)
    row = kept.row(number=2)
    assert (row["replica_id"], row["is_redirected"], row["given_at"]) == (13, False, 411)
    renewed = kept.then("12:7@300400 14:7@300400 12<7@300450").read("c", 6, 300_510, 300_601)
    assert renewed.row(number=3)["replica_id"] == 11


def test_from_a_follower_that_has_stopped_consumers_come_back() -> None:
    gone = read().then("12:6@20000 14:6@20000 12<6@20100").read("c", 5, 20_101, 20_102)
    assert gone.row(number=2)["replica_id"] == 11


def test_an_isr_without_it_counts_where_no_fetch_came_since() -> None:
    assert committed().then("isr=11,12,14@100").read("c", 4, 110, 111).row()["replica_id"] == 11
    back = committed().then("isr=11,12,14@100 13:5@105").read("c", 4, 110, 111)
    assert back.row()["replica_id"] == 13


def test_an_isr_tells_who_has_an_idle_partition() -> None:
    row = Reads().then("isr=11,13@0").read("c", 4, 10, 10).row()
    assert (row["replica_id"], row["verdict"]) == (13, "unknown")
    assert row["reason"] == UnknownReason.HIGH_WATERMARK


def test_a_follower_gives_no_record_that_it_does_not_have() -> None:
    late = Reads().then("12:4@0 13:4@0 12<4@1 13<4@1 12:5@10 13<5@30 13:5@200").read("c", 4, 5, 11)
    assert late.row()["given_at"] == 199


def test_who_reads_committed_records_waits_for_the_end_of_the_transaction() -> None:
    """Record 4 is below the high watermark at 20 ms, its marker 5 at 50 ms; the FETCH came before
    either, or between them."""
    for came in (5, 30):
        history = committed().then("12:6@45 14:6@46 13:6@50 13<6@95")
        reads = history.read("c", 4, came, 51, last_stable_offset=6, isolation_level=1)
        assert (reads.row(LEADER)["given_at"], reads.row()["given_at"]) == (50, 96)


def test_what_was_there_already_comes_no_later() -> None:
    """The FETCH came when also the follower had it: a reader that catches up."""
    row = committed().read("c", 4, 90, 90).row()
    assert (row["is_awaited"], row["given_at"], row["added_ms"]) == (False, 90, 0)
    assert committed().read("c", 4, 60, 60).row()["added_ms"] == 21


def test_leaders_that_respond_when_it_moves_save_the_wait() -> None:
    assert read().row(CLOSEST_HWM_AWARE)["given_at"] == 21


@pytest.mark.parametrize(("wait", "given"), [(50, 47), (80, 71), (500, 81), (9000, 81)])
def test_a_shorter_wait_tells_followers_sooner(wait: int, given: float) -> None:
    """The FETCH came at -420 ms. Of those that wait 50 ms and take 2 ms more one ends at 46 ms."""
    assert read().row(value=wait, fetch_wait_ms=[wait])["given_at"] == given


def test_a_read_of_a_follower_predicts_one_of_the_leader() -> None:
    """The other way round: recorded at 82 ms from 13."""
    reads = committed().read("c", 4, 30, 82, broker_id=13)
    assert (reads.row(LEADER)["given_at"], reads.row()["given_at"]) == (20, 81)
    apart = reads.row(apart=[13])
    assert (apart["reason"], apart["replica_id"]) == (CLOCKS_DIFFER, 13)
    assert reads.row(apart=[12])["verdict"] == "replayed"


def test_a_redirect_asks_the_selector_again() -> None:
    history = committed().read("c", 4, 5, 6, record_bytes=0, preferred_read_replica=13)
    row = history.row()
    assert (row["replica_id"], row["is_redirected"], row["given_at"]) == (13, True, None)
    assert row["preferred_read_replica"] == 13


def test_offsets_of_a_session_are_those_that_it_listed_last() -> None:
    """The next FETCH may seem to come before the response, whose offset it then has not."""
    history = committed()
    for ms, offset in ((1, 4), (20.5, 5)):
        listed = {"broker_id": 11, "session_id": 7, "fetch_offset": offset}
        history.add(at(ms), LineKind.LISTED, **listed)
    assert history.read("c", None, 5, 21, session_id=7).row()["fetch_offset"] == 4


def test_what_the_log_does_not_have_is_unknown() -> None:
    unknown = committed().read("c", None, 5, 21, session_id=7).row()
    assert (unknown["reason"], unknown["replica_id"]) == (UnknownReason.OFFSET, 13)
    assert Reads().read("c", 4, 5, 6).row()["reason"] == UnknownReason.FOLLOWERS
    untold = Reads().then("12:4@0 13:4@0 12:5@9 13:5@10").read("c", 4, 5, 11).row()
    assert untold["reason"] == UnknownReason.HIGH_WATERMARK
    nobody = Reads()
    del nobody.events[-1]
    assert {row["reason"] for row in nobody.read("c", 4, 5, 6).rows()} == {UnknownReason.LEADER}


def test_what_may_have_come_before_the_log_is_unknown() -> None:
    """The first response that the log has is no sign of when the follower learned of it."""
    history = Reads().then("12:5@10 13:5@20 12<5@70 13<5@80").read("c", 4, 5, 90, broker_id=13)
    assert history.row()["reason"] == UnknownReason.HIGH_WATERMARK


def test_a_gap_in_the_leaders_log_makes_times_unknown() -> None:
    row = read().row(gaps=Gaps([LogGap(11, at(60), at(75))]))
    assert (row["reason"], row["given_at"], row["replica_id"]) == (LOG_GAP, None, 13)
    assert read().row(LEADER, gaps=Gaps([LogGap(11, at(60), at(75))]))["given_at"] == 20


def test_a_read_is_decided_by_who_leads_then() -> None:
    moved = committed().then("lead=12/2@50").read("c", 4, 5, 21).read("c", 5, 52, 60)
    assert {row["request_id"] for row in moved.rows()} == {"r1"}
    assert {row["request_id"] for row in moved.rows(node_id=12)} == {"r2"}


def test_a_history_in_increments_is_the_history() -> None:
    history = read().then("12:6@90 14:6@90 12<6@100 14<6@100 13:6@400 13<6@410")
    history.read("c", 5, 92, 101).read("b", 5, 92, 101).then("12:7@60000 13:7@60000 12<7@60001")
    history.read("c", 6, 60_000, 60_001).read(None, 6, 60_000, 60_001)
    whole = sorted(map(repr, history.rows()))
    for every in range(1, 12):
        assert sorted(map(repr, history.rows(every))) == whole


def test_from_where_was_read_changes_nothing_but_what_was_recorded() -> None:
    """Neither which replica was preferred, nor which other broker responded at that time."""
    own = ("node_id", "preferred_read_replica")
    rows = [
        {name: value for name, value in row.items() if name not in own}
        for broker in (12, 14)
        for row in committed().read("b", 4, 30, 76, broker_id=broker).rows()
    ]
    assert rows[: len(rows) // 2] == rows[len(rows) // 2 :]


def test_events_out_of_order_are_refused() -> None:
    batch = read().batch()
    with pytest.raises(ValueError, match="order"):
        ClosestReplica(11, variants()).feed(batch.take([*reversed(range(batch.num_rows))]))


def test_what_has_no_rack_is_in_none() -> None:
    assert not is_same_rack(None, None)
    assert not is_same_rack("", "")
