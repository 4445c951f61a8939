"""Envelopes of many lines as the columns of ``requests``.

Clock model (``SocketServer.processCompletedSends``): the stamp is taken just after the send, so the
request arrived ``totalTimeMs`` before it, and the parts of the total lead from there. Kafka writes
milliseconds with microseconds as decimals; each is rounded to an integer microsecond first, then
added, so that equal lines give equal times everywhere.
"""

from collections.abc import Sequence
from operator import attrgetter

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kip_replay.replay.table import AT, BOOL, INT

from .arrow_rows import Bools, Columns, Positions, one_chunk
from .envelope import DURATIONS, ClientInformation, Envelope, RequestHeader, can_be
from .parsed_line import REQUEST

_DEPRECATED = "is_deprecated_version"
_INT16 = ("api_key", "api_version")
#: The parts of an envelope, with their fields that are columns: name in the JSON and type.
_PARTS: dict[type[msgspec.Struct], dict[str, tuple[str, pa.DataType]]] = {
    part: {
        field.name: (field.encode_name, REQUEST.field(field.name).type)
        for field in msgspec.structs.fields(part)
        if field.name in REQUEST.names
    }
    for part in (RequestHeader, ClientInformation, Envelope)
}
_OPTIONAL = {"client_id", "api_name", "security_protocol", "principal", "listener"}
_OPTIONAL |= {*ClientInformation.__struct_fields__}


def _usual(part: type[msgspec.Struct]) -> list[tuple[str, pa.DataType]]:
    return [
        (json_name, pa.int16() if column in _INT16 else type_)
        for column, (json_name, type_) in _PARTS[part].items()
        if column != _DEPRECATED
    ]


#: Of an envelope as Kafka writes most: only deprecated versions say so.
USUAL_ENVELOPE = pa.schema(
    [
        ("requestHeader", pa.struct(_usual(RequestHeader))),
        ("clientInformation", pa.struct(_usual(ClientInformation))),
        *_usual(Envelope),
    ]
)


def envelope_columns(table: pa.Table) -> Columns:
    columns = {
        column: one_chunk(table.column(name)) for column, (name, _) in _PARTS[Envelope].items()
    }
    for name, part in (("requestHeader", RequestHeader), ("clientInformation", ClientInformation)):
        columns |= zip(_PARTS[part], one_chunk(table.column(name)).flatten(), strict=False)
    columns |= {name: columns[name].cast(INT) for name in _INT16}
    columns["has_response"] = one_chunk(table.column("response")).is_valid()
    columns[_DEPRECATED] = pa.repeat(pa.scalar(False), table.num_rows)
    return columns


def decoded_columns(envelopes: Sequence[Envelope]) -> Columns:
    """Makes the same columns of envelopes decoded one by one."""
    columns = {"has_response": pa.array([e.has_response for e in envelopes], BOOL)}
    parts: dict[type[msgspec.Struct], Sequence[msgspec.Struct]] = {
        Envelope: envelopes,
        RequestHeader: [envelope.request_header for envelope in envelopes],
        ClientInformation: [envelope.client_information for envelope in envelopes],
    }
    for part, rows in parts.items():
        for column, (_, type_) in _PARTS[part].items():
            columns[column] = pa.array(map(attrgetter(column), rows), type_)
    return columns


def sound(table: pa.Table, columns: Columns, api_key: int, is_silent: bool) -> Bools:
    """Lines of an API that lack nothing, but for a response if silent, and whose times can be.

    False is "not certain": null may be a field that is missing or that says so, and Arrow reads NaN
    and infinity, which are no JSON.
    """
    present = [column for name, column in columns.items() if name not in _OPTIONAL]
    present += [table.column(name) for name in ("clientInformation", "request")]
    certain: Bools = columns["has_response"].to_numpy(zero_copy_only=False) != is_silent
    for column in present:
        if column.null_count:
            certain &= column.is_valid().to_numpy(zero_copy_only=False)
    certain &= columns["api_key"].fill_null(-1).to_numpy() == api_key
    certain &= columns["api_version"].fill_null(-1).to_numpy() >= 0
    times = _durations(columns)
    certain &= ~np.signbit(times).any(axis=0) & can_be(*times)
    return certain


def _durations(columns: Columns) -> NDArray[np.float64]:
    return np.array([columns[name].to_numpy(zero_copy_only=False) for name in DURATIONS])


def with_times(columns: Columns, stamps_us: Positions) -> Columns:
    us = np.rint(_durations(columns) * 1000).astype(np.int64)
    total, request_queue, local, _, response_queue, send, _ = us
    dequeued = stamps_us - total + request_queue
    times = {
        "received_at": stamps_us - total,
        "dequeued_at": dequeued,
        "handled_at": dequeued + local,
        "built_at": stamps_us - send - response_queue,
        "completed_at": stamps_us,
    }
    return columns | {name: pa.array(time, AT) for name, time in times.items()}
