"""How long a follower takes from one response to its next FETCH, as the log shows it."""

from bisect import bisect_right
from operator import itemgetter
from typing import NamedTuple

import msgspec

#: A cycle is a pause if it is so much longer than the shortest of the last ``RECENT``: the follower
#: stopped, or the leader did. Whoever waits for a pause waits to its end.
PAUSE_US, RECENT = 200_000, 64
#: What is drawn at a time follows from the log up to so long after it.
LOOKAHEAD_US = 10_000_000


class Cycle(NamedTuple):
    """A response was built, the next FETCH was noted, its handler was done (microseconds)."""

    begin_us: int
    noted_us: int
    handled_us: int


class Cycles(msgspec.Struct, array_like=True):
    """Cycles of one follower: a response was built, its next FETCH is noted, its handler is done.

    Network, appending and handling are in it; it does not depend on when a producer sends. A cycle
    is ``quiet`` if no PRODUCE that a response had held back was being handled in it: those come in
    bursts, which delay the follower, and another rule has other bursts.
    """

    built_us: int = -1
    recent: list[int] = []
    quiet: list[Cycle] = []
    others: list[Cycle] = []
    pauses: list[Cycle] = []

    def fetched(self, noted_us: int, handled_us: int, built_us: int, held_back_us: int) -> None:
        """The follower's next FETCH; PRODUCEs held back were handled up to ``held_back_us``."""
        begin_us, self.built_us = self.built_us, built_us
        if begin_us < 0 or noted_us < begin_us:
            return
        self.recent = [*self.recent[1 - RECENT :], noted_us - begin_us]
        kind = self.others if held_back_us >= begin_us else self.quiet
        if noted_us - begin_us > min(self.recent) + PAUSE_US:
            kind = self.pauses
        kind.append(Cycle(begin_us, noted_us, handled_us))

    def after(self, at_us: int) -> Cycle | None:
        """What follows a response of ``at_us``; None if the log has no FETCH up to the look-ahead.

        A pause that has begun ends when it did; else the cycle nearest in time is drawn, a quiet
        one if there is one.
        """
        known_us = at_us + LOOKAHEAD_US
        if at_us >= self.built_us:
            return None
        begun = _begun(self.pauses, at_us)
        if begun and (pause := self.pauses[begun - 1]).noted_us > at_us:
            return pause if pause.noted_us <= known_us else None
        nearest = _nearest(self.quiet, at_us, known_us) or _nearest(self.others, at_us, known_us)
        if nearest is None:
            return None
        later_us = at_us - nearest.begin_us
        return Cycle(at_us, nearest.noted_us + later_us, nearest.handled_us + later_us)

    def forget(self, before_us: int) -> None:
        """Nothing is drawn any more at times before this one."""
        for cycles in (self.quiet, self.others, self.pauses):
            del cycles[: max(_begun(cycles, before_us - 1) - 1, 0)]


def _begun(cycles: list[Cycle], at_us: int) -> int:
    """How many cycles have begun by a time."""
    return bisect_right(cycles, at_us, key=itemgetter(0))


def _nearest(cycles: list[Cycle], at_us: int, known_us: int) -> Cycle | None:
    """The cycle that begins nearest to a time, of those that have ended by ``known_us``."""
    begun = _begun(cycles, at_us)
    near = [one for one in cycles[max(begun - 1, 0) : begun + 1] if one.noted_us <= known_us]
    return min(near, key=lambda one: abs(one.begin_us - at_us), default=None)
