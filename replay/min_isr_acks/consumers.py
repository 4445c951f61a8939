"""Consumers' FETCHes that are parked on a leader's partitions: they complete before PRODUCEs.

A follower's FETCH that moves the high watermark completes first the consumers' FETCHes that wait
for the partition, then the PRODUCEs (``DelayedOperations.checkAndCompleteAll``). The first response
wakes a network thread, which on a busy broker takes the handler's core: a handler that takes longer
than an ordinary one pauses after that response. So with a consumer parked, a producer gets its
response when the handler is nearly done, ``AFTER_RESPONSE_US`` before its end.

Where it can fail: the pause may come before the consumer's response, after the producer's, or after
the consumers' of another partition of the same FETCH. A consumer that reads committed records waits
for transactions too and may stay parked. One that wants more than ``ENOUGH_BYTES`` often stays
parked when it is looked at, and counts as not there. Of a session that began before the log, only
what it has listed since is known.
"""

import msgspec

from .constants import SESSIONS_KEPT
from .events import TopicPartition


class Consumers(msgspec.Struct):
    """Partitions of consumers' sessions by id, the last used last; until when each is parked on."""

    sessions: dict[int, set[TopicPartition]] = {}
    parked_until_us: dict[TopicPartition, int] = {}

    def is_parked(self, partition: TopicPartition, since_us: int) -> bool:
        """Tells whether a FETCH of a partition was parked at a time."""
        return self.parked_until_us.get(partition, 0) > since_us

    def forget(self, before_us: int) -> None:
        parked = self.parked_until_us.items()
        self.parked_until_us = {key: until_us for key, until_us in parked if until_us >= before_us}

    def fetch(
        self,
        session_id: int,
        listed: set[TopicPartition],
        forgotten: set[TopicPartition],
        is_full: bool,
        until_us: int,
    ) -> None:
        """Notes which partitions a FETCH lists and forgets; ``until_us`` 0: it is not parked."""
        if session_id:
            before = self.sessions.pop(session_id, set())
            if not is_full:
                listed = (before - forgotten) | listed
            self.sessions[session_id] = listed
            if len(self.sessions) > SESSIONS_KEPT:
                del self.sessions[next(iter(self.sessions))]
        for partition in listed if until_us else ():
            before_us = self.parked_until_us.get(partition, 0)
            self.parked_until_us[partition] = max(before_us, until_us)
