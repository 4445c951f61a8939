"""Other requests that write to the metadata log: what they write, and the errors returned.

Source: the message schemas of each API. Errors are matched by name; ACLs, quotas and users have no
name here. ``partitions`` is a count where the API speaks of partitions.
"""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

from .bodies import At, Body, Structs, TypedRows, decode_request, decode_response, resource
from .envelope import Envelope, Int16, Int32

_Resources = list[dict[str, Any]]
#: An API that has no error at the top returns 0 there.
_TOP_LEVEL = (Int16, 0)
_ERRORS = Structs(error_code=Int16)
_LISTS = ("responses", "results", "entries", "filter_results", "replica_election_results")
_NO_RESPONSE = SimpleNamespace(**dict.fromkeys(_LISTS, ()), error_code=None)


class _Write(NamedTuple):
    request: Body
    response: Body
    resources: Callable[[Any, Any], _Resources]


def _errors(results: Iterable[Any], name: str = "name") -> dict[Any, int]:
    return {getattr(result, name): result.error_code for result in results}


def _deleted_topics(request: Any, response: Any) -> _Resources:
    errors = _errors(response.responses, "topic_id") | _errors(response.responses)
    names = [*request.topic_names, *(t.name or t.topic_id or "" for t in request.topics)]
    return [resource("topic", name, errors.get(name)) for name in names]


def _grown_topics(request: Any, response: Any) -> _Resources:
    errors, topics = _errors(response.results), request.topics
    return [resource("topic", t.name, errors.get(t.name), partitions=t.count) for t in topics]


def _features(request: Any, response: Any) -> _Resources:
    """From v2 on, one error is that of all."""
    errors, of_all = _errors(response.results, "feature"), response.error_code
    levels = [(update.feature, update.max_version_level) for update in request.feature_updates]
    return [resource("feature", f, errors.get(f, of_all), feature_level=to) for f, to in levels]


def _topics_of(results: str, name: str, partitions: str) -> _Write:
    def resources(_: Any, response: Any) -> _Resources:
        topics = [(getattr(t, name), getattr(t, partitions)) for t in getattr(response, results)]
        return [resource("topic", t, _first_error(of), partitions=len(of)) for t, of in topics]

    topics = Structs(**{name: str, partitions: _ERRORS})
    return _Write(Body(), Body(**{results: topics}, error_code=_TOP_LEVEL), resources)


def _first_error(results: Iterable[Any]) -> int:
    """Of partitions; 0 if there is none."""
    return next((result.error_code for result in results if result.error_code), 0)


def _errors_of(resource_type: str, results: str) -> _Write:
    """What no rule asks by name: the errors that a response lists."""

    def resources(_: Any, response: Any) -> _Resources:
        return [resource(resource_type, None, r.error_code) for r in getattr(response, results)]

    response = Body(**{results: _ERRORS}, error_code=_TOP_LEVEL)
    return _Write(Body(validate_only=(bool, False)), response, resources)


_NAME_OR_ID = {"name": (str | None, None), "topic_id": At("6+", str, None)}

_DELETE_TOPICS = _Write(
    Body(topics=At("6+", Structs(**_NAME_OR_ID), []), topic_names=At("0-5", list[str], [])),
    Body(responses=Structs(**_NAME_OR_ID, error_code=Int16), error_code=_TOP_LEVEL),
    _deleted_topics,
)
_CREATE_PARTITIONS = _Write(
    Body(topics=Structs(name=str, count=Int32), validate_only=bool),
    Body(results=Structs(name=str, error_code=Int16), error_code=_TOP_LEVEL),
    _grown_topics,
)
_UPDATE_FEATURES = _Write(
    Body(
        feature_updates=Structs(feature=str, max_version_level=Int16), validate_only=(bool, False)
    ),
    Body(error_code=Int16, results=At("0-1", Structs(feature=str, error_code=Int16), [])),
    _features,
)

_WRITES = {
    20: _DELETE_TOPICS,
    30: _errors_of("acl", "results"),
    31: _errors_of("acl", "filter_results"),
    37: _CREATE_PARTITIONS,
    43: _topics_of("replica_election_results", "topic", "partition_result"),
    45: _topics_of("responses", "name", "partitions"),
    49: _errors_of("client_quota", "entries"),
    51: _errors_of("user", "results"),
    57: _UPDATE_FEATURES,
}
API_KEYS = tuple(_WRITES)


def read(envelope: Envelope) -> TypedRows:
    """The write of one line; its resources are None where the request is missing."""
    write = _WRITES[envelope.request_header.request_api_key]
    request = decode_request(envelope, write.request)
    response = decode_response(envelope, write.response)
    error = None if response is None else response.error_code
    if request is None:
        return TypedRows(metadata_write=(None, error, None))
    validate_only = getattr(request, "validate_only", False)
    resources = write.resources(request, _NO_RESPONSE if response is None else response)
    return TypedRows(metadata_write=(validate_only, error, resources))
