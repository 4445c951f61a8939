"""Consumers' FETCHes that are parked on a leader's partitions: who is answered before a producer.

When a follower's FETCH moves the high watermark, its handler completes what waits for the
partition, one after the other: first the FETCHes, then the PRODUCEs
(``Partition.updateFollowerFetchState``, ``DelayedOperations.checkAndCompleteAll``). Followers wait
for appends and are left alone; a consumer waits for the high watermark (or the last stable offset)
and is answered. Its answer wakes a network thread, which sends and logs it, and on a busy broker
takes the handler's core for that: what a handler takes beyond an ordinary one lies behind the
first answer. So with a consumer parked, a producer is answered when the handler is nearly done;
``AFTER_ANSWER_US`` is what an ordinary one still has to do then.

Only whether a FETCH was parked is asked, never when exactly it was answered. Its partitions are
those of its session (KIP-227): a full FETCH lists all, an incremental one what changed.

Where it can fail:

* A pause may as well fall before the consumer's answer, or behind the producer's.
* A follower's FETCH of many partitions: a pause behind another one's consumers is not counted.
* A consumer that reads committed records waits for transactions too and may not be answered.
* Who wants more than ``ENOUGH_BYTES`` is often looked at and left parked: it is taken for absent.
* Of a session that began before the log, only what it has listed since is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from kip_replay.replay.min_isr_acks.events import PROGRESS_US_MAX, Event

#: Topic and partition.
Key = tuple[str, int]
#: From the last answer of a handler to its end. Where no consumer is parked, 0.2 to 0.7 ms pass
#: (medians of recordings of Kafka 4.0 to 4.2), half of the time of a handler without a pause.
AFTER_ANSWER_US = 500
#: A FETCH that is answered so soon after its handler was never parked: times are rounded.
AT_ONCE_US = 100
#: fetch.min.bytes that any record satisfies.
ENOUGH_BYTES = 1
#: Sessions remembered, the last used: ten times Kafka's max.incremental.fetch.session.cache.slots.
SESSIONS_KEPT = 10_000


class Change(NamedTuple):
    """A partition that a FETCH lists, or (``is_forgotten``) that its session has no more."""

    key: Key
    is_forgotten: bool = False


@dataclass
class Fetcher:
    """A session, or a single FETCH without one: its partitions, and until when it is parked."""

    parked_until_us: int = -1
    partitions: set[Key] = field(default_factory=set)


@dataclass
class Consumers:
    """The consumers of one leader. Fed in the order in which their handlers were done."""

    _sessions: dict[int, Fetcher] = field(default_factory=dict)
    _single: dict[str, Fetcher] = field(default_factory=dict)
    #: When each of ``_single`` is answered, the first on top.
    _due: list[tuple[int, str]] = field(default_factory=list)
    _of_partition: dict[Key, set[int | str]] = field(default_factory=dict)

    def fetch(self, event: Event, changes: list[Change]) -> None:
        """Take a consumer's FETCH (``Kind.CONSUMER_FETCH``) and what it says of partitions."""
        self._forget_answered(event.at_us)
        until_us = _parked_until_us(event)
        if event.session_id:
            fetcher = self._sessions.pop(event.session_id, None) or Fetcher()
            self._sessions[event.session_id] = fetcher
            self._change(event.session_id, fetcher, changes, is_full=bool(event.is_full))
            fetcher.parked_until_us = until_us
            self._forget_unused()
        elif until_us > event.at_us:
            fetcher = self._single.setdefault(event.request_id, Fetcher(until_us))
            heappush(self._due, (until_us, event.request_id))
            self._change(event.request_id, fetcher, changes, is_full=True)

    def is_parked(self, key: Key, since_us: int) -> bool:
        """Whether a FETCH with a partition is parked now, and was not answered before a time."""
        owners = self._of_partition.get(key, ())
        return any(self._fetcher(owner).parked_until_us > since_us for owner in owners)

    def _fetcher(self, owner: int | str) -> Fetcher:
        return self._single[owner] if isinstance(owner, str) else self._sessions[owner]

    def _change(
        self, owner: int | str, fetcher: Fetcher, changes: list[Change], *, is_full: bool
    ) -> None:
        if is_full:
            listed = {change.key for change in changes if not change.is_forgotten}
            self._leave(owner, fetcher, fetcher.partitions - listed)
        for key, is_forgotten in changes:
            if is_forgotten:
                self._leave(owner, fetcher, {key})
            else:
                fetcher.partitions.add(key)
                self._of_partition.setdefault(key, set()).add(owner)

    def _leave(self, owner: int | str, fetcher: Fetcher, keys: set[Key]) -> None:
        for key in keys & fetcher.partitions:
            owners = self._of_partition[key]
            owners.discard(owner)
            if not owners:
                del self._of_partition[key]
        fetcher.partitions -= keys

    def _forget_answered(self, now_us: int) -> None:
        """Single FETCHes that no handler still to come can have met parked."""
        while self._due and self._due[0][0] < now_us - PROGRESS_US_MAX:
            _, owner = heappop(self._due)
            fetcher = self._single.pop(owner)
            self._leave(owner, fetcher, set(fetcher.partitions))

    def _forget_unused(self) -> None:
        while len(self._sessions) > SESSIONS_KEPT:
            oldest = next(iter(self._sessions))
            self._leave(oldest, self._sessions[oldest], set(self._sessions[oldest].partitions))
            del self._sessions[oldest]


def _parked_until_us(event: Event) -> int:
    """When a FETCH left the purgatory; -1 if it was answered at once, or waits for many bytes."""
    if event.built_us is None or (event.min_bytes or 0) > ENOUGH_BYTES:
        return -1
    return event.built_us if event.built_us - event.at_us > AT_ONCE_US else -1
