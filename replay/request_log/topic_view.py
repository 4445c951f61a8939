"""CREATE_TOPICS: topics, configs and the write itself.

Source: ``CreateTopicsRequest.json``, ``CreateTopicsResponse.json`` (v5+ returns sizes and configs,
v7+ ids). With ``validateOnly`` nothing is created: a write without topics and configs.
"""

from typing import Any

import msgspec

from .bodies import Fields, Row, TypedRows, decode, resource
from .config_view import shown
from .envelope import Envelope, Int8, Int16, Int32

API_KEY = 19


class _Assignment(Fields, frozen=True):
    broker_ids: list[Int32]


class _RequestConfig(Fields, frozen=True):
    name: str
    value: str | None = None


class _RequestTopic(Fields, frozen=True):
    name: str
    num_partitions: Int32 = -1
    replication_factor: Int16 = -1
    assignments: tuple[_Assignment, ...] = ()
    configs: tuple[_RequestConfig, ...] = ()


class _Request(Fields, frozen=True):
    topics: list[_RequestTopic]
    validate_only: bool = False


class _ResponseConfig(Fields, frozen=True):
    name: str
    value: str | None = None
    config_source: Int8 = -1
    is_sensitive: bool = False


class _ResponseTopic(Fields, frozen=True):
    name: str
    error_code: Int16
    topic_id: str | None = None
    num_partitions: Int32 = -1
    replication_factor: Int16 = -1
    configs: list[_ResponseConfig] | None = None


class _Response(Fields, frozen=True):
    topics: list[_ResponseTopic]


_request = msgspec.json.Decoder(_Request)
_response = msgspec.json.Decoder(_Response)
#: Stands for the other side where only one is logged.
_NOT_REQUESTED = _RequestTopic(name="")


def read(envelope: Envelope) -> TypedRows:
    """Requested topics with their results; the results alone where the log has no request."""
    request = decode(envelope.request, _request)
    response = decode(envelope.response, _response)
    requested = {topic.name: topic for topic in (request.topics if request else ())}
    returned = {topic.name: topic for topic in (response.topics if response else ())}
    names = list(requested) if request else list(returned)
    pairs = {name: (requested.get(name, _NOT_REQUESTED), returned.get(name)) for name in names}
    validate_only = request.validate_only if request else None
    resources = [_resource(name, *pair) for name, pair in pairs.items()]
    write = (validate_only, None if response is None else 0, resources)
    if validate_only:
        return TypedRows(metadata_write=write)
    return TypedRows(
        metadata_write=write,
        topics=[_topic(name, *pair) for name, pair in pairs.items()],
        configs=[row for name, pair in pairs.items() for row in _configs(name, *pair)],
    )


def _resource(
    name: str, requested: _RequestTopic, returned: _ResponseTopic | None
) -> dict[str, Any]:
    error = returned.error_code if returned else None
    configs = (
        None if requested is _NOT_REQUESTED else len({config.name for config in requested.configs})
    )
    partitions = _partitions(requested, returned)
    return resource("topic", name, error, partitions=partitions, configs=configs)


def _topic(name: str, requested: _RequestTopic, returned: _ResponseTopic | None) -> Row:
    return (
        name,
        returned.topic_id if returned and returned.error_code == 0 else None,
        _partitions(requested, returned),
        _replication_factor(requested, returned),
        None,
        returned.error_code if returned else None,
    )


def _partitions(requested: _RequestTopic, returned: _ResponseTopic | None) -> int | None:
    """-1 is "unknown" in the response, and "the broker's default" in the request."""
    if returned and returned.num_partitions > 0:
        return returned.num_partitions
    if requested.assignments:
        return len(requested.assignments)
    return requested.num_partitions if requested.num_partitions > 0 else None


def _replication_factor(requested: _RequestTopic, returned: _ResponseTopic | None) -> int | None:
    if returned and returned.replication_factor > 0:
        return returned.replication_factor
    if requested.assignments:
        return len(requested.assignments[0].broker_ids)
    return requested.replication_factor if requested.replication_factor > 0 else None


def _configs(name: str, requested: _RequestTopic, returned: _ResponseTopic | None) -> list[Row]:
    """Requested configs are set; others that the response lists are described. One row each."""
    error = returned.error_code if returned else None
    rows: dict[str, Row] = {
        config.name: ("topic", name, config.name, shown(config.value), "set", None, error)
        for config in requested.configs
    }
    set_by_request = set(rows)
    for config in (returned.configs or ()) if returned else ():
        operation = "set" if config.name in set_by_request else "describe"
        value = shown(config.value, config.is_sensitive)
        source = config.config_source
        rows[config.name] = ("topic", name, config.name, value, operation, source, error)
    return list(rows.values())
