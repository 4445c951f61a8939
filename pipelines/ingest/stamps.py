"""The stamps at the beginning of a file's lines, and those that cannot be where they stand.

Kafka stamps a request when its response has been sent, so stamps of a file rise, but for moments
between threads. They jump, and stay, where the log was off, where clocks change or where files were
put together; so a jump alone proves nothing. A *stray* stamp is one that the lines around it go
back from: it lies more than half an hour outside of the span between the medians of the five
stamps before and of the five after it. So up to two stray lines in a row are found, and a sorted
file has none, whatever its gaps; near an hour that occurs twice nothing is stray by less than the
clock may be set back.

Some need more evidence, the correlation ids of their connection (``correlation_ids``): lines that
stand back by less than half an hour, and the first and the last of a file, which have neighbours on
one side only. A line that is ahead by less than that is not found.

A line is judged by its neighbours alone, so it does not matter how a file is cut. In a file that
still grows, lines that what follows could yet make stray are left for later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from statistics import median_high, median_low

import numpy as np
from numpy.typing import NDArray

from kip_replay.replay.kafka.request_log import has_ambiguous_hour
from kip_replay.replay.kafka.request_log.line import STAMP_BYTES
from kip_replay.replay.kafka.request_log.local_time import YEARS, parse_local

Ints = NDArray[np.int64]

#: Stamps on either side that a stamp is compared with.
NEIGHBOURS = 5
#: Further outside no thread that writes late can be.
APART_S = 30 * 60
#: Nor can it be back on one connection, whose lines one thread writes.
BACK_S = 10
#: No zone sets its clock back by more.
_FOLD_S = 3 * 3600
#: A stamp that is stray or back has such a step back among its neighbours.
_STEP_S = BACK_S // NEIGHBOURS
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local times
#: Of ``[yyyy-MM-dd HH:mm:ss,SSS]``.
_STAMP_END = STAMP_BYTES + 2
_PUNCTUATION = {at: ord(c) for at, c in enumerate("[0000-00-00 00:00:00,000]") if c != "0"}
_DIGITS = [at for at in range(_STAMP_END) if at not in _PUNCTUATION]
_ROW = np.dtype([("line", np.int64), ("place", np.int64), ("second", np.int64), ("stamp", "S23")])


@dataclass(frozen=True)
class Stray:
    """A line whose stamp cannot be where it stands, or may not; ``why`` is part of a sentence."""

    line_number: int
    why: str


class Doubt(Enum):
    """Why the neighbours of a stamp do not suffice."""

    first = "first"
    last = "last"
    back = "back"


@dataclass(frozen=True)
class Suspect:
    """A line that correlation ids have to decide on. ``median_s``: of the stamps beside it."""

    line_number: int
    second: int
    median_s: int
    doubt: Doubt


@dataclass
class Stamps:
    """Takes in a file chunk by chunk; ``ended`` says that this was all.

    ``first`` and ``last`` are the file's first and last stamp that is not stray.
    ``undecided_byte``: where the first line begins that lines still to come may make stray.
    """

    timezone: str
    accepts_all: bool = False
    first: bytes | None = None
    last: bytes | None = None
    strays: list[Stray] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)
    undecided_byte: int | None = None

    def __post_init__(self) -> None:
        self._lines = _LineStarts()
        #: The last rows seen. Those from ``_judged`` on are not judged yet.
        self._rows = np.empty(0, _ROW)
        self._judged = 0
        self._is_start = True

    def see(self, chunk: bytes) -> None:
        """The next bytes of the file."""
        self._rows = np.concatenate([self._rows, self._lines.rows_in(chunk)])
        self._judge(len(self._rows) - NEIGHBOURS)
        held = max(0, self._judged - NEIGHBOURS)
        self._rows, self._judged = self._rows[held:], self._judged - held
        self._is_start = self._is_start and held == 0

    def ended(self, is_final: bool) -> None:
        """No lines follow, or none yet."""
        if not is_final and not self.accepts_all:
            undecided = [i for i in range(self._judged, len(self._rows)) if self._is_open(i)]
            if undecided:
                self.undecided_byte = int(self._rows["place"][undecided[0]])
                self._rows = self._rows[: undecided[0]]
        whole = len(self._rows)
        self._judge(whole)
        if is_final and whole and not self.accepts_all:
            self._doubt_end(whole - 1, self._sides(whole - 1)[0], Doubt.last)

    def _judge(self, stop: int) -> None:
        """Rows up to ``stop``, whose neighbours are all there."""
        start = self._judged
        if stop <= start:
            return
        self._judged = stop
        is_stray = np.zeros(stop, np.bool_)
        if not self.accepts_all:
            if start == 0 and self._is_start:
                self._doubt_end(0, self._sides(0)[1], Doubt.first)
            steps = np.diff(self._rows["second"])
            broken = np.flatnonzero(steps < -_STEP_S)
            around = broken[:, None] + np.arange(1 - NEIGHBOURS, NEIGHBOURS + 1)
            for i in np.unique(around[(around >= start) & (around < stop)]).tolist():
                is_stray[i] = self._is_stray(i)
        stamps = self._rows["stamp"][start:stop][~is_stray[start:]]
        if len(stamps):
            self.first = self.first or bytes(stamps[0])
            self.last = bytes(stamps[-1])

    def _sides(self, i: int) -> tuple[list[int], list[int]]:
        seconds = self._rows["second"]
        return (
            seconds[max(0, i - NEIGHBOURS) : i].tolist(),
            seconds[i + 1 : i + 1 + NEIGHBOURS].tolist(),
        )

    def _is_stray(self, i: int) -> bool:
        """Notes the row if it is stray, or suspect."""
        before, after = self._sides(i)
        if not before or not after:
            return False
        second, number = int(self._rows["second"][i]), int(self._rows["line"][i])
        least = min(median_low(before), median_low(after))
        most = max(median_high(before), median_high(after))
        apart = max(least - second, second - most)
        if apart <= BACK_S or self._may_be_set_back(second, least if second < least else most):
            return False
        if apart > APART_S:
            between = " and ".join(shown(s) for s in (median_low(before), median_low(after)))
            self.strays.append(Stray(number, f"{shown(second)} stands between {between}"))
            return True
        if second < least:
            self.suspects.append(Suspect(number, second, median_low(before), Doubt.back))
        return False

    def _doubt_end(self, i: int, beside: list[int], doubt: Doubt) -> None:
        """Suspects the first or last row where it is far from others, close together."""
        second = int(self._rows["second"][i])
        least, most = min(beside, default=0), max(beside, default=0)
        apart = max(least - second, second - most)
        if len(beside) < NEIGHBOURS or most - least > APART_S or apart <= APART_S:
            return
        if not self._may_be_set_back(second, least if second < least else most):
            line_number = int(self._rows["line"][i])
            self.suspects.append(Suspect(line_number, second, median_low(beside), doubt))

    def _is_open(self, i: int) -> bool:
        """Whether lines to come can make the row stray or suspect."""
        before, after = self._sides(i)
        second = int(self._rows["second"][i])
        if not before:
            return not after or abs(after[0] - second) > APART_S
        return second < median_low(before) - BACK_S or second > median_high(before) + APART_S

    def _may_be_set_back(self, one: int, other: int) -> bool:
        """Whether an hour between occurs twice, and may be what sets them apart."""
        if abs(one - other) > _FOLD_S:
            return False
        return has_ambiguous_hour(self.timezone, stamp_at(one), stamp_at(other))


class _LineStarts:
    """Finds stamps where lines begin, also across the borders of chunks."""

    def __init__(self) -> None:
        self._carried = b""
        self._is_line_start = True
        self._line = 1
        self._seen_bytes = 0

    def rows_in(self, chunk: bytes) -> NDArray[np.void]:
        """Rows of ``_ROW``: lines that begin with a stamp."""
        text = self._carried + chunk
        place = self._seen_bytes - len(self._carried)
        self._seen_bytes += len(chunk)
        array = np.frombuffer(text, np.uint8)
        starts = np.flatnonzero(array == ord("\n")) + 1
        numbers = self._line + 1 + np.arange(len(starts))
        if self._is_line_start:
            starts, numbers = np.append(0, starts), np.append(self._line, numbers)
        if len(starts):
            last = int(starts[-1])
            self._line = int(numbers[-1])
            self._is_line_start = len(text) - last < _STAMP_END
            self._carried = text[last:] if self._is_line_start else b""
        whole = starts <= len(text) - _STAMP_END
        starts, numbers = starts[whole], numbers[whole]
        begin = (array[starts] == ord("[")) & (array[starts + STAMP_BYTES + 1] == ord("]"))
        starts, numbers = starts[begin], numbers[begin]
        texts = array[starts[:, None] + np.arange(_STAMP_END)]
        seconds, good = _seconds_of(texts)
        rows = np.empty(int(good.sum()), _ROW)
        rows["line"], rows["place"] = numbers[good], place + starts[good]
        rows["second"] = seconds[good]
        rows["stamp"] = np.ascontiguousarray(texts[good, 1:-1]).view(f"S{STAMP_BYTES}")[:, 0]
        return rows


def _seconds_of(texts: NDArray[np.uint8]) -> tuple[Ints, NDArray[np.bool_]]:
    """Local seconds since 1970 of bracketed stamps, and which of them are any."""
    digits = texts.astype(np.int64) - ord("0")
    good = (digits[:, _DIGITS] >= 0).all(axis=1) & (digits[:, _DIGITS] <= 9).all(axis=1)
    good &= (texts[:, [*_PUNCTUATION]] == [*_PUNCTUATION.values()]).all(axis=1)

    def number(first: int, count: int) -> Ints:
        return digits[:, first : first + count] @ 10 ** np.arange(count - 1, -1, -1)

    year, month, day = number(1, 4), number(6, 2), number(9, 2)
    hour, minute, second = number(12, 2), number(15, 2), number(18, 2)
    good &= (year >= YEARS.start) & (year < YEARS.stop) & (month >= 1) & (month <= 12)
    good &= (day >= 1) & (day <= 31) & (hour < 24) & (minute < 60) & (second < 60)
    months = np.where(good, (year - 1970) * 12 + month - 1, 0)
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1
    return ((days * 24 + hour) * 60 + minute) * 60 + second, good


def stamp_at(second: int) -> bytes:
    """The stamp of a local second."""
    return f"{shown(second)},000".encode()


def second_of(stamp: bytes) -> int:
    """Local seconds since 1970. Raises ``Unreadable``."""
    return (parse_local(stamp) - _EPOCH) // timedelta(seconds=1)


def shown(second: int) -> str:
    """A local second as a stamp has it."""
    return str(_EPOCH + timedelta(seconds=second))
