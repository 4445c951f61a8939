"""The text around the JSON: ``[stamp] LEVEL Completed request:{...} (kafka.request.logger)``.

Kafka's ``config/log4j2.yaml`` writes ``[%d] %p %m (%c)%n``. Other text is tolerated where a changed
pattern would put it, between the stamp and the marker and between the JSON and the logger, and
nowhere else. Bytes are searched, never matched with a regular expression: lines can be megabytes.

A log that two processes write can mix two lines. Such a line has a second stamp or a second marker
inside it. A line whose middle is *lost*, so that the head of one meets the tail of another at the
same place of the JSON, looks like a whole one.
"""

from __future__ import annotations

from .reasons import Reason, Unreadable

MARKER = b" Completed request:"
LOGGER = b"(kafka.request.logger)"
#: ``2026-11-20 20:30:34,831``
STAMP_BYTES = 23
#: Levels seen: DEBUG, and INFO for deprecated versions. Patterns may pad them.
_LEVELS = frozenset((b"TRACE", b"DEBUG", b"INFO", b"WARN", b"ERROR", b"FATAL"))
#: Room for thread names and the like between stamp and marker.
_PREFIX_BYTES_MAX = 512
#: Nearly every line has this behind its stamp, and this behind its JSON.
_USUAL_BEGIN = b"] DEBUG" + MARKER
_USUAL_JSON = STAMP_BYTES + 1 + len(_USUAL_BEGIN)
_USUAL_END = b"} " + LOGGER


def without_line_end(line: bytes) -> bytes:
    """The line less one LF or CR LF (or a CR, where lines were split at LF)."""
    if line.endswith(b"\n"):
        line = line[:-1]
    if line.endswith(b"\r"):
        line = line[:-1]
    return line


def split_line(line: bytes) -> tuple[bytes, memoryview]:
    """Stamp and JSON of a line without its line end.

    Raises ``Unreadable``: blank, not_a_request_line, bad_stamp, truncated, interleaved or binary.
    """
    if line.startswith(_USUAL_BEGIN, STAMP_BYTES + 1) and line.endswith(_USUAL_END):
        start, end = _USUAL_JSON, len(line) - len(_USUAL_END) + 1
        if line[:1] != b"[":
            raise Unreadable(Reason.not_a_request_line)
    else:
        start, end = _json_within(line)
    # "[2026-": no JSON array begins with a year and a minus.
    if line.find(line[:6], 6) >= 0 or line.find(MARKER, start) >= 0:
        raise Unreadable(Reason.interleaved)
    if end == 0:
        raise Unreadable(Reason.truncated)
    if not is_text(line):
        raise Unreadable(Reason.binary)
    return line[1 : STAMP_BYTES + 1], memoryview(line)[start:end]


def _json_within(line: bytes) -> tuple[int, int]:
    """Start and end of the JSON, whatever the pattern has around it; end 0 where it is cut off."""
    marker = line.find(MARKER, 0, _PREFIX_BYTES_MAX)
    if marker < 0 or line[0] != 0x5B:
        raise Unreadable(Reason.not_a_request_line if line.strip() else Reason.blank)
    if line[STAMP_BYTES + 1 : STAMP_BYTES + 2] != b"]":
        raise Unreadable(Reason.bad_stamp)
    if _LEVELS.isdisjoint(line[STAMP_BYTES + 2 : marker].split()):
        raise Unreadable(Reason.not_a_request_line)
    end = line.rfind(b"}") + 1
    is_whole = line.endswith(LOGGER) and line[end : end + 1] == b" "
    return marker + len(MARKER), end if is_whole else 0


def is_text(line: bytes) -> bool:
    """Whether the bytes are UTF-8 without NUL."""
    if b"\0" in line:
        return False
    if line.isascii():
        return True
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def stamp_of(line: bytes) -> bytes | None:
    """The stamp of a line if it looks like one of a request log, for ``fold_boundary``."""
    whole = line[:1] == b"[" and line[STAMP_BYTES + 1 : STAMP_BYTES + 2] == b"]"
    return line[1 : STAMP_BYTES + 1] if whole else None
