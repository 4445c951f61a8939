"""A message schema (``schemas``) as objects: fields of each version, and bytes that never vary.

Source: ``org.apache.kafka.message`` (``MessageSpec``, ``FieldSpec``, ``Versions``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from . import schemas
from .columns import UUID_BYTES, Ints, unsigned_varint_bytes

#: Types of which every value takes as many bytes.
_FIXED_BYTES = {"bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uuid": UUID_BYTES}
_LATEST = 2**15
#: What a number of a type may be, if its field says nothing else. Kafka writes -1 for what is not
#: known or none, and nothing below. To an offset of 2^62, a million records a second take 146,000
#: years, and the sum of two that are smaller does not overflow.
RANGES = {"int64": (-1, 2**62 - 1), "records": (0, 2**31 - 1)}
RANGES |= {f"int{bits}": (-1, 2 ** (bits - 1) - 1) for bits in (8, 16, 32)}


def versions_of(text: str) -> range:
    """``3+``, ``0-12``, ``7`` or ``none`` as a range."""
    if text == "none":
        return range(0)
    first, dash, last = text.rstrip("+").partition("-")
    return range(int(first), _LATEST if "+" in text else int(last if dash else first) + 1)


@dataclass(frozen=True, eq=False)
class Field:
    """A field of a message, or of a struct in it, with its attributes in the schema."""

    name: str
    type: str
    is_array: bool
    versions: range
    is_tagged: bool
    is_nullable: bool
    #: As Kafka writes it where the field is absent; None is null, or an array's emptiness.
    default: int | bool | str | None
    has_default: bool
    column: str
    struct: Struct | None
    #: The least and the largest number, besides the default.
    limits: tuple[int, int] | None

    @property
    def may_be_absent(self) -> bool:
        """Returns whether the log may lack it in a version that has it."""
        return self.is_tagged or self.is_nullable or self.has_default

    @cached_property
    def json_name(self) -> str:
        """The field's name in the request log, where of records only the size is."""
        name = self.name[0].lower() + self.name[1:]
        return f"{name}SizeInBytes" if self.type == "records" else name

    def plain_bytes(self, version: int) -> int:
        """Bytes of a value, or of an array's element, without its fields of varying size."""
        return self.struct.plain_bytes(version) if self.struct else _FIXED_BYTES[self.type]

    def plain_sizes(self, versions: Ints) -> Ints | int:
        return self.struct.plain_sizes(versions) if self.struct else _FIXED_BYTES[self.type]

    def tag_bytes(self, version: int) -> int:
        """Bytes of a tagged field of fixed size: tag, size and value; 0 below its version."""
        value = self.plain_bytes(version)
        return 1 + unsigned_varint_bytes(value) + value if version in self.versions else 0

    @cached_property
    def partitions(self) -> Field | None:
        """Returns the list of partitions within a list of topics; None of all others."""
        inner = self.struct.fields if self.struct else ()
        is_topics = any(field.column == "topic" for field in inner)
        return next((field for field in inner if field.is_array and is_topics), None)


@dataclass(frozen=True, eq=False)
class Struct:
    fields: tuple[Field, ...]
    flexible: range

    def __getitem__(self, path: str) -> Field:
        """A field by its name, or by a path of names: ``Topics.Partitions.Records``."""
        name, _, rest = path.partition(".")
        field = next(field for field in self.fields if field.name == name)
        if not rest:
            return field
        assert field.struct is not None
        return field.struct[rest]

    def plain_bytes(self, version: int) -> int:
        """Bytes of the fields of fixed size and of the number of tagged fields."""
        return self._plain_bytes_by_version[min(version, len(self._plain_bytes_by_version) - 1)]

    def plain_sizes(self, versions: Ints) -> Ints:
        sizes = np.array(self._plain_bytes_by_version, np.int64)
        return sizes[np.clip(versions, 0, len(sizes) - 1)]

    @cached_property
    def _plain_bytes_by_version(self) -> list[int]:
        """Sizes by version, up to the one that brings the last change."""
        ranges = [self.flexible, *(field.versions for field in self.fields)]
        ends = {end for versions in ranges for end in (versions.start, versions.stop)}
        last = max(end for end in ends if end < _LATEST)
        plain = [field for field in self.fields if field not in self.varying]
        return [
            sum(field.plain_bytes(version) for field in plain if version in field.versions)
            + (version in self.flexible)
            for version in range(last + 1)
        ]

    @cached_property
    def varying(self) -> tuple[Field, ...]:
        """Fields whose size follows from their values."""
        fixed = _FIXED_BYTES.keys()
        return tuple(f for f in self.fields if f.is_tagged or f.is_array or f.type not in fixed)


@dataclass(frozen=True, eq=False)
class Message:
    key: int
    #: Has all fields, and not only those that are used.
    is_whole: bool
    versions: range
    body: Struct
    #: Columns that are neither null nor false where the body is there.
    present_with: tuple[str, ...]


@dataclass(frozen=True)
class Api:
    text: str
    key: int
    request: Message
    response: Message

    @staticmethod
    def parsed(text: str) -> Api:
        """Reads the messages of an API."""
        request, response = messages_of(text).values()
        return Api(text, request.key, request, response)


@cache
def messages_of(text: str) -> Mapping[str, Message]:
    """Reads a text of messages, by their types: ``request``, ``response``."""
    messages = {}
    for message in re.split(r"\n(?=\w+ (?:request|response)\b)", text.strip()):
        lines = message.splitlines()
        _, type_, *words = " ".join(line for line in lines if line[0] != " ").split()
        attributes = {"apiKey": "-1", "validVersions": "0+", "flexibleVersions": "none"}
        attributes |= _attributes(words)
        flexible = versions_of(attributes["flexibleVersions"])
        # By depth, the fields of the struct above them. From the last line on, so that a struct's
        # own fields are read before it.
        below: dict[int, list[Field]] = defaultdict(list)
        for line in reversed([line for line in lines if line[0] == " "]):
            depth = (len(line) - len(line.lstrip())) // 2
            fields = tuple(reversed(below.pop(depth + 1, [])))
            struct = Struct(fields, flexible) if fields else None
            below[depth] += [field_of(field, struct) for field in reversed(line.split(", "))]
        key = int(attributes["apiKey"])
        messages[type_] = Message(
            key,
            key >= 0,
            versions_of(attributes["validVersions"]),
            Struct(tuple(reversed(below[1])), flexible),
            tuple(filter(None, attributes.get("presentWith", "").split(","))),
        )
    return messages


def field_of(text: str, struct: Struct | None = None) -> Field:
    """Reads the line of a field, whose own fields are ``struct``."""
    name, type_, versions, *words = text.split()
    attributes = _attributes(words)
    default = attributes.get("default")
    least, largest = RANGES.get(type_.removeprefix("[]"), (0, 0))
    return Field(
        name=name,
        type=type_.removeprefix("[]"),
        is_array=type_.startswith("[]"),
        versions=versions_of(versions),
        is_tagged="tag" in attributes,
        is_nullable="nullableVersions" in attributes,
        default=_default(type_, default),
        has_default=default is not None,
        column=attributes.get("column", re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()),
        struct=struct,
        limits=(int(attributes.get("min", least)), largest) if largest else None,
    )


def _attributes(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def _default(type_: str, text: str | None) -> int | bool | str | None:
    """Without a default of its own, a number is 0 and a boolean false."""
    if text == "null":
        return None
    if type_ == "bool":
        return text == "true"
    if type_.startswith("int"):
        return int(text or "0", 0)
    return text


PRODUCE, FETCH = Api.parsed(schemas.PRODUCE), Api.parsed(schemas.FETCH)
BROKER_HEARTBEAT = Api.parsed(schemas.BROKER_HEARTBEAT)
APIS: Mapping[int, Api] = {api.key: api for api in (PRODUCE, FETCH, BROKER_HEARTBEAT)}
