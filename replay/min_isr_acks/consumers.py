"""Consumers' FETCHes that are parked on a leader's partitions: they complete before PRODUCEs.

When a follower's FETCH moves the high watermark, its handler completes what waits for the
partition, one after the other: first the FETCHes, then the PRODUCEs
(``Partition.updateFollowerFetchState``, ``DelayedOperations.checkAndCompleteAll``). Followers wait
for appends and are left alone; a consumer waits for the high watermark (or the last stable offset)
and is responded to. That wakes a network thread, which sends and logs it, and on a busy broker
takes the handler's core for that: what a handler takes beyond an ordinary one lies behind the
first response. So with a consumer parked, a producer is responded to when the handler is nearly
done; ``AFTER_RESPONSE_US`` is what an ordinary one still has to do then.

Only whether a FETCH was parked is read, never when exactly it was responded to. Its partitions are
those of its session (KIP-227): a full FETCH lists all, an incremental one what changed.

Where it can fail:

* A pause may as well fall before the consumer's response, or behind the producer's.
* A follower's FETCH of many partitions: a pause behind another one's consumers is not counted.
* A consumer that reads committed records waits for transactions too and may stay parked.
* Who wants more than ``ENOUGH_BYTES`` is often looked at and left parked: it is taken for absent.
* Of a session that began before the log, only what it has listed since is known.
"""

import msgspec
import numpy as np

from .inputs import CONSUMER_FETCH, Events, Rows
from .log import NULL, Array, no_longs

#: From the last response of a handler to its end. Where no consumer is parked, 0.2 to 0.7 ms pass
#: (medians of recordings of Kafka 4.0 to 4.2), half of the time of a handler without a pause.
AFTER_RESPONSE_US = 500
#: A FETCH that is responded to so soon after its handler was never parked: times are rounded.
AT_ONCE_US = 100
#: fetch.min.bytes that any record satisfies.
ENOUGH_BYTES = 1
#: Sessions remembered, the last used: ten times Kafka's max.incremental.fetch.session.cache.slots.
SESSIONS_KEPT = 10_000


class Consumers(msgspec.Struct):
    """Consumers' sessions with their partitions, and until when each partition had one parked."""

    sessions: dict[int, set[int]] = {}
    parked_until_us: Array = msgspec.field(default_factory=no_longs)

    def late_us(self, events: Events, rows: Rows, partitions: int, fetches: Array) -> Array:
        """When producers are responded to who wait behind consumers, a time per row of FETCHes.

        ``fetches``: positions of the rows of followers' FETCHes, in order. NULL: no consumer was
        parked when the handler began.
        """
        unknown = np.full(partitions - len(self.parked_until_us), NULL)
        self.parked_until_us = until_us = np.append(self.parked_until_us, unknown)
        consumers = np.flatnonzero(events.kind == CONSUMER_FETCH)
        event, partition = rows.event[fetches], rows.partition[fetches]
        last_us = np.maximum(events.at_us, events.handled_us - AFTER_RESPONSE_US)[event]
        since_us = events.dequeued_us[event]
        late_us = np.full(len(fetches), NULL)
        begins = [0, *np.searchsorted(event, consumers).tolist()]
        for i, end in enumerate([*begins[1:], len(fetches)]):
            if begins[i] < end:
                some = slice(begins[i], end)
                is_parked = until_us[partition[some]] > since_us[some]
                late_us[some][is_parked] = last_us[some][is_parked]
            if i < len(consumers):
                self._park(events, rows, int(consumers[i]))
        return late_us

    def _park(self, events: Events, rows: Rows, e: int) -> None:
        """Take a consumer's FETCH and which partitions it lists."""
        some = slice(events.first_row[e], events.first_row[e + 1])
        is_forgotten = rows.is_forgotten[some] == 1
        listed = rows.partition[some][~is_forgotten]
        session = int(events.session_id[e])
        if session not in (0, NULL):
            known = set() if events.is_full[e] == 1 else self.sessions.pop(session, set())
            known.difference_update(rows.partition[some][is_forgotten].tolist())
            known.update(listed.tolist())
            self.sessions.pop(session, None)
            self.sessions[session] = known
            listed = np.fromiter(known, np.int64)
            if len(self.sessions) > SESSIONS_KEPT:
                del self.sessions[next(iter(self.sessions))]
        built_us, wanted = events.built_us[e], events.min_bytes[e]
        is_parked = built_us != NULL and built_us - events.at_us[e] > AT_ONCE_US
        if is_parked and not wanted > ENOUGH_BYTES:
            self.parked_until_us[listed] = np.maximum(self.parked_until_us[listed], built_us)
