"""The request log's own JSON, around the request and the response of an API.

Source: ``kafka.network.RequestConvertToJson.requestDescMetrics``. Fields that a newer Kafka adds
are passed over; ``request`` and ``response`` stay raw until their API is known.
"""

from typing import Annotated

import msgspec

from .reasons import Reason, Unreadable

Int8 = Annotated[int, msgspec.Meta(ge=-(2**7), le=2**7 - 1)]
Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


#: A year: longer than any request, shorter than what overflows.
MS_MAX = 366 * 24 * 3600 * 1000.0


class RequestHeader(msgspec.Struct, rename="camel", frozen=True, gc=False):
    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: str | None = None
    request_api_key_name: str | None = None
    request_api_version_deprecated: bool = False


class ClientInformation(msgspec.Struct, rename="camel", frozen=True, gc=False):
    software_name: str | None = None
    software_version: str | None = None


_NO_INFORMATION = ClientInformation()


class Envelope(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """One logged request. Times in milliseconds, with microseconds as decimals."""

    request_header: RequestHeader
    request: msgspec.Raw
    response: msgspec.Raw
    connection: str
    total_time_ms: float
    request_queue_time_ms: float
    local_time_ms: float
    remote_time_ms: float
    response_queue_time_ms: float
    send_time_ms: float
    throttle_time_ms: float = 0.0
    is_forwarded: bool = False
    security_protocol: str | None = None
    principal: str | None = None
    listener: str | None = None
    client_information: ClientInformation = _NO_INFORMATION

    @property
    def is_absurd(self) -> bool:
        """Whether a time is negative or longer than any request takes."""
        fields = (name for name in self.__struct_fields__ if name.endswith("_time_ms"))
        return not all(0 <= getattr(self, name) <= MS_MAX for name in fields)

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
