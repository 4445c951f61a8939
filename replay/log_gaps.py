"""Gaps in logs, and which outcomes they touch.

An outcome rests on the lines of some nodes over some span of time. Where lines of that span are
missing, the log does not bear it: it is ``unknown``, with ``LOG_GAP`` as the reason. What stays
wrong for longer than an outcome's own span (sessions, an ISR) a rule forgets.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
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


def gaps_of(node_id: int, gaps: Iterable[LogGap]) -> list[LogGap]:
    """Returns the gaps in the log of a node, in order; those that overlap are one."""
    joined: list[LogGap] = []
    for gap in sorted(gap for gap in gaps if gap.node_id == node_id):
        if joined and gap.after_us < joined[-1].before_us:
            joined[-1] = joined[-1]._replace(before_us=max(joined[-1].before_us, gap.before_us))
        else:
            joined.append(gap)
    return joined


def last_begun(gaps: Sequence[LogGap], at: int) -> LogGap | None:
    """Returns, of a node's gaps in order, the last that begins before a time."""
    begun = bisect_left(gaps, at, key=lambda gap: gap.after_us)
    return gaps[begun - 1] if begun else None


def is_touched(gaps: Iterable[LogGap], since_us: int, until_us: int) -> bool:
    """Says whether one of the gaps is between two times."""
    return any(since_us < gap.before_us and until_us > gap.after_us for gap in gaps)


#: The gaps of each recording.
Gaps = Mapping[str, Sequence[LogGap]]
