"""Lines of one batch on their way to rows: JSON as columns, and why some cannot be read.

Two ways lead to the same columns. Lines of FETCH, PRODUCE and BROKER_HEARTBEAT, which are nearly
all of a busy log, are read by Arrow's JSON reader, those of an API's version at once, without a
Python object for each value. It is not as strict as a log needs: null for a field that is missing,
NaN for a number. So where a line of these lacks a field that Kafka writes, or has another or a
value that cannot be, all of them are decoded one by one, as those of the rarer APIs are
(``line``): that says what is wrong with a line. Arrow then reads what was decoded.

A body is declared once, as a text in the terms of Kafka's message schemas (``messages.schemas``):
the whole of FETCH, PRODUCE and BROKER_HEARTBEAT, of other APIs the fields that are used. What does
not fit follows from ``JsonConverterGenerator``, by which Kafka writes bodies to the log: a field is
there in each of its versions but those where it is tagged, and null only where the version allows
it. What has a default may be absent nevertheless. What a number may be is declared with its field,
or follows from its type (``layout.RANGES``).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import GenericAlias
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pyarrow.json

from ..messages import APIS, PRODUCE, Api
from ..messages.layout import Field, Struct, messages_of
from .frequent import are_sound, body_type
from .line import (
    ENVELOPE,
    NO_BODY,
    Envelope,
    RejectReason,
    Unreadable,
    are_sound_envelopes,
    decode_envelope,
    json_of,
)

#: How Kafka begins a line, and no more than its first bytes: few lines of a log begin otherwise.
_HEAD = re.compile(
    rb'\{(?:"isForwarded":\w+,)?"requestHeader":'
    rb'\{"requestApiKey":(\d\d?),"requestApiVersion":(\d\d?),'
)
_HEAD_BYTES = 80
#: Instead of the key of an API that ``APIS`` does not have.
OTHERS = -1
_NO_RESPONSE = b'"response":"",', b'"response":null,'
#: So much of a text stays near the processor while Arrow goes over it.
_BLOCK_BYTES = 4 << 20

Batches = list[pa.RecordBatch]
Row = tuple[Any, ...]
#: Rows that follow from a line, by table: the body's own fields in order, less what is of the line
#: or its request (times, sender, ``source``, ...; see ``parser``).
TypedRows = dict[str, list[Row]]
#: All higher versions are alike.
_VERSION_MAX = 63
_TYPES = {"bool": bool, "string": str, "uuid": str, "bytes": str, "raw": msgspec.Raw}


@dataclass(frozen=True)
class Reader:
    """Reads the lines of an API: fields of its request and response, and the rows of both.

    A body is None where the log has none, or none of its fields is named.
    """

    text: str
    rows: Callable[[Any, Any, Envelope], TypedRows]

    def read(self, envelope: Envelope) -> TypedRows:
        """Raises ``Unreadable`` (bad_body) where a body does not fit."""
        return self.rows(*decoded_bodies(envelope, self.text), envelope)


@dataclass
class Reading:
    """Lines by position: why some are rejected, and what the others are.

    ``columns``: of an API, or ``OTHERS`` for all but ``APIS``, positions, and envelopes and bodies;
    ``typed``: rows of other APIs.
    """

    rejected: dict[int, Unreadable]
    columns: list[tuple[int, list[int], Batches]] = field(default_factory=list)
    typed: dict[int, TypedRows] = field(default_factory=dict)


def read_batch(
    lines: Sequence[bytes], rejected: Mapping[int, Unreadable], readers: Mapping[int, Reader]
) -> Reading:
    """Reads lines but for those that are ``rejected`` already."""
    reading = Reading({**rejected})
    texts = {at: json_of(line) for at, line in enumerate(lines) if at not in rejected}
    uncertain: list[int] = []
    for (key, version), positions in _split(texts).items():
        alike = [texts[position] for position in positions]
        batches = _sure(APIS[key], version, alike) if key in APIS else None
        if batches is None:
            uncertain += positions
        else:
            reading.columns.append((key, positions, batches))
    _decode(reading, {position: texts[position] for position in sorted(uncertain)}, readers)
    return reading


def _split(texts: Mapping[int, bytes]) -> dict[tuple[int, int], list[int]]:
    """Positions of lines by API and version, as far as their beginnings show them.

    PRODUCEs without a response (acks=0) are among ``OTHERS``: Arrow reads no text for a body.
    """
    by_head: dict[bytes, list[int]] = defaultdict(list)
    for position, text in texts.items():
        by_head[text[:_HEAD_BYTES]].append(position)
    split: dict[tuple[int, int], list[int]] = defaultdict(list)
    for head, positions in by_head.items():
        begin = _HEAD.match(head)
        key, version = map(int, begin.groups()) if begin else (OTHERS, 0)
        no_responses = _NO_RESPONSE if key == PRODUCE.key else ()
        for position in positions:
            is_silent = any(map(texts[position].__contains__, no_responses))
            split[(OTHERS, 0) if is_silent else (key, version)].append(position)
    return split


@cache
def _schema(api: Api | None) -> pa.Schema:
    """The columns of lines; without an ``api``, only whether there are bodies is read."""
    bodies = (api.request.body, api.response.body) if api else ()
    types = [*map(body_type, bodies)] or [pa.struct([])] * 2
    return pa.schema([*zip(("request", "response"), types, strict=True), *ENVELOPE])


def _read_lines(lines: Sequence[bytes], schema: pa.Schema) -> Batches | None:
    """Reads lines of JSON at once; None where some line does not fit."""
    block_bytes = max(_BLOCK_BYTES, max(map(len, lines)) + 2)
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(b"\n".join(lines)),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=block_bytes),
            parse_options=pyarrow.json.ParseOptions(schema, None, "error"),
        )
    except pa.ArrowInvalid:
        return None
    return table.to_batches() if table.num_rows == len(lines) else None


def _sure(api: Api, version: int, texts: Sequence[bytes]) -> Batches | None:
    """Lines as columns, None where it is not certain that decoding them gives the same."""
    batches = _read_lines(texts, _schema(api))
    for batch in batches or ():
        is_sound = are_sound_envelopes(batch) and all(
            are_sound(message.body, batch.column(name), version)
            for name, message in (("request", api.request), ("response", api.response))
        )
        if not is_sound:
            return None
    return batches


def _decode(reading: Reading, texts: Mapping[int, bytes], readers: Mapping[int, Reader]) -> None:
    """Decodes lines one by one into ``reading``."""
    decoded: dict[int, dict[int, bytes]] = defaultdict(dict)
    read: dict[tuple[int, int, bytes, bytes], TypedRows] = {}
    for position, text in texts.items():
        try:
            envelope = decode_envelope(text)
            if envelope.is_absurd:
                raise Unreadable(RejectReason.absurd_times)
            key, version = envelope.request_header.api_key, envelope.request_header.api_version
            if key in APIS:
                bodies = decoded_bodies(envelope, APIS[key].text)
                decoded[key][position] = envelope.with_bodies(*bodies)
                continue
            if key in readers:  # clients get the same metadata again and again
                known = (key, version, bytes(envelope.request), bytes(envelope.response))
                if known not in read:
                    read[known] = readers[key].read(envelope)
                reading.typed[position] = read[known]
            decoded[OTHERS][position] = envelope.with_bodies(
                {}, {} if envelope.has_response else None
            )
        except Unreadable as unreadable:
            reading.rejected[position] = unreadable
    for key, lines in decoded.items():
        batches = _read_lines([*lines.values()], _schema(APIS.get(key)))
        assert batches is not None
        reading.columns.append((key, [*lines], batches))


# --- bodies of lines that are decoded one by one


def decoded_bodies(envelope: Envelope, text: str) -> tuple[Any, Any]:
    """Decodes request and response of an API, declared by ``text``; None without such a body.

    Raises ``Unreadable`` (bad_body).
    """
    version = min(envelope.request_header.api_version, _VERSION_MAX)
    request = _decoded(envelope.request, text, "request", version)
    return request, _decoded(envelope.response, text, "response", version)


def _decoded(raw: msgspec.Raw, text: str, kind: str, version: int) -> Any:
    decoder = _decoder(text, kind, version)
    if decoder is None or memoryview(raw) in NO_BODY:
        return None
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise Unreadable(RejectReason.bad_body, str(error)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Unreadable(RejectReason.bad_body) from None


@cache
def _decoder(text: str, kind: str, version: int) -> msgspec.json.Decoder[Any] | None:
    message = messages_of(text).get(kind)
    if message is None:
        return None
    return msgspec.json.Decoder(_struct(message.body, version, message.is_whole))


def _struct(struct: Struct, version: int, is_whole: bool) -> type[msgspec.Struct]:
    fields = [_field(field, version, is_whole) for field in struct.fields]
    names = {field.column: field.json_name for field in struct.fields}
    return msgspec.defstruct("Body", fields, rename=names, frozen=True, kw_only=True)


def _field(field: Field, version: int, is_whole: bool) -> tuple[Any, ...]:
    """An array that the version lacks, or that is not written, is None."""
    type_: Any = _TYPES.get(field.type)
    if field.struct is not None:
        type_ = _struct(field.struct, version, is_whole)
    if field.limits is not None:
        least, largest = field.limits
        type_ = Annotated[int, msgspec.Meta(ge=least, le=largest)]
    type_ = GenericAlias(list, (type_,)) if field.is_array else type_
    # Null is what is absent where Arrow reads it (``reading``).
    if field.is_nullable or (is_whole and field.may_be_absent):
        type_ |= None
    if version in field.versions and not field.may_be_absent:
        return field.column, type_
    return field.column, type_, field.default
