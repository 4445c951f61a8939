"""Other requests that write to the metadata log: what they write, and the errors returned.

Source: the message schemas of each API. Errors are matched by name, or by position where the API
returns them by position (ACLs). ``partitions`` is a count where the API speaks of partitions.
"""

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from .bodies import At, Body, Structs, TypedRows, decode_request, decode_response, resource
from .envelope import Envelope, Int8, Int16, Int32

_Resources = list[dict[str, Any]]
#: An API that has no error at the top returns 0 there.
_TOP_LEVEL = (Int16, 0)
_LISTS = ("responses", "results", "entries", "filter_results", "replica_election_results")
_NO_RESPONSE = SimpleNamespace(**dict.fromkeys(_LISTS, ()), error_code=None)


class _Write(NamedTuple):
    """How an API's bodies are read, and the resources in them."""

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


def _quotas(request: Any, response: Any) -> _Resources:
    errors = {_entity(e): e.error_code for e in response.entries}
    names = [_entity(entry) for entry in request.entries]
    return [resource("client_quota", name, errors.get(name)) for name in names]


def _entity(entry: Any) -> str:
    """``user=alice,client-id=<default>``, in a fixed order."""
    parts = (f"{e.entity_type}={e.entity_name or '<default>'}" for e in entry.entity)
    return ",".join(sorted(parts))


def _created_acls(request: Any, response: Any) -> _Resources:
    return _acls([acl.resource_name for acl in request.creations], response.results)


def _deleted_acls(request: Any, response: Any) -> _Resources:
    return _acls([acl.resource_name_filter for acl in request.filters], response.filter_results)


def _acls(names: list[str | None], results: Sequence[Any]) -> _Resources:
    errors = [r.error_code for r in results] if len(results) == len(names) else [None] * len(names)
    return [resource("acl", name, error) for name, error in zip(names, errors, strict=True)]


def _elections(request: Any, response: Any) -> _Resources:
    """Of all partitions where the request names none."""
    results = response.replica_election_results
    errors = {result.topic: _first_error(result.partition_result) for result in results}
    counts = {result.topic: len(result.partition_result) for result in results}
    if request.topic_partitions is not None:
        counts = {topic.topic: len(topic.partitions) for topic in request.topic_partitions}
    return [resource("topic", t, errors.get(t), partitions=count) for t, count in counts.items()]


def _reassignments(request: Any, response: Any) -> _Resources:
    errors = {t.name: _first_error(t.partitions) for t in response.responses}
    counts = [(topic.name, len(topic.partitions)) for topic in request.topics]
    return [resource("topic", t, errors.get(t), partitions=count) for t, count in counts]


def _first_error(results: Iterable[Any]) -> int:
    """Of partitions; 0 if there is none."""
    return next((result.error_code for result in results if result.error_code), 0)


def _users(request: Any, response: Any) -> _Resources:
    errors = _errors(response.results, "user")
    names = dict.fromkeys(c.name for c in (*request.deletions, *request.upsertions))
    return [resource("user", name, errors.get(name)) for name in names]


_NAME_OR_ID = {"name": (str | None, None), "topic_id": At("6+", str, None)}
_ENTITY = Structs(entity_type=str, entity_name=(str | None, None))
_ERRORS = Structs(error_code=Int16)

_DELETE_TOPICS = _Write(
    Body(topics=At("6+", Structs(**_NAME_OR_ID), []), topic_names=At("0-5", list[str], [])),
    Body(responses=Structs(**_NAME_OR_ID, error_code=Int16), error_code=_TOP_LEVEL),
    _deleted_topics,
)
_CREATE_ACLS = _Write(
    Body(creations=Structs(resource_type=Int8, resource_name=str)),
    Body(results=_ERRORS, error_code=_TOP_LEVEL),
    _created_acls,
)
_DELETE_ACLS = _Write(
    Body(filters=Structs(resource_type_filter=Int8, resource_name_filter=(str | None, None))),
    Body(filter_results=_ERRORS, error_code=_TOP_LEVEL),
    _deleted_acls,
)
_CREATE_PARTITIONS = _Write(
    Body(topics=Structs(name=str, count=Int32), validate_only=bool),
    Body(results=Structs(name=str, error_code=Int16), error_code=_TOP_LEVEL),
    _grown_topics,
)
_ELECT_LEADERS = _Write(
    Body(topic_partitions=(Structs(topic=str, partitions=list[Int32]).or_null(), None)),
    Body(
        error_code=At("1+", Int16, 0),
        replica_election_results=Structs(topic=str, partition_result=_ERRORS),
    ),
    _elections,
)
_ALTER_PARTITION_REASSIGNMENTS = _Write(
    Body(topics=Structs(name=str, partitions=Structs(partition_index=Int32))),
    Body(error_code=Int16, responses=Structs(name=str, partitions=_ERRORS)),
    _reassignments,
)
_ALTER_CLIENT_QUOTAS = _Write(
    Body(entries=Structs(entity=_ENTITY), validate_only=bool),
    Body(entries=Structs(error_code=Int16, entity=_ENTITY), error_code=_TOP_LEVEL),
    _quotas,
)
_ALTER_USER_SCRAM_CREDENTIALS = _Write(
    Body(deletions=Structs(name=str), upsertions=Structs(name=str)),
    Body(results=Structs(user=str, error_code=Int16), error_code=_TOP_LEVEL),
    _users,
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
    30: _CREATE_ACLS,
    31: _DELETE_ACLS,
    37: _CREATE_PARTITIONS,
    43: _ELECT_LEADERS,
    45: _ALTER_PARTITION_REASSIGNMENTS,
    49: _ALTER_CLIENT_QUOTAS,
    51: _ALTER_USER_SCRAM_CREDENTIALS,
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
