"""The request log's own JSON, around the request and the response of an API.

Source: ``kafka.network.RequestConvertToJson.requestDescMetrics``. Fields that a newer Kafka adds
are passed over; ``request`` and ``response`` stay raw until their API is known.
"""

from functools import reduce
from operator import add
from typing import Annotated, Any

import msgspec
from msgspec import field

from ..messages.layout import RANGES
from .line import Reason, Unreadable

_limits = {type_: msgspec.Meta(ge=least, le=most) for type_, (least, most) in RANGES.items()}
Int8 = Annotated[int, _limits["int8"]]
Int16 = Annotated[int, _limits["int16"]]
Int32 = Annotated[int, _limits["int32"]]
Int64 = Annotated[int, _limits["int64"]]
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
    """Returns whether times of a request, or of each in arrays, fit: in ``Envelope``'s order."""
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
    is_deprecated_version: bool = field(name="requestApiVersionDeprecated", default=False)


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
        return not can_be(*(getattr(self, name) for name in DURATIONS))

    @property
    def has_response(self) -> bool:
        """False with acks=0, or where the level was switched meanwhile."""
        return memoryview(self.response)[0] == _BRACE

    @property
    def bodies(self) -> bytes:
        """JSON of both bodies, null where there is none."""
        both = (self.request, self.response)
        request, response = (b"null" if memoryview(b) in NO_BODY else b for b in both)
        return b'{"request":%b,"response":%b}' % (request, response)


#: In the order of ``can_be``.
DURATIONS = tuple(name for name in Envelope.__struct_fields__ if name.endswith("_ms"))
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
        reason = Reason.missing_field if missing else Reason.bad_envelope
        raise Unreadable(reason, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Unreadable(Reason.bad_json) from None
    for body in (envelope.request, envelope.response):
        view = memoryview(body)
        if view[0] != _BRACE and view not in NO_BODY:
            raise Unreadable(Reason.bad_body)
    return envelope
