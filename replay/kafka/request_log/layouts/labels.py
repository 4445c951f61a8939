"""Finds what names the node of a line in a file of several nodes: a field, or a prefix."""

import re
from collections import Counter
from typing import NamedTuple

import msgspec

from ..line import MARKER
from .reader import Framing, records_of
from .stamps import StampReader
from .wrappers import Path, is_escaped, leaves, marker_in, requests_in, texts_in

#: Names of fields that name a container, the most telling ones first.
_NAMES = re.compile(r"pod|instance|host|node|stream|container|source|service|app|tag|name", re.I)
_VALUES_MAX = 100
#: What is part of a name in front of a line, and no time.
_WORD = re.compile(rb"[^\s|,\"]*[A-Za-z][^\s|,\"]*")
_WORDS = "words"
_NUMBER = re.compile(r"\d")


class Labels(NamedTuple):
    """A field's path, or () for the prefix of a line, and its values."""

    path: Path
    values: tuple[str, ...]


def labels(head: bytes, framing: Framing) -> Labels:
    """Returns the label that most likely names the node, at the requests that a file begins with.

    Each of its values has a digit. With one value, or none, the file is one node's.
    """
    values: dict[Path, Counter[str]] = {}
    for record in records_of(head, framing):
        if not marker_in(record):
            continue
        for path, value in _labels_of(record):
            values.setdefault(path, Counter())[value] += 1
    best = Labels((), ())
    for path, counts in sorted(values.items(), key=lambda item: _rank(item[0])):
        distinct = tuple(sorted(counts))
        is_many = len(distinct) > 1 and counts.total() < 2 * len(distinct)  # one for each line
        if is_many or len(distinct) > _VALUES_MAX or not all(map(_NUMBER.search, distinct)):
            continue
        if len(distinct) > 1 or not best.values:
            best = Labels(() if path[0] == _WORDS else path, distinct)
        if len(distinct) > 1:
            break
    return best


def _rank(path: Path) -> int:
    named = [_NAMES.search(key) for key in path[-1:]]
    order = _NAMES.pattern.split("|")
    return min((order.index(m[0].lower()) for m in named if m), default=len(order))


def _labels_of(record: bytes) -> list[tuple[Path, str]]:
    """Fields of a JSON object, or the words before Kafka's stamp by their places."""
    marker = record.find(MARKER)
    if marker >= 0 and not is_escaped(record, marker):
        words = _WORD.findall(StampReader("UTC").without(record[:marker]))
        places = [(i, w.decode(errors="replace")) for i, w in enumerate(words)]
        return [((_WORDS, f"{i:03d}"), word) for i, word in places if "thread" not in word]
    try:
        value = msgspec.json.decode(record[record.index(b"{") : record.rindex(b"}") + 1])
    except (ValueError, msgspec.DecodeError):
        return []
    texts = [text for _, text in texts_in(value) if marker_in(text.text)]
    texts = texts or [text for _, text in requests_in(value)]
    around = [outer for text in texts for outer in text.around]
    return [(path, text) for outer in around for path, text in leaves(outer) if len(text) < 100]
