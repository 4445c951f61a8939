"""A request line, why one cannot be read, and its JSON around request and response, as columns too.

Kafka's default layout is ``[stamp] LEVEL Completed request:{...} (logger)``, which is ``[%d] %p %m
(%c)%n`` of its ``config/log4j2.yaml``. Whatever a line was read from, its content is this text
(``layouts``): its id is of it, and the parser takes nothing else.

Source of the JSON: ``kafka.network.RequestConvertToJson.requestDescMetrics``. Fields that a newer
Kafka adds are passed over; ``request`` and ``response`` stay raw until their API is known.

Clock model (``SocketServer.processCompletedSends``): the stamp is taken just after the send, so the
request arrived ``totalTimeMs`` before it, and the parts of the total lead from there. Kafka writes
milliseconds with microseconds as decimals; each is rounded to an integer microsecond first, then
added, so that equal lines give equal times everywhere.
"""

from enum import Enum
from functools import cache, reduce
from operator import add
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import field
from numpy.typing import NDArray

from kip_replay.replay.log_tables import Requests
from kip_replay.replay.table import AT

from .frequent import Columns, Positions

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


# --- its JSON

#: API keys and versions.
_Code = Annotated[int, msgspec.Meta(ge=0, le=2**15 - 1)]
#: Clients count on from 2^31 - 1 to -2^31.
_Id = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]

#: A year: longer than any request, shorter than what overflows.
_MS_MAX = 366 * 24 * 3600 * 1000.0
#: Kafka logs the steps between the times that it takes, and the time from the first to the last
#: (``RequestChannel.Request.updateRequestMetrics``). So the steps add up to no less than the whole,
#: and to more only where threads race: none is then paused for longer than this.
_APART_MS = 1000.0


def can_be(total: Any, *others: Any) -> Any:
    """Returns whether times in ``Envelope``'s order (or arrays of such) agree with one another."""
    *steps, throttle = others
    can = (total >= 0) & (total <= _MS_MAX) & (throttle >= 0) & (throttle <= _MS_MAX)
    for step in steps:
        can = can & (step >= 0) & (step <= total + _APART_MS)
    return can & (total <= reduce(add, steps) + _APART_MS)


class RequestHeader(msgspec.Struct, rename="camel", frozen=True, gc=False):
    api_key: _Code = field(name="requestApiKey")
    api_version: _Code = field(name="requestApiVersion")
    correlation_id: _Id
    client_id: str | None = None
    api_name: str | None = field(name="requestApiKeyName", default=None)
    is_deprecated_version: bool | None = field(name="requestApiVersionDeprecated", default=False)


class ClientInformation(msgspec.Struct, rename="camel", frozen=True, gc=False):
    software_name: str | None = None
    software_version: str | None = None


_NO_INFORMATION = ClientInformation()


class Envelope(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """One logged request, with columns of ``requests`` under their names there.

    Times in milliseconds, with microseconds as decimals.
    """

    request_header: RequestHeader
    request: msgspec.Raw
    response: msgspec.Raw
    connection: str
    total_ms: float = field(name="totalTimeMs")
    request_queue_ms: float = field(name="requestQueueTimeMs")
    local_ms: float = field(name="localTimeMs")
    remote_ms: float = field(name="remoteTimeMs")
    response_queue_ms: float = field(name="responseQueueTimeMs")
    send_ms: float = field(name="sendTimeMs")
    throttle_ms: float = field(name="throttleTimeMs", default=0.0)
    is_forwarded: bool = False
    security_protocol: str | None = None
    principal: str | None = None
    listener: str | None = None
    client_information: ClientInformation = _NO_INFORMATION

    @property
    def is_absurd(self) -> bool:
        return not can_be(*(getattr(self, name) for name in _DURATIONS))

    @property
    def has_response(self) -> bool:
        """False with acks=0, or where the level was switched meanwhile."""
        return memoryview(self.response) not in NO_BODY

    def with_bodies(self, request: Any, response: Any) -> bytes:
        """The line's JSON with these bodies, and with nothing that is not known here."""
        bodies = [msgspec.Raw(msgspec.json.encode(body)) for body in (request, response)]
        whole = msgspec.structs.replace(self, request=bodies[0], response=bodies[1])
        return msgspec.json.encode(whole)


#: In the order of ``can_be``.
_DURATIONS = tuple(name for name in Envelope.__struct_fields__ if name.endswith("_ms"))
#: What Kafka writes where it has no body to show: since 4.4 the second.
NO_BODY = (b'""', b"null")
_BRACE = ord("{")

_decoder = msgspec.json.Decoder(Envelope)


def decode_envelope(json: bytes) -> Envelope:
    """Raises ``Unreadable``: bad_json, missing_field, bad_envelope or bad_body."""
    try:
        envelope = _decoder.decode(json)
    except msgspec.ValidationError as error:
        missing = "missing required field" in str(error)
        reason = RejectReason.missing_field if missing else RejectReason.bad_envelope
        raise Unreadable(reason, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Unreadable(RejectReason.bad_json) from None
    for body in (envelope.request, envelope.response):
        view = memoryview(body)
        if view[0] != _BRACE and view not in NO_BODY:
            raise Unreadable(RejectReason.bad_body)
    return envelope


# --- as columns

_PARTS: dict[str, type[msgspec.Struct]] = {
    "requestHeader": RequestHeader,
    "clientInformation": ClientInformation,
}
#: What may be null; of the others, Kafka writes each.
_OPTIONAL = {"client_id", "api_name", "is_deprecated_version"}
_OPTIONAL |= {"security_protocol", "principal", "listener", *ClientInformation.__struct_fields__}


@cache
def _fields(part: type[msgspec.Struct]) -> dict[str, tuple[str, pa.DataType]]:
    """Fields that are columns of ``requests``: names there, names in the log, and types."""
    return {
        field.name: (field.encode_name, Requests.arrow_schema.field(field.name).type)
        for field in msgspec.structs.fields(part)
        if field.name in Requests.names
    }


#: An envelope, less its bodies.
ENVELOPE = pa.schema(
    [
        *((name, pa.struct([*_fields(part).values()])) for name, part in _PARTS.items()),
        *_fields(Envelope).values(),
    ]
)


def envelope_columns(lines: pa.RecordBatch) -> Columns:
    """Columns of ``requests`` that follow from lines without their stamps."""
    columns = {name: lines.column(place) for name, (place, _) in _fields(Envelope).items()}
    for name, part in _PARTS.items():
        columns |= zip(_fields(part), lines.column(name).flatten(), strict=True)
    columns["is_deprecated_version"] = columns["is_deprecated_version"].fill_null(False)
    columns["has_response"] = lines.column("response").is_valid()
    return columns


def are_sound_envelopes(lines: pa.RecordBatch) -> bool:
    """Returns whether lines lack no field, and have times that can be: Arrow has null for a missing
    field, and reads NaN and infinity, which are no JSON."""
    columns = envelope_columns(lines)
    required = [column for name, column in columns.items() if name not in _OPTIONAL]
    required += [lines.column(name) for name in ("clientInformation", "request", "response")]
    is_whole = all(column.null_count == 0 for column in required)
    return is_whole and bool(can_be(*_durations(columns)).all())


def _durations(columns: Columns) -> NDArray[np.float64]:
    return np.array([columns[name].to_numpy(zero_copy_only=False) for name in _DURATIONS])


def with_times(columns: Columns, stamps_us: Positions) -> Columns:
    us = np.rint(_durations(columns) * 1000).astype(np.int64)
    total, request_queue, local, _, response_queue, send, _ = us
    dequeued = stamps_us - total + request_queue
    times = {
        "received_at": stamps_us - total,
        "dequeued_at": dequeued,
        "handled_at": dequeued + local,
        "built_at": stamps_us - send - response_queue,
        "completed_at": stamps_us,
    }
    return columns | {name: pa.array(time, AT) for name, time in times.items()}
