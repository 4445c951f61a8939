"""From which line of a file on the ambiguous stamps of autumn are the second pass.

Local time of a log steps back once, by the window by which the clock is set back (an hour in most
zones). Lines are in order of completion, which moves stamps by less than a second, so a step back
of more than half a window is the change. A file that goes on without a pause as long into, or out
of, an ambiguous hour is in its first, or second, pass there. Otherwise it does not show it.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from .local_time import LocalTime, parse_local
from .reasons import Unreadable


class FoldBoundary(NamedTuple):
    """``changes_at_line``: first line of the second pass, None if all are the first.

    ``decided`` is False where the file does not show it; ``changes_at_line`` is None then.
    """

    changes_at_line: int | None
    decided: bool


_ALL_FIRST = FoldBoundary(None, True)
_UNKNOWN = FoldBoundary(None, False)


def fold_boundary(stamps: Iterable[tuple[int, bytes]], zone: str) -> FoldBoundary:
    """Where the second pass begins, from (line number, stamp) of one file in its order.

    Stamps that cannot be read are passed over. A file is taken to hold at most one change of
    autumn, as a log rotated at least once a year does.
    """
    time = LocalTime(zone)
    before: datetime | None = None
    begins_at: int | None = None
    is_ambiguous, has_paused = False, False
    for line_number, stamp in stamps:
        try:
            local = parse_local(stamp)
        except Unreadable:
            continue
        window = time.window(local)
        if window and before is not None and before - local > window / 2:
            return FoldBoundary(line_number, True)
        if window and not is_ambiguous and before is None:
            begins_at = line_number
        if (window or is_ambiguous) and before is not None:
            has_paused |= local - before >= max(window, time.window(before)) / 2
        if is_ambiguous and not window:  # the hour after it
            is_known = begins_at is not None and not has_paused
            return FoldBoundary(begins_at, True) if is_known else _UNKNOWN
        before, is_ambiguous = local, bool(window)
    return _ALL_FIRST if not is_ambiguous or not (begins_at or has_paused) else _UNKNOWN
