"""Batches without a base offset, placed by the bytes that followers fetched. Synthetic.

The leader is alone in its ISR, so that every batch is acknowledged at once and only its base offset
is open: exact where its bounds meet.
"""

from collections.abc import Sequence

import pytest
from notation.leader_log import History, Row

from kip_replay.replay.min_isr_acks import unlogged
from kip_replay.replay.min_isr_acks.events import Partition
from kip_replay.replay.min_isr_acks.reasons import OFFSET_NOT_IN_LOG
from kip_replay.replay.min_isr_acks.unlogged import MARKER_BYTES

#: Base offset (None: acks=0, not logged) and bytes of a batch.
Sized = tuple[int | None, int | None]
#: Where a follower fetched, the bytes it was sent, where it fetched next.
Sent = tuple[int, int, int]


def log_of(
    batches: Sequence[Sized], sent: Sequence[Sent], *, transactional: bool = False
) -> History:
    """Batches 20 ms apart, then follower 12, then what bounds the last batch."""
    history = History(isr=(11,), min_isr=1)
    for number, (base, size) in enumerate(batches):
        one = Partition("t", None, 0, size, base, 0)
        history.request(
            20 * number, [one], acks=1 if base is not None else 0, transactional=transactional
        )
    now = 20.0 * len(batches)
    for start, size, end in sent:
        history.fetch(now + 1, 12, start, sent_bytes=size)
        history.fetch(now + 2, 12, end)
        now += 2
    return history


def base_offsets(history: History) -> list[int | None]:
    rows = sorted(history.rows(until_ms=200_000), key=lambda row: row["request_id"])
    return [row["base_offset"] for row in rows]


def test_sizes_that_add_up_end_at_an_edge() -> None:
    """10: 100 bytes, then 200 and 300 without an offset: 300 bytes end behind the first of them."""
    history = log_of([(10, 100), (None, 200), (None, 300)], [(10, 300, 17)])
    assert base_offsets(history)[2] == 17


def test_batch_that_follows_a_known_end_begins_there() -> None:
    history = log_of([(10, 100), (None, 200)], [(10, 300, 17)])
    history.request(100, [Partition("t", None, 0, 50, None, None)], acks=0)
    assert base_offsets(history)[2] == 17


def test_edges_carry_on_without_a_logged_offset() -> None:
    sizes: list[Sized] = [(0, 10), (None, 20), (None, 30), (None, 40)]
    assert base_offsets(log_of(sizes, [(0, 10, 3), (3, 20, 5), (5, 70, 9)]))[:3] == [0, 3, 5]


def test_markers_between_batches_are_counted_but_leave_the_first_offset_open() -> None:
    """The edge behind a marker: the batch begins there or behind another marker."""
    batches: list[Sized] = [(10, 100), (None, 200)]
    sent = [(10, 100 + MARKER_BYTES, 12)]
    assert base_offsets(log_of(batches, sent, transactional=True))[1] is None
    # From there it is exact again where the sizes of two batches add up.
    more = log_of([*batches, (None, 30)], [*sent, (12, 200, 15)], transactional=True)
    assert base_offsets(more)[1:] == [None, None]


@pytest.mark.parametrize(
    ("record_bytes", "why"),
    [
        (150, "ends in the middle of a batch"),
        (100 + MARKER_BYTES, "a marker, where nobody is transactional"),
        (900, "more than was appended"),
    ],
)
def test_sizes_that_do_not_add_up_place_nothing(record_bytes: int, why: str) -> None:
    assert base_offsets(log_of([(10, 100), (None, 200)], [(10, record_bytes, 12)]))[1] is None, why


@pytest.mark.parametrize(("start", "end"), [(11, 17), (10, 10)])
def test_from_an_edge_that_is_not_known_nothing_is_placed(start: int, end: int) -> None:
    assert base_offsets(log_of([(10, 100), (None, 200)], [(start, 100, end)]))[1] is None


def test_batch_of_unknown_size_is_not_passed() -> None:
    assert base_offsets(log_of([(10, None), (None, 50)], [(10, 100, 12)]))[1] is None


def test_disagreement_makes_what_depends_on_the_order_unknown() -> None:
    """150 bytes end in the middle of a batch: the next ones may lie elsewhere than counted."""
    rows = {}
    for record_bytes in (300, 150):
        history = log_of([(10, 100), (None, 200), (15, 100)], [(10, record_bytes, 15)])
        history.alter_partition(-500, (11, 12), -400)
        history.fetch(-1, 12, 10)
        rows[record_bytes] = history.rows(until_ms=200_000)[1]
    assert rows[300]["reason"] is None
    assert rows[150]["reason"] == OFFSET_NOT_IN_LOG


def test_memory_is_bounded_and_who_is_far_behind_places_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unlogged, "BATCHES_KEPT", 64)
    end = 3 * 64

    def placed(start: int) -> Row:
        history = History()
        for number in range(end):
            history.request(0.01 * number, [Partition("t", None, 0, 10, number, 0)], acks=1)
        history.request(200, [Partition("t", None, 0, 10, None, None)], acks=0)
        history.fetch(300, 12, start, sent_bytes=10)
        history.fetch(301, 12, start + 1)
        return next(row for row in history.rows() if row["acks"] == 0)

    assert placed(0)["base_offset"] is None
    assert placed(end - 1)["base_offset"] == end
