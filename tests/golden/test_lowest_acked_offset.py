"""lowest_acked_offset against real brokers: nothing is claimed that a broker's responses deny.

The logs are read by ``naive_heartbeats``. Truth is what brokers returned to the clients that polled
METADATA for each new topic, what DESCRIBE_QUORUM returned, and when brokers noted that they had
applied an offset; the rule reads none of it.
"""

import operator
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from functools import partial

import pytest
from notation.heartbeats import VOTERS, Replayed, Row, replay_of

from kip_replay.replay.lowest_acked_offset import (
    ESTIMATED,
    FINEST_EVIDENCE,
    LOWEST_ACKED,
    LowestAckedOffset,
    reasons,
)
from kip_replay.replay.lowest_acked_offset.events import STAMP_SLACK_US
from kip_replay.replay.lowest_acked_offset.registration import RULE
from kip_replay.replay.lowest_acked_offset.writes import CommittedOffsets

from . import damaged, some_of
from .naive_heartbeats import Observed, Poll, observed
from .naive_log import RECORDINGS, percentile, recording

pytestmark = pytest.mark.golden

INTERVALS_MS = (100, 250, 500, 1000, 2000)
EVERY = [*RECORDINGS, "freeze-4.0"]
start = partial(LowestAckedOffset, VOTERS, INTERVALS_MS, 2000)


class Replays(dict[str, Replayed]):
    """Recordings, each replayed when it is looked at first."""

    def __missing__(self, name: str) -> Replayed:
        self[name] = replay_of([observed(name).events], start)
        return self[name]


@pytest.fixture(scope="session")
def replays() -> Replays:
    return Replays()


def creations(name: str, rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["request_id"] in observed(name).created]


def p(rows: Iterable[Row], column: str, q: float) -> float:
    values = [row[column] for row in rows if row["verdict"] == "replayed"]
    return percentile(values, q)


# --- nothing too early ---------------------------------------------------------------------------


def polls_for(log: Observed, broker: int, topic: str, since_us: int) -> list[Poll]:
    """Polls of one broker for a topic, until somebody deleted it."""
    until_us = log.deleted_us.get(topic, 2**63)
    return [
        poll
        for poll in log.polls[broker]
        if since_us < poll.dequeued_us < until_us
        and (poll.requested is None or topic in poll.requested)
    ]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("evidence", ["heartbeat", "api_versions", "fetch_high_watermark"])
def test_no_broker_denies_what_it_is_claimed_to_have(
    replays: Replays, name: str, evidence: str
) -> None:
    """A METADATA taken up after ``applied_at_latest`` knows the topic, one before earliest not."""
    log = observed(name)
    checked = 0
    for row in creations(name, replays[name].visibility):
        if row["evidence"] != evidence:
            continue
        topic = log.created[row["request_id"]]
        for poll in polls_for(log, row["broker_id"], topic, row["applied_at_earliest"] - 2_000_000):
            latest = row["applied_at_latest"]
            if topic in poll.shown:
                assert poll.built_us >= row["applied_at_earliest"] - STAMP_SLACK_US
                checked += 1
                break
            if latest is not None:
                assert poll.dequeued_us <= latest + STAMP_SLACK_US
                checked += 1
    assert checked >= 40


@pytest.mark.parametrize("name", EVERY)
def test_no_write_is_known_before_and_finest_evidence_is_no_later(
    replays: Replays, name: str
) -> None:
    for row in replays[name].writes:
        for known in (row["known_at"], row["known_everywhere_at"]):
            assert known is None or known >= row["applied_everywhere_at"]
    both = (replays[name].writes_of(variant) for variant in (FINEST_EVIDENCE, LOWEST_ACKED))
    for fine, coarse in zip(*both, strict=True):
        if coarse["applied_everywhere_at"] is not None:
            assert fine["applied_everywhere_at"] <= coarse["applied_everywhere_at"]


# --- the estimate --------------------------------------------------------------------------------


def noted_us(name: str, broker: int, offset: int) -> int | None:
    """When a broker had applied an offset."""
    noted = observed(name).applied[broker]
    index = bisect_left(noted, (offset, 0))
    return noted[index][1] if index < len(noted) else None


def off_ms(estimated: Iterable[tuple[int | None, int | None]]) -> list[float]:
    """How far estimates are off; one that is not there is off by more than any."""
    return [
        9e9 if at is None else abs(at - truth) / 1000
        for at, truth in estimated
        if truth is not None
    ]


@pytest.mark.parametrize(
    ("name", "offsets", "p50", "p90"),
    [
        ("metadata-applied", 744, 3.9, 16.0),
        pytest.param("acks-open", 349, 2.3, 10.4, marks=pytest.mark.slow),
        pytest.param("acks-open-minisr", 335, 2.1, 9.0, marks=pytest.mark.slow),
    ],
)
def test_brokers_had_applied_offsets_when_it_is_estimated(
    replays: Replays, name: str, offsets: int, p50: float, p90: float
) -> None:
    """Of the steady phase. The time to create a replica was measured on the first one alone."""
    steady = recording(name).steady
    found = off_ms(
        (row["applied_at"], truth if truth in steady else None)
        for row in replays[name].applied
        for truth in [noted_us(name, row["broker_id"], row["metadata_offset"])]
    )
    assert len(found) == offsets
    assert percentile(found, 0.5) == pytest.approx(p50, abs=0.1)
    assert percentile(found, 0.9) == pytest.approx(p90, abs=0.1)


def test_brokers_had_applied_writes_when_it_is_estimated(replays: Replays) -> None:
    """And never later than heartbeats prove it, which is a second later."""
    name = "metadata-applied"
    offset = {r["request_id"]: r["offset_high"] for r in replays[name].writes_of(LOWEST_ACKED)}
    rows = [
        (row, noted_us(name, row["broker_id"], offset[row["request_id"]]))
        for row in replays[name].visibility
        if row["evidence"] == ESTIMATED
    ]
    found = off_ms((row["applied_at"], truth) for row, truth in rows)
    assert len(found) == 318
    assert percentile(found, 0.5) == pytest.approx(7.6, abs=0.1)
    assert percentile(found, 0.9) == pytest.approx(25.8, abs=0.1)
    proved = off_ms((row["applied_at_latest"], truth) for row, truth in rows)
    assert percentile(proved, 0.5) == pytest.approx(1064, abs=1)


@pytest.mark.parametrize(
    "name", some_of(("metadata-applied", "acks-open", "acks-open-minisr"), "metadata-applied")
)
@pytest.mark.parametrize("evidence", ["heartbeat", "fetch_high_watermark"])
def test_no_broker_is_claimed_to_have_applied_what_it_noted_later(
    replays: Replays, name: str, evidence: str
) -> None:
    offset = {r["request_id"]: r["offset_high"] for r in replays[name].writes_of(LOWEST_ACKED)}
    for row in replays[name].visibility:
        truth = noted_us(name, row["broker_id"], offset[row["request_id"]])
        if row["evidence"] == evidence and row["applied_at_latest"] is not None:
            assert truth is not None
            assert truth <= row["applied_at_latest"] + STAMP_SLACK_US


@pytest.mark.parametrize("name", [*EVERY, "metadata-applied"])
def test_brokers_show_topics_when_it_is_estimated(replays: Replays, name: str) -> None:
    """Between the last METADATA that does not know a topic and the first that does: they are some
    40 ms apart.
    """
    log, found = observed(name), []
    for row in creations(name, replays[name].visibility):
        if row["evidence"] != ESTIMATED:
            continue
        topic = log.created[row["request_id"]]
        polls = polls_for(log, row["broker_id"], topic, row["applied_at_earliest"] - 2_000_000)
        first = next((at for at, poll in enumerate(polls) if topic in poll.shown), None)
        if first:
            before, after = polls[first - 1].dequeued_us, polls[first].built_us
            found.append(max(before - row["shown_at"], row["shown_at"] - after, 0) / 1000)
    assert len(found) >= 6
    assert percentile(found, 0.5) <= 1
    assert len(found) < 30 or percentile(found, 0.9) <= 10


# --- what a prototype found ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "applied_ms", "known_ms"), [("metadata-4.1", 1486, 2911), ("metadata-4.0", 1417, 3284)]
)
def test_creations_take_as_long_as_a_brute_force_count_says(
    replays: Replays, name: str, applied_ms: float, known_ms: float
) -> None:
    """A count by hand, p50: 1,486 and 2,908 ms on 4.1, 1,417 and 3,213 ms on 4.0.

    It counted from the controller's arrival, and on 4.0 let a heartbeat's response know of others
    that were in flight with it (brokers 12 and 13 send theirs within 4 ms).
    """
    rows = creations(name, replays[name].writes_of(LOWEST_ACKED))
    everywhere = [(row["known_everywhere_at"] - row["received_at"]) / 1000 for row in rows]
    assert p(rows, "stale_window_ms", 0.5) == pytest.approx(applied_ms, abs=1)
    assert percentile(everywhere, 0.5) == pytest.approx(known_ms, abs=1)


def test_modelled_window_is_what_clients_saw(replays: Replays) -> None:
    """p50 of the time from the response until the last broker returns the topic to a poll.

    Of metadata-4.0 only: there every broker was polled. A client sees the topic with the response
    to its next poll, on average half of the 30 ms between two of them later.
    """
    log = observed("metadata-4.0")
    rows = creations("metadata-4.0", replays["metadata-4.0"].writes_of(LOWEST_ACKED, 2000))
    seen = []
    for row in rows:
        topic = log.created[row["request_id"]]
        since = row["responded_at"] - 1_000_000
        polled = [polls_for(log, broker, topic, since) for broker in log.polls]
        last = max(next(p.built_us for p in polls if topic in p.shown) for polls in polled)
        seen.append((last - row["responded_at"]) / 1000)
    assert len(seen) == 47
    for q in (0.5, 0.9):
        assert p(rows, "stale_window_ms", q) == pytest.approx(percentile(seen, q) - 15, abs=20)


# --- offsets and their join ----------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_high_watermark_is_the_one_that_describe_quorum_returned(name: str) -> None:
    log, committed = observed(name), CommittedOffsets(frozenset(VOTERS))
    for event in sorted(log.events, key=lambda event: event.dequeued_us):
        if event.kind == "fetch":
            committed.fetch(event)
    assert len(log.high_watermarks) >= 2
    for at, returned in log.high_watermarks:
        # Of the moments around the response, one: a NoOp commits every 500 ms.
        around = {committed.high_watermark.value(at + ms * 1000) for ms in range(-20, 3)}
        assert returned in around


@pytest.mark.parametrize("name", EVERY)
def test_interval_of_offsets_is_narrow(replays: Replays, name: str) -> None:
    """One or two more than the write needs are a NoOp that was committed with it."""
    rows = replays[name].writes_of(LOWEST_ACKED)
    widths = Counter(row["offset_high"] - row["offset_low"] for row in rows)
    assert widths[0] >= 0.8 * len(rows)
    assert max(widths) <= 3


@pytest.mark.parametrize(
    ("name", "writes", "via"),
    [
        ("metadata-4.0", 84, {12: 84}),
        ("metadata-4.1", 83, {12: 83}),
        ("freeze-4.1", 60, {13: 59, 12: 1}),
        ("freeze-4.0", 83, {11: 83}),
        ("failover-4.0", 76, {13: 75, 11: 1}),
    ],
)
def test_every_write_is_joined_with_the_line_of_its_broker(
    replays: Replays, name: str, writes: int, via: dict[int, int]
) -> None:
    rows = replays[name].writes_of(LOWEST_ACKED)
    assert len(rows) == writes
    assert Counter(row["via_broker"] for row in rows) == via
    # Of the last one of freeze-4.0 the log does not have what follows.
    unknown = [row["reason"] for row in rows if row["verdict"] != "replayed"]
    assert unknown == [reasons.LOG_ENDS] * (name == "freeze-4.0")


# --- a freeze and a failover ---------------------------------------------------------------------


def test_frozen_broker_holds_the_offset_back_until_it_is_fenced(replays: Replays) -> None:
    """SIGSTOP at 20:46:03.65, 0.8 s after its last heartbeat; SIGCONT 14 s later."""
    frozen_us, thawed_us = 1_795_207_563_653_536, 1_795_207_577_654_177
    rows = [
        row
        for row in replays["freeze-4.1"].heartbeats
        if frozen_us < row["built_at"] < thawed_us and row["verdict"] == "replayed"
    ]
    held = [row for row in rows if row["unfenced_brokers"] == 3]
    free = [row for row in rows if row["unfenced_brokers"] == 2]
    assert {row["lowest_acknowledged_offset"] for row in held} == {111}
    assert max(row["built_at"] for row in held) - frozen_us < 9_400_000
    assert min(row["lowest_acknowledged_offset"] for row in free) > 140
    waited = [
        row
        for row in replays["freeze-4.1"].writes_of(LOWEST_ACKED)
        if row["stale_window_ms"] > 3_000
    ]
    assert {row["last_broker_id"] for row in waited} == {13}


def test_thawed_broker_shows_old_metadata_though_it_was_fenced(replays: Replays) -> None:
    """Clients saw the topics that were created meanwhile up to 0.2 s after its SIGCONT."""
    thawed_us = 1_795_392_104_709_686
    rows = creations("freeze-4.0", replays["freeze-4.0"].writes_of(ESTIMATED))
    frozen = [row for row in rows if -14_007_224 < row["responded_at"] - thawed_us < 0]
    assert {row["last_broker_id"] for row in frozen} == {13}
    assert {row["applied_everywhere_at"] - thawed_us for row in frozen} == {90_459}
    assert len(frozen) == 9


def test_thawed_broker_receives_more_than_it_has(replays: Replays) -> None:
    """It unfences at 116 while brokers know 155: a flaw of the draft that raw shows."""
    columns = ("current_metadata_offset", "lowest_acknowledged_offset", "broker_id")
    columns += ("lowest_acknowledged_offset_raw",)
    rows = [tuple(row[c] for c in columns) for row in replays["freeze-4.1"].heartbeats]
    behind = [row for row in rows if row[1] is not None and row[0] < row[1]]
    assert behind == [(116, 155, 13, 116)]


def test_new_controller_has_nothing_new_until_all_have_sent_a_heartbeat(replays: Replays) -> None:
    rows = replays["failover-4.0"].heartbeats
    carried = [row for row in rows if row["verdict"] == "replayed"]
    offsets = [row["lowest_acknowledged_offset"] for row in carried]
    assert offsets == sorted(offsets)
    second = [row for row in carried if row["controller_id"] == 2]
    assert [row["lowest_acknowledged_offset_raw"] for row in second[:3]] == [-1, -1, 91]
    refused = [row for row in rows if row["reason"] == reasons.NOT_ACTIVE]
    assert len(refused) == 2


# --- lines with a wrong digit --------------------------------------------------------------------


@pytest.mark.parametrize(
    "field", ["heartbeat.offset", "heartbeat.broker_epoch", "fetch.offset", "fetch.leader_epoch"]
)
def test_what_rests_on_a_wrong_digit_is_unknown(field: str) -> None:
    """One line in the middle of metadata-4.1 has its first digit wrong."""
    kind, name = field.split(".")
    events = list(observed("metadata-4.1").events)
    lines = [at for at, event in enumerate(events) if event.kind == kind and not event.error_code]
    at = lines[len(lines) // 2]
    whole = damaged.outcomes(RULE, events, VOTERS)
    first, *others = list(str(getattr(events[at], name)))
    events[at] = events[at]._replace(**{name: int("".join([str(9 - int(first)), *others]))})
    left = damaged.outcomes(RULE, events, VOTERS)
    for table in RULE.tables:
        key = operator.itemgetter(*(column for column in table.key if column != "recording"))
        found = damaged.compared(whole[table.name], left[table.name], key, operator.eq)
        assert (found["different"], found["new"]) == (0, 0)
        assert 0 < found["unknown"] < found["equal"]


# --- other intervals, and KIP-1166 ---------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDINGS)
def test_simulation_at_the_recorded_interval_is_the_recording(replays: Replays, name: str) -> None:
    recorded = replays[name].writes_of(LOWEST_ACKED)
    simulated = replays[name].writes_of(LOWEST_ACKED, 2000)
    for q, tolerance in ((0.5, 0.01), (0.9, 0.02)):
        expected = p(recorded, "read_after_write_ms", q)
        assert p(simulated, "read_after_write_ms", q) == pytest.approx(expected, rel=tolerance)
    same = sum(
        abs(one["known_at"] - other["known_at"]) < 20_000
        for one, other in zip(recorded, simulated, strict=True)
    )
    assert same >= 0.93 * len(recorded)


@pytest.mark.parametrize(
    ("predicted_from", "variant", "recorded_in"),
    [
        ("metadata-4.0", "with_kip_1166", "metadata-4.1"),
        ("metadata-4.1", "without_kip_1166", "metadata-4.0"),
        ("metadata-4.0", "without_kip_1166", "metadata-4.0"),
        ("metadata-4.1", "with_kip_1166", "metadata-4.1"),
    ],
)
def test_both_proposals_together_are_what_the_other_kafka_would_give(
    replays: Replays, predicted_from: str, variant: str, recorded_in: str
) -> None:
    """At 100 ms, p50 of both within 60 ms; KIP-1166 makes the difference of 180 ms."""
    predicted = p(replays[predicted_from].writes_of(variant, 100), "read_after_write_ms", 0.5)
    recorded = p(replays[recorded_in].writes_of(LOWEST_ACKED, 100), "read_after_write_ms", 0.5)
    assert predicted == pytest.approx(recorded, abs=60)
