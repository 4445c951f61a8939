"""A request line in Kafka's default layout, ``[stamp] LEVEL Completed request:{...} (logger)``,
and why one cannot be read.

Source: Kafka's ``config/log4j2.yaml``, ``[%d] %p %m (%c)%n``. Whatever a line was read from, its
content is this text (``layouts``): its id is of it, and the parser takes nothing else.
"""

from enum import Enum

MARKER = b"Completed request:"
LOGGER = b"(kafka.request.logger)"
STAMP_BYTES = 23
#: Where the level is, and the JSON behind ``DEBUG``; behind ``INFO`` it is a byte nearer.
_LEVEL = STAMP_BYTES + 3
_JSON_BEGIN = _LEVEL + len(b"DEBUG ") + len(MARKER)
_JSON_END = -len(LOGGER) - 1


def without_line_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def json_of(line: bytes) -> bytes:
    return line[_JSON_BEGIN - line.startswith(b"I", _LEVEL) : _JSON_END]


def is_text(line: bytes) -> bool:
    try:
        return "\0" not in line.decode()
    except UnicodeDecodeError:
        return False


def stamp_of(line: bytes) -> bytes:
    return line[1 : STAMP_BYTES + 1]


class RejectReason(Enum):
    """``name`` is what ``rejected_lines.reason`` holds, ``value`` its sentence."""

    too_long = "It is longer than the configured limit."
    binary = "It holds NUL bytes or is not UTF-8."
    bad_stamp = "No date and time, such as 2026-11-20 20:30:34,831, is beside the message."
    stamp_without_milliseconds = "Its time has no milliseconds: the pattern of log4j needs SSS."
    stamp_out_of_range = "The stamp lies before the year 1970 or after 9996."
    stray_stamp = "Its stamp is more than a minute from those before and after."
    stamp_not_in_time_zone = "The stamp is a local time that the recording's time zone skipped."
    truncated = "It ends within its JSON: what carried it has cut it, or its rest is elsewhere."
    interleaved = "A second line begins inside it: it was cut, or two writers share the file."
    before_2_8 = "A Kafka before 2.8 wrote it, whose request log is not JSON: it can't be replayed."
    other_form = (
        "It has a request's fields in a form that is not Kafka's JSON: let the layout or collector "
        "keep the message as it is, or requestHeader, request and response as JSON objects."
    )
    bad_json = "What follows 'Completed request:' is not JSON."
    missing_field = "The JSON lacks a field that every Kafka version writes."
    bad_envelope = "A field of the request log itself has an unexpected type or range."
    absurd_times = "Its times are negative, longer than a year, or contradict one another."
    after_damage = "It follows a line that cannot be read, in a file that is damaged further on."
    bad_body = "The request or response lacks a field of its API, or has a value that none can be."


class Unreadable(Exception):
    """Raised while one line is read; carries the ``RejectReason``, and what is known beyond it."""

    def __init__(
        self, reason: RejectReason, detail: str | None = None, line_bytes: int | None = None
    ) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.detail = detail
        self.line_bytes = line_bytes
