"""The replica that a consumer reads a partition from (KIP-392), as its leader and it decide.

In the order of Kafka's ``ReplicaView``, ``RackAwareReplicaSelector`` with what
``ReplicaManager.findPreferredReadReplica`` gives it, and the consumer's ``SubscriptionState``.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

#: ``metadata.max.age.ms``: how long a consumer reads from the replica that its leader preferred.
METADATA_MAX_AGE_US = 300_000_000
#: FETCH requests have a rack id from this version on.
RACK_ID_VERSION = 11


class ReplicaView(NamedTuple):
    """An in-sync follower as the leader knows it; ``caught_up_us``: when it last was caught up."""

    replica_id: int
    rack: str | None
    log_end_offset: int
    caught_up_us: int
    log_start_offset: int = -1


#: Of several with the client's rack, the greatest (``RackAwareReplicaSelector``).
_PREFERENCE = attrgetter("log_end_offset", "caught_up_us", "replica_id")


def select(
    leader_id: int,
    leader_rack: str | None,
    followers: Iterable[ReplicaView],
    fetch_offset: int,
    rack_id: str | None,
) -> int:
    """Returns the id of the replica that ``RackAwareReplicaSelector`` chooses.

    Of the replicas with the client's rack that have the fetch offset: the leader, else the one with
    the largest log end offset, then the one that was caught up last, then the larger id; the leader
    if there is none.
    """
    if not is_same_rack(rack_id, leader_rack):
        near = [
            replica
            for replica in followers
            if is_same_rack(rack_id, replica.rack)
            and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
        ]
        if near:
            return max(near, key=_PREFERENCE).replica_id
    return leader_id


def is_same_rack(client_rack: str | None, rack: str | None) -> bool:
    """Compares ``client.rack`` with ``broker.rack``, case included; not set is no rack."""
    return bool(client_rack) and client_rack == rack


class PreferredReadReplica(NamedTuple):
    """A redirect that a consumer remembers (``SubscriptionState.preferredReadReplica``)."""

    replica_id: int
    expires_us: int

    @classmethod
    def chosen(cls, replica_id: int, at_us: int) -> "PreferredReadReplica":
        """Returns the redirect by a response at a time; it expires with the metadata."""
        return cls(replica_id, at_us + METADATA_MAX_AGE_US)
