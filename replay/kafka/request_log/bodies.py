"""Bodies of the APIs that are rare: one line at a time, through typed structs.

A struct names the fields that are used, in Kafka's order and Python's spelling. As in
``mandatory``, a field must be there in every version that has it, unless it can be null or has a
default: then it is a pair of type and default. ``At("1+", Int16, 0)`` is 0 before version 1.
``Body(topics=Structs(name=str), topic_id=At("6+", str, None))`` reads two fields.
"""

from dataclasses import dataclass, field
from functools import cache
from types import GenericAlias
from typing import Any

import msgspec

from ..messages.layout import versions_of
from .envelope import NO_BODY, Envelope
from .reasons import Reason, Unreadable

Row = tuple[Any, ...]
#: All higher versions are alike.
_VERSION_MAX = 63


class At:
    """A field of ``versions`` (``3+``, ``0-2``): its type there, and what it is elsewhere."""

    def __init__(self, versions: str, type_: Any, default: Any) -> None:
        self.versions, self.type, self.default = versions_of(versions), type_, default


class Structs:
    def __init__(self, is_nullable: bool = False, /, **fields: Any) -> None:
        self.fields, self.is_nullable = fields, is_nullable

    def or_null(self) -> "Structs":
        return Structs(True, **self.fields)


class Body:
    def __init__(self, **fields: Any) -> None:
        self.fields = fields


@cache
def _decoder(body: Body, version: int) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_struct(body.fields, version))


def _struct(fields: dict[str, Any], version: int) -> type[msgspec.Struct]:
    named = [(name, *_field(type_, version)) for name, type_ in fields.items()]
    return msgspec.defstruct("Body", named, rename="camel", frozen=True, kw_only=True)


def _field(type_: Any, version: int) -> tuple[Any, ...]:
    if isinstance(type_, At):
        inner = _type(type_.type, version)
        return (inner,) if version in type_.versions else (inner, type_.default)
    if isinstance(type_, tuple):
        return _type(type_[0], version), type_[1]
    return (_type(type_, version),)


def _type(type_: Any, version: int) -> Any:
    if not isinstance(type_, Structs):
        return type_
    of_list = GenericAlias(list, (_struct(type_.fields, version),))
    return of_list | None if type_.is_nullable else of_list


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


def resource(
    resource_type: str, name: str | None, error_code: int | None, **of_type: int | None
) -> dict[str, Any]:
    """A ``METADATA_WRITE_RESOURCE``: what a write is about, and the error returned."""
    return {"resource_type": resource_type, "name": name, "error_code": error_code, **of_type}


def decode_request(envelope: Envelope, body: Body) -> Any:
    """None where the log has no body. Raises ``Unreadable`` (bad_body) where it does not fit."""
    return _decoded(envelope.request, body, envelope.request_header.request_api_version)


def decode_response(envelope: Envelope, body: Body) -> Any:
    return _decoded(envelope.response, body, envelope.request_header.request_api_version)


def _decoded(raw: msgspec.Raw, body: Body, version: int) -> Any:
    if memoryview(raw) in NO_BODY:
        return None
    try:
        return _decoder(body, min(version, _VERSION_MAX)).decode(raw)
    except msgspec.ValidationError as error:
        raise Unreadable(Reason.bad_body, str(error)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Unreadable(Reason.bad_body) from None
