"""Gaps in logs, and which outcomes they touch.

An outcome rests on the lines of some nodes over some span of time. Where lines of that span are
missing, the log does not bear it: it is ``unknown``, with ``LOG_GAP`` as the reason. Each rule says
by table what its rows rest on (``Touch``); what stays wrong for longer than a row's own span
(sessions, an ISR) a rule forgets itself.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .outcomes import made_unknown

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


class Touch(NamedTuple):
    """Selects rows of a table that a gap touches: those whose span overlaps it.

    A row's span is from ``back_us`` before the first of its times ``since`` until ``ahead_us``
    after the last of its times ``until``; times that are null do not count, and a row without any
    is not touched. ``node``: the column with the node on whose lines it rests. ``clears``: columns
    that say nothing then.
    """

    since: tuple[str, ...]
    until: tuple[str, ...]
    node: str
    clears: tuple[str, ...] = ()
    back_us: int = 0
    ahead_us: int = 0

    def marked(self, rows: pa.RecordBatch, gaps: Sequence[LogGap]) -> pa.RecordBatch:
        """The rows; those that a gap touches are unknown. Rows that were so keep their reason."""
        touched = pa.array(self._touched(rows, gaps))
        return made_unknown(rows, touched, LOG_GAP, self.clears)

    def _touched(self, rows: pa.RecordBatch, gaps: Sequence[LogGap]) -> npt.NDArray[np.bool_]:
        since, until = _times(rows, self.since), _times(rows, self.until)
        first_us = pc.fill_null(pc.min_element_wise(*since), ALWAYS_UNTIL_US).to_numpy()
        last_us = pc.fill_null(pc.max_element_wise(*until), ALWAYS_SINCE_US).to_numpy()
        nodes = rows.column(self.node).to_numpy(False)
        touched = np.zeros(rows.num_rows, bool)
        for gap in gaps:
            begins_before = first_us - self.back_us < gap.before_us
            ends_after = last_us + self.ahead_us > gap.after_us
            touched |= (nodes == gap.node_id) & begins_before & ends_after
        return touched


def holes_of(node_id: int, gaps: Iterable[LogGap]) -> list[LogGap]:
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


def _times(rows: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array]:
    return [rows.column(name).cast(pa.int64()) for name in names]


#: The gaps of each recording.
Gaps = Mapping[str, Sequence[LogGap]]
