"""How many bytes of records lie between two offsets of the metadata log."""

from collections.abc import Collection
from itertools import pairwise

import msgspec

#: Ranges that adjoin no other range that are kept.
_UNPLACED_MAX = 64


class LogBytes(msgspec.Struct, array_like=True):
    """Sizes of ranges of the log as responses carried them, joined where they adjoin."""

    bytes_below: dict[int, int] = {}
    seen_us: dict[int, int] = {}
    unplaced: list[tuple[int, int, int]] = []

    def carried(self, start: int, end: int, size: int, at: int) -> None:
        """A response built at a time carried the records from an offset to another."""
        for offset in (start, end):
            self.seen_us[offset] = max(self.seen_us.get(offset, 0), at)
        self.unplaced.append((start, end, size))
        if not self.bytes_below:
            self.bytes_below[start] = 0
        open_ranges = len(self.unplaced) + 1
        while len(self.unplaced) < open_ranges:
            open_ranges = len(self.unplaced)
            self.unplaced = [each for each in self.unplaced if not self._place(*each)]
            del self.unplaced[:-_UNPLACED_MAX]

    def _place(self, start: int, end: int, size: int) -> bool:
        below = self.bytes_below
        if start in below:
            below.setdefault(end, below[start] + size)
        elif end in below:
            below[start] = below[end] - size
        return start in below

    def between(self, start: int, end: int) -> int | None:
        """Bytes of records between two offsets; None if no response shows it, or they differ."""
        if end <= start:
            return 0
        first, last = self.bytes_below.get(start), self.bytes_below.get(end)
        return None if first is None or last is None or last <= first else last - first

    def forget(self, before: int, kept: Collection[int]) -> None:
        """Drop offsets that the log's end had passed before a time, but those to be ``kept``."""
        for offset, following in pairwise(sorted(self.seen_us)):
            # The log ended at an offset until the next one was seen.
            if self.seen_us[following] < before and offset not in kept:
                del self.seen_us[offset]
                self.bytes_below.pop(offset, None)
