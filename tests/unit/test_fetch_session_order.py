"""The order of full FETCHes and the sizes of their topics, against listing everything."""

from __future__ import annotations

import random

import pytest

from replay.incremental_fetch.order import FullOrder
from replay.incremental_fetch.runs import TopicRuns
from replay.incremental_fetch.sizes import topics_of
from replay.wire_size.fetch_pieces import fetch_pieces

A, B, C = ("a" * 22, 0), ("b" * 22, 0), ("a" * 22, 1)


def listed(order: list[tuple[str, int]], version: int) -> int:
    pieces = fetch_pieces(version)
    return sum(pieces.topic_bytes(len(topic), n) for topic, n in topics_of(order))


def test_topic_in_two_places_is_two_topics() -> None:
    assert list(TopicRuns.of(17, [A, B, C])) == [("a" * 22, 1), ("b" * 22, 1), ("a" * 22, 1)]


def test_neighbours_meet_when_what_is_between_them_goes() -> None:
    runs = TopicRuns.of(17, [A, B, C])
    runs.move_to_end(B)
    assert list(runs) == [("a" * 22, 2), ("b" * 22, 1)]
    runs.remove(B)
    assert list(runs) == [("a" * 22, 2)]
    runs.append(B)
    runs.move_to_end(A)
    assert list(runs) == [("a" * 22, 1), ("b" * 22, 1), ("a" * 22, 1)]


@pytest.mark.parametrize("version", [7, 12, 17])
@pytest.mark.parametrize("seed", range(5))
def test_runs_are_those_of_the_list(version: int, seed: int) -> None:
    """More than 127 partitions of a topic, so that lengths take a second byte at times."""
    draw = random.Random(seed)
    order: list[tuple[str, int]] = []
    runs = TopicRuns(version)
    for step in range(1500):
        key = (draw.choice(["a", "long name of a topic"]), draw.randrange(150))
        if key not in order:
            order.append(key)
            runs.append(key)
        elif draw.random() < 0.3:
            order.remove(key)
            runs.remove(key)
        else:
            order.remove(key)
            order.append(key)
            runs.move_to_end(key)
        if step % 50 == 0:
            assert list(runs) == topics_of(order)
            assert len(runs) == len(topics_of(order))
        assert runs.topics_bytes == listed(order, version)
    runs.count_at(13)
    assert runs.topics_bytes == listed(order, 13)


def test_empty_again() -> None:
    runs = TopicRuns.of(17, [A, B])
    runs.remove(A)
    runs.remove(B)
    assert (len(runs), runs.topics_bytes, list(runs)) == (0, 0, [])
    runs.append(C)
    assert list(runs) == [("a" * 22, 1)]


def test_follower_puts_at_the_end_what_brought_records_once_it_has_the_answer() -> None:
    order = FullOrder.of(17, [A, B, C])
    for key in (A, B, C):
        order.take(key, has_records=False, is_follower=True)
    order.settle()
    assert order.keys() == [A, B, C]
    order.take(A, has_records=True, is_follower=True)
    order.take(B, has_records=False, is_follower=True)
    assert order.keys() == [A, B, C]
    order.settle()
    assert order.keys() == [B, C, A]


def test_follower_puts_a_new_partition_at_the_end_with_its_first_answer() -> None:
    order = FullOrder.of(17, [A])
    order.take(A, has_records=False, is_follower=True)
    order.settle()
    order.append(B)
    order.take(A, has_records=True, is_follower=True)
    order.take(B, has_records=False, is_follower=True)
    order.settle()
    assert order.keys() == [A, B]


def test_consumer_leaves_partitions_where_they_are() -> None:
    order = FullOrder.of(17, [A, B])
    order.take(A, has_records=True, is_follower=False)
    order.settle()
    assert order.keys() == [A, B]


def test_partition_that_goes_before_the_answer_is_not_put_back() -> None:
    order = FullOrder.of(17, [A, B])
    order.take(A, has_records=True, is_follower=True)
    order.remove(A)
    order.settle()
    assert order.keys() == [B]
    assert len(order) == 1
