"""The rows of closest_replica: what a consumer's FETCH read of a partition, under each variant."""

from collections.abc import Sequence
from enum import StrEnum

from ..records import REQUEST_ID, Outcome, Record, Variant
from ..table import At, Bool, Int, Long, Ms, RequiredInt, RequiredText, Text, column, key

NAME = "closest_replica"
LEADER, CLOSEST, CLOSEST_HWM_AWARE = "leader", "closest", "closest_hwm_aware"
#: A sweep of ``replica.fetch.wait.max.ms``.
FETCH_WAIT_MS = "replica_fetch_wait_ms"


class UnknownReason(StrEnum):
    """Names why the replica is not known, or when it would have given the records."""

    LEADER = "no line shows the partition's leader"
    FOLLOWERS = "no line shows which followers are in sync"
    OFFSET = "the FETCH that lists the offset is not in the log"
    HIGH_WATERMARK = "no response tells the follower that high watermark"


def variants(fetch_wait_ms: Sequence[int] = ()) -> list[Variant]:
    """Returns the variants, then ``closest`` with each ``replica.fetch.wait.max.ms``."""
    swept = [Variant(CLOSEST, FETCH_WAIT_MS, value) for value in fetch_wait_ms]
    return [Variant(LEADER), Variant(CLOSEST), Variant(CLOSEST_HWM_AWARE), *swept]


class RecordedRead(Record):
    """A read as recorded: the same under all variants."""

    request_id: RequiredText = REQUEST_ID
    node_id: RequiredInt = column("broker that was read from")
    topic: RequiredText = key("topic name, else topic id")
    partition: RequiredInt = key("partition index")
    leader_id: Int = column("its leader; null: not known")
    client_id: Text = column("clientId, null if the client sent none")
    client_zone: Text = column("rack id of the FETCH, else by client_zones; null: not known")
    has_rack_id: Bool = column("the FETCH has a rack id: client.rack is set")
    fetch_offset: Long = column("the first offset read; null: of a session older than the log")
    record_bytes: Long = column("records of this partition; 0: a redirect")
    request_bytes: Long = column("of the request, an equal share of each partition with records")
    response_bytes: Long = column("of the response besides records, likewise")
    preferred_read_replica: Int = column("that the recorded response names; null: none")
    dequeued_at: At = column("the request was taken up")
    built_at: At = column("the recorded response was built")
    is_awaited: Bool = column("the FETCH waited for records, else they waited for it")


class ClosestReplicaOutcome(
    Outcome, name="closest_replica_outcomes", rule=NAME, shares=(RecordedRead,)
):
    """Each partition that a consumer's FETCH returned records of, or redirected: who serves it,
    from where, and when.
    """

    replica_id: Int = column("the replica that would be read from; null: not known")
    replica_zone: Text = column("its broker.rack; null: not known")
    is_cross_zone: Bool = column("client and replica are in two zones; null: not known")
    even_share: Ms = column("share of it across zones if such clients were in all zones evenly")
    is_redirected: Bool = column("the leader would name that replica now, in an empty response")
    given_at_earliest: At = column("that replica can't have given the first record sooner")
    given_at: At = column("that replica would have given the first record, estimated")
    added_ms: Ms = column("so much later than the leader")
