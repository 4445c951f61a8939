"""Log lines inside of JSON, or CSV: which field holds the line, and what is beside it.

The path of the field whose text has the marker is learned from one record. Where a layout or a
collector has made fields of the request itself, its object is written anew behind a marker.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from ..line import MARKER, Envelope

Path = tuple[str, ...]
#: Instead of text, journald writes the bytes of what is not printable.
MARKER_AS_NUMBERS = b",".join(b"%d" % byte for byte in MARKER)
_IN_CSV = b'""'
#: From the marker to the JSON object.
_BRACE = len(MARKER)
#: Has each request, with a marker or without.
REQUEST_KEY = b"requestApiKey"
_HEADER, _LOGGER = "requestHeader", re.compile(r"(?:log[._])?logger(?:[._]?name)?", re.I)
#: kafka.request.logger, also as log4j abbreviates it.
_IS_OWN = re.compile(r"(?:(?:k\w*\.)?r\w*\.)?logger")
#: Beside the message, tells streams of one container apart.
STREAM = "stream"


@dataclass(frozen=True)
class Unwrapped:
    text: bytes
    around: tuple[Any, ...] = ()

    def records(self) -> list[dict[str, Any]]:
        return [*reversed(self.around)]

    def label(self, path: Path) -> str | None:
        """Reads the value at a path, in the outermost object that has it."""
        for record in reversed(self.records()):
            if (value := _at(record, path)) is not None:
                return str(value)
        return None


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def marker_in(text: bytes) -> bool:
    return MARKER in text or REQUEST_KEY in text or MARKER_AS_NUMBERS in text


def is_bare(text: bytes, marker: int) -> bool:
    """Returns whether the JSON behind the marker is as Kafka wrote it."""
    brace = marker + _BRACE
    return marker >= 0 and text.startswith(b'{"', brace) and not text.startswith(b'"', brace + 2)


def is_escaped(text: bytes, marker: int) -> bool:
    """Returns whether the JSON behind the marker is part of a string."""
    return text.startswith(b"{\\", marker + _BRACE)


def is_cut_object(text: bytes) -> bool:
    """Returns whether a text begins as a JSON object and does not end as one."""
    try:
        return text.startswith(b'{"') and not msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True


def of_csv(text: bytes, marker: int) -> bytes | None:
    """The field of CSV that has the marker, None where it is no such field."""
    brace = marker + _BRACE
    if not text.startswith((_IN_CSV, b"\\" + _IN_CSV), brace + 1):
        return None
    begin, end = marker, brace
    while (begin := text.rfind(b'"', 0, begin)) > 0 and text[begin - 1 : begin] == b'"':
        begin -= 1
    while (end := text.find(b'"', end)) >= 0 and text[end + 1 : end + 2] == b'"':
        end += 2
    return text[begin + 1 : end if end >= 0 else len(text)].replace(b'""', b'"')


def unwrapped_at(json: bytes, path: Path) -> Unwrapped | None:
    """The text at a path, None where there is none."""
    around = []
    try:
        value = msgspec.json.decode(json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    for key in path:
        around.append(value)
        value = value.get(key) if isinstance(value, dict) else None
    text = text_of(value)
    return None if text is None else Unwrapped(text, tuple(around))


def texts_in(
    value: Any, path: Path = (), around: tuple[Any, ...] = ()
) -> Iterator[tuple[Path, Unwrapped]]:
    """Every text in a decoded value, with its path; lists add nothing to paths."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from texts_in(inner, (*path, key), (*around, value))
    elif (text := text_of(value)) is not None:
        if not text.isdigit():  # Loki has a time beside each line
            yield path, Unwrapped(text, around)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner, path, around)


def requests_in(
    value: Any, path: Path = (), around: tuple[Any, ...] = ()
) -> Iterator[tuple[Path, Unwrapped]]:
    """Every object in a decoded value that has a request's fields, as the text that Kafka writes.

    Its ``around`` has what is beside the object, the nearest last. What another logger wrote has
    that logger's name for text.
    """
    if isinstance(value, list):
        for inner in value:
            yield from requests_in(inner, path, around)
    if not isinstance(value, dict):
        return
    header = value.get(_HEADER)
    if not (isinstance(header, dict) and REQUEST_KEY.decode() in header):
        for key, inner in value.items():
            rest = {other: beside for other, beside in value.items() if other != key}
            yield from requests_in(inner, (*path, key), (*around, rest))
        return
    fields = Envelope.__struct_encode_fields__
    encoded = {
        k: msgspec.json.encode(value[k], order="deterministic") for k in fields if k in value
    }
    text = MARKER + msgspec.json.encode({k: msgspec.Raw(json) for k, json in encoded.items()})
    around = (*around, {key: beside for key, beside in value.items() if key not in fields})
    # Objects beside it are around it too, as if further away.
    around = (*(v for outer in around for v in outer.values() if isinstance(v, dict)), *around)
    named = (v for record in reversed(around) for k, v in record.items() if _LOGGER.fullmatch(k))
    logger = next((name for name in named if isinstance(name, str)), "logger")
    yield path, Unwrapped(text if _IS_OWN.fullmatch(logger) else f"({logger})".encode(), around)


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
