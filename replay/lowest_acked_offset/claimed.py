"""A controller that counts what brokers have applied by more than their heartbeats."""

from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from .brokers import Heartbeat
from .controller import HeartbeatManager


class ClaimEvent(NamedTuple):
    """A heartbeat, or else a claim: by other evidence a broker had applied an offset.

    The first three fields order them: at one time claims come first, then who came first.
    """

    at_us: int
    is_beat: bool
    number: int
    broker_id: int
    offset: int
    beat: Heartbeat | None = None


class Claimed(msgspec.Struct):
    """Such a controller, and a heap of what comes later than where it is."""

    manager: HeartbeatManager
    events: list[ClaimEvent] = []
    count: int = 0

    def keep(self, at: int, broker_id: int, offset: int, beat: Heartbeat | None = None) -> None:
        self.count += 1
        order = (at, beat is not None, self.count)
        heappush(self.events, ClaimEvent(*order, broker_id, offset, beat))

    def advance(self, until: int) -> None:
        while self.events and self.events[0].at_us <= until:
            event = heappop(self.events)
            if event.beat is None:
                self.manager.apply(event.at_us, event.broker_id, event.offset)
            else:
                self.manager.heartbeat(event.beat)
        self.manager.advance(until)
