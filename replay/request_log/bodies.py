"""Bodies of the APIs that are rare: one line at a time, through typed structs.

Structs name the fields that are used, with Kafka's defaults for those that some versions lack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from .envelope import EMPTY_BODY
from .reasons import Reason, Unreadable

_Body = TypeVar("_Body")
Row = tuple[Any, ...]


class Fields(msgspec.Struct, rename="camel", frozen=True):
    """Base of bodies: Kafka's camelCase outside, Python's names inside."""


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
    configs: int | None = None,
    feature_level: int | None = None,
) -> dict[str, Any]:
    """A ``METADATA_WRITE_RESOURCE``: what a write is about, and the error returned."""
    return locals()


def decode(raw: msgspec.Raw, decoder: msgspec.json.Decoder[_Body]) -> _Body | None:
    """None where the log has no body. Raises ``Unreadable`` (bad_body) where it does not fit."""
    if memoryview(raw) == EMPTY_BODY:
        return None
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Unreadable(Reason.bad_body) from None
