"""Gaps in logs, and which outcomes they touch.

An outcome rests on the lines of some nodes over some span of time. Where lines of that span are
missing, the outcome is ``unknown``, with ``LOG_GAP`` as the reason. Where a gap makes a state
uncertain for longer than that (a session, an ISR), the rule forgets the state.
"""

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

#: Reason of outcomes that rest on lines that are missing.
LOG_GAP = "lines of a log that it rests on are missing"
#: Bounds of a gap that reaches from the beginning of the log, or to its end; UTC microseconds.
ALWAYS_SINCE_US, ALWAYS_UNTIL_US = -(1 << 62), 1 << 62


class LogGap(NamedTuple):
    """Lines of a node are missing that were written between two moments, UTC microseconds.

    ``after_us``: completion of the last line before; ``before_us``: completion of the first after.
    """

    node_id: int
    after_us: int
    before_us: int


class Gaps:
    """The gaps in the logs of a recording's nodes, where lines may be missing.

    Those of a node that overlap are one.
    """

    def __init__(self, gaps: Iterable[LogGap] = ()) -> None:
        self._by_node: dict[int, list[LogGap]] = {}
        for gap in sorted(gaps):
            joined = self._by_node.setdefault(gap.node_id, [])
            if joined and gap.after_us < joined[-1].before_us:
                joined[-1] = joined[-1]._replace(before_us=max(joined[-1].before_us, gap.before_us))
            else:
                joined.append(gap)

    def last(self, node_id: int, since_us: int, until_us: int) -> LogGap | None:
        """Returns the last gap in which a line of a node between two times may be missing."""
        gaps = self._by_node.get(node_id)
        if gaps is None:
            return None
        begun = bisect_left(gaps, until_us, key=attrgetter("after_us"))
        return gaps[begun - 1] if begun and gaps[begun - 1].before_us > since_us else None

    def touch(self, node_id: int, since_us: int, until_us: int) -> bool:
        """Says whether a line of a node that was written between two times may be missing."""
        return self.last(node_id, since_us, until_us) is not None

    def has_begun(self, node_id: int, at_us: int) -> bool:
        """Says whether lines may be missing after the first of a node's log and before a time."""
        gap = self.last(node_id, ALWAYS_SINCE_US, at_us + 1)
        return gap is not None and gap.after_us > ALWAYS_SINCE_US


NO_GAPS = Gaps()
