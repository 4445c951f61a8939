"""How long a follower takes from one response to its next FETCH, as the log shows it.

A cycle's length is a distance, there and back, and the work of both brokers. The distance is the
shortest of ``IN_A_ROW`` cycles in a row: a morphological opening, which keeps a step where the
distance changes and drops what is longer for a few cycles only. The rest of the length is work.

The distance depends on the time alone: a simulated cycle has that of the log's cycle nearest in
time. Work depends on what else both brokers have to do: on bursts, which are two or more PRODUCEs
that responses had held back (beside a single one cycles take as long as quiet ones in 7 of 10
leaders' logs). A simulated cycle in a burst has the work of the nearest cycle in one, any other
that of the nearest quiet one.
"""

from bisect import bisect_left
from typing import NamedTuple

import msgspec

#: A cycle is a pause if it is so much longer than the shortest of the last ``RECENT``: the follower
#: stopped, or the leader did. Whoever waits for a pause waits to its end.
PAUSE_US, RECENT = 200_000, 64
#: A cycle that is drawn for a time depends on the log up to this long after it.
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


def nearest(cycles: list[Cycle], at_us: int) -> Cycle | None:
    """Returns the one nearest to a time, of those that the log shows up to the look-ahead."""
    place = bisect_left(cycles, (at_us + 1,))
    if place == len(cycles) or (
        place and at_us - cycles[place - 1].begin_us <= cycles[place].begin_us - at_us
    ):
        place -= 1
    while place >= 0 and cycles[place].known_us > at_us + LOOKAHEAD_US:
        place -= 1
    return cycles[place] if place >= 0 else None


class Cycles(msgspec.Struct, array_like=True):
    """Cycles of one follower.

    ``incomplete``: the last ones, whose distance later ones may still change. ``lengths_us``: of
    the last row of cycles; ``shortest_us``: the shortest of each of the last rows. ``pauses``: when
    they began, and when the FETCH that ended them was noted and handled.
    """

    number: int = 0
    built_us: int = -1
    recent: list[int] = []
    incomplete: list[Cycle] = []
    lengths_us: list[int] = []
    shortest_us: list[int] = []
    all: list[Cycle] = []
    quiet: list[Cycle] = []
    in_bursts: list[Cycle] = []
    pauses: list[tuple[int, int, int]] = []

    def fetched(self, noted_us: int, handled_us: int, built_us: int, burst_us: int) -> None:
        """Adds the cycle that a FETCH ends; the last burst was handled up to ``burst_us``."""
        begin_us, self.built_us = self.built_us, built_us
        if begin_us < 0 or noted_us < begin_us:
            return
        length_us = noted_us - begin_us
        _keep_last(RECENT, self.recent, length_us)
        if length_us > min(self.recent) + PAUSE_US:
            self.pauses.append((begin_us, noted_us, handled_us))
            return
        self.number += 1
        in_burst = burst_us >= begin_us
        cycle = Cycle(begin_us, length_us, handled_us - noted_us, in_burst)
        # Of each row of cycles the shortest; of the rows that a cycle is in, the longest of these.
        _keep_last(IN_A_ROW, self.lengths_us, length_us)
        self.incomplete.append(cycle)
        if len(self.lengths_us) < IN_A_ROW:
            return
        _keep_last(IN_A_ROW, self.shortest_us, min(self.lengths_us))
        cycle = self.incomplete.pop(0)
        cycle = cycle._replace(distance_us=max(self.shortest_us), known_us=noted_us)
        self.all.append(cycle)
        (self.in_bursts if cycle.in_burst else self.quiet).append(cycle)

    def after(self, at_us: int, *, in_burst: bool) -> tuple[int, int] | None:
        """Returns when the FETCH after a response is noted and its handler done.

        None if the log has no FETCH up to the look-ahead. A pause that has begun ends when it did.
        """
        if at_us >= self.built_us:
            return None
        for begin_us, noted_us, handled_us in self.pauses:
            if begin_us <= at_us < noted_us:
                return (noted_us, handled_us) if noted_us <= at_us + LOOKAHEAD_US else None
        if (near := nearest(self.all, at_us)) is None:
            return None
        alike = near
        if near.in_burst != in_burst:
            alike = nearest(self.in_bursts if in_burst else self.quiet, at_us) or near
        work_us = alike.length_us - alike.distance_us
        noted_us = at_us + near.distance_us + work_us
        return noted_us, noted_us + alike.handler_us

    def forget(self, before_us: int) -> None:
        """Drops what only times before this one draw from."""
        for cycles in (self.all, self.quiet, self.in_bursts):
            place = max(bisect_left(cycles, (before_us,)) - 1, 0)
            # Behind a long pause the last one may be known too late.
            while place and cycles[place].known_us > before_us + LOOKAHEAD_US:
                place -= 1
            del cycles[:place]
        self.pauses = [pause for pause in self.pauses if pause[1] >= before_us]


def _keep_last(count: int, values: list[int], value: int) -> None:
    values.append(value)
    del values[:-count]
