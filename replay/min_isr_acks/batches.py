"""PRODUCEs that are not complete yet, their batches, and when nothing can change them any more."""

from bisect import bisect_left, insort
from typing import NamedTuple

import msgspec

from .events import NEVER, NULL
from .kip_926 import Isr, Partition
from .leadership import Leadership

#: How long after its timeout a batch may still be followed, for its exposure and last offset.
FOLLOWED_US_MAX = 60_000_000
#: A batch is left alone this long: lines a few milliseconds apart may be out of order.
SETTLE_US = 5_000_000


class Request(NamedTuple):
    """A PRODUCE: columns of its outcomes, and its batches' numbers from ``first`` to ``end``."""

    request_id: str
    client_id: str | None
    acks: int
    is_transactional: bool | None
    is_idempotent: bool | None
    received_us: int
    built_us: int
    timeout_us: int
    first: int
    end: int


class Moment(NamedTuple):
    """What completed batches: a follower's FETCH, or else; consumers may be responded to first."""

    at_us: int
    responded_us: int
    earliest_us: int
    latest_us: int
    follower_id: int = NULL
    fetch_id: str | None = None


class Batch(msgspec.Struct, array_like=True, gc=False):
    """A partition of a PRODUCE.

    By requirement: ``completed``, numbers of moments or -1. By variant: ``copies``, how many
    replicas had it at the early ack, ``needed``, how many were needed, and ``missing``, followers
    that did not have it when acks=all was complete. ``waits``: positions of the requirements under
    which it is not complete. ``carried_us``: of a transaction, when a response carried it first
    (NEVER: none did yet); NULL of others. ``next_us``: when what follows it was appended;
    ``blind``: how many batches without a base offset came before it.
    """

    partition: int
    base_offset: int
    record_bytes: int
    error_code: int
    appended_us: int
    until_us: int
    leads: bool
    isr: Isr | None
    min_isrs: list[int]
    completed: list[int]
    copies: list[int]
    needed: list[int]
    missing: list[Isr | None]
    blind: int
    marked_us: int
    carried_us: int = NULL
    waits: list[int] = []
    lost_us: int = NULL
    loss: int = 0
    next_base_offset: int = NULL
    next_us: int = NEVER
    is_next_certain: bool = False
    done_us: int = 0

    def is_final(self, front_us: int) -> bool:
        """Whether nothing changes it that comes after a time."""
        if front_us >= self.until_us:
            return True
        return not self.waits and front_us >= max(self.done_us, self.next_us) + SETTLE_US

    def lose(self, at_us: int, loss: int) -> None:
        """Its leader was lost, or what it waits for is not known from now on."""
        if at_us <= self.until_us and self.lost_us == NULL:
            self.lost_us, self.loss, self.waits = at_us, loss, []
            self.until_us = min(self.until_us, max(at_us, self.appended_us) + SETTLE_US)

    def note_missing(self, partition: Partition) -> None:
        """Take who of the ISR does not have it, of variants whose acks=all is not complete."""
        missing = partition.missing(self.base_offset, self.isr or ())
        for position in self.waits:
            if position % 2 == 0:
                self.missing[position // 2] = missing

    def followed_by(self, other: "Batch", is_in_order: bool) -> None:
        """Take a batch with a larger base offset for the next one, if it is nearer.

        The order of handlers is not that of appends, but a batch that comes long after one with a
        larger base offset is a retry, and was appended before.
        """
        gap_us = other.appended_us - self.appended_us
        is_next = gap_us > -SETTLE_US and (gap_us <= SETTLE_US or is_in_order)
        is_nearer = self.next_base_offset in (NULL, other.base_offset) or (
            other.base_offset < self.next_base_offset
            and other.appended_us <= self.next_us + SETTLE_US
        )
        if is_next and is_nearer and other.appended_us <= self.until_us:
            self.next_base_offset, self.next_us = other.base_offset, other.appended_us
            self.is_next_certain = other.blind <= self.blind


class Led(msgspec.Struct, array_like=True, gc=False):
    """A partition with its open batches: their numbers, and base offsets with numbers in order.

    ``seen_us`` is when a line named it last. ``blind`` counts batches without a base offset,
    ``marked_us`` is when the first transaction began: its marker lies between batches without a
    PRODUCE.
    """

    topic: str
    number: int
    leadership: Leadership
    seen_us: int = 0
    batches: list[int] = []
    bases: list[tuple[int, int]] = []
    logged_end: int = 0
    blind: int = 0
    marked_us: int = NEVER

    def order(self, number: int, batches: dict[int, Batch]) -> None:
        """Find out which batches one lies between."""
        one = batches[number]
        is_in_order = one.base_offset >= self.logged_end
        self.logged_end = max(self.logged_end, one.base_offset + 1)
        place = bisect_left(self.bases, (one.base_offset, -1))
        after = bisect_left(self.bases, (one.base_offset + 1, -1))
        for _, other in self.bases[after : after + 1]:
            one.followed_by(batches[other], is_in_order=False)
        begin = bisect_left(self.bases, (self.bases[place - 1][0], -1)) if place else 0
        for _, other in reversed(self.bases[begin:place]):
            batches[other].followed_by(one, is_in_order)
        insort(self.bases, (one.base_offset, number))

    def forget(self, batches: dict[int, Batch]) -> None:
        """Leave out batches that are not open any more."""
        self.batches = [number for number in self.batches if number in batches]
        self.bases = [entry for entry in self.bases if entry[1] in batches]
