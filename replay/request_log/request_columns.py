"""Envelopes of many lines as the columns of ``requests``.

Clock model (``SocketServer.processCompletedSends``): the stamp is taken just after the send, so the
request arrived ``totalTimeMs`` before it, and the parts of the total lead from there. Kafka writes
milliseconds with microseconds as decimals; each is rounded to an integer microsecond first, then
added, so that equal lines give equal times everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kip_replay.replay.table import AT, BOOL, INT, TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .envelope import Envelope

#: A year: longer than any request, shorter than what overflows.
_MS_MAX = 366 * 24 * 3600 * 1000.0

_DURATIONS = (
    "total_ms",
    "request_queue_ms",
    "local_ms",
    "remote_ms",
    "throttle_ms",
    "response_queue_ms",
    "send_ms",
)
Durations = NDArray[np.float64]


def durations_of(envelopes: Sequence[Envelope]) -> Durations:
    """Durations in milliseconds, one row per name in ``_DURATIONS``, one column per line."""
    return np.array(
        [
            [e.total_time_ms for e in envelopes],
            [e.request_queue_time_ms for e in envelopes],
            [e.local_time_ms for e in envelopes],
            [e.remote_time_ms for e in envelopes],
            [e.throttle_time_ms for e in envelopes],
            [e.response_queue_time_ms for e in envelopes],
            [e.send_time_ms for e in envelopes],
        ],
        np.float64,
    )


def absurd(durations: Durations) -> NDArray[np.bool_]:
    """Lines with a duration that no request can take."""
    sound = (durations >= 0) & (durations <= _MS_MAX)
    bad: NDArray[np.bool_] = np.logical_not(np.all(sound, axis=0))
    return bad


def request_columns(
    envelopes: Sequence[Envelope], stamps_us: Sequence[int], durations: Durations
) -> dict[str, pa.Array]:
    """All columns of ``requests`` that the envelope tells, sizes not among them."""
    headers = [e.request_header for e in envelopes]
    clients = [e.client_information for e in envelopes]
    return {
        **_clock(np.array(stamps_us, np.int64), np.rint(durations * 1000).astype(np.int64)),
        **{name: pa.array(row) for name, row in zip(_DURATIONS, durations, strict=True)},
        "api_key": pa.array([h.request_api_key for h in headers], INT),
        "api_name": pa.array([h.request_api_key_name for h in headers], TEXT),
        "api_version": pa.array([h.request_api_version for h in headers], INT),
        "correlation_id": pa.array([h.correlation_id for h in headers], INT),
        "client_id": pa.array([h.client_id for h in headers], TEXT),
        "is_deprecated_version": pa.array(
            [h.request_api_version_deprecated for h in headers], BOOL
        ),
        "connection": pa.array([e.connection for e in envelopes], TEXT),
        "listener": pa.array([e.listener for e in envelopes], TEXT),
        "security_protocol": pa.array([e.security_protocol for e in envelopes], TEXT),
        "principal": pa.array([e.principal for e in envelopes], TEXT),
        "software_name": pa.array([c.software_name for c in clients], TEXT),
        "software_version": pa.array([c.software_version for c in clients], TEXT),
        "is_forwarded": pa.array([e.is_forwarded for e in envelopes], BOOL),
        "has_response": pa.array([e.has_response for e in envelopes], BOOL),
    }


def _clock(completed: NDArray[np.int64], us: NDArray[np.int64]) -> dict[str, pa.Array]:
    total, request_queue, local, _, _, response_queue, send = us
    received = completed - total
    dequeued = received + request_queue
    times = {
        "received_at": received,
        "dequeued_at": dequeued,
        "handled_at": dequeued + local,
        "built_at": completed - send - response_queue,
        "completed_at": completed,
    }
    return {name: pa.array(time, AT) for name, time in times.items()}
