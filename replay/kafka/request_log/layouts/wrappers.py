"""Log lines inside of JSON, or CSV: which field holds the line, and what stands beside it.

A *wrapper* is learned from one record: the path of the field whose text has the marker, the fields
that may be its timestamp, and the label that says whose line it is. Then only those are decoded.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from ..line import MARKER
from .stamps import FIELDS

Path = tuple[str, ...]
#: In the place of text, journald writes the bytes of what is not printable.
MARKER_AS_NUMBERS = b",".join(b"%d" % byte for byte in MARKER)
#: How a quotation mark is written in a field of CSV.
_IN_CSV = b'""'
_BRACE = len(MARKER)
#: Beside the message, tells streams of one container apart.
STREAM = "stream"


@dataclass(frozen=True)
class Found:
    """A line in a record: its text, and the objects around it, the outermost first."""

    text: bytes
    around: tuple[Any, ...] = ()

    def records(self) -> list[dict[str, Any]]:
        """The objects around it, the innermost first."""
        return [msgspec.to_builtins(record) for record in reversed(self.around)]

    def label(self, path: Path) -> str | None:
        """What stands at a path, in the outermost object that has it."""
        for record in reversed(self.records()):
            if (value := _at(record, path)) is not None:
                return str(value)
        return None


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def marker_in(text: bytes) -> bool:
    """Whether a text has the marker, as text or as numbers."""
    return MARKER in text or MARKER_AS_NUMBERS in text


def is_bare(text: bytes, marker: int) -> bool:
    """Whether the JSON behind the marker stands there as Kafka wrote it."""
    brace = marker + _BRACE
    return marker >= 0 and text.startswith(b'{"', brace) and not text.startswith(b'"', brace + 2)


def is_escaped(text: bytes, marker: int) -> bool:
    """Whether the JSON behind the marker is part of a string."""
    return text.startswith(b"{\\", marker + _BRACE)


def of_csv(text: bytes, marker: int) -> bytes | None:
    """The field of CSV that has the marker, None where it is no such field."""
    brace = marker + len(MARKER)
    if not text.startswith((_IN_CSV, b"\\" + _IN_CSV), brace + 1):
        return None
    begin, end = marker, brace
    while (begin := text.rfind(b'"', 0, begin)) > 0 and text[begin - 1 : begin] == b'"':
        begin -= 1
    while (end := text.find(b'"', end)) >= 0 and text[end + 1 : end + 2] == b'"':
        end += 2
    return text[begin + 1 : end if end >= 0 else len(text)].replace(b'""', b'"')


class Wrapper:
    """Decodes of JSON objects the fields at some paths, and passes over the others."""

    def __init__(self, message: Path, others: Iterable[Path]) -> None:
        paths = [message, *(p for p in others if p[: len(message)] != message[: len(p)])]
        self._decoder = msgspec.json.Decoder(_struct(paths))
        self._text = attrgetter(".".join("f0" for _ in message))

    def found(self, json: bytes | memoryview) -> Found | None:
        """The line, None where the object has none at this place."""
        try:
            record = self._decoder.decode(json)
            text = text_of(self._text(record))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError):
            return None
        return None if text is None else Found(text, (record,))


@lru_cache(maxsize=100)
def wrapper_of(message: Path, label: Path) -> Wrapper | None:
    """What finds a message, its stamp and its label; None where names do not lead to it."""
    if not message:
        return None
    places = dict.fromkeys([message[:-1], ()])
    stamps = [(*place, name) for place in places for name in FIELDS]
    try:
        return Wrapper(message, dict.fromkeys([*([label] if label else []), (STREAM,), *stamps]))
    except ValueError:  # msgspec takes no control characters
        return None


def _struct(paths: Iterable[Path]) -> type[msgspec.Struct]:
    """Fields f0, f1, ... in the order of the paths, so that the first is always at f0."""
    below: dict[str, list[Path]] = {}
    for path in paths:
        below.setdefault(path[0], []).append(path[1:])
    fields = [
        (f"f{i}", Any if () in rest else _struct(rest) | None, None)
        for i, rest in enumerate(below.values())
    ]
    names = {f"f{i}": key for i, key in enumerate(below)}
    return msgspec.defstruct("Fields", fields, rename=names, omit_defaults=True, gc=False)


def found_in(
    value: Any, path: Path = (), around: tuple[Any, ...] = ()
) -> Iterator[tuple[Path, Found]]:
    """Every text in a decoded value, with its path; lists add nothing to paths."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from found_in(inner, (*path, key), (*around, value))
    elif (text := text_of(value)) is not None:
        if not text.isdigit():  # Loki has a time beside each line
            yield path, Found(text, around)
    elif isinstance(value, list):
        for inner in value:
            yield from found_in(inner, path, around)


def text_of(value: Any) -> bytes | None:
    """A string, or the bytes that a list of numbers stands for."""
    if isinstance(value, str):
        return value.encode(errors="replace")
    try:
        return bytes(value) if isinstance(value, list) and value else None
    except (TypeError, ValueError):
        return None


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Texts and numbers of nested objects with their paths: what can be a label."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield path, str(value)
