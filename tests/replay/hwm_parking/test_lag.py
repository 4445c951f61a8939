"""When replicas learn of advances of the high watermark, by hand."""

import pytest
from notation.recorded import EPOCH, fetched, micros

from kip_replay.replay.hwm_parking import RecordedFetch
from kip_replay.replay.hwm_parking.evidence import Evidence
from kip_replay.replay.hwm_parking.loop import Loop, NoOps
from kip_replay.replay.hwm_parking.outcomes import NEVER_LEARNED, Epoch, Rows
from kip_replay.replay.log_gaps import NO_GAPS
from kip_replay.replay.outcomes import ALWAYS_STEADY, RECORDED, Variant


class Lags:
    """Who has FETCHed, and nothing else; by default replica 9 from the beginning on."""

    def __init__(self, *rows: RecordedFetch) -> None:
        self.evidence = Evidence(EPOCH)
        for row in rows or (fetched(9, 0, 1, 15), fetched(9, 900, 2_000, 15)):
            self.evidence.add(row)
        self.loop = Loop.begin(Epoch(1, EPOCH, frozenset({1})), Variant(RECORDED))

    def advanced(self, at: int, high_watermark: int) -> None:
        self.loop.leader.high_watermark = high_watermark
        self.loop.follow(at, self.evidence.replicas)


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
        lags.loop.learn(9, high_watermark, built, hwm_aware=False)
    lags.advanced(100, 15)
    assert [lag.learned_at for lag in lags.loop.lags] == [learned_us]


def test_changes_are_what_has_more_than_the_no_op_that_is_due() -> None:
    """Milliseconds of advances, and their records: NoOpRecords come each 500 ms, +-30."""
    advances = [(0, 1), (120, 1), (500, 1), (800, 1), (1_010, 1), (1_500, 3), (2_000, 1)]
    advances += [(2_600, 1), (2_700, 2), (3_100, 1)]
    no_ops = NoOps()
    changes = [no_ops.is_change(micros(at), records) for at, records in advances]
    # Where none was seen 500 ms before, one record may be either.
    assert changes == [None, None, False, True, False, True, False, None, True, False]


def test_lags_follow_one_another_without_the_time_away() -> None:
    lags = Lags(fetched(9, 0, 1, 15), fetched(9, 900, 901, 15), fetched(9, 9_000, 9_001, 15))
    lags.advanced(micros(100), 15)
    lags.loop.learn(9, 15, micros(600), hwm_aware=True)
    for at in (700, 800, 5_000):
        lags.advanced(micros(at), at)
    lags.loop.learn(9, 5_000, micros(9_001), hwm_aware=False)
    times = {
        lag.leader_at: (lag.previous_learned_at, lag.learned_at, lag.is_hwm_aware)
        for lag in lags.loop.lags
    }
    assert times == {
        micros(100): (None, micros(600), True),
        micros(700): (micros(5_000), micros(9_001), False),
        micros(800): (micros(9_001), micros(9_001), False),
        micros(5_000): (micros(600), None, None),
    }


def test_what_is_never_learned_shows_at_the_end_but_not_for_a_replica_that_came_later() -> None:
    lags = Lags(fetched(9, 0, 1, 15), fetched(8, 5, 6, 15), fetched(7, 4, 7, 15))
    lags.advanced(micros(4), 15)
    assert lags.loop.lags == []
    for replica_ids in ([9, 7], []):
        rows_of = Rows(NO_GAPS, ALWAYS_STEADY)
        lags.loop.close(rows_of)
        rows = rows_of.take()[1].to_pylist()
        assert [row["replica_id"] for row in rows] == replica_ids
        assert all(row["reason"] == NEVER_LEARNED and not row["learned_at"] for row in rows)
