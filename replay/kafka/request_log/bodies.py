"""Bodies of the APIs that are rare: one line at a time, through typed structs.

A struct names the fields that are used, in Kafka's order and Python's spelling; one that some
versions lack is a pair of its type and Kafka's default. ``decoder(topics=structs(name=str,
count=Int32), validate_only=(bool, False))`` reads a CreatePartitionsRequest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import GenericAlias
from typing import Any

import msgspec

from .envelope import EMPTY_BODY
from .reasons import Reason, Unreadable

Row = tuple[Any, ...]


def structs(**fields: Any) -> Any:
    """The type of a list of structs."""
    return GenericAlias(list, (_struct(fields),))


def decoder(**fields: Any) -> msgspec.json.Decoder[Any]:
    """Decodes a body; raises ``msgspec.ValidationError`` where it does not fit."""
    return msgspec.json.Decoder(_struct(fields))


def _struct(fields: dict[str, Any]) -> type[msgspec.Struct]:
    named = [(name, *(t if isinstance(t, tuple) else (t,))) for name, t in fields.items()]
    return msgspec.defstruct("Body", named, rename="camel", frozen=True, kw_only=True)


@dataclass(frozen=True)
class TypedRows:
    """Rows that follow from a line, by column of ``PARSED_LINE``.

    Each has the body's own fields in the order of its struct, less those that every struct of the
    kind shares (times, sender, ``source``, ...): see ``parser``.
    """

    metadata_write: Row | None = None
    producer_id: Row | None = None
    isr_changes: list[Row] = field(default_factory=list)
    topics: list[Row] = field(default_factory=list)
    configs: list[Row] = field(default_factory=list)
    metadata_offsets: list[Row] = field(default_factory=list)


def resource(
    resource_type: str,
    name: str | None,
    error_code: int | None,
    *,
    partitions: int | None = None,
    replicas: int | None = None,
    configs: int | None = None,
    feature_level: int | None = None,
) -> dict[str, Any]:
    """A ``METADATA_WRITE_RESOURCE``: what a write is about, and the error returned."""
    return locals()


def decode(raw: msgspec.Raw, decoder: msgspec.json.Decoder[Any]) -> Any:
    """None where the log has no body. Raises ``Unreadable`` (bad_body) where it does not fit."""
    if memoryview(raw) == EMPTY_BODY:
        return None
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Unreadable(Reason.bad_body) from None
