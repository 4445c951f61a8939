"""What gaps in logs leave open is unknown, what the leader's log shows all the same is not.

Synthetic histories: brokers 11 to 13, controllers 1 to 3 of which 1 is active.
"""

from notation.leader_log import LEADER, History, Row, at

from kip_replay.replay.log_gaps import LOG_GAP, LogGap
from kip_replay.replay.min_isr_acks.events import PENDING
from kip_replay.replay.min_isr_acks.isr import MinIsrConfig
from kip_replay.replay.min_isr_acks.responses import ISR_NOT_IN_LOG, MIN_ISR_NOT_IN_LOG
from kip_replay.replay.model.partition import Errors

#: A gap, milliseconds.
GAP = 10_000, 12_000


def fetching(history: History, *followers: int, since_ms: int, until_ms: int) -> History:
    """Followers fetch twice a second, and have what is appended each second (``writing``)."""
    for now in range(since_ms, until_ms, 500):
        for follower in followers:
            history.fetch(now + follower - 10, follower, now // 1000 + 1)
    return history


def writing(history: History, until_ms: int) -> History:
    """A batch a second; base offsets are the seconds."""
    for second in range(1, until_ms // 1000):
        history.produce(1000 * second, second)
    return history


def by_second(history: History, *gaps: LogGap) -> dict[int, Row]:
    return {row["base_offset"]: row for row in history.rows(gaps=gaps, until_ms=200_000)}


def unknown(rows: dict[int, Row]) -> dict[int, str]:
    return {second: r["reason"] for second, r in rows.items() if r["verdict"] == "unknown"}


def test_gap_of_the_leader_touches_what_waits_across_it() -> None:
    history = fetching(writing(History(), 20_000), 12, 13, since_ms=0, until_ms=30_000)
    rows = by_second(history, LogGap(LEADER, *map(at, GAP)))
    # 9: a line that is missing may be a FETCH of up to a second before.
    assert unknown(rows) == dict.fromkeys((9, 10, 11), LOG_GAP)
    names = ("all_isr_acked_at", "visible_at", "acks_all_error")
    assert [rows[10][name] for name in names] == [None] * 3
    # What was appended next is missing, maybe.
    unfinished = [second for second, row in rows.items() if row["last_offset"] is None]
    assert unfinished == [8, 9, 10, 11, 19]
    assert unknown(by_second(history)) == {}


def test_isr_is_known_again_from_metadata_that_has_nobody_who_is_silent() -> None:
    """13 stopped in the gap, so no line has its heartbeat: the others alone may be the ISR."""
    history = fetching(writing(History(), 24_000), 12, since_ms=0, until_ms=30_000)
    fetching(history, 13, since_ms=0, until_ms=11_000)
    silent = by_second(history)
    assert {silent[second]["acks_all_error"] for second in range(11, 20)} == {7}
    history.uncertain(12_503, "follower", 13, since_ms=10_503)
    # Of a node that has not applied it yet, then of one that has.
    history.metadata(15_500, (11, 12, 13))
    history.metadata(18_500, (11, 12))
    rows = by_second(history)
    assert [*unknown(rows)] == [*range(9, 19)]
    assert {unknown(rows)[second] for second in range(14, 19)} == {ISR_NOT_IN_LOG}
    assert rows[20]["isr"] == [11, 12]


def test_follower_that_is_back_may_be_in_the_isr_that_metadata_names() -> None:
    history = fetching(writing(History(), 24_000), 12, since_ms=0, until_ms=30_000)
    fetching(history, 13, since_ms=0, until_ms=11_000)
    fetching(history, 13, since_ms=14_000, until_ms=30_000)
    history.uncertain(12_503, "follower", 13, since_ms=10_503)
    history.metadata(13_500, (11, 12, 13))
    history.metadata(17_500, (11, 12, 13))
    assert [*unknown(by_second(history))] == [*range(9, 18)]


def test_follower_outside_the_isr_may_have_joined_it_unseen() -> None:
    history = fetching(writing(History(isr=(11, 12)), 20_000), 12, since_ms=0, until_ms=30_000)
    fetching(history, 13, since_ms=10_500, until_ms=30_000)
    history.uncertain(GAP[0], "metadata log", until_ms=GAP[1] + 1000)
    history.alter_partition(15_500, (11, 12, 13), 15_510)
    rows = by_second(history)
    assert unknown(rows) == dict.fromkeys(range(11, 16), ISR_NOT_IN_LOG)
    assert rows[17]["isr"] == [11, 12, 13]


def test_configs_may_be_altered_unseen() -> None:
    history = fetching(writing(History(), 20_000), 12, 13, since_ms=0, until_ms=30_000)
    history.uncertain(GAP[0], "configs")
    rows = by_second(history)
    assert {rows[second]["reason"] for second in range(14, 20)} == {MIN_ISR_NOT_IN_LOG}
    assert rows[7]["verdict"] == "replayed"
    for stated, expected in ((2, 2), (3, None)):  # by the manifest, which a line contradicted
        stays = MinIsrConfig({"t": stated})
        stays.note(next(event for event in history.in_order() if event.kind == "config"))
        stays.forget()
        assert stays.in_force("t") == expected


def test_config_is_unknown_until_what_was_set_is_in_force() -> None:
    history = fetching(writing(History(), 20_000), 12, 13, since_ms=0, until_ms=30_000)
    for now in (9_000, 13_900, 14_900):
        history.metadata_fetch(now, 100 + now, 100 + now, built_ms=now + 500)
    history.config(10_500, 3, applies=True)
    history.config(10_500, None, operation=PENDING)
    rows = by_second(history)
    assert unknown(rows) == dict.fromkeys((11, 12, 13, 14), MIN_ISR_NOT_IN_LOG)
    assert (rows[9]["min_insync_replicas"], rows[16]["min_insync_replicas"]) == (2, 3)


def test_refusal_is_not_foreseen_from_an_isr_that_may_have_changed() -> None:
    history = fetching(History(isr=(11,)), 12, since_ms=10_500, until_ms=30_000)
    history.uncertain(GAP[0], "metadata log", until_ms=GAP[1] + 1000)
    history.produce(9_000, -1, error=Errors.NOT_ENOUGH_REPLICAS)
    history.produce(13_000, -1, error=Errors.NOT_ENOUGH_REPLICAS)
    before, after = history.rows(until_ms=200_000)
    assert before["acks_all_error"] == Errors.NOT_ENOUGH_REPLICAS
    assert (after["reason"], after["acks_all_error"]) == (ISR_NOT_IN_LOG, None)
