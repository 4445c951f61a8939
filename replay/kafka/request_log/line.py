"""A request line in Kafka's default layout: ``[stamp] LEVEL Completed request:{...} (logger)``.

Source: Kafka's ``config/log4j2.yaml``, ``[%d] %p %m (%c)%n``. Whatever a line was read from, its
content is this text (``layouts``): its id is of it, and the parser takes nothing else.
"""

MARKER = b"Completed request:"
LOGGER = b"(kafka.request.logger)"
STAMP_BYTES = 23
#: Where the level stands, and the JSON behind ``DEBUG``; behind ``INFO`` it is a byte nearer.
_LEVEL = STAMP_BYTES + 3
_JSON_BEGIN = _LEVEL + len(b"DEBUG ") + len(MARKER)
_JSON_END = -len(LOGGER) - 1


def without_line_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def json_of(line: bytes) -> bytes:
    return line[_JSON_BEGIN - line.startswith(b"I", _LEVEL) : _JSON_END]


def is_text(line: bytes) -> bool:
    try:
        return "\0" not in line.decode()
    except UnicodeDecodeError:
        return False


def stamp_of(line: bytes) -> bytes:
    return line[1 : STAMP_BYTES + 1]
