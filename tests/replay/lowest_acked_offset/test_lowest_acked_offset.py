"""lowest_acked_offset on constructed logs: what is written, who has applied it, who knows."""

from collections.abc import Sequence
from typing import Any

import pytest
from notation.heartbeats import (
    BEFORE,
    CONTROLLER,
    VOTERS,
    Row,
    api_versions,
    batch_of,
    beat,
    beats,
    cluster,
    create_topic,
    in_order,
    learned,
    raft_fetch,
    replayed,
    us,
    voters_fetch,
)

from kip_replay.replay.lowest_acked_offset import simulation
from kip_replay.replay.lowest_acked_offset import writes as written
from kip_replay.replay.lowest_acked_offset.events import NOT_SENT, ClusterEvent, Undecided
from kip_replay.replay.lowest_acked_offset.replay import LowestAckedOffset
from kip_replay.replay.lowest_acked_offset.state import ClusterSettings
from kip_replay.replay.lowest_acked_offset.writes import Offsets
from kip_replay.replay.model.brokers import Heartbeat

#: Both brokers report the write with their next two heartbeats.
REPORTS = [*beats(11, 5006, 2), *beats(12, 5106, 2)]


def only(rows: Sequence[Row]) -> Row:
    (row,) = rows
    return row


# --- a write -------------------------------------------------------------------------------------

#: Of a log: when the write is applied everywhere, known to its broker and everywhere (ms), which
#: broker is the last to apply it, and the reason.
FATES: dict[str, tuple[list[ClusterEvent], tuple[Any, ...]]] = {
    # The last to report it is 12, at 5.106 s, worked off a millisecond later. 12's own response
    # carries it at once, 11 receives it with its next heartbeat.
    "from request to known": (cluster(*REPORTS), (5107, 7012, 7012, 12, None)),
    "the broker that reports last knows at once": (
        cluster(*REPORTS, connection="10.0.0.2:9093-10.0.1.12:1-1"),
        (5107, 5108, 7012, 12, None),
    ),
    "a client of the controller waits for every broker": (
        cluster(*REPORTS, is_forwarded=False),
        (5107, None, 7012, 12, None),
    ),
    "a broker with fewer offsets holds the write back": (
        cluster(*beats(11, 5006, 3), beat(12, 5106, 20), beat(12, 7110, 21)),
        (7111, 9016, 9016, 12, None),
    ),
    # 11 reports the write, then is silent.
    "a fenced broker need not know": (
        cluster(beat(11, 5006, 21), *beats(12, 5106, 8)),
        (5107, None, 5007 + 10_125, 12, Undecided.LEFT),
    ),
    "a forwarding broker that left never knows": (
        cluster(beat(11, 5006, 19, want_shut_down=True, is_fenced=True), *beats(12, 5106, 2)),
        (5107, None, 5108, 12, Undecided.LEFT),
    ),
    # Those that count know at 15.132 s, when 11 is fenced, and at 5.108 s, while 11 shuts down.
    "a forwarding broker that was fenced knows after all that count": (
        cluster(beat(11, 5006, 21), *beats(12, 5106, 8), beat(11, 18_000, 21)),
        (5107, 18_002, 5007 + 10_125, 12, None),
    ),
    "a forwarding broker that shuts down knows after all that count": (
        cluster(
            *(beat(11, ms, 21, want_shut_down=True) for ms in (5006, 5200)), *beats(12, 5106, 2)
        ),
        (5107, 5202, 5108, 12, None),
    ),
    "no response": (
        cluster(*REPORTS, error_code=-2),
        (None, None, None, None, Undecided.RESPONSE_MISSING),
    ),
    # A config set to the value it has: no record, and the high watermark stays.
    "a write that changed nothing": (
        in_order([*BEFORE, create_topic(5000, 5002, api_name="ALTER_CONFIGS", partitions=0)]),
        (None, None, None, None, Undecided.NOTHING_WRITTEN),
    ),
    "the log ends first": (
        cluster(beat(11, 5006, 21), beat(12, 5106, 21)),
        (5107, None, None, 12, Undecided.LOG_ENDS),
    ),
    # Whenever the rows are emitted: 65.1 s after the response is too late.
    "what happens after the horizon is not looked at": (
        cluster(
            *(e for b in (11, 12) for e in (*beats(b, 5006 + b, 32, 19), *beats(b, 69_150 + b, 8)))
        ),
        (None, None, None, None, Undecided.HORIZON),
    ),
}


@pytest.mark.parametrize(("events", "expected"), FATES.values(), ids=FATES)
def test_fate_of_a_write(events: list[ClusterEvent], expected: tuple[Any, ...]) -> None:
    row = only(replayed(events).writes_of("lowest_acked_offset"))
    at = [row[name] for name in ("applied_everywhere_at", "known_at", "known_everywhere_at")]
    times = (None if time is None else time / 1000 for time in at)
    assert (*times, row["last_broker_id"], row["reason"]) == expected
    assert row["verdict"] == {
        None: "replayed",
        Undecided.LEFT: "not_applicable",
        Undecided.NOTHING_WRITTEN: "not_applicable",
    }.get(row["reason"], "unknown")


@pytest.mark.parametrize("others", [{"error_code": 41}, {"validate_only": True}, {"written": 0}])
def test_what_wrote_nothing_is_no_write(others: dict[str, Any]) -> None:
    row = create_topic(5000, 5050, **others)
    assert not written.is_write(row)
    assert not replayed(in_order([*voters_fetch(10, 20), row])).writes


def test_update_features_has_when_each_broker_can_renegotiate() -> None:
    """ "ApiVersions": a broker waits for the record's offset to be known everywhere."""
    rows = replayed(cluster(*REPORTS, api_name="UPDATE_FEATURES", partitions=0)).visibility
    known = {row["broker_id"]: row["known_at"] for row in rows if row["evidence"] == "heartbeat"}
    assert known == {11: us(7012), 12: us(5108)}


# --- kinds of evidence ---------------------------------------------------------------------------


def sign(events: Sequence[ClusterEvent], kind: str) -> tuple[int, int | None, str | None]:
    """(earliest, latest, reason) of broker 12."""
    rows = replayed(events).visibility
    row = only([r for r in rows if (r["broker_id"], r["evidence"]) == (12, kind)])
    return row["applied_at_earliest"], row["applied_at_latest"], row["reason"]


def test_heartbeat_bounds_from_the_response_before_to_the_arrival() -> None:
    late = [beat(11, 5006, 21), beat(12, 5106, 20), beat(12, 7110, 21)]
    # What the one at 5.106 s lacked was read after the response to the one before: at 3.104 s. The
    # write was committed later.
    assert sign(cluster(*late), "heartbeat") == (us(5040), us(7110), None)
    # What the one at 7.110 s lacked was read after the response at 5.108 s.
    later = [*late[:2], beat(12, 7110, 20), beat(12, 9114, 21)]
    assert sign(cluster(*later), "heartbeat") == (us(5108), us(9114), None)


def test_api_versions_bounds_from_dequeue_to_response() -> None:
    seen = [api_versions(12, 5070, 5071, 20), api_versions(12, 5080, 5082, 21)]
    assert sign(cluster(*REPORTS, *seen), "api_versions") == (us(5070), us(5082), None)


def test_api_versions_of_a_controller_is_no_image_offset() -> None:
    rows = replayed(cluster(*REPORTS, api_versions(1, 5080, 5082, 21))).visibility
    assert {row["evidence"] for row in rows} == {"estimated", "heartbeat", "fetch_high_watermark"}


@pytest.mark.parametrize(
    ("carried", "earliest_ms"),
    # v18 carries what it knows: it learned with the response at 5.060 s. An older one has at least
    # what it fetches from, with the records that came at 5.045 s.
    [((20, 20, 22), 5060), ((NOT_SENT, NOT_SENT, NOT_SENT), 5045)],
)
def test_fetch_bounds_from_the_response_to_the_heartbeat(
    carried: tuple[int, ...], earliest_ms: float
) -> None:
    """However long after it the heartbeat comes: how fast a broker applies no FETCH shows."""
    spans = ((4900, 5045, 20), (5046, 5060, 22), (5061, 5500, 22))
    fetches = [
        raft_fetch(12, *span, high_watermark=h) for span, h in zip(spans, carried, strict=True)
    ]
    slow = [beat(11, 5006, 21), beat(12, 5106, 19), beat(12, 7110, 19), beat(12, 9114, 21)]
    for beats_of_12, latest_ms in ((REPORTS, 5106), (slow, 9114)):
        bounds = sign(cluster(*beats_of_12, *fetches), "fetch_high_watermark")
        assert bounds == (us(earliest_ms), us(latest_ms), None)


# --- heartbeats ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "verdict", "reason", "size"),
    [
        ({"error_code": 41, "node_id": 3}, "not_applicable", Undecided.NOT_ACTIVE, 27),
        ({"error_code": -2, "response_bytes": None}, "unknown", Undecided.RESPONSE_MISSING, None),
    ],
)
def test_heartbeat_with_an_error_carries_and_changes_nothing(
    others: dict[str, Any], verdict: str, reason: str, size: int | None
) -> None:
    rows = replayed(cluster(*REPORTS, beat(11, 6000, 30, **others))).heartbeats
    row = only([r for r in rows if r["current_metadata_offset"] == 30])
    assert (row["verdict"], row["reason"]) == (verdict, reason)
    assert (row["lowest_acknowledged_offset"], row["replayed_response_bytes"]) == (None, size)
    assert (row["is_fenced"], row["unfenced_brokers"]) == (None, None)
    assert rows[-1]["lowest_acknowledged_offset"] == 21


def test_heartbeat_when_no_broker_counts_carries_nothing() -> None:
    row = replayed(in_order([*BEFORE, beat(11, 1000, 19, is_fenced=True)])).heartbeats[0]
    assert (row["verdict"], row["reason"]) == ("not_applicable", Undecided.NOBODY_COUNTS)
    assert (row["is_fenced"], row["unfenced_brokers"]) == (True, 0)


def test_nothing_is_certain_while_a_broker_may_have_sent_nothing_yet() -> None:
    """A log from the middle: a silent broker may be unfenced until its session is over."""
    late_write = create_topic(3000, 3050, is_forwarded=False)
    events = [*voters_fetch(10, 20), late_write, *voters_fetch(3040, 22)]
    events += [beat(11, 1000 + 2002 * n, 19 + n) for n in range(8)]
    rows = replayed(in_order(events))
    # First heartbeat taken up at 1.001 s: certain from 11.126 s on.
    assert [r["verdict"] for r in rows.heartbeats] == ["unknown"] * 6 + ["replayed"] * 2
    assert {r["reason"] for r in rows.heartbeats[:6]} == {Undecided.NOT_HEARD_YET}
    write = only(rows.writes_of("lowest_acked_offset"))
    assert (write["reason"], write["applied_everywhere_at"]) == (Undecided.NOT_HEARD_YET, None)


def test_heartbeats_are_worked_off_in_the_order_of_the_controllers_queue() -> None:
    """12 is queued first and its response built last: 11's response has 12's offset already."""
    events = cluster(
        beat(12, 5010, 21, built_ms=5300, handled_us=us(5011)),
        beat(11, 5100, 21, handled_us=us(5101)),
    )
    last = replayed(events).heartbeats[-1]
    assert (last["broker_id"], last["lowest_acknowledged_offset"]) == (11, 21)


# --- which offsets a write has -------------------------------------------------------------------


def committed(*events: ClusterEvent, voters: Sequence[int] = VOTERS) -> written.CommittedOffsets:
    log = written.CommittedOffsets(frozenset(voters))
    for event in sorted(events, key=lambda e: e.dequeued_us):
        log.fetch(event)
    return log


@pytest.mark.parametrize(
    ("fetches", "offsets"),
    [
        # At least two records at or behind 20, the high watermark is 24: 21, 22 or 23 is the last.
        ([raft_fetch(1, 5040, 5041, 24)], Offsets(21, 23, us(5040))),
        # 11 has fetched up to 22 already, uncommitted: the write begins there at the soonest.
        (
            [raft_fetch(11, 4990, 4991, 22), raft_fetch(1, 5040, 5041, 24)],
            Offsets(23, 23, us(5040)),
        ),
        # A diverging FETCH shows nothing of the log.
        (
            [
                raft_fetch(11, 4990, 4991, 90, is_diverging=True),
                raft_fetch(1, 4991, 4992, 90, is_diverging=True),
                raft_fetch(1, 5040, 5041, 22),
            ],
            Offsets(21, 21, us(5040)),
        ),
        # The leader itself leads a new epoch: what was fetched in the one before may be gone.
        (
            [
                raft_fetch(11, 4800, 4801, 90),
                raft_fetch(1, 4900, 4901, 20, leader_epoch=2, last_fetched_epoch=2),
                raft_fetch(3, 5040, 5041, 24, leader_epoch=2, last_fetched_epoch=2),
            ],
            Offsets(21, 23, us(5040)),
        ),
    ],
)
def test_offsets_are_between_log_end_before_and_high_watermark_after(
    fetches: list[ClusterEvent], offsets: Offsets
) -> None:
    assert committed(*BEFORE, *fetches).offsets(create_topic(5000, 5050)) == offsets


def test_single_voter_shows_no_high_watermark() -> None:
    log = committed(raft_fetch(11, 10, 11, 20), voters=(2,))
    assert log.offsets(create_topic(5000, 5050)) == Undecided.SINGLE_VOTER


def test_high_watermark_is_not_known_until_every_voter_would_have_fetched() -> None:
    log = committed(*voters_fetch(4500, 20))
    assert log.offsets(create_topic(5000, 5050)) == Undecided.NO_HIGH_WATERMARK
    log.fetch(raft_fetch(1, 5640, 5641, 22))
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
    assert written.least_records(row) == least


# --- who forwarded it ----------------------------------------------------------------------------

JOINS: dict[str, tuple[list[tuple[int, int, int]], tuple[int, int | None]]] = {
    # The same client and correlation id at two brokers, and at 11 twice.
    "by host and time": ([(12, 4990, 5060), (11, 4000, 4100), (11, 4995, 5061)], (11, 4995)),
    "of two around it the shorter": ([(11, 4000, 9000), (11, 4995, 5061)], (11, 4995)),
    # The first attempt was refused (41) by another controller; it is no write.
    "a retry is inside the same line": ([(11, 1000, 5061)], (11, 1000)),
    "clocks differ by up to 100 ms": ([(11, 5100, 5200), (11, 4000, 4949)], (11, 5000)),
    "a broker without a log is known by its host": ([], (11, None)),
}


def forwarding(
    *lines: tuple[int, int, int], hosts: Sequence[ClusterEvent] = ()
) -> written.Forwarding:
    """Lines are (broker, received, built)."""
    known = written.Forwarding()
    for event in (beat(11, 0, 1), beat(12, 0, 1), *hosts):
        known.heartbeat(event)
    for broker, received, built in lines:
        known.line(create_topic(received, built, node_id=broker, is_forwarded=False))
    return known


@pytest.mark.parametrize(("lines", "via"), JOINS.values(), ids=JOINS)
def test_forwarded_write_is_joined_with_its_brokers_line(
    lines: list[tuple[int, int, int]], via: tuple[int, int | None]
) -> None:
    broker, received = via
    sender = written.Arrival(broker, None if received is None else us(received))
    assert forwarding(*lines).arrival(create_topic(5000, 5050)) == sender


def test_host_of_no_broker_and_of_two_shows_nothing() -> None:
    unknown = create_topic(5000, 5050, connection="10.0.0.2:9093-10.0.5.5:1-1")
    assert forwarding((11, 4995, 5061)).arrival(unknown) == written.Arrival(None, None)
    shared = forwarding(hosts=[beat(12, 0, 1, connection="10.0.0.2:9093-10.0.1.11:2-1")])
    assert shared.arrival(create_topic(5000, 5050)) == written.Arrival(None, None)


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
def test_heartbeat_shows_the_host_of_its_broker(connection: str | None, host: str | None) -> None:
    known = written.Forwarding()
    known.heartbeat(beat(11, 0, 1, connection=connection))
    assert known.hosts == ({} if host is None else {host: {11}})


# --- simulated heartbeats ------------------------------------------------------------------------

SWEEP = {"intervals_ms": (100, 500, 1000, 2000), "recorded_interval_ms": 2000}
LONG = [e for b in (11, 12) for e in beats(b, 5106 + 100 * (b - 11), 6)]


def news(*more: tuple[int, int], variant: str = "recorded") -> list[ClusterEvent]:
    """Both brokers learn 20 at the beginning, and more at (ms, high watermark)."""
    return [learned(b, ms, hw, variant) for b in (11, 12) for ms, hw in ((20, 20), *more)]


def test_slow_broker_catches_up_half_way_to_the_heartbeat_that_shows_it() -> None:
    beats = simulation.Recorded()
    beats.learn(learned(12, 1000, 31))
    for ms, offset in ((3000, 20), (5000, 30)):
        handled = Heartbeat(CONTROLLER, 12, 5, us(ms), us(ms + 2), offset, False, False)
        beats.heartbeat(us(ms), handled, want_fence=False)
    broker = beats.broker(12)
    assert [broker.applied("recorded", us(ms)) for ms in (2999, 3999, 4000)] == [20, 20, 30]
    assert beats.delay.seen == []


# --- order, increments, and what is not read -----------------------------------------------------


def test_events_out_of_order_are_refused() -> None:
    replay = LowestAckedOffset(ClusterSettings(VOTERS))
    with pytest.raises(ValueError, match="order of at_us, kind, request_id"):
        replay.feed(batch_of(list(reversed(cluster(*REPORTS)))))


def test_event_of_no_kind_is_refused() -> None:
    replay = LowestAckedOffset(ClusterSettings(VOTERS))
    replay.feed(batch_of([LONG[0]._replace(kind="vote")]))
    with pytest.raises(ValueError, match="no such kind of event: vote"):
        replay.finish()


def test_what_a_kind_does_not_have_may_be_null() -> None:
    """As the text has it; the state that is saved has none of them."""
    events, none = cluster(*REPORTS, *news((5067, 22))), ClusterEvent._field_defaults
    nulls = [
        ClusterEvent(*(None if v == none.get(n) else v for n, v in e._asdict().items()))
        for e in events
    ]
    assert replayed(nulls, [20], resumed=True, **SWEEP) == replayed(events, **SWEEP)


def test_rows_are_emitted_once_nothing_can_change_them() -> None:
    replay = LowestAckedOffset(ClusterSettings(VOTERS, step_rows=20))
    found, writes, *_ = replay.feed(batch_of(cluster(*beats(11, 5006, 70), *beats(12, 5007, 70))))
    # One of each variant.
    assert writes.num_rows == 2
    assert found.num_rows > 50
    assert replay.finish()[1].num_rows == 0


def test_sizes_of_responses_change_no_offset_and_no_time() -> None:
    """Nothing else of a response that the rule explains is in the input at all."""
    events = cluster(*LONG, *news((5067, 22)))
    with_sizes = replayed(events, **SWEEP)
    without = replayed([e._replace(response_bytes=None) for e in events], **SWEEP)
    assert with_sizes[1:] == without[1:]
    sizes = {"response_bytes": None, "replayed_response_bytes": None}
    assert [row | sizes for row in with_sizes.heartbeats] == without.heartbeats


def test_saved_state_does_not_grow_with_the_log() -> None:
    def size(rounds: int) -> int:
        replay = LowestAckedOffset(ClusterSettings(VOTERS, (500,), 2000, step_rows=100))
        replay.feed(batch_of(cluster(*beats(11, 5017, rounds), *beats(12, 5018, rounds))))
        return len(replay.saved())

    # Three minutes are looked at, 300 s fill that.
    assert size(600) < 1.2 * size(150)
