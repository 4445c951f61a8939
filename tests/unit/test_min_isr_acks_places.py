"""Batches without a base offset, placed by the bytes that followers fetched. Synthetic."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from oracles.min_isr_acks.places import BATCHES_KEPT, MARKER_BYTES, Places


@dataclass
class Sized:
    """A batch as far as its place is concerned."""

    base_offset: int | None
    record_bytes: int | None
    floor: int = 0
    ceiling: int | None = None
    is_doubtful: bool = False

    @property
    def bounds(self) -> tuple[int, int | None]:
        return self.floor, self.ceiling


def appended(*batches: Sized, has_markers: bool = False) -> Places:
    places = Places(has_markers)
    for batch in batches:
        places.append(batch)
    return places


def test_sizes_that_add_up_end_at_an_edge() -> None:
    """10: 100 bytes, then 200 and 300 without an offset: 300 bytes end behind the first of them."""
    first, second = Sized(None, 200), Sized(None, 300)
    places = appended(Sized(10, 100), first, second)
    places.fetched(10, 17, 300)
    assert first.ceiling == 16
    assert second.bounds == (17, 17)


def test_batch_that_follows_a_known_end_begins_there() -> None:
    places = appended(Sized(10, 100), Sized(None, 200))
    places.fetched(10, 17, 300)
    later = Sized(None, 50)
    places.append(later)
    assert later.bounds == (17, 17)


def test_edges_carry_on_without_a_logged_offset() -> None:
    batches = [Sized(None, size) for size in (20, 30, 40)]
    places = appended(Sized(0, 10), *batches)
    for start, end, size in ((0, 3, 10), (3, 5, 20), (5, 9, 70)):
        places.fetched(start, end, size)
    assert [batch.bounds for batch in batches[:2]] == [(3, 3), (5, 5)]
    assert batches[2].ceiling == 8


def test_markers_between_batches_are_counted_but_leave_the_first_offset_open() -> None:
    first = Sized(None, 200)
    places = appended(Sized(10, 100), first, has_markers=True)
    places.fetched(10, 12, 100 + MARKER_BYTES)
    # The edge behind a marker: the batch begins there or behind another marker.
    assert first.bounds == (12, None)


@pytest.mark.parametrize(
    ("record_bytes", "why"),
    [
        (150, "ends in the middle of a batch"),
        (100 + MARKER_BYTES, "a marker, where nobody is transactional"),
        (900, "more than was appended"),
    ],
)
def test_sizes_that_do_not_add_up_place_nothing(record_bytes: int, why: str) -> None:
    batch = Sized(None, 200)
    appended(Sized(10, 100), batch).fetched(10, 12, record_bytes)
    assert batch.bounds == (0, None), why


def test_two_ways_to_add_up_place_nothing() -> None:
    batch = Sized(None, MARKER_BYTES)
    appended(Sized(10, 100), batch, has_markers=True).fetched(10, 12, 100 + MARKER_BYTES)
    assert batch.bounds == (0, None)


@pytest.mark.parametrize(("start", "end"), [(11, 17), (10, 10)])
def test_from_an_edge_that_is_not_known_nothing_is_placed(start: int, end: int) -> None:
    batch = Sized(None, 200)
    appended(Sized(10, 100), batch).fetched(start, end, 100)
    assert batch.bounds == (0, None)


def test_batch_of_unknown_size_is_not_passed() -> None:
    behind = Sized(None, 50)
    appended(Sized(10, None), behind).fetched(10, 12, 100)
    assert behind.bounds == (0, None)


def test_memory_is_bounded_and_who_is_far_behind_places_nothing() -> None:
    places = appended(*(Sized(n, 10) for n in range(3 * BATCHES_KEPT)))
    last = Sized(None, 10)
    places.append(last)
    places.fetched(0, 1, 10)
    end = 3 * BATCHES_KEPT
    places.fetched(end - 1, end, 10)
    assert last.bounds == (end, end)
