"""When brokers show a write and have applied it, estimated on constructed logs."""

from collections.abc import Sequence
from typing import Any

import pytest
from notation.heartbeats import (
    BEFORE,
    VOTERS,
    beat,
    beats,
    cluster,
    create_topic,
    in_order,
    metadata,
    raft_fetch,
    replayed,
    us,
    voters_fetch,
)

from kip_replay.replay.lowest_acked_offset.events import ESTIMATED, HELD, ClusterEvent, Undecided

Span = tuple[float, float, int, int]
#: Both brokers have the write by their next heartbeats.
REPORTS = [*beats(11, 5006, 2), *beats(12, 5106, 2)]
#: Where there is no other FETCH: broker 11 learns of the write at 5.045 s.
OF_11 = ((4990, 5045, 20, 22), (5048, 5500, 22, 22))
#: 12 learns of it at 5.06 s, and handles that by 5.064 s.
OF_12 = ((4990, 5060, 20, 22), (5064, 5500, 22, 22))


def fetches(broker: int, spans: Sequence[Span], **others: Any) -> list[ClusterEvent]:
    """(dequeued, built, fetch offset, high watermark of the response), milliseconds."""
    made = []
    for n, (*span, high_watermark) in enumerate(spans):
        of = {"response_high_watermark": high_watermark, "correlation_id": 100 + n}
        made.append(raft_fetch(broker, *span, **of | others))
    return made


def of_12(events: list[ClusterEvent], broker: int = 12, **settings: Any) -> tuple[Any, ...]:
    """(learned, shown, applied, heartbeat that has it, reason) of the first write, at a broker."""
    row = next(
        row
        for row in replayed(events, **settings).visibility
        if (row["broker_id"], row["evidence"]) == (broker, ESTIMATED)
    )
    names = ("applied_at_earliest", "shown_at", "applied_at", "applied_at_latest")
    times = (None if row[name] is None else row[name] / 1000 for name in names)
    return (*times, row["reason"])


CASES: dict[str, tuple[list[ClusterEvent], tuple[Any, ...]]] = {
    "what a heartbeat has was applied when it arrived": (
        cluster(*REPORTS, *fetches(12, OF_12), replicas=[30], topics=["t"]),
        (5060, 5064, 5106, 5106, None),
    ),
    "what a heartbeat lacks was applied when that arrived, at the soonest": (
        cluster(beat(12, 5406, 19), *beats(12, 7410, 2), *fetches(12, OF_12)),
        (5060, 5064, 5406, 7410, None),
    ),
    "a heartbeat's offset is read some time before it arrives": (
        cluster(beat(12, 5106, 19), *beats(12, 7110, 2), *fetches(12, OF_12)),
        (5060, 5064, 5064, 7110, None),
    ),
    "a broker that stands still sends no FETCH": (
        cluster(
            *beats(12, 18_000, 2), *fetches(12, ((4990, 5060, 20, 22), (17_500, 17_900, 22, 22)))
        ),
        (5060, 17_500, 17_500, 18_000, None),
    ),
    "it has no more than its own log": (
        cluster(
            *REPORTS,
            *fetches(12, ((4990, 5060, 20, 22), (5064, 5070, 21, 22), (5074, 5500, 22, 22))),
        ),
        (5070, 5074, 5074, 5106, None),
    ),
    # The leader that responded is gone, and the new one's responses carry it later.
    "an error carries nothing": (
        cluster(
            *REPORTS,
            *fetches(12, ((4990, 5060, 20, 22),), error_code=6),
            *fetches(12, ((5064, 5080, 22, 22), (5085, 5500, 22, 22))),
        ),
        (5080, 5085, 5085, 5106, None),
    ),
    # 12 reported it at 5.106 s.
    "no FETCH response that carried it in time": (
        cluster(*REPORTS, *fetches(12, ((5400, 5700, 22, 22), (5703, 5900, 22, 22)))),
        (5106, None, None, 5106, Undecided.NOT_CARRIED),
    ),
    "no FETCH at all": (cluster(*REPORTS), (5040, None, None, 5106, Undecided.NOT_CARRIED)),
    "the log ends first": (
        cluster(*REPORTS, *fetches(12, OF_12[:1])),
        (5060, None, None, 5106, Undecided.NO_NEXT_FETCH),
    ),
    "a slow broker that is never seen to have it": (
        cluster(*beats(12, 5406, 3, 19), *fetches(12, OF_12)),
        (5060, None, None, None, Undecided.SLOW),
    ),
}


@pytest.mark.parametrize(("events", "expected"), CASES.values(), ids=CASES)
def test_when_a_broker_shows_a_write(events: list[ClusterEvent], expected: tuple[Any, ...]) -> None:
    assert of_12(events) == expected


@pytest.mark.parametrize(
    ("write", "applied_ms"),
    [
        ({"topics": ["u"], "replicas": [1]}, 5114),
        ({"topics": ["t"], "api_name": "DELETE_TOPICS"}, 5144),
        # Created before the log began.
        ({"topics": ["v"], "api_name": "DELETE_TOPICS"}, 5104),
    ],
)
def test_commits_are_applied_one_after_the_other(write: dict[str, Any], applied_ms: float) -> None:
    """12 learns of another write while it creates its two replicas of topic t."""
    events = cluster(
        *beats(11, 6006, 2, 23),
        *beats(12, 6106, 2, 23),
        *fetches(12, ((4990, 5060, 20, 22), (5064, 5080, 22, 24), (5084, 5500, 24, 24))),
        create_topic(5055, 5078, correlation_id=8, **write),
        *voters_fetch(5070, 24),
        topics=["t"],
        replicas=[4],
    )
    rows = replayed(events).applied
    assert [(r["metadata_offset"], r["shown_at"], r["applied_at"]) for r in rows] == [
        (21, us(5064), us(5104)),
        (23, us(5104), us(applied_ms)),
    ]


#: Each with the API of the write, and METADATA of 12: (built, partitions). Then there are 4.
SHOWN: dict[str, tuple[str, Sequence[tuple[float, int]], float]] = {
    "denied after it handled the response": ("CREATE_TOPICS", [(5050, 0), (5080, 0)], 5080),
    "denied before it learned": ("CREATE_TOPICS", [(5050, 0)], 5064),
    "shown before it sent a FETCH": ("CREATE_TOPICS", [(5062, 4)], 5062),
    "shown before it can have learned": ("CREATE_TOPICS", [(5055, 4)], 5060),
    "denied by a response that was built late": ("CREATE_TOPICS", [(5062, 4), (5070, 0)], 5070),
    "not denied once a heartbeat has it": ("CREATE_TOPICS", [(5300, 0)], 5106),
    "another number of partitions says nothing": ("CREATE_TOPICS", [(5080, 3)], 5064),
    "an old number of partitions": ("CREATE_PARTITIONS", [(5080, 3)], 5080),
    "the new number of partitions": ("CREATE_PARTITIONS", [(5061, 4)], 5061),
    "still there": ("DELETE_TOPICS", [(5080, 4)], 5080),
    "gone": ("DELETE_TOPICS", [(5062, 0)], 5062),
}


@pytest.mark.parametrize(("api", "shown", "shown_ms"), SHOWN.values(), ids=SHOWN)
def test_metadata_shows_when_a_broker_has_a_write(
    api: str, shown: Sequence[tuple[float, int]], shown_ms: float
) -> None:
    responses = [metadata(12, ms, "t", size) for ms, size in shown]
    write = {"api_name": api, "topics": ["t"], "sizes": [4], "replicas": [0]}
    of_11 = metadata(11, 5200, "t", 0)
    events = cluster(*REPORTS, *fetches(12, OF_12), *responses, of_11, **write)
    assert of_12(events)[1] == shown_ms


@pytest.mark.parametrize(
    ("shown", "shown_ms"),
    [
        # The old topic or the new one.
        ([(5090, 4)], [5064, 5084]),
        ([(5090, 0)], [5064, 5090]),
        ([(5062, 0), (5082, 4)], [5062, 5082]),
    ],
)
def test_topic_that_is_created_anew(
    shown: Sequence[tuple[float, int]], shown_ms: list[int]
) -> None:
    """Deleted by 5.05 s, and there again by 5.078 s, of which 12 learns at 5.08 s."""
    events = cluster(
        *beats(11, 6006, 2, 23),
        *beats(12, 6106, 2, 23),
        *fetches(12, ((4990, 5060, 20, 22), (5064, 5080, 22, 24), (5084, 5500, 24, 24))),
        create_topic(5055, 5078, correlation_id=8, topics=["t"], replicas=[0]),
        *voters_fetch(5070, 24),
        *(metadata(12, ms, "t", size) for ms, size in shown),
        api_name="DELETE_TOPICS",
        topics=["t"],
        partitions=0,
    )
    there = ClusterEvent(us(9), HELD, "t", -1, topics=["t"], replicas=[1])
    rows = replayed(in_order([there, *events]), replica_apply_ms=0).applied
    assert [row["shown_at"] for row in rows] == [us(ms) for ms in shown_ms]


@pytest.mark.parametrize(("largest", "shown_ms"), [((), None), ((4,), None), ((1,), 5084)])
def test_topic_that_the_log_does_not_have_is_deleted_as_soon_as_the_largest_one(
    largest: tuple[int, ...], shown_ms: float | None
) -> None:
    """Of a log that begins later: 12 learns of another write 20 ms after a deletion."""
    events = cluster(
        *beats(11, 6006, 2, 23),
        *beats(12, 6106, 2, 23),
        *fetches(12, ((4990, 5060, 20, 22), (5064, 5080, 22, 24), (5084, 5500, 24, 24))),
        create_topic(5055, 5078, correlation_id=8, api_name="INCREMENTAL_ALTER_CONFIGS"),
        *voters_fetch(5070, 24),
        topics=["v"],
        api_name="DELETE_TOPICS",
    )
    there = [ClusterEvent(us(9), HELD, f"{b}", -1, error_code=0, broker_id=b) for b in (11, 12)]
    there += [ClusterEvent(us(9), HELD, "t", -1, topics=["t"], replicas=[n]) for n in largest]
    found = replayed(in_order([*there, *(event for event in events if event.at_us > us(9))]))
    rows = [(r["shown_at"], r["applied_at"], r["reason"]) for r in found.applied]
    assert rows[0] == (us(5064), None, Undecided.UNKNOWN_WORK)
    later = shown_ms and us(shown_ms)
    assert rows[1] == (later, later, None if later else Undecided.UNKNOWN_WORK)
    assert [row["applied_everywhere_at"] for row in found.writes_of(ESTIMATED)] == [None, None]


def estimated(*events: ClusterEvent, **write: Any) -> tuple[Any, ...]:
    """(applied everywhere, last broker, stale window, read after write, reason) as estimated."""
    (row,) = replayed(cluster(*events, **write)).writes_of(ESTIMATED)
    assert row["known_at"] is row["known_everywhere_at"] is None
    assert (row["verdict"] == "replayed") is (row["reason"] is None)
    at = row["applied_everywhere_at"]
    ms = (row["stale_window_ms"], row["read_after_write_ms"])
    return None if at is None else at / 1000, row["last_broker_id"], *ms, row["reason"]


def test_it_is_unknown_where_only_a_heartbeat_has_it() -> None:
    of_11 = fetches(11, OF_11)
    assert estimated(*REPORTS, *of_11) == (None, 12, None, None, Undecided.NOT_CARRIED)
    # Where the other broker's estimate is later than the heartbeat, that one is the last.
    late = [*fetches(11, ((4990, 5045, 20, 22), (5200, 5500, 22, 22))), *beats(11, 5306, 2)]
    assert estimated(*late, *beats(12, 5106, 2)) == (5200, 11, 150, 200, None)


def test_broker_that_stood_still_shows_old_metadata_once_it_goes_on() -> None:
    """Though it was fenced meanwhile; in another process it begins with new metadata."""
    still = ((4990, 5060, 20, 22), (16_064, 16_500, 22, 22))
    both = [*beats(11, 5006, 7), *fetches(11, OF_11), *fetches(12, still)]
    assert estimated(*both, *beats(12, 16_106, 1)) == (16_064, 12, 11_014, 11_064, None)
    fenced = beat(12, 16_106, 22, is_fenced=True)
    assert estimated(*both, fenced) == (16_064, 12, 11_014, 11_064, None)
    assert estimated(*both, beat(12, 16_106, 22, broker_epoch=99))[0] == 3103 + 10_125


def test_replicas_that_no_request_has_are_those_of_metadata_or_unknown() -> None:
    """A topic with the brokers' default.replication.factor."""
    of_metadata = ClusterEvent(us(5049), HELD, "t", -1, error_code=0, topics=["t"], replicas=[3])
    created = {"replicas": [0], "topics": ["t"]}
    events = cluster(*REPORTS, of_metadata, *fetches(12, OF_12), **created)
    assert of_12(events, replica_apply_ms=4)[1:3] == (5064, 5070)
    assert of_12(cluster(*REPORTS, *fetches(12, OF_12), **created))[1:3] == (5064, None)


@pytest.mark.parametrize("via", [1, 2])
def test_write_through_a_combined_node_is_one_write(via: int) -> None:
    """All three nodes are brokers and controllers; that of node 2, which leads, sends no FETCH."""
    write = create_topic(5000, 5050, connection=f"10.0.0.2:9093-10.0.1.{via}:50000-1-2")
    broker = f"10.0.0.{via}:9092-10.0.2.7:50000-1-2"
    line = write._replace(request_id="own", node_id=via, is_forwarded=False, connection=broker)
    of_followers = [
        e for b in (1, 3) for e in fetches(b, ((5040, 5045, 22, 22), (5048, 9e3, 22, 22)))
    ]
    steady = [e for b in VOTERS for e in (*beats(b, 1000 + b, 2, 19), *beats(b, 5106 + b, 2))]
    found = replayed(in_order([*BEFORE, *steady, write, line, *of_followers]))
    (row,) = found.writes_of(ESTIMATED)
    assert (row["via_broker"], row["applied_everywhere_at"]) == (via, us(5048))
    evidence = {r["evidence"]: r["shown_at"] for r in found.visibility if r["broker_id"] == 2}
    assert evidence == {ESTIMATED: us(5040), "heartbeat": None}
