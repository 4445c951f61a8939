"""When replicas learn of advances of the high watermark, by hand."""

import pytest
from notation.recorded import EPOCH, fetched

from kip_replay.replay.hwm_parking.evidence import Evidence
from kip_replay.replay.hwm_parking.loop import Loop
from kip_replay.replay.hwm_parking.outcomes import Epoch
from kip_replay.replay.records import RECORDED, Variant


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
    evidence, epoch = Evidence(EPOCH), Epoch(1, EPOCH, frozenset({1}))
    for row in (fetched(9, 0, 1, 15), fetched(9, 900, 2_000, 15)):
        evidence.add(row)
    loop = Loop.begin(epoch, Variant(RECORDED))
    for built, carried_then in carried:
        loop.learn(9, carried_then, built, hwm_aware=False)
    loop.leader.high_watermark = 15
    loop.follow(100, evidence.replicas)
    assert [lag.learned_at for lag in loop.lags] == [learned_us]
