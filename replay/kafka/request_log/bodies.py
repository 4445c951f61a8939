"""Bodies of requests and responses, decoded strictly, one line at a time.

A body is declared once, as a text in the terms of Kafka's message schemas (``messages.schemas``):
the whole of FETCH, PRODUCE and BROKER_HEARTBEAT, of other APIs the fields that are used. What does
not fit follows from ``JsonConverterGenerator``, by which Kafka writes bodies to the log: a field is
there in each of its versions but those where it is tagged, and null only where the version allows
it. What has a default may be absent nevertheless. What a number may be is declared with its field,
or follows from its type (``layout.RANGES``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import GenericAlias
from typing import Annotated, Any

import msgspec

from ..messages.layout import Field, Struct, messages_of
from .envelope import NO_BODY, Envelope
from .line import RejectReason, Unreadable

Row = tuple[Any, ...]
#: Rows that follow from a line, by table: the body's own fields in order, less what is of the line
#: or its request (times, sender, ``source``, ...; see ``parser``).
TypedRows = dict[str, list[Row]]
#: All higher versions are alike.
_VERSION_MAX = 63
_TYPES = {"bool": bool, "string": str, "uuid": str, "bytes": str, "raw": msgspec.Raw}


@dataclass(frozen=True)
class Reader:
    """Reads the lines of an API: fields of its request and response, and the rows of both.

    A body is None where the log has none, or none of its fields is named.
    """

    text: str
    rows: Callable[[Any, Any, Envelope], TypedRows]

    def read(self, envelope: Envelope) -> TypedRows:
        """Raises ``Unreadable`` (bad_body) where a body does not fit."""
        return self.rows(*decoded_bodies(envelope, self.text), envelope)


def decoded_bodies(envelope: Envelope, text: str) -> tuple[Any, Any]:
    """Decodes request and response of an API, declared by ``text``; None without such a body.

    Raises ``Unreadable`` (bad_body).
    """
    version = min(envelope.request_header.api_version, _VERSION_MAX)
    request = _decoded(envelope.request, text, "request", version)
    return request, _decoded(envelope.response, text, "response", version)


def _decoded(raw: msgspec.Raw, text: str, kind: str, version: int) -> Any:
    decoder = _decoder(text, kind, version)
    if decoder is None or memoryview(raw) in NO_BODY:
        return None
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise Unreadable(RejectReason.bad_body, str(error)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Unreadable(RejectReason.bad_body) from None


@cache
def _decoder(text: str, kind: str, version: int) -> msgspec.json.Decoder[Any] | None:
    message = messages_of(text).get(kind)
    if message is None:
        return None
    return msgspec.json.Decoder(_struct(message.body, version, message.is_whole))


def _struct(struct: Struct, version: int, is_whole: bool) -> type[msgspec.Struct]:
    fields = [_field(field, version, is_whole) for field in struct.fields]
    names = {field.column: field.json_name for field in struct.fields}
    return msgspec.defstruct("Body", fields, rename=names, frozen=True, kw_only=True)


def _field(field: Field, version: int, is_whole: bool) -> tuple[Any, ...]:
    """An array that the version lacks, or that is not written, is None."""
    type_: Any = _TYPES.get(field.type)
    if field.struct is not None:
        type_ = _struct(field.struct, version, is_whole)
    if field.limits is not None:
        least, largest = field.limits
        type_ = Annotated[int, msgspec.Meta(ge=least, le=largest)]
    type_ = GenericAlias(list, (type_,)) if field.is_array else type_
    # Null is what is absent where Arrow reads it (``reading``).
    if field.is_nullable or (is_whole and field.may_be_absent):
        type_ |= None
    if version in field.versions and not field.may_be_absent:
        return field.column, type_
    return field.column, type_, field.default
