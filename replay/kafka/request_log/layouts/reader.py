"""Physical lines of one log file as request lines in Kafka's default layout, all accounted for."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import eq
from typing import Any, NamedTuple

import msgspec

from ..line import LOGGER, MARKER, STAMP_BYTES, RejectReason, Unreadable, without_line_end
from .text import TextLayout, are_usual_and_sound, is_usual, without_stamps_of_parts
from .wrappers import (
    REQUEST_KEY,
    STREAM,
    Path,
    Unwrapped,
    is_bare,
    is_cut_object,
    is_escaped,
    marker_in,
    of_csv,
    requests_in,
    texts_in,
    unwrapped_at,
)

#: A longer line is rejected, a longer physical one without being in memory as a whole.
LINE_BYTES_MAX = 256 << 20
_LEVELS_MAX = 3
#: What is before the parts of a split line: CRI's stream and tag, syslog's or journald's head.
_CARRIER = re.compile(
    rb"\S+ (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S+)? |(?P<head>[^\[\]{}\"]{1,200}\[\d+\]): "
)
#: No string of JSON has it: its quotation marks are escaped.
_BETWEEN_OBJECTS = b'}{"'
#: Where an object begins, behind what a carrier may have put before it.
_OBJECT = re.compile(rb"\{\s*\"")
#: What journalctl leaves out of ``-o json`` without ``--all``: texts of 4,096 bytes.
_LEFT_OUT = b'"MESSAGE":null'
_LOGGER = re.compile(rb"\(([\w.$]+)\)\s*$|\b([a-z][\w$]*(?:\.[\w$]+){2,})\b")
_TRACE = re.compile(rb"\s+(?:at |\.\.\. )|(?:Caused by|Suppressed): |[\w.$]+(?:Exception|Error)\b")
#: Of a second, where a stamp has this many.
_SIX_DECIMALS = re.compile(rb":\d\d[.,](\d{6})(?!\d)")
_LOGGERS_MAX, _LOGGER_BYTES = 100, 1000
#: Around a label in front of a line.
_PREFIX_BYTES = 256


class LongLine(NamedTuple):
    head: bytes
    line_bytes: int


@dataclass(frozen=True)
class NodeBy:
    """Selects the lines of one node in a file of several.

    Those with ``value`` in the field at ``path``, or in the line's prefix without a path.
    ``others`` are the values of other nodes; lines of no listed node are counted once, among other
    lines: for the node that ``counts_rest``.
    """

    path: Path
    value: str
    others: tuple[str, ...] = ()
    counts_rest: bool = False


@dataclass(frozen=True)
class Framing:
    """Describes a file before any part of it is read.

    ``indent``: of the objects of a pretty-printed array; None where each line is a record.
    ``since`` and ``until``: stamps in the node's zone; others are outside and not read.
    ``is_padded``: as log4j2 writes SSSSSS, milliseconds are behind three zeros.
    """

    indent: bytes | None = None
    node_by: NodeBy | None = None
    since: bytes | None = None
    until: bytes | None = None
    is_padded: bool = False

    def of_head(self, head: bytes) -> "Framing":
        decimals = _SIX_DECIMALS.findall(head)
        is_padded = bool(decimals) and all(d.startswith(b"000") for d in decimals)
        return replace(self, indent=_indent_of(head), is_padded=is_padded)

    def begins(self, zone: str, record: bytes, before: Callable[[], bytes]) -> bool:
        """Returns whether a physical line begins a record, into which no line before it runs."""
        if self.indent is not None:
            return without_line_end(record) in (self.indent + b"{", b", " + self.indent + b"{")
        if is_usual(record):
            return True
        if not marker_in(record):
            return False
        reader = LineReader(zone, self)
        reader.read(before().split(b"\n")[:-1], 1)
        return reader.pending_number is None

    @property
    def is_part(self) -> bool:
        return self.node_by is not None or self.since is not None or self.until is not None


#: Each physical line is a record, and all are read.
WHOLE_LINES = Framing()


def _indent_of(head: bytes) -> bytes | None:
    """Returns the indentation of objects that hold a line each, if they are pretty-printed."""
    lines = head.lstrip().splitlines()
    if not lines or lines[0].strip() not in (b"[", b"{"):
        return None
    for before, line in pairwise(lines):
        if before.rstrip().endswith(b"[") and line.strip() == b"{":
            return line[: line.index(b"{")]
        if MARKER in line or b"\n}\n{" in head:
            break
    return b"" if lines[0].strip() == b"{" else None


@dataclass
class Lines:
    """Lines that were read, in the order in which they were complete.

    ``lines`` are canonical but for those with a reason in ``rejections``, by position. ``numbers``
    are of the physical lines where they begin. ``others`` counts lines of other loggers by name.
    ``physical`` lines were taken in. ``outside``: requests outside of ``since`` and ``until``.
    """

    lines: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    rejections: dict[int, Unreadable] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)
    physical: int = 0
    outside: int = 0

    def requests(self) -> list[bytes]:
        return [line for at, line in enumerate(self.lines) if at not in self.rejections]

    def sort(self) -> None:
        """By where they begin: a line of several parts is whole after others have begun."""
        if all(a <= b for a, b in pairwise(self.numbers)):
            return
        order = sorted(range(len(self.lines)), key=self.numbers.__getitem__)
        self.rejections = {
            to: self.rejections[at] for to, at in enumerate(order) if at in self.rejections
        }
        self.lines = [self.lines[at] for at in order]
        self.numbers = [self.numbers[at] for at in order]

    def add(self, more: "Lines") -> None:
        shift = len(self.lines)
        self.rejections |= {shift + at: why for at, why in more.rejections.items()}
        self.lines += more.lines
        self.numbers += more.numbers
        self.others += more.others
        self.physical += more.physical
        self.outside += more.outside


@dataclass(frozen=True)
class _Part:
    """A text without what its carrier put before it, and the stream that it continues.

    ``is_open``: its carrier says that more follows; ``can_follow``: it splits lines, and may not.
    """

    stream: str
    text: bytes
    is_open: bool = False
    can_follow: bool = False

    @staticmethod
    def unwrapped(unwrapped: Unwrapped) -> "_Part":
        """Strips what a carrier such as CRI or journald puts before each part of a line."""
        if unwrapped.around:
            return _Part(unwrapped.label((STREAM,)) or "", unwrapped.text, can_follow=True)
        carrier = _CARRIER.match(unwrapped.text)
        if carrier is None:
            return _Part("", unwrapped.text)
        text = unwrapped.text[carrier.end() :]
        if carrier["stream"]:
            return _Part(carrier["stream"].decode(), text, carrier["tag"] == b"P", True)
        host_and_process = b" ".join(carrier["head"].rsplit(b" ", 2)[-2:])
        return _Part(host_and_process.decode(errors="replace"), text, can_follow=True)


@dataclass
class _Pending:
    """A line of which a part is there; ``parts`` are the texts that followed it."""

    number: int
    unwrapped: Unwrapped
    parts: list[bytes]
    is_open: bool

    def add(self, part: _Part) -> None:
        self.parts.append(part.text.rstrip(b"\r\n"))
        self.is_open = part.is_open

    @property
    def text(self) -> bytes:
        return b"".join([self.unwrapped.text.rstrip(b"\r\n"), *self.parts])


class LineReader:
    """Reads a file, or a part of it, in the order of its lines."""

    def __init__(
        self, zone: str, framing: Framing = WHOLE_LINES, line_bytes_max: int = LINE_BYTES_MAX
    ) -> None:
        self._framing = framing
        self._line_bytes_max = line_bytes_max
        self._text = TextLayout(zone, framing.is_padded)
        #: Where the line is in the objects of each level, as learned from one.
        self._paths: list[Path | None] = [None] * _LEVELS_MAX
        self._pending: dict[str, _Pending] = {}
        self._element: list[bytes] = []
        self._element_number = 0
        self._out = Lines()
        by = framing.node_by
        #: What a record of this node must have, where that shows without decoding it.
        self._own = b""
        if by and not by.counts_rest and json.dumps(by.value)[1:-1] == by.value:
            self._own = by.value.encode()
        self._is_plain = framing.node_by is None and framing.indent is None

    def read(self, lines: Sequence[bytes | LongLine], first_number: int) -> Lines:
        out = self._out = Lines(physical=len(lines))
        records: Iterable[tuple[int, bytes | LongLine]] = enumerate(lines, first_number)
        if self._framing.indent is not None:
            records = self.elements(lines, first_number)
        is_plain = self._is_plain and not self._framing.is_part and not self._pending
        if is_plain and are_usual_and_sound(lines):
            out.lines, out.numbers = [*lines], [*range(first_number, first_number + len(lines))]
            return out
        for number, raw in records:
            if isinstance(raw, LongLine):
                too_long = Unreadable(RejectReason.too_long, line_bytes=raw.line_bytes)
                self._reject(number, raw.head, too_long)
                continue
            try:
                line = self._quickly(raw)
            except Unreadable:
                line = None
            if line is not None:
                self._add(number, line)
                continue
            if self._own not in raw:
                continue
            for unwrapped in self._unwrapped(raw):
                if self._is_read(raw, unwrapped):
                    self._take(number, unwrapped)
        out.sort()
        return out

    def ended(self) -> Lines:
        """Finishes what was still under way where the file, or the part of it, ends."""
        out = self._out = Lines()
        for stream in [*self._pending]:
            self._give_up(stream)
        return out

    @property
    def pending_number(self) -> int | None:
        """The number of the physical line with which the first line begins that is not whole."""
        begun = [pending.number for pending in self._pending.values()]
        begun += [self._element_number] if self._element else []
        return min(begun, default=None)

    def _quickly(self, raw: bytes) -> bytes | None:
        """The line in a record that is like those before; None leaves it to ``_take``."""
        if not self._is_plain or self._pending:
            return None
        line: Unwrapped | None = Unwrapped(raw)
        if self._paths[0] and not is_usual(raw):
            line = unwrapped_at(raw, self._paths[0])
        marker = line.text.find(MARKER) if line else -1
        # A usual line is read as it is, also a damaged one that looks like CSV behind its marker.
        if line is None or not (is_bare(line.text, marker) or is_usual(raw)):
            return None
        return self._text.canonical(line.text.rstrip(), marker, line.records, is_all=False)

    # --- records

    def elements(
        self, lines: Sequence[bytes | LongLine], number: int
    ) -> Iterator[tuple[int, bytes | LongLine]]:
        """The objects of a pretty-printed array; what is between them is no line."""
        assert self._framing.indent is not None
        begin, end = (self._framing.indent + brace for brace in (b"{", b"}"))
        for at, line in enumerate(lines, number):
            if isinstance(line, LongLine):
                yield at, line
                continue
            bare = without_line_end(line)
            if bare in (begin, b", " + begin):
                self._element, self._element_number = [begin], at
            elif self._element:
                self._element.append(bare)
                if bare in (end, end + b","):
                    yield self._element_number, b"\n".join(self._element)
                    self._element = []

    def _unwrapped(self, raw: bytes) -> list[Unwrapped]:
        raw = without_line_end(raw)
        if raw.startswith(b"{") and _BETWEEN_OBJECTS in raw:  # one line of them all
            objects = raw.replace(_BETWEEN_OBJECTS, b'}\n{"').split(b"\n")
            return [text for part in objects for text in self._unwrapped(part)]
        raw = without_stamps_of_parts(raw)
        marker = raw.find(MARKER)
        if marker >= 0:
            raw = of_csv(raw, marker) or raw
            is_json = is_escaped(raw, raw.find(MARKER))
        else:
            is_json = raw.lstrip()[:1] in (b"{", b"[") or REQUEST_KEY in raw
            is_json |= self._paths[0] is not None
        return (is_json and self._unwrapped_json(raw, 0)) or [Unwrapped(raw)]

    def _unwrapped_json(self, raw: bytes, level: int) -> list[Unwrapped]:
        """Unwraps a text of JSON, through all its levels."""
        begin = _OBJECT.search(raw)
        value = memoryview(raw)[begin.start() if begin else 0 : raw.rfind(b"}") + 1]
        inner = []
        for line in self._lines_in(value, raw, level):
            marker = line.text.find(MARKER)
            is_inside = is_escaped(line.text, marker) if marker >= 0 else REQUEST_KEY in line.text
            if level + 1 < _LEVELS_MAX and is_inside:
                deeper = self._unwrapped_json(line.text, level + 1)
                inner += [Unwrapped(d.text, (*line.around, *d.around)) for d in deeper] or [line]
            else:
                inner.append(line)
        return inner

    def _lines_in(self, json: memoryview, raw: bytes, level: int) -> list[Unwrapped]:
        """Unwraps one level."""
        for text in (json, raw.strip().rstrip(b",")):
            try:
                value = msgspec.json.decode(text)
                break
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
        else:
            return []
        every = [*texts_in(value)]
        with_marker = {path for path, unwrapped in every if MARKER in unwrapped.text}
        if not with_marker and REQUEST_KEY in raw:
            if requests := [unwrapped for _, unwrapped in requests_in(value)]:
                prefix = b" " + raw[: raw.index(b"{")]  # its stamp is the last to be taken
                return [replace(request, text=request.text + prefix) for request in requests]
            with_marker = {path for path, unwrapped in every if REQUEST_KEY in unwrapped.text}
        paths = sorted(with_marker, key=lambda path: (len(path), path))
        if paths:  # some keep the line twice, as it was and as it was parsed
            self._paths[level] = paths[0]
        return [unwrapped for at, unwrapped in every if at == self._paths[level]]

    # --- lines

    def _take(self, number: int, unwrapped: Unwrapped) -> None:
        """Adds a text that ``_quickly`` did not read: maybe a part of a line, or another's line."""
        if unwrapped.text.startswith(b"{") and _LEFT_OUT in unwrapped.text:
            detail = "journalctl left out its text: use journalctl -o json --all"
            self._reject(number, unwrapped.text, Unreadable(RejectReason.truncated, detail))
            return
        part = _Part.unwrapped(unwrapped)
        marker = unwrapped.text.find(MARKER)
        pending = self._pending.get(part.stream)
        begins = marker >= 0 or self._text.stamps.begins(part.text)
        begins |= part.text.startswith(b'{"') and not is_cut_object(part.text)
        if pending and (pending.is_open or not begins):
            pending.add(part)
        else:
            self._give_up(part.stream)
            is_begun = part.can_follow and is_cut_object(part.text)
            if marker < 0 and not (part.is_open or is_begun):
                if part.text.rstrip().endswith(LOGGER):
                    cut = Unreadable(RejectReason.truncated, "its beginning is not there")
                    self._reject(number, unwrapped.text, cut)
                elif REQUEST_KEY in part.text:
                    is_cut = is_cut_object(part.text)
                    reason = RejectReason.truncated if is_cut else RejectReason.other_form
                    self._reject(number, unwrapped.text, Unreadable(reason))
                else:
                    self._count_other(part.text)
                return
            pending = self._pending[part.stream] = _Pending(number, unwrapped, [], part.is_open)
        if not pending.is_open:
            self._try(part.stream, pending, is_all=not part.can_follow)

    def _try(self, stream: str, pending: _Pending, is_all: bool) -> None:
        """Reads a pending line if it is whole, or ``is_all`` of it has come; else it waits on."""
        whole = Unwrapped(pending.text, pending.unwrapped.around)
        marker = whole.text.find(MARKER)
        try:
            if len(whole.text) > self._line_bytes_max:
                raise Unreadable(RejectReason.too_long)
            # A carrier has split what JSON is around the line, or is the line.
            if is_escaped(whole.text, marker) or (marker < 0 and REQUEST_KEY in whole.text):
                inner = self._unwrapped_json(whole.text, level=1 if whole.around else 0)
                if not inner:
                    raise Unreadable(RejectReason.truncated, "the JSON around it is not whole")
                whole, is_all = inner[0], True
                marker = whole.text.find(MARKER)
            if marker < 0 and not is_all and is_cut_object(whole.text):
                return
            if marker >= 0:
                text = whole.text.rstrip()
                self._add(pending.number, self._text.canonical(text, marker, whole.records, is_all))
            else:
                self._count_other(whole.text)
        except Unreadable as unreadable:
            is_cut = unreadable.reason is RejectReason.truncated
            if is_cut and not is_all:
                return
            if is_cut and whole.text.startswith(pending.unwrapped.text):
                # What followed it in its stream belonged to others.
                whole = pending.unwrapped
                for part in pending.parts:
                    self._count_other(part)
            self._reject(pending.number, whole.text, unreadable)
        del self._pending[stream]

    def _give_up(self, stream: str) -> None:
        """Nothing more of a stream's line will come."""
        if pending := self._pending.get(stream):
            self._try(stream, pending, is_all=True)

    # --- whose, and what becomes of it

    def _is_read(self, raw: bytes, unwrapped: Unwrapped) -> bool:
        by = self._framing.node_by
        if by is None:
            return True
        matches: Callable[[str, Any], bool] = eq if by.path else _is_in
        if by.path:
            label = unwrapped.label(by.path) if unwrapped.around else None
        else:
            label = raw[:_PREFIX_BYTES].split(MARKER)[0].decode(errors="replace")
        is_own = matches(by.value, label)
        if by.counts_rest and not is_own and not any(matches(other, label) for other in by.others):
            self._out.others["lines of nodes that are not listed"] += 1
        return is_own

    def _add(self, number: int, line: bytes) -> None:
        since, until = self._framing.since, self._framing.until
        stamp = line[1 : STAMP_BYTES + 1]
        if (since and stamp < since) or (until and stamp >= until):
            self._out.outside += 1
            return
        self._out.lines.append(line)
        self._out.numbers.append(number)

    def _reject(self, number: int, text: bytes, unreadable: Unreadable) -> None:
        self._out.rejections[len(self._out.lines)] = unreadable
        self._out.lines.append(without_line_end(text))
        self._out.numbers.append(number)

    def _count_other(self, text: bytes) -> None:
        name = logger_of(text)
        is_counted = name in self._out.others or len(self._out.others) < _LOGGERS_MAX
        self._out.others[name if is_counted else "others"] += 1


def records_of(text: bytes, framing: Framing) -> list[bytes]:
    lines = text.splitlines()
    if framing.indent is None:
        return lines
    elements = LineReader("UTC", framing).elements(lines, 1)
    return [record for _, record in elements if isinstance(record, bytes)]


def logger_of(text: bytes) -> str:
    """Names what wrote a line that is no request: its logger, as far as the line shows it."""
    if not text.strip():
        return "blank lines"
    if _TRACE.match(text):
        return "stack traces"
    logger = _LOGGER.search(text[:_LOGGER_BYTES])
    return (logger[1] or logger[2]).decode() if logger else "unknown"


def _is_in(label: str, text: str) -> bool:
    """Returns whether a text has the label, and not as a part of a longer one."""
    return re.search(rf"(?<![\w.-]){re.escape(label)}(?![\w.-])", text) is not None
