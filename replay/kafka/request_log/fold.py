"""From which line of a file on the ambiguous stamps of autumn are the second pass.

Local time of a log steps back once, by the window by which the clock is set back (an hour in most
zones). Lines are in order of completion, which moves stamps by less than a second, so a step back
of more than half a window is the change. Without one, the log stood still for at least as long as
it would have stepped back: the change then lies in the longest pause around or within the ambiguous
lines, because that pause is really a window longer than it looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from .local_time import LocalTime, parse_local
from .reasons import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class FoldBoundary:
    """``changes_at_line``: first line of the second pass, None if all are the first.

    ``decided`` is False where the file does not show it; ``changes_at_line`` is None then.
    """

    changes_at_line: int | None
    decided: bool


_ALL_FIRST = FoldBoundary(None, True)
_UNKNOWN = FoldBoundary(None, False)


@dataclass
class _Pauses:
    """The longest pause seen between neighbouring lines that touch an ambiguous one."""

    longest: timedelta = timedelta(-1)
    at_line: int | None = None
    unique: bool = True

    def see(self, pause: timedelta, at_line: int | None) -> None:
        if pause > self.longest:
            self.longest, self.at_line, self.unique = pause, at_line, True
        elif pause == self.longest:
            self.unique = False


def fold_boundary(stamps: Iterable[tuple[int, bytes]], zone: str) -> FoldBoundary:
    """Where the second pass begins, from (line number, stamp) of one file in its order.

    Stamps that cannot be read are passed over. A file is taken to hold at most one change of
    autumn, as a log rotated at least once a year does.
    """
    time = LocalTime(zone)
    before: datetime | None = None
    first_ambiguous: int | None = None
    window = timedelta(0)
    starts_ambiguous = False
    pauses = _Pauses()
    for line_number, stamp in stamps:
        try:
            local = parse_local(stamp)
        except Unreadable:
            continue
        here = time.window(local)
        if here and before is not None and before - local > here / 2:
            return FoldBoundary(line_number, True)
        if here:
            if first_ambiguous is None:
                first_ambiguous, window, starts_ambiguous = line_number, here, before is None
            if before is not None:
                pauses.see(local - before, line_number)
        elif first_ambiguous is not None:
            assert before is not None
            pauses.see(local - before, None)
            return _by_continuity(pauses, first_ambiguous if starts_ambiguous else None, window)
        before = local
    if first_ambiguous is None:
        return _ALL_FIRST
    return _open_ended(pauses, window, starts_ambiguous)


def _by_continuity(pauses: _Pauses, begins_at: int | None, window: timedelta) -> FoldBoundary:
    """The ambiguous lines are followed by an unambiguous one."""
    if begins_at is not None:  # what came before the file may have been the longest pause
        return FoldBoundary(begins_at, True) if pauses.longest < window / 2 else _UNKNOWN
    return FoldBoundary(pauses.at_line, True) if pauses.unique else _UNKNOWN


def _open_ended(pauses: _Pauses, window: timedelta, starts_ambiguous: bool) -> FoldBoundary:
    """The file ends with ambiguous lines: continuous with those before, it is the first pass."""
    if starts_ambiguous or pauses.longest >= window / 2:
        return _UNKNOWN
    return _ALL_FIRST
