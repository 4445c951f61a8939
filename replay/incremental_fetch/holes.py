"""Holes in a broker's log: which streams may have missed a FETCH, and what follows from that."""

from collections.abc import Sequence
from typing import NamedTuple

from ..log_gaps import ALWAYS_SINCE_US, LogGap


class Holes(NamedTuple):
    """The holes of one broker's log. Times are microseconds."""

    gaps: Sequence[LogGap] = ()

    def between(self, since_us: int, until_us: int) -> bool:
        """Whether a line that was written between two times may be missing."""
        return any(gap.after_us < until_us and gap.before_us > since_us for gap in self.gaps)

    def begun(self, at_us: int) -> bool:
        """Whether lines between the log's first and a time may be missing."""
        return any(ALWAYS_SINCE_US < gap.after_us <= at_us for gap in self.gaps)


NO_HOLES = Holes()
