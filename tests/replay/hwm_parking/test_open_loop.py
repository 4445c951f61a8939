"""The open-loop check by hand: which recorded responses could the rule have given?"""

from typing import Any

import pytest
from notation.recorded import EPOCH, fetched, in_order, micros

from kip_replay.replay.hwm_parking import RecordedFetch
from kip_replay.replay.hwm_parking.evidence import STALL_US
from kip_replay.replay.hwm_parking.metadata_log import WAKE_SPREAD_US
from kip_replay.replay.hwm_parking.open_loop import (
    DRAIN_APPEND_US,
    Explanation,
    OpenLoop,
    completed_by_drain,
    woken_by,
)
from kip_replay.replay.hwm_parking.outcomes import Epoch
from kip_replay.replay.model.raft import UNKNOWN_OFFSET, Completion
from kip_replay.replay.outcomes import RECORDED, Variant

STALL_MS, SPREAD_MS = STALL_US / 1000, WAKE_SPREAD_US / 1000

#: The leader appends to 16 at 1,000 ms, a voter's FETCH moves the high watermark there at 1,010.
LOG_END, HIGH_WATERMARK = ({0: 15, at: 16} for at in (1_000, 1_010))
#: The leader completes FETCHes all the time, or none that came later.
BUSY: dict[float, int] = {at: micros(at) for at in range(2_000)}
STALLED: dict[float, int] = {}


def open_loop(
    log_end: dict[float, int] = LOG_END,
    high_watermark: dict[float, int] = HIGH_WATERMARK,
    handled: dict[float, int] = BUSY,
) -> OpenLoop:
    """The leader's offsets by milliseconds, and until when FETCHes were handled that came."""
    loop = OpenLoop.begin(Epoch(1, EPOCH, frozenset({1, 2, 3})), Variant(RECORDED))
    timelines = loop.log_end_offsets, loop.high_watermarks, loop.handled
    for timeline, values in zip(timelines, (log_end, high_watermark, handled), strict=True):
        for at_ms, value in values.items():
            timeline.add(micros(at_ms), value)
    return loop


RECORDS, TIMEOUT, MOVE = Completion.RECORDS, Completion.TIMEOUT, Completion.HIGH_WATERMARK
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
    "records before the append": (of_9(800, 900, 15, **NINE), None, True),
    "empty and early": (of_9(300, 600, 15), None, True),
    "4.0 is not woken by the high watermark": (of_9(1_005, 1_011, 16, 16), None, True),
    "move kept back": (of_9(1_020, 1_300, 16, 16, high_watermark=15), None, False),
    "records kept back": (of_9(900, 1_200, 15, **NINE), None, True),
    "parked too long": (of_9(100, 800, 15), None, True),
    "move from the past": (of_9(1_100, 1_600, 16, 15, high_watermark=16), None, True),
    "built this late": (of_9(900, 1_000 + STALL_MS, 15, **NINE), RECORDS, True),
    "too late": (of_9(900, 1_000.001 + STALL_MS, 15, **NINE), None, True),
    "stamps put it this early": (of_9(900, 998, 15, **NINE), RECORDS, True),
    "too early": (of_9(900, 997.999, 15, **NINE), None, True),
    # A late stamp of the voter's FETCH puts the move too late, one of this FETCH the FETCH.
    "carries a move this early": (of_9(485, 985, 16, 16), TIMEOUT, True),
    "carries it too early": (of_9(484, 984.999, 16, 16), None, True),
    "woken by a move this early": (of_9(900, 985, 16, 16, high_watermark=15), MOVE, True),
    "woken too early": (of_9(900, 984.999, 16, 16, high_watermark=15), None, True),
    "woken early without the move": (
        *(of_9(900, 1_007.999, 16, 15, high_watermark=15), None, True),
    ),
    "does not carry a move this late": (of_9(1_034.999, 1_535, 16, 15), TIMEOUT, True),
    "it is too late": (of_9(1_035, 1_535, 16, 15), None, True),
}


OTHER_LEADERS = {
    "a stall is no excuse: the move at 1,010 completes it, long before the append at 1,300": (
        of_9(1_005, 1_300, 16, 16, high_watermark=15, **NINE),
        *(None, True),
        open_loop({0: 16, 1_300: 17}, handled=STALLED),
    ),
    "one without a high watermark may be busy for longer": (
        of_9(900, 2_500, 15, UNKNOWN_OFFSET, **NINE),
        *(RECORDS, True),
        open_loop(high_watermark={}),
    ),
    "a quick replica, completed at 1,010.5, FETCHes knowing the move, until an append": (
        of_9(1_011, 1_300, 16, 16, high_watermark=16, **NINE),
        *(RECORDS, True),
        open_loop({0: 16, 1_300: 17}),
    ),
}


CASES = {name: (*case, open_loop()) for name, case in EXPLAINED.items()} | OTHER_LEADERS


@pytest.mark.parametrize(("row", "completion", "parked", "loop"), CASES.values(), ids=CASES)
def test_rule_explains(
    row: RecordedFetch, completion: Completion | None, parked: bool, loop: OpenLoop
) -> None:
    assert loop.explain(row, loop.causes_of(row)) == Explanation(completion, parked)


#: A FETCH, and what the Raft thread did when it built the response.
WOKEN = {
    "append, as late as it may be": (
        of_9(900, 1_000 + STALL_MS, 15, **NINE),
        *(1_001, RECORDS),
    ),
    "too late": (of_9(900, 1_000.001 + STALL_MS, 15, **NINE), 1_001, None),
    "a stall: it handled nothing that came later": (of_9(900, 1_300, 15, **NINE), 999, RECORDS),
    "records were there": (of_9(1_005, 1_006, 15, **NINE), 1_001, None),
}


@pytest.mark.parametrize(("row", "handled_ms", "completion"), WOKEN.values(), ids=WOKEN)
def test_raft_thread_builds_a_response_because_of(
    row: RecordedFetch, handled_ms: int, completion: Completion | None
) -> None:
    assert woken_by(row, open_loop().causes_of(row), micros(handled_ms)) is completion


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
    "thread takes long": (of_9(800, 850, 15), fetched(8, 810, 850 + STALL_MS, 15), True),
    "too long": (of_9(800, 850, 15), fetched(8, 810, 850.001 + STALL_MS, 15), False),
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
    assert completed_by_drain(row, open_loop().causes_of(row), rows) == is_drain


def test_move_that_may_have_come_before_the_append_is_no_drain() -> None:
    """At 1,010, append at 1,020: a voter's FETCH stamped 25 ms late moved it at 985."""
    row = of_9(800, 985, 15, 15, high_watermark=15)
    causes = open_loop({0: 15, 1_020: 16}).causes_of(row)
    assert not completed_by_drain(row, causes, [row])
    assert completed_by_drain(row._replace(built_us=row.built_us - 1), causes, [row])
