"""The text of a request line in Kafka's default layout, from whatever pattern wrote it."""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import msgspec

from ..line import LOGGER, MARKER, STAMP_BYTES, RejectReason, Unreadable, is_text
from .stamps import StampReader

_USUAL_BEGIN = re.compile(rb"\[.{10} .{8},.{3}\] DEBUG " + MARKER, re.DOTALL)
USUAL_JSON = STAMP_BYTES + len(b"[] DEBUG ") + len(MARKER)
_USUAL_END = b"}} " + LOGGER
_DEPRECATED = b'"requestApiVersionDeprecated":true'
#: Kafka's own ``toString`` of a header; until 0.11 its struct's.
_BEFORE_2_8 = (b"RequestHeader(", b"{api_key=")
#: Is near the end of what every Kafka since 2.5 writes.
_LAST_FIELD, _LAST_BYTES = b'"clientInformation":{', 1000
#: Behind an object whose end is not plain, this many braces are tried.
_BRACES_MAX = 8
#: What `docker logs --timestamps` and older kubelets put between the parts of a split line.
_STAMP_OF_PART = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ")
_DATE_BYTES = 11


def is_usual(line: bytes) -> bool:
    return line.endswith(_USUAL_END) and _USUAL_BEGIN.match(line) is not None


def are_usual_and_sound(lines: Sequence[Any]) -> TypeGuard[Sequence[bytes]]:
    """Checks that each is one whole line in Kafka's default layout. In all of them together there
    are as many markers, and dates that begin as the first one's, as lines."""
    if {*map(type, lines)} != {bytes} or not all(map(is_usual, lines)):
        return False
    text, count = b"\n".join(lines), len(lines)
    return (
        text.isascii()
        and b"\0" not in text
        and text.count(MARKER) == count
        and text.count(text[:6]) == count
    )


def require_sound(line: bytes, json_start: int) -> None:
    """Raises ``Unreadable`` for a canonical line that is two, or no text: where two processes
    write, or a line's middle is *lost*, a second stamp or marker is inside."""
    # "[2026-": no JSON array begins with a year and a minus.
    if line.find(line[:6], 6) >= 0 or line.find(MARKER, json_start) >= 0:
        raise Unreadable(RejectReason.interleaved)
    if not is_text(line):
        raise Unreadable(RejectReason.binary)


def has_stamps_of_parts(text: bytes) -> bool:
    """Returns whether a carrier's stamps are within a line as well as before it."""
    within = text.find(text[:_DATE_BYTES], _DATE_BYTES)
    begin = _STAMP_OF_PART.match(text) if within >= 0 else None
    return begin is not None and _STAMP_OF_PART.search(text, begin.end()) is not None


def without_stamps_of_parts(text: bytes) -> bytes:
    """Removes a carrier's stamps but for the first."""
    if not has_stamps_of_parts(text):
        return text
    end = text.index(b" ") + 1
    return text[:end] + _STAMP_OF_PART.sub(b"", text[end:])


class TextLayout:
    """Learns from each line how the next one is most likely laid out."""

    def __init__(self, zone: str, is_padded: bool = False) -> None:
        self.stamps = StampReader(zone, is_padded)
        self._braces_behind = 0

    def canonical(
        self,
        text: bytes,
        marker: int,
        records: Callable[[], list[dict[str, Any]]] = list,
        is_all: bool = True,
    ) -> bytes:
        """The line, whose marker is at ``marker``; ``records`` gives the JSON objects around it.

        Unless ``is_all`` of the line is there, its end is not searched for long. Raises
        ``Unreadable``: truncated, interleaved, binary, bad_stamp, stamp_without_milliseconds.
        """
        if is_usual(text):
            require_sound(text, USUAL_JSON)
            return text
        start = marker + len(MARKER)
        if text.startswith(_BEFORE_2_8, start):
            raise Unreadable(RejectReason.before_2_8)
        if has_stamps_of_parts(text):
            raise Unreadable(RejectReason.truncated)
        if text.find(_LAST_FIELD, 0, marker) >= 0:  # the end of another line
            raise Unreadable(RejectReason.interleaved)
        end = self._end(text, start, is_all)
        stamp = self.stamps.of_text(text, 0, marker) if marker else None
        if stamp is None:
            stamp = next(filter(None, map(self.stamps.of_record, records())), None)
        if stamp is None:
            stamp = self.stamps.of_text(text, end, len(text))
        if stamp is None:
            raise Unreadable(RejectReason.bad_stamp)
        # Behind the header no field can have this name: bodies are Kafka's, names are escaped.
        is_deprecated = text.find(_DEPRECATED, start, text.find(b'"request":', start)) >= 0
        level = b"INFO" if is_deprecated else b"DEBUG"
        line = b"[%s] %s %s%s %s" % (stamp, level, MARKER, text[start:end], LOGGER)
        require_sound(line, USUAL_JSON)
        return line

    def _end(self, text: bytes, start: int, is_all: bool) -> int:
        """Finds the end of the JSON object: as the last one ended, else at the first brace, from
        behind, up to which the text is JSON."""
        end = text.rfind(b"}", start)
        for _ in range(self._braces_behind):
            end = text.rfind(b"}", start, end)
        is_last = text.endswith(b'"}', start, end) or text[end - 1 : end].isdigit()
        if is_last and text.rfind(_LAST_FIELD, max(start, end - _LAST_BYTES), end) >= 0:
            return end + 1
        if not is_all:
            raise Unreadable(RejectReason.truncated)
        end, last = len(text), 0
        for braces in range(_BRACES_MAX):
            end = text.rfind(b"}", start, end)
            if end < 0:
                break
            last = last or end + 1
            try:
                msgspec.json.decode(text[start : end + 1], type=msgspec.Raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            self._braces_behind = braces
            return end + 1
        if last and text.endswith(LOGGER):  # it ended, and what is wrong with it lies within
            return last
        if text.find(MARKER, start) >= 0:
            raise Unreadable(RejectReason.interleaved)
        raise Unreadable(RejectReason.truncated)
