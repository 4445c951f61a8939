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
class Told:
    """What a line says besides being a request.

    Tuples follow the fields of the structs in ``parsed_line`` that are the body's own, less those
    that every struct of the kind shares (times, sender, ``source``, ...): see ``parser``.
    """

    broker_heartbeat: Row | None = None
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
) -> Row:
    """A row of ``METADATA_WRITE_RESOURCE``: what a write is about, and its answer."""
    return (resource_type, name, partitions, configs, feature_level, error_code)


def decode(raw: msgspec.Raw, decoder: msgspec.json.Decoder[_Body]) -> _Body | None:
    """None where the log has no body. Raises ``Unreadable`` (bad_body) where it does not fit."""
    if memoryview(raw) == EMPTY_BODY:
        return None
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Unreadable(Reason.bad_body) from None
