"""Bodies of the APIs that are rare: one line at a time, through typed structs.

The fields that are used are texts of Kafka's message schemas (``messages.schemas``). As in
``typed_bodies``, a field must be there in every version that has it, unless it can be null or has a
default. In other versions it is that default, or empty.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from types import GenericAlias
from typing import Annotated, Any

import msgspec

from ..messages.layout import RANGES, Field, Struct, messages_of
from .envelope import NO_BODY, Envelope
from .line import Reason, Unreadable

Row = tuple[Any, ...]
#: All higher versions are alike.
_VERSION_MAX = 63
_TYPES = {"bool": bool, "string": str, "uuid": str, "bytes": str, "raw": msgspec.Raw} | {
    name: Annotated[int, msgspec.Meta(ge=least, le=most)] for name, (least, most) in RANGES.items()
}


@dataclass(frozen=True)
class TypedRows:
    """Rows that follow from a line, by column of ``PARSED_LINE``: the body's own fields in order,
    less what every struct of the kind shares (times, sender, ``source``, ...; see ``parser``)."""

    metadata_write: Row | None = None
    producer_id: Row | None = None
    isr_changes: list[Row] = field(default_factory=list)
    brokers: list[Row] = field(default_factory=list)
    group_assignments: list[Row] = field(default_factory=list)
    topics: list[Row] = field(default_factory=list)
    configs: list[Row] = field(default_factory=list)
    metadata_offsets: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class Reader:
    """Reads the lines of an API: fields of its request and response, and the rows of both.

    A body is None where the log has none, or none of its fields is named.
    """

    text: str
    rows: Callable[[Any, Any, Envelope], TypedRows]

    def read(self, envelope: Envelope) -> TypedRows:
        """Raises ``Unreadable`` (bad_body) where a body does not fit."""
        version = min(envelope.request_header.api_version, _VERSION_MAX)
        request = _decoded(envelope.request, self.text, "request", version)
        response = _decoded(envelope.response, self.text, "response", version)
        return self.rows(request, response, envelope)


def _decoded(raw: msgspec.Raw, text: str, kind: str, version: int) -> Any:
    decoder = _decoder(text, kind, version)
    if decoder is None or memoryview(raw) in NO_BODY:
        return None
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise Unreadable(Reason.bad_body, str(error)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Unreadable(Reason.bad_body) from None


@cache
def _decoder(text: str, kind: str, version: int) -> msgspec.json.Decoder[Any] | None:
    message = messages_of(text).get(kind)
    return msgspec.json.Decoder(_struct(message.body, version)) if message else None


def _struct(struct: Struct, version: int) -> type[msgspec.Struct]:
    fields = [_field(field, version) for field in struct.fields]
    names = {field.column: field.json_name for field in struct.fields}
    return msgspec.defstruct("Body", fields, rename=names, frozen=True, kw_only=True)


def _field(field: Field, version: int) -> tuple[Any, ...]:
    type_: Any = _struct(field.struct, version) if field.struct else _TYPES[field.type]
    type_ = GenericAlias(list, (type_,)) if field.is_array else type_
    type_ = type_ | None if field.is_nullable else type_
    if version in field.versions and not (field.is_nullable or field.has_default):
        return field.column, type_
    return field.column, type_, [] if field.is_array and not field.is_nullable else field.default
