"""When a replica could have given a consumer the first record of a read.

A FETCH that waits is responded to once the high watermark of the replica passes its offset. The
leader's moves when the last follower in sync has the record. A follower's moves when a response of
the leader carries a higher one (``ReplicaFetcherThread``), at most to its own log end offset. A
consumer that reads committed records waits for the last stable offset in the same way.
"""

from typing import NamedTuple

from ..outcomes import Variant
from .constants import NOTED_US, TRANSACTION_US
from .events import ReplicaEvent
from .outcomes import CLOSEST_HWM_AWARE, FETCH_WAIT_MS
from .partition import FollowerHistory, LearnedWatermark, ReadPartition

READ_COMMITTED = 1


class Given(NamedTuple):
    """When a replica would have given the record, and at the earliest; microseconds."""

    earliest_us: int | None
    at_us: int


class Moments:
    """When the leader and each follower would have given a consumer the first record of a read."""

    def __init__(self, partition: ReadPartition, read: ReplicaEvent) -> None:
        self._partition, self._read = partition, read
        self._await(read.fetch_offset + 1)
        is_committed = read.isolation_level == READ_COMMITTED and read.is_awaited
        if is_committed and read.at_us - self._own_us > TRANSACTION_US:
            self._await(max(self._offset, read.last_stable_offset))
        self.leader = Given(None, self._at(self._passed_us))

    def _await(self, offset: int) -> None:
        """Lets the FETCH wait for a high watermark, unless the replica had it when it came.

        ``_passed_us``: when the leader had it; ``_own_us``: when the replica it came to had it.
        """
        partition, read, self._offset = self._partition, self._read, offset
        self._passed_us = self._own_us = partition.passed(offset, read.at_us)
        follower = partition.followers.get(read.broker_id)
        if follower and (learned := self._learned(follower)):
            self._own_us = learned.at_us
        self._waits = read.is_awaited and self._own_us >= read.dequeued_us - NOTED_US

    def follower(self, replica_id: int, variant: Variant) -> Given | None:
        """Returns when a follower would have given it; None: no response shows it learning that."""
        follower = self._partition.followers.get(replica_id)
        learned = self._learned(follower, variant) if follower else None
        return learned and Given(learned.earliest_us, self._at(learned.at_us))

    def _at(self, at_us: int) -> int:
        """Returns when the FETCH gets records that are there at a time: not before it comes."""
        return at_us if self._waits else max(at_us, self._read.dequeued_us)

    def _learned(self, follower: FollowerHistory, variant: Variant | None = None) -> Given | None:
        """Returns when a follower has what the FETCH waits for; without a variant, as recorded."""
        response = follower.learns(self._offset)
        is_first = response is not None and response is follower.learned[0]
        if response is None or (is_first and self._partition.returned.values[0] >= self._offset):
            return None  # an earlier response, older than the log, may have had it
        way_us, built_us = response.way_us, response.built_us
        has = follower.has.reached(self._offset)
        arrives_us = has[0] if has else 0
        if variant and variant.parameter == FETCH_WAIT_MS:
            built_us = min(built_us, self._expires(response, 1000 * variant.parameter_value))
        elif variant and variant.name == CLOSEST_HWM_AWARE:
            built_us = min(built_us, max(self._passed_us, arrives_us))
        # Its log has the record half of the way there and back before its next FETCH says so.
        return Given(response.built_us, max(built_us + way_us, arrives_us - way_us))

    def _expires(self, response: LearnedWatermark, wait_us: int) -> int:
        """Returns when the first of a follower's FETCHes, each of which waits ``wait_us``, ends
        after the leader's high watermark moved.
        """
        cycle_us, end_us = wait_us + 2 * response.way_us, response.received_us + wait_us
        behind_us = self._passed_us - end_us
        return end_us + max(0, -(-behind_us // cycle_us)) * cycle_us
