"""Why a line of a request log could not be read: a fixed set, each with a sentence."""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """``name`` is what ``rejected_lines.reason`` holds, ``value`` its sentence."""

    blank = "The line is empty or only white space."
    not_a_request_line = "It is no 'Completed request:' line: another logger, or a stack trace."
    too_long = "It is longer than the configured limit."
    binary = "It holds NUL bytes or is not UTF-8."
    bad_stamp = "What stands between the first [ and ] is no yyyy-MM-dd HH:mm:ss,SSS."
    stamp_out_of_range = "The stamp lies before the year 1970 or after 9996."
    stray_stamp = "Its stamp is far from those around it, or contradicts correlation ids."
    stamp_not_in_time_zone = "The stamp is a local time that the recording's time zone skipped."
    truncated = "It begins as a request line but does not end with (kafka.request.logger)."
    interleaved = "A second line begins inside it: two writers shared the file."
    bad_json = "What follows 'Completed request:' is not JSON."
    missing_field = "The JSON lacks a field that every Kafka version writes."
    bad_envelope = "A field of the request log itself has an unexpected type or range."
    absurd_times = "A time is negative, not finite or longer than a year."
    bad_body = "The request or response does not have the fields of its API."


class Unreadable(Exception):
    """Raised while one line is read; carries the ``Reason``, and what is known beyond it."""

    def __init__(self, reason: Reason, detail: str | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.detail = detail
