"""Stamps of a log, ``yyyy-MM-dd HH:mm:ss,SSS`` in local time, as UTC microseconds.

The log carries no offset, so an hour in autumn occurs twice: callers pass whether an ambiguous
stamp is of the second pass. An hour in spring never occurs.

``fold_boundary`` finds the line from which on a file is in the second pass. Local time of a log
steps back once, by the window by which the clock is set back (an hour in most zones). Lines are in
order of completion, which moves stamps by less than a second, so a step back of more than half a
window is the change. A file that runs into an ambiguous hour, with no pause of half a window, is in
the first pass there; one that runs out of it so is in the second. Others do not show their pass.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from .line import RejectReason, Unreadable

_SECOND = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local times are naive until their zone is applied
_MICROSECOND = timedelta(microseconds=1)
#: ``,000`` to ``,999`` in microseconds; what is not here is no millisecond.
_MILLIS_US = {b",%03d" % millis: millis * 1000 for millis in range(1000)}
#: Seconds remembered; a log is nearly sorted, so an old second is of no use.
_CACHE_SIZE_MAX = 1 << 16
#: Zones change at quarters of an hour, and by no less than half an hour.
_QUARTER = timedelta(minutes=15)
#: Of stamps. Zone and durations (``line``) move times by less than three years, and what
#: follows must be a date in every reader of the tables, which Python's end with the year 9999.
YEARS = range(1970, 9997)


def parse_local(stamp: bytes) -> datetime:
    """A stamp as a naive local datetime. Raises ``Unreadable`` (bad_stamp, stamp_out_of_range)."""
    millis_us = _MILLIS_US.get(stamp[19:])
    if millis_us is None:
        raise Unreadable(RejectReason.bad_stamp)
    return _parse_second(stamp[:19]) + timedelta(microseconds=millis_us)


def _parse_second(text: bytes) -> datetime:
    """``yyyy-MM-dd HH:mm:ss`` and no other form of ISO 8601."""
    if not _SECOND.fullmatch(text):
        raise Unreadable(RejectReason.bad_stamp)
    try:
        local = datetime.fromisoformat(text.decode())
    except ValueError:
        raise Unreadable(RejectReason.bad_stamp) from None
    if local.year not in YEARS:
        raise Unreadable(RejectReason.stamp_out_of_range)
    return local


class LocalTime:
    """Converts stamps of one IANA zone. Raises ``ZoneInfoNotFoundError`` where it is unknown."""

    def __init__(self, zone: str, clock_offset_ms: int = 0) -> None:
        self.zone = ZoneInfo(zone)
        self._offset_us = clock_offset_ms * 1000
        self._both_passes = lru_cache(_CACHE_SIZE_MAX)(self._of_second)

    def microseconds(self, stamp: bytes, second_pass: bool = False) -> int:
        """UTC microseconds since 1970 of a stamp of 23 bytes.

        Raises ``Unreadable``: bad_stamp, stamp_out_of_range, or stamp_not_in_time_zone in a gap of
        spring.
        """
        millis_us = _MILLIS_US.get(stamp[19:])
        if millis_us is None:
            raise Unreadable(RejectReason.bad_stamp)
        return self._both_passes(stamp[:19])[second_pass] + millis_us + self._offset_us

    def all_microseconds(
        self, stamps: Sequence[bytes], second_pass_from: int
    ) -> tuple[NDArray[np.int64], dict[int, Unreadable]]:
        """Converts all stamps; 0 for those that cannot be read, and why they cannot.

        From position ``second_pass_from`` on they are of the second pass.
        """
        times_us = [0] * len(stamps)
        bad: dict[int, Unreadable] = {}
        for position, stamp in enumerate(stamps):
            try:
                times_us[position] = self.microseconds(stamp, position >= second_pass_from)
            except Unreadable as unreadable:
                bad[position] = unreadable
        return np.array(times_us, np.int64), bad

    def window(self, local: datetime) -> timedelta:
        """Returns by how much the clock is set back, so that the time occurs twice; else 0."""
        first = local.replace(tzinfo=self.zone, fold=0).utcoffset()
        second = local.replace(tzinfo=self.zone, fold=1).utcoffset()
        assert first is not None
        assert second is not None
        # In a gap of spring the offsets differ too, the other way round.
        return max(first - second, timedelta(0))

    def _of_second(self, text: bytes) -> tuple[int, int]:
        local = _parse_second(text)
        return self._utc_us(local, 0), self._utc_us(local, 1)

    def _utc_us(self, local: datetime, fold: int) -> int:
        utc = local.replace(tzinfo=self.zone, fold=fold).astimezone(UTC)
        if utc.astimezone(self.zone).replace(tzinfo=None, fold=0) != local:
            raise Unreadable(RejectReason.stamp_not_in_time_zone)
        return (utc.replace(tzinfo=None) - _EPOCH) // _MICROSECOND


def has_ambiguous_hour(zone: str, first_local: bytes, last_local: bytes) -> bool:
    """Returns whether local times between two stamps (both included) include some that occur twice.

    About 400 look-ups a day of log. Raises ``Unreadable`` where a stamp is none.
    """
    time = LocalTime(zone)
    at, last = parse_local(first_local), parse_local(last_local)
    if last < at:  # the clock was set back in between
        at, last = last, at
    while at < last:
        if time.window(at):
            return True
        at = at.replace(minute=at.minute // 15 * 15, second=0, microsecond=0) + _QUARTER
    return bool(time.window(last))


class FoldBoundary(NamedTuple):
    """``changes_at_line``: first line of the second pass, None if all are the first, or the file
    does not show it (not ``decided``)."""

    changes_at_line: int | None
    decided: bool


_ALL_FIRST = FoldBoundary(None, True)
_UNKNOWN = FoldBoundary(None, False)


def fold_boundary(times: Iterable[tuple[int, datetime]], zone: str) -> FoldBoundary:
    """Finds where the second pass begins, from (line number, local time) of one file in its order.

    A file is taken to hold at most one change of autumn: logs are rotated more than once a year.
    """
    time = LocalTime(zone)
    before: datetime | None = None
    begins_at: int | None = None
    is_ambiguous, has_paused = False, False
    for line_number, local in times:
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
