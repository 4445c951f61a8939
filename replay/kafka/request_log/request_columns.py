"""Envelopes of many lines as the columns of ``requests``.

Clock model (``SocketServer.processCompletedSends``): the stamp is taken just after the send, so the
request arrived ``totalTimeMs`` before it, and the parts of the total lead from there. Kafka writes
milliseconds with microseconds as decimals; each is rounded to an integer microsecond first, then
added, so that equal lines give equal times everywhere.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kip_replay.replay.table import AT, BOOL, INT

from .arrow_rows import Bools, Columns, Positions, one_chunk
from .envelope import ClientInformation, Envelope, RequestHeader, can_be
from .parsed_line import REQUEST

#: In the order of ``Envelope``.
_DURATIONS = {
    "totalTimeMs": "total_ms",
    "requestQueueTimeMs": "request_queue_ms",
    "localTimeMs": "local_ms",
    "remoteTimeMs": "remote_ms",
    "responseQueueTimeMs": "response_queue_ms",
    "sendTimeMs": "send_ms",
    "throttleTimeMs": "throttle_ms",
}
_HEADER = {
    "requestApiKey": "api_key",
    "requestApiVersion": "api_version",
    "correlationId": "correlation_id",
    "clientId": "client_id",
    "requestApiKeyName": "api_name",
}
_CLIENT = {"softwareName": "software_name", "softwareVersion": "software_version"}
_OTHERS = {
    "connection": "connection",
    "isForwarded": "is_forwarded",
    "securityProtocol": "security_protocol",
    "principal": "principal",
    "listener": "listener",
    **_DURATIONS,
}
_DEPRECATED = "is_deprecated_version"
#: Columns by names in the JSON.
_COLUMNS = {**_HEADER, "requestApiVersionDeprecated": _DEPRECATED, **_CLIENT, **_OTHERS}
_INT16 = ("api_key", "api_version")
_OPTIONAL = frozenset(
    ("client_id", "api_name", "security_protocol", "principal", "listener", *_CLIENT.values())
)


def _types(names: dict[str, str]) -> list[tuple[str, pa.DataType]]:
    types = {name: REQUEST.field(column).type for name, column in names.items()}
    return [(n, pa.int16() if names[n] in _INT16 else type_) for n, type_ in types.items()]


#: Of an envelope as Kafka writes most: only deprecated versions say so.
USUAL_ENVELOPE = pa.schema(
    [
        ("requestHeader", pa.struct(_types(_HEADER))),
        ("clientInformation", pa.struct(_types(_CLIENT))),
        *_types(_OTHERS),
    ]
)


def envelope_columns(table: pa.Table) -> Columns:
    columns = {column: one_chunk(table.column(name)) for name, column in _OTHERS.items()}
    for name, fields in (("requestHeader", _HEADER), ("clientInformation", _CLIENT)):
        columns |= zip(fields.values(), one_chunk(table.column(name)).flatten(), strict=True)
    columns |= {name: columns[name].cast(INT) for name in _INT16}
    columns["has_response"] = one_chunk(table.column("response")).is_valid()
    columns[_DEPRECATED] = pa.repeat(pa.scalar(False), table.num_rows)
    return columns


def decoded_columns(envelopes: Sequence[Envelope]) -> Columns:
    """The same of envelopes decoded one by one."""
    columns = {"has_response": pa.array([e.has_response for e in envelopes], BOOL)}
    structs: dict[type[msgspec.Struct], Sequence[Any]] = {
        Envelope: envelopes,
        RequestHeader: [envelope.request_header for envelope in envelopes],
        ClientInformation: [envelope.client_information for envelope in envelopes],
    }
    for type_, rows in structs.items():
        fields = msgspec.structs.fields(type_)
        values = [*zip(*map(msgspec.structs.astuple, rows), strict=True)] or [()] * len(fields)
        for field, of_field in zip(fields, values, strict=True):
            if column := _COLUMNS.get(field.encode_name):
                columns[column] = pa.array(of_field, REQUEST.field(column).type)
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
    names = _DURATIONS.values()
    return np.array([columns[name].to_numpy(zero_copy_only=False) for name in names])


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
