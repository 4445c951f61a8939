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


class ConsumerSession(msgspec.Struct, array_like=True):
    """A session's partitions, and until when its last FETCH is parked."""

    partitions: set[TopicPartition] = set()
    parked_until_us: int = 0


class Consumers(msgspec.Struct):
    """Consumers' sessions by id, the last used last, and their ids by partition.

    ``parked_until_us``: of partitions that were listed without a session.
    """

    sessions: dict[int, ConsumerSession] = {}
    ids: dict[TopicPartition, set[int]] = {}
    parked_until_us: dict[TopicPartition, int] = {}

    def is_parked(self, partition: TopicPartition, since_us: int) -> bool:
        """Tells whether a FETCH of a partition was parked at a time."""
        if self.parked_until_us.get(partition, 0) > since_us:
            return True
        ids = self.ids.get(partition, ())
        return any(self.sessions[session_id].parked_until_us > since_us for session_id in ids)

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
        if not session_id:
            for partition in listed if until_us else ():
                before_us = self.parked_until_us.get(partition, 0)
                self.parked_until_us[partition] = max(before_us, until_us)
            return
        session = self.sessions.pop(session_id, None) or ConsumerSession()
        self._leave(session_id, session.partitions - listed if is_full else forgotten)
        session.partitions = listed if is_full else (session.partitions - forgotten) | listed
        session.parked_until_us = max(session.parked_until_us, until_us)
        for partition in listed:
            self.ids.setdefault(partition, set()).add(session_id)
        self.sessions[session_id] = session
        if len(self.sessions) > SESSIONS_KEPT:
            oldest = next(iter(self.sessions))
            self._leave(oldest, self.sessions.pop(oldest).partitions)

    def _leave(self, session_id: int, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            ids = self.ids.get(partition, set())
            ids.discard(session_id)
            if not ids:
                self.ids.pop(partition, None)
