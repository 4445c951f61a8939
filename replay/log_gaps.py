"""Gaps in logs, and which outcomes they touch.

An outcome rests on the lines of some nodes over some span of time. Where lines of that span are
missing, the outcome is ``unknown``, with ``LOG_GAP`` as the reason. Where a gap makes a state
uncertain for longer than that (a session, an ISR), the rule forgets the state.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
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
    """The gaps in the logs of a recording's nodes, where lines may be missing."""

    def __init__(self, gaps: Iterable[LogGap] = ()) -> None:
        self._by_node: dict[int, list[LogGap]] = {}
        for gap in sorted(gaps):
            joined = self._by_node.setdefault(gap.node_id, [])
            if joined and gap.after_us < joined[-1].before_us:
                joined[-1] = joined[-1]._replace(before_us=max(joined[-1].before_us, gap.before_us))
            else:
                joined.append(gap)

    def in_log(self, node_id: int) -> Sequence[LogGap]:
        """Returns the gaps in the log of a node, in order; those that overlap are one."""
        return self._by_node.get(node_id, ())

    def last_begun(self, node_id: int, at_us: int) -> LogGap | None:
        """Returns the last gap in the log of a node that begins before a time."""
        if node_id not in self._by_node:
            return None
        gaps = self.in_log(node_id)
        begun = bisect_left(gaps, at_us, key=lambda gap: gap.after_us)
        return gaps[begun - 1] if begun else None

    def touch(self, node_id: int, since_us: int, until_us: int) -> bool:
        """Says whether a line of a node that was written between two times may be missing."""
        gap = self.last_begun(node_id, until_us)
        return gap is not None and gap.before_us > since_us

    def has_begun(self, node_id: int, at_us: int) -> bool:
        """Says whether lines may be missing after the first of a node's log and before a time."""
        gap = self.last_begun(node_id, at_us + 1)
        return gap is not None and gap.after_us > ALWAYS_SINCE_US


NO_GAPS = Gaps()
