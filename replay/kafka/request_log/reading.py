"""Lines of one batch on their way to rows: which can be read so far, and why the others cannot.

Arrow's JSON reader takes the lines of an API of ``APIS`` at once, envelopes and bodies together,
into columns. It is not as strict as a log needs: null for a field that is missing, NaN for a
number. So its result is taken only for lines that have each field that Kafka has, and no other,
with a value that can be. All other lines are decoded one by one (``envelope``), which says what is
wrong with them; then Arrow reads bodies alone.
"""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..messages import APIS, PRODUCE
from .arrow_rows import Columns, Positions
from .bodies import Reader, TypedRows
from .envelope import Envelope, decode_envelope
from .line import Reason, Unreadable, json_of, stamp_of
from .local_time import LocalTime
from .pseudonyms import Pseudonyms
from .request_columns import USUAL_ENVELOPE, decoded_columns, envelope_columns, sound
from .typed_bodies import body_schema, misfits, read_fitting

#: Is near the begin of a line, before the digits of the key.
_API_KEY = b'"requestApiKey":'
_KEYS = {(b'%d,"' % key)[:3]: key for key in APIS}
#: Lines of one API begin alike, as far as the digits of its key.
_HEAD_BYTES = len(b'{"isForwarded":false,"requestHeader":') + len(b'{"requestApiKey":0,"')
_NO_RESPONSE = b'"response":"",'
#: Below every API key, which are of 16 bits.
_NO_API = -(2**15) - 1
#: So few are decoded one by one where Arrow refuses some of them.
_LINES_MIN = 512


class Part(NamedTuple):
    """Lines of one API, or (None) of all but ``APIS``, which need no bodies any more."""

    api_key: int | None
    positions: Positions
    columns: Columns
    bodies: pa.Table | None = None


@dataclass
class Reading:
    """Lines by position: stamp, JSON, why rejected and what is known beyond that, typed rows."""

    stamps_us: Positions
    texts: Sequence[bytes]
    rejected: dict[int, Unreadable] = field(default_factory=dict)
    typed: dict[int, TypedRows] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)


def line_digest(node_id: int, pseudonyms: Pseudonyms | None = None) -> hashlib.blake2b:
    """The hash of a line's content, primed with its node: the line is still to come."""
    digest = pseudonyms.line_digest() if pseudonyms else hashlib.blake2b(digest_size=16)
    digest.update(b"%d\0" % node_id)
    return digest


def line_ids(started: hashlib.blake2b, lines: Sequence[bytes]) -> pa.StringArray:
    """Content of a line on a node: 32 hex digits of BLAKE2b over node id, NUL and line."""
    ids = []
    for line in lines:
        digest = started.copy()
        digest.update(line)
        ids.append(digest.digest())
    digits = b"".join(ids).hex().encode()
    ends = np.arange(0, len(digits) + 1, 2 * started.digest_size, dtype=np.int32)
    return pa.StringArray.from_buffers(len(lines), pa.py_buffer(ends), pa.py_buffer(digits))


@dataclass(frozen=True)
class BatchReader:
    time: LocalTime
    line_bytes_max: int
    readers: Mapping[int, Reader]

    def read(
        self, lines: Sequence[bytes], second_pass_from: int, rejected: Mapping[int, Unreadable]
    ) -> Reading:
        """``second_pass_from``: position from which on ambiguous stamps are the second pass."""
        too_long = {
            position: Unreadable(Reason.too_long)
            for position, line in enumerate(lines)
            if len(line) > self.line_bytes_max
        }
        stamps_us, bad_stamps = self.time.all_microseconds(
            [stamp_of(line) for line in lines], second_pass_from
        )
        why = {**bad_stamps, **too_long, **rejected}
        reading = Reading(stamps_us, [json_of(line) for line in lines], why)
        by_key = _split(reading)
        careful = by_key.pop((_NO_API, False), [])
        for (key, is_silent), positions in by_key.items():
            part = _read_sure(reading, key, np.array(positions, np.int64), is_silent)
            reading.parts.append(part)
            if len(part.positions) < len(positions):
                careful += set(positions).difference(part.positions.tolist())
        self._read_careful(reading, sorted(careful))
        return reading

    def _read_careful(self, reading: Reading, positions: Sequence[int]) -> None:
        by_key: dict[int | None, dict[int, Envelope]] = {}
        read: dict[tuple[int, int, bytes, bytes], TypedRows] = {}
        for position in positions:
            try:
                envelope = decode_envelope(reading.texts[position])
                if envelope.is_absurd:
                    raise Unreadable(Reason.absurd_times)
                key = envelope.request_header.api_key
                if key in self.readers:  # clients get the same metadata again and again
                    version = envelope.request_header.api_version
                    bodies = (key, version, bytes(envelope.request), bytes(envelope.response))
                    if bodies not in read:
                        read[bodies] = self.readers[key].read(envelope)
                    reading.typed[position] = read[bodies]
            except Unreadable as unreadable:
                reading.rejected[position] = unreadable
                continue
            by_key.setdefault(key if key in APIS else None, {})[position] = envelope
        reading.parts += [_read_bodies(reading, *of_key) for of_key in by_key.items()]


def _split(reading: Reading) -> dict[tuple[int, bool], list[int]]:
    """Positions of lines by what seems to be their API, if ``APIS`` has it.

    Those of PRODUCEs without a response (acks=0) apart: to Arrow, a string is no response.
    """
    by_head: dict[bytes, list[int]] = defaultdict(list)
    for position, text in enumerate(reading.texts):
        by_head[text[:_HEAD_BYTES]].append(position)
    by_key: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for head, positions in by_head.items():
        digits = head.find(_API_KEY) + len(_API_KEY)
        key = _KEYS.get(head[digits : digits + 3], _NO_API) if head.startswith(b"{") else _NO_API
        for position in positions:
            is_silent = key == PRODUCE.key and _NO_RESPONSE in reading.texts[position]
            if position not in reading.rejected:
                by_key[key, is_silent].append(position)
    return by_key


def _read_bodies(reading: Reading, key: int | None, envelopes: dict[int, Envelope]) -> Part:
    positions = np.array(list(envelopes), np.int64)
    columns = decoded_columns(list(envelopes.values()))
    if key is None:
        return Part(key, positions, columns)
    texts = [envelope.bodies for envelope in envelopes.values()]
    good, table, bad = read_fitting(texts, body_schema(APIS[key]), 1, "ignore")
    unfit = misfits(table, APIS[key], columns["api_version"].take(pa.array(good)))
    bad |= {int(good[line]): misfit for line, misfit in unfit.items()}
    for line, misfit in bad.items():
        reading.rejected[int(positions[line])] = Unreadable(Reason.bad_body, misfit)
    fits = ~np.isin(np.arange(len(good)), list(unfit))
    rows = good[fits]
    of_rows = {name: column.take(pa.array(rows)) for name, column in columns.items()}
    return Part(key, positions[rows], of_rows, table.filter(pa.array(fits)))


def _read_sure(reading: Reading, key: int, positions: Positions, is_silent: bool) -> Part:
    """Those lines of which it is certain that decoding them one by one gives the same."""
    lines = [reading.texts[position] for position in positions.tolist()]
    if is_silent:
        lines = [line.replace(_NO_RESPONSE, b'"response":null,') for line in lines]
    schema = pa.schema([*body_schema(APIS[key]), *USUAL_ENVELOPE])
    good, table, _ = read_fitting(lines, schema, _LINES_MIN, "error")
    columns = envelope_columns(table)
    certain = sound(table, columns, key, is_silent)
    certain[list(misfits(table, APIS[key], columns["api_version"]))] = False
    if not certain.all():
        table = table.filter(pa.array(certain))
        columns = envelope_columns(table)
    return Part(key, positions[good[certain]], columns, table)
