"""A request line in Kafka's default layout: ``[stamp] LEVEL Completed request:{...} (logger)``.

Source: Kafka's ``config/log4j2.yaml``, ``[%d] %p %m (%c)%n``. Whatever a line was read from, its
content is this text (``layouts``): its id is of it, and the parser takes nothing else.
"""

MARKER = b"Completed request:"
LOGGER = b"(kafka.request.logger)"
#: ``2026-11-20 20:30:34,831``
STAMP_BYTES = 23
#: Where the level stands, and the JSON behind ``DEBUG``; behind ``INFO`` it is a byte nearer.
_LEVEL = STAMP_BYTES + 3
_JSON_BEGIN = _LEVEL + len(b"DEBUG ") + len(MARKER)
_JSON_END = -len(LOGGER) - 1


def without_line_end(line: bytes) -> bytes:
    """The line less one LF or CR LF (or a CR, where lines were split at LF)."""
    return line.removesuffix(b"\n").removesuffix(b"\r")


def json_of(line: bytes) -> bytes:
    """The JSON object of a canonical line."""
    return line[_JSON_BEGIN - line.startswith(b"I", _LEVEL) : _JSON_END]


def is_text(line: bytes) -> bool:
    """Whether the bytes are UTF-8 without NUL."""
    try:
        return "\0" not in line.decode()
    except UnicodeDecodeError:
        return False


def stamp_of(line: bytes) -> bytes:
    """The stamp of a canonical line."""
    return line[1 : STAMP_BYTES + 1]
