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
those of its session (KIP-227): a full FETCH lists all, an incremental one what changed. A fetcher
(a session, or a single FETCH without one) and its partitions are linked by ``MEMBERSHIP``s, which
are not unlinked but flagged, until the arrays are packed.

Where it can fail:

* A pause may as well fall before the consumer's response, or behind the producer's.
* A follower's FETCH of many partitions: a pause behind another one's consumers is not counted.
* A consumer that reads committed records waits for transactions too and may stay parked.
* Who wants more than ``ENOUGH_BYTES`` is often looked at and left parked: it is taken for absent.
* Of a session that began before the log, only what it has listed since is known.
"""

from __future__ import annotations

from kip_replay.replay.min_isr_acks.compiled import compiled
from kip_replay.replay.min_isr_acks.inputs import Events, Rows
from kip_replay.replay.min_isr_acks.state import NOWHERE, NULL, State

#: From the last response of a handler to its end. Where no consumer is parked, 0.2 to 0.7 ms pass
#: (medians of recordings of Kafka 4.0 to 4.2), half of the time of a handler without a pause.
AFTER_RESPONSE_US = 500
#: A FETCH that is responded to so soon after its handler was never parked: times are rounded.
AT_ONCE_US = 100
#: fetch.min.bytes that any record satisfies.
ENOUGH_BYTES = 1
#: Sessions remembered, the last used: ten times Kafka's max.incremental.fetch.session.cache.slots.
SESSIONS_KEPT = 10_000


@compiled
def consumer_fetch(s: State, events: Events, e: int, rows: Rows) -> None:
    """Take a consumer's FETCH (``Kind.CONSUMER_FETCH``) and which partitions it lists."""
    owner = events.party[e]
    until_us = _parked_until_us(events, e)
    fetcher, used = s.fetchers[owner], s.used[0]
    if not fetcher.is_session and until_us <= events.at_us[e]:
        return
    if not fetcher.is_kept:
        fetcher.is_kept = True
        used.sessions += fetcher.is_session
    used.turn += 1
    fetcher.last_turn, fetcher.parked_until_us = used.turn, until_us
    for r in range(events.first_row[e], events.first_row[e + 1]):
        if rows.is_forgotten[r] == 1:
            _leave(s, owner, rows.leader[r])
        else:
            _join(s, owner, rows.leader[r])
    if events.is_full[e] == 1:
        m = fetcher.memberships
        while m != NOWHERE:
            if s.memberships[m].turn != used.turn:
                s.memberships[m].is_member = False
            m = s.memberships[m].next_partition
    if used.sessions > SESSIONS_KEPT:
        _forget_unused(s)


@compiled
def is_parked(s: State, p: int, since_us: int) -> bool:
    """Whether a FETCH with a partition is parked now, and was still parked at an earlier time."""
    m = s.leaders[p].owners
    while m != NOWHERE:
        one = s.memberships[m]
        if one.is_member and s.fetchers[one.fetcher].parked_until_us > since_us:
            return True
        m = one.next_owner
    return False


@compiled
def _membership(s: State, owner: int, p: int) -> int:
    m = s.leaders[p].owners
    while m != NOWHERE and s.memberships[m].fetcher != owner:
        m = s.memberships[m].next_owner
    return int(m)


@compiled
def _join(s: State, owner: int, p: int) -> None:
    m = _membership(s, owner, p)
    used, leader, fetcher = s.used[0], s.leaders[p], s.fetchers[owner]
    if m == NOWHERE:
        m = used.memberships
        used.memberships += 1
        one = s.memberships[m]
        one.fetcher, one.leader = owner, p
        one.next_owner, leader.owners = leader.owners, m
        one.next_partition, fetcher.memberships = fetcher.memberships, m
    s.memberships[m].is_member = True
    s.memberships[m].turn = used.turn


@compiled
def _leave(s: State, owner: int, p: int) -> None:
    m = _membership(s, owner, p)
    if m != NOWHERE:
        s.memberships[m].is_member = False


@compiled
def _forget_unused(s: State) -> None:
    """The session that was used the longest time ago."""
    oldest = NOWHERE
    for i in range(s.used[0].fetchers):
        one = s.fetchers[i]
        is_older = oldest == NOWHERE or one.last_turn < s.fetchers[oldest].last_turn
        if one.is_session and one.is_kept and is_older:
            oldest = i
    forgotten = s.fetchers[oldest]
    m = forgotten.memberships
    while m != NOWHERE:
        s.memberships[m].is_member = False
        m = s.memberships[m].next_partition
    forgotten.is_kept = False
    s.used[0].sessions -= 1


@compiled
def _parked_until_us(events: Events, e: int) -> int:
    """When a FETCH left the purgatory; -1 if it never was in it, or waits for many bytes."""
    built_us, wanted = events.built_us[e], events.min_bytes[e]
    if built_us == NULL or (wanted != NULL and wanted > ENOUGH_BYTES):
        return -1
    return built_us if built_us - events.at_us[e] > AT_ONCE_US else -1
