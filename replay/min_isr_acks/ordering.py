"""In which order batches were appended, as far as base offsets show it.

A leader's log has when the handler of each PRODUCE began and ended; the appends lie between, and
the base offsets give their order. A PRODUCE with acks=0 logs none: its batch lies between those of
its neighbours, and where handlers ran at the same time, before or after any of them.
"""

from __future__ import annotations

from kip_replay.replay.min_isr_acks.compiled import compiled
from kip_replay.replay.min_isr_acks.state import NOWHERE, NULL, State

#: Two PRODUCEs whose handlers are no further apart than this may have appended in either order.
ORDER_SLACK_US = 5_000
#: Batches looked at for that.
RIVALS_MAX = 32


@compiled
def order(s: State, p: int, b: int) -> None:
    """Base offsets show the order of appends; they bound those that are not logged."""
    batch = s.batches[b]
    base = batch.base_offset
    if base == NULL:
        return
    behind = 0
    e = s.leaders[p].last_open
    while e != NOWHERE:
        earlier = s.batches[e]
        if earlier.base_offset == NULL:
            behind += 1
            if earlier.ceiling == NULL:
                earlier.ceiling = base - behind
        elif earlier.base_offset < base:
            known = earlier.next_base_offset
            if known == NULL or base < known:
                earlier.next_base_offset = base
                earlier.is_followed_blind = behind > 0
            if known != NULL and known <= base:
                break
        elif earlier.base_offset > base and (
            batch.next_base_offset == NULL or earlier.base_offset < batch.next_base_offset
        ):
            batch.next_base_offset = earlier.base_offset
        e = earlier.before


@compiled
def rival(s: State, p: int, b: int, begun_us: int) -> None:
    """Handlers that ran at the same time: the order of their appends is not in the log."""
    is_logged = s.batches[b].base_offset != NULL
    e, looked_at = s.leaders[p].last_open, 0
    while e != NOWHERE and looked_at < RIVALS_MAX:
        earlier = s.batches[e]
        logged = is_logged and earlier.base_offset != NULL
        if not logged and earlier.appended_us + ORDER_SLACK_US >= begun_us:
            add_rival(s, b, e)
            add_rival(s, e, b)
        e = earlier.before
        looked_at += 1


@compiled
def add_rival(s: State, owner: int, batch: int) -> None:
    """``batch`` may have been appended before or after ``owner``."""
    one = s.rivals[s.used[0].rivals]
    one.owner, one.batch, one.next = owner, batch, s.batches[owner].rival
    s.batches[owner].rival = s.used[0].rivals
    s.used[0].rivals += 1


@compiled
def least_of(s: State, b: int) -> int:
    """The least that a batch's base offset can be, whichever of its rivals came first."""
    batch = s.batches[b]
    if batch.base_offset != NULL:
        return int(batch.base_offset)
    if batch.rival == NOWHERE:
        return int(batch.floor)
    least, r = batch.log_end, batch.rival
    while r != NOWHERE:
        least = min(least, s.batches[s.rivals[r].batch].log_end)
        r = s.rivals[r].next
    return int(least)


@compiled
def most_of(s: State, b: int) -> int:
    """The largest that a batch's base offset can be, NULL if nothing bounds it."""
    batch = s.batches[b]
    if batch.base_offset != NULL:
        return int(batch.base_offset)
    most, r = batch.ceiling, batch.rival
    while most != NULL and r != NOWHERE:
        near = s.batches[s.rivals[r].batch]
        end = near.ceiling if near.base_offset == NULL else near.base_offset
        most = NULL if end == NULL else max(most, end)
        r = s.rivals[r].next
    return int(most)
