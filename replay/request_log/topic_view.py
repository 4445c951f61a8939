"""CREATE_TOPICS: topics, configs and the write itself.

Source: ``CreateTopicsRequest.json``, ``CreateTopicsResponse.json`` (v5+ answers sizes and configs,
v7+ ids). With ``validateOnly`` nothing is created: a write is told, no topic and no config.
"""

import msgspec

from .bodies import Fields, Row, Told, decode, resource
from .config_view import shown
from .envelope import Envelope, Int8, Int16, Int32

API_KEY = 19


class _Assignment(Fields, frozen=True):
    broker_ids: list[Int32]


class _AskedConfig(Fields, frozen=True):
    name: str
    value: str | None = None


class _AskedTopic(Fields, frozen=True):
    name: str
    num_partitions: Int32 = -1
    replication_factor: Int16 = -1
    assignments: tuple[_Assignment, ...] = ()
    configs: tuple[_AskedConfig, ...] = ()


class _Request(Fields, frozen=True):
    topics: list[_AskedTopic]
    validate_only: bool = False


class _AnsweredConfig(Fields, frozen=True):
    name: str
    value: str | None = None
    config_source: Int8 = -1
    is_sensitive: bool = False


class _AnsweredTopic(Fields, frozen=True):
    name: str
    error_code: Int16
    topic_id: str | None = None
    num_partitions: Int32 = -1
    replication_factor: Int16 = -1
    configs: list[_AnsweredConfig] | None = None


class _Response(Fields, frozen=True):
    topics: list[_AnsweredTopic]


_request = msgspec.json.Decoder(_Request)
_response = msgspec.json.Decoder(_Response)
#: Stands for the other side where only one is logged.
_NOT_ASKED = _AskedTopic(name="")


def read(envelope: Envelope) -> Told:
    """What was asked for, each with its answer; the answers alone where the log has no request."""
    request = decode(envelope.request, _request)
    response = decode(envelope.response, _response)
    asked = {topic.name: topic for topic in (request.topics if request else ())}
    answered = {topic.name: topic for topic in (response.topics if response else ())}
    names = list(asked) if request else list(answered)
    pairs = {name: (asked.get(name, _NOT_ASKED), answered.get(name)) for name in names}
    validate_only = request.validate_only if request else None
    resources = [_resource(name, *pair) for name, pair in pairs.items()]
    write = (validate_only, None if response is None else 0, resources)
    if validate_only:
        return Told(metadata_write=write)
    return Told(
        metadata_write=write,
        topics=[_topic(name, *pair) for name, pair in pairs.items()],
        configs=[row for name, pair in pairs.items() for row in _configs(name, *pair)],
    )


def _resource(name: str, asked: _AskedTopic, answered: _AnsweredTopic | None) -> Row:
    error = answered.error_code if answered else None
    configs = None if asked is _NOT_ASKED else len({config.name for config in asked.configs})
    partitions = _partitions(asked, answered)
    return resource("topic", name, error, partitions=partitions, configs=configs)


def _topic(name: str, asked: _AskedTopic, answered: _AnsweredTopic | None) -> Row:
    return (
        name,
        answered.topic_id if answered and answered.error_code == 0 else None,
        _partitions(asked, answered),
        _replication_factor(asked, answered),
        None,
        answered.error_code if answered else None,
    )


def _partitions(asked: _AskedTopic, answered: _AnsweredTopic | None) -> int | None:
    """-1 is "not told" in the answer, and "the broker's default" in the request."""
    if answered and answered.num_partitions > 0:
        return answered.num_partitions
    if asked.assignments:
        return len(asked.assignments)
    return asked.num_partitions if asked.num_partitions > 0 else None


def _replication_factor(asked: _AskedTopic, answered: _AnsweredTopic | None) -> int | None:
    if answered and answered.replication_factor > 0:
        return answered.replication_factor
    if asked.assignments:
        return len(asked.assignments[0].broker_ids)
    return asked.replication_factor if asked.replication_factor > 0 else None


def _configs(name: str, asked: _AskedTopic, answered: _AnsweredTopic | None) -> list[Row]:
    """Configs asked for are set; others that the answer lists are described. One row each."""
    error = answered.error_code if answered else None
    rows: dict[str, Row] = {
        config.name: ("topic", name, config.name, shown(config.value), "set", None, error)
        for config in asked.configs
    }
    set_by_request = set(rows)
    for config in (answered.configs or ()) if answered else ():
        operation = "set" if config.name in set_by_request else "describe"
        value = shown(config.value, config.is_sensitive)
        source = config.config_source
        rows[config.name] = ("topic", name, config.name, value, operation, source, error)
    return list(rows.values())
