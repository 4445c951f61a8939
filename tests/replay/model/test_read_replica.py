"""The replica that RackAwareReplicaSelector chooses, by its rules in their order."""

import pytest

from kip_replay.replay.model.read_replica import ReplicaView, is_same_rack, select

FOLLOWERS = [
    ReplicaView(12, "b", 10, 5),
    ReplicaView(13, "c", 9, 7),
    ReplicaView(14, "c", 9, 8),
    ReplicaView(15, "d", 3, 9),
]


@pytest.mark.parametrize(
    ("rack", "chosen", "why"),
    [
        (None, 11, "no rack"),
        ("", 11, "client.rack is not set"),
        ("e", 11, "no replica is there"),
        ("a", 11, "the leader is there"),
        ("B", 12, "the case of a rack does not count"),
        ("c", 14, "as far as 13, and caught up later"),
        ("d", 11, "the only one there does not have the offset"),
    ],
)
def test_a_leader_names_the_replica_in_the_rack_of_the_client(
    rack: str | None, chosen: int, why: str
) -> None:
    assert select(11, "a", FOLLOWERS, 9, rack) == chosen, why


def test_the_most_caught_up_is_the_one_with_the_largest_log_end_offset() -> None:
    behind = ReplicaView(13, "b", 9, 100)
    assert select(11, "a", [behind, FOLLOWERS[0]], 5, "b") == 12


def test_what_has_no_rack_is_in_none() -> None:
    assert not is_same_rack(None, None)
    assert not is_same_rack("", "")
