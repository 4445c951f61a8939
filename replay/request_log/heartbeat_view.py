"""BROKER_HEARTBEAT v0-v2: its bodies as a row of ``broker_heartbeats``.

Source: ``BrokerHeartbeatRequest.json``, ``BrokerHeartbeatResponse.json``. Of log directories only
the counts are kept, which the size of the request follows from.
"""

import msgspec

from .bodies import Fields, Row, Told, decode
from .envelope import Envelope, Int16, Int32, Int64

API_KEY = 63


class _Request(Fields, frozen=True):
    broker_id: Int32
    current_metadata_offset: Int64
    want_fence: bool
    want_shut_down: bool
    broker_epoch: Int64 = -1
    offline_log_dirs: list[str] | None = None
    cordoned_log_dirs: list[str] | None = None


class _Response(Fields, frozen=True):
    error_code: Int16
    should_shut_down: bool
    is_caught_up: bool = False
    is_fenced: bool = True


_request = msgspec.json.Decoder(_Request)
_response = msgspec.json.Decoder(_Response)


def read(envelope: Envelope) -> Told:
    """The row of one line; what a missing body would say is None."""
    request = decode(envelope.request, _request)
    response = decode(envelope.response, _response)
    return Told(broker_heartbeat=_asked(request) + _answered(response) + _log_dirs(request))


def _asked(body: _Request | None) -> Row:
    if body is None:
        return (None,) * 5
    return (
        body.broker_id,
        body.broker_epoch,
        body.current_metadata_offset,
        body.want_fence,
        body.want_shut_down,
    )


def _answered(body: _Response | None) -> Row:
    if body is None:
        return (None,) * 4
    return (body.error_code, body.is_caught_up, body.is_fenced, body.should_shut_down)


def _log_dirs(body: _Request | None) -> Row:
    if body is None:
        return (None, None)
    return (_count(body.offline_log_dirs), _count(body.cordoned_log_dirs))


def _count(directories: list[str] | None) -> int | None:
    return None if directories is None else len(directories)
