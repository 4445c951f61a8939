"""Consumers' FETCHes that are parked on a leader's partitions: they complete before PRODUCEs.

A follower's FETCH that moves the high watermark completes first the consumers' FETCHes that wait
for the partition, then the PRODUCEs (``DelayedOperations.checkAndCompleteAll``). The first response
wakes a network thread, which on a busy broker takes the handler's core: what a handler takes beyond
an ordinary one lies behind that. So with a consumer parked, a producer is responded to when the
handler is nearly done; ``AFTER_RESPONSE_US`` is what an ordinary one still has to do then.

Where it can fail: a pause may as well fall before the consumer's response, or behind the
producer's, or behind the consumers of another partition of the same FETCH. A consumer that reads
committed records waits for transactions too and may stay parked; who wants more than
``ENOUGH_BYTES`` is often looked at and left parked, and is taken for absent. Of a session that
began before the log, only what it has listed since is known.
"""

import msgspec

from .events import NULL

#: From the last response of a handler to its end. Where no consumer is parked, 0.2 to 0.7 ms pass
#: (medians of recordings of Kafka 4.0 to 4.2), half of the time of a handler without a pause.
AFTER_RESPONSE_US = 500
#: A FETCH that is responded to so soon after its handler was never parked: times are rounded.
AT_ONCE_US = 100
#: fetch.min.bytes that any record satisfies.
ENOUGH_BYTES = 1
#: Sessions remembered, the last used: ten times Kafka's max.incremental.fetch.session.cache.slots.
SESSIONS_KEPT = 10_000


class Session(msgspec.Struct, array_like=True):
    partitions: set[int] = set()
    parked_until_us: int = NULL


class Consumers(msgspec.Struct):
    """Consumers' sessions, of which partitions they are, and until when a FETCH is parked.

    ``parked_until_us``: of partitions that were listed without a session.
    """

    sessions: dict[int, Session] = {}
    of_partition: dict[int, set[int]] = {}
    parked_until_us: dict[int, int] = {}

    def is_parked(self, partition: int, since_us: int) -> bool:
        """Whether a FETCH of a partition was parked at a time."""
        if self.parked_until_us.get(partition, NULL) > since_us:
            return True
        of = self.of_partition.get(partition, ())
        return any(self.sessions[one].parked_until_us > since_us for one in of)

    def partitions(self, at_us: int) -> set[int]:
        """Partitions of sessions, and those that were parked without one at a time or later."""
        parked = self.parked_until_us.items()
        self.parked_until_us = {one: until_us for one, until_us in parked if until_us >= at_us}
        return {*self.of_partition, *self.parked_until_us}

    def fetch(
        self, session_id: int, listed: set[int], forgotten: set[int], is_full: bool, until_us: int
    ) -> None:
        """Take which partitions a FETCH lists and forgets, and until when it is parked or NULL."""
        if session_id in (0, NULL):
            for partition in listed if until_us != NULL else ():
                known_us = self.parked_until_us.get(partition, NULL)
                self.parked_until_us[partition] = max(known_us, until_us)
            return
        known = self.sessions.pop(session_id, None) or Session()
        self._leave(session_id, known.partitions - listed if is_full else forgotten)
        known.partitions = listed if is_full else (known.partitions - forgotten) | listed
        known.parked_until_us = max(known.parked_until_us, until_us)
        for partition in listed:
            self.of_partition.setdefault(partition, set()).add(session_id)
        # The last used come last.
        self.sessions[session_id] = known
        if len(self.sessions) > SESSIONS_KEPT:
            oldest = next(iter(self.sessions))
            self._leave(oldest, self.sessions.pop(oldest).partitions)

    def _leave(self, session_id: int, partitions: set[int]) -> None:
        for partition in partitions:
            of = self.of_partition.get(partition, set())
            of.discard(session_id)
            if not of:
                self.of_partition.pop(partition, None)
