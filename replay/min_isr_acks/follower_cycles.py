"""How long a follower takes from one response to its next FETCH, as the log shows it.

A cycle is a distance and work. The distance, there and back, is what ``IN_A_ROW`` cycles in a row
had at least: a morphological opening, which keeps a step where the distance changes and drops what
is longer for a few cycles only. What a cycle took more is the work of both brokers.

Each is drawn by what it depends on. The distance depends on the time alone: it is that of the cycle
nearest in time. Work depends on what else both have to do. PRODUCEs that responses had held back
come in bursts, and another rule has other bursts; two make one, a single one delays nobody (in 7
of 10 leaders' logs cycles beside one take as long as quiet ones). Work is that of a cycle beside a
burst where the simulated cluster has one, of a quiet one where it has none: the nearest in time,
however far that is, since the distance it ran at is not in it.
"""

from bisect import bisect_right
from typing import NamedTuple

import msgspec

#: A cycle is a pause if it is so much longer than the shortest of the last ``RECENT``: the follower
#: stopped, or the leader did. Whoever waits for a pause waits to its end.
PAUSE_US, RECENT = 200_000, 64
#: What is drawn at a time follows from the log up to so long after it.
LOOKAHEAD_US = 10_000_000
#: Cycles that tell the distance: more than a burst lasts, fewer than distances stay the same for.
IN_A_ROW = 8


class Cycle(NamedTuple):
    """A cycle of the log; ``known_us``: when the log shows all that it is made of.

    ``length_us`` is until the FETCH was noted, ``handler_us`` how long its handler took from then.
    """

    begin_us: int
    length_us: int
    handler_us: int
    in_burst: bool
    distance_us: int = 0
    known_us: int = 0


class Series(msgspec.Struct, array_like=True):
    """Cycles in order."""

    begin_us: list[int] = []
    cycles: list[Cycle] = []

    def add(self, cycle: Cycle) -> None:
        self.begin_us.append(cycle.begin_us)
        self.cycles.append(cycle)

    def near(self, at_us: int) -> Cycle | None:
        """The one nearest to a time, of those that the log shows up to the look-ahead."""
        begin_us, cycles = self.begin_us, self.cycles
        place = bisect_right(begin_us, at_us)
        if place == len(begin_us) or (
            place and at_us - begin_us[place - 1] <= begin_us[place] - at_us
        ):
            place -= 1
        while place >= 0 and cycles[place].known_us > at_us + LOOKAHEAD_US:
            place -= 1
        return cycles[place] if place >= 0 else None

    def forget(self, before_us: int) -> None:
        gone = max(bisect_right(self.begin_us, before_us - 1) - 1, 0)
        del self.begin_us[:gone], self.cycles[:gone]


class Cycles(msgspec.Struct, array_like=True):
    """Cycles of one follower.

    ``unsettled``: the last ones, whose distance what follows may still change. ``lengths_us`` are
    the last ones in a row, ``shortest_us`` the shortest up to each of the last ones. ``pauses``:
    from, until noted and until handled.
    """

    number: int = 0
    built_us: int = -1
    recent: list[int] = []
    unsettled: list[Cycle] = []
    lengths_us: list[int] = []
    shortest_us: list[int] = []
    all: Series = msgspec.field(default_factory=Series)
    quiet: Series = msgspec.field(default_factory=Series)
    in_bursts: Series = msgspec.field(default_factory=Series)
    pauses: list[tuple[int, int, int]] = []

    def fetched(self, noted_us: int, handled_us: int, built_us: int, burst_us: int) -> None:
        """The follower's next FETCH; the last burst was handled up to ``burst_us``."""
        begin_us, self.built_us = self.built_us, built_us
        if begin_us < 0 or noted_us < begin_us:
            return
        length_us = noted_us - begin_us
        self.recent = [*self.recent[1 - RECENT :], length_us]
        if length_us > min(self.recent) + PAUSE_US:
            self.pauses.append((begin_us, noted_us, handled_us))
            return
        self.number += 1
        in_burst = burst_us >= begin_us
        cycle = Cycle(begin_us, length_us, handled_us - noted_us, in_burst)
        # The shortest of so many in a row, then the longest of these that the settled one is in.
        self.lengths_us = [*self.lengths_us[1 - IN_A_ROW :], length_us]
        self.unsettled.append(cycle)
        if len(self.lengths_us) < IN_A_ROW:
            return
        self.shortest_us = [*self.shortest_us[1 - IN_A_ROW :], min(self.lengths_us)]
        cycle = self.unsettled.pop(0)
        cycle = cycle._replace(distance_us=max(self.shortest_us), known_us=noted_us)
        self.all.add(cycle)
        (self.in_bursts if cycle.in_burst else self.quiet).add(cycle)

    def after(self, at_us: int, *, in_burst: bool) -> tuple[int, int] | None:
        """When the FETCH after a response is noted and its handler done.

        None if the log has no FETCH up to the look-ahead. A pause that has begun ends when it did.
        """
        if at_us >= self.built_us:
            return None
        for begin_us, noted_us, handled_us in self.pauses:
            if begin_us <= at_us < noted_us:
                return (noted_us, handled_us) if noted_us <= at_us + LOOKAHEAD_US else None
        nearest = self.all.near(at_us)
        if nearest is None:
            return None
        like = nearest
        if nearest.in_burst != in_burst:
            like = (self.in_bursts if in_burst else self.quiet).near(at_us) or nearest
        noted_us = at_us + nearest.distance_us + like.length_us - like.distance_us
        return noted_us, noted_us + like.handler_us

    def forget(self, before_us: int) -> None:
        """Nothing is drawn any more at times before this one."""
        for series in (self.all, self.quiet, self.in_bursts):
            series.forget(before_us)
        self.pauses = [pause for pause in self.pauses if pause[1] >= before_us]
