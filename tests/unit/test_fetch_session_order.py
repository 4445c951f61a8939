"""The order of full FETCHes and the sizes of their topics, against listing everything."""

import random

import numpy as np
import pyarrow as pa
import pytest

from kip_replay.replay.incremental_fetch.full_order import FullOrder
from kip_replay.replay.incremental_fetch.partitions import Partitions
from kip_replay.replay.kafka.messages.encoding import Ints

#: The third is long enough for a varint of two bytes.
TOPICS = ["a", "bb", "c" * 130]


def numbering() -> Partitions:
    numbers = Partitions()
    numbers.topic_numbers(pa.array(TOPICS))
    return numbers


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def full_order(*slots: int, topics: tuple[int, ...] = (0, 1, 0, 1)) -> FullOrder:
    numbers, of = numbering(), ints(*topics)
    order = FullOrder(lambda some: numbers.totals(of.take(some)))
    order.list_anew(ints(*slots), numbers.totals(of[list(slots)]))
    return order


def take(order: FullOrder, *slots: int, records: tuple[int, ...] = ()) -> None:
    order.respond(ints(*slots), np.isin(slots, records), is_follower=True)


@pytest.mark.parametrize("seed", range(5))
def test_order_is_the_same_however_much_moves_at_once(seed: int) -> None:
    draw = random.Random(seed)
    topics = tuple(draw.choice([0, 0, 1, 2]) for _ in range(60))
    order, expected = full_order(*range(40), topics=topics), list(range(40))
    take(order, *expected)
    order.settle()
    for _ in range(60):
        moved = draw.sample(expected, draw.choice([1, 3, len(expected)]))
        take(order, *moved, records=tuple(moved))
        order.settle()
        expected = [slot for slot in expected if slot not in moved] + moved
        assert order.slots.tolist() == expected
        assert order.totals == numbering().totals(ints(*(topics[slot] for slot in expected)))
        if draw.random() < 0.3:
            gone, new = expected.pop(draw.randrange(len(expected))), draw.randrange(40, 60)
            added = [] if new in expected else [new]
            order.change(ints(gone), ints(*added))
            expected += added
            take(order, *added)


def test_index_that_no_cluster_has_takes_no_room() -> None:
    numbers = numbering()
    odd = ints(2**31 - 1, -1, 4, 2**31 - 1)
    assert numbers.numbers(ints(0, 0, 0, 0), odd).tolist() == [0, 1, 2, 0]
    assert numbers.numbers(ints(0, 1), ints(-1, -1)).tolist() == [1, 3]
    assert numbers.index_of[:4].tolist() == [2**31 - 1, -1, 4, -1]
