"""Other requests that write to the metadata log: what they write, and the errors returned.

Source: the message schemas of each API. Errors are matched by name, or by position where the API
returns them by position (ACLs). ``partitions`` is a count where the API speaks of partitions.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from .bodies import Fields, TypedRows, decode, resource
from .envelope import Envelope, Int8, Int16, Int32

_Resources = list[dict[str, Any]]


class _Request(Fields, frozen=True):
    validate_only: bool = False


class _Response(Fields, frozen=True):
    """``error_code`` is 0 where an API has none at the top."""

    error_code: Int16 = 0


class _Error(Fields, frozen=True):
    error_code: Int16


class _NamedError(_Error, frozen=True):
    name: str


# DELETE_TOPICS: names up to v5, then ids or names.


class _DeletedTopic(Fields, frozen=True):
    name: str | None = None
    topic_id: str | None = None


class _DeletedTopicError(_Error, frozen=True):
    name: str | None = None
    topic_id: str | None = None


class _DeleteTopics(_Request, frozen=True):
    topic_names: tuple[str, ...] = ()
    topics: tuple[_DeletedTopic, ...] = ()


class _TopicsDeleted(_Response, frozen=True, kw_only=True):
    responses: list[_DeletedTopicError]


def _deleted_topics(request: _DeleteTopics, response: _TopicsDeleted | None) -> _Resources:
    errors: dict[str | None, int] = {}
    for result in response.responses if response else ():
        errors[result.topic_id] = errors[result.name] = result.error_code
    names = [*request.topic_names, *(t.name or t.topic_id or "" for t in request.topics)]
    return [resource("topic", name, errors.get(name)) for name in names]


# CREATE_PARTITIONS


class _GrownTopic(Fields, frozen=True):
    name: str
    count: Int32


class _CreatePartitions(_Request, frozen=True, kw_only=True):
    topics: list[_GrownTopic]


class _PartitionsCreated(_Response, frozen=True, kw_only=True):
    results: list[_NamedError]


def _grown_topics(request: _CreatePartitions, response: _PartitionsCreated | None) -> _Resources:
    errors = {result.name: result.error_code for result in (response.results if response else ())}
    return [
        resource("topic", topic.name, errors.get(topic.name), partitions=topic.count)
        for topic in request.topics
    ]


# UPDATE_FEATURES: v2 returns one error for all.


class _Feature(Fields, frozen=True):
    feature: str
    max_version_level: Int16


class _FeatureError(_Error, frozen=True):
    feature: str


class _UpdateFeatures(_Request, frozen=True, kw_only=True):
    feature_updates: list[_Feature]


class _FeaturesUpdated(_Error, frozen=True):
    results: tuple[_FeatureError, ...] = ()


def _features(request: _UpdateFeatures, response: _FeaturesUpdated | None) -> _Resources:
    errors = {r.feature: r.error_code for r in (response.results if response else ())}
    of_all = response.error_code if response else None
    return [
        resource(
            "feature", f.feature, errors.get(f.feature, of_all), feature_level=f.max_version_level
        )
        for f in request.feature_updates
    ]


# ALTER_CLIENT_QUOTAS


class _Entity(Fields, frozen=True):
    entity_type: str
    entity_name: str | None = None


class _Quota(Fields, frozen=True):
    entity: list[_Entity]

    @property
    def name(self) -> str:
        """``user=alice,client-id=<default>``, in a fixed order."""
        parts = (f"{e.entity_type}={e.entity_name or '<default>'}" for e in self.entity)
        return ",".join(sorted(parts))


class _QuotaError(_Quota, frozen=True):
    error_code: Int16


class _AlterClientQuotas(_Request, frozen=True, kw_only=True):
    entries: list[_Quota]


class _ClientQuotasAltered(_Response, frozen=True, kw_only=True):
    entries: list[_QuotaError]


def _quotas(request: _AlterClientQuotas, response: _ClientQuotasAltered | None) -> _Resources:
    errors = {entry.name: entry.error_code for entry in (response.entries if response else ())}
    return [
        resource("client_quota", name, errors.get(name))
        for name in (entry.name for entry in request.entries)
    ]


# CREATE_ACLS, DELETE_ACLS


class _Acl(Fields, frozen=True):
    resource_type: Int8
    resource_name: str


class _CreateAcls(_Request, frozen=True, kw_only=True):
    creations: list[_Acl]


class _AclsCreated(_Response, frozen=True, kw_only=True):
    results: list[_Error]


class _AclFilter(Fields, frozen=True):
    resource_type_filter: Int8
    resource_name_filter: str | None = None


class _DeleteAcls(_Request, frozen=True, kw_only=True):
    filters: list[_AclFilter]


class _AclsDeleted(_Response, frozen=True, kw_only=True):
    filter_results: list[_Error]


def _created_acls(request: _CreateAcls, response: _AclsCreated | None) -> _Resources:
    names = [acl.resource_name for acl in request.creations]
    return _acls(names, response.results if response else [])


def _deleted_acls(request: _DeleteAcls, response: _AclsDeleted | None) -> _Resources:
    names = [filter_.resource_name_filter for filter_ in request.filters]
    return _acls(names, response.filter_results if response else [])


def _acls(names: Iterable[str | None], results: list[_Error]) -> _Resources:
    names = list(names)
    errors = [r.error_code for r in results] if len(results) == len(names) else [None] * len(names)
    return [resource("acl", name, error) for name, error in zip(names, errors, strict=True)]


# ELECT_LEADERS: of all partitions where it names none.


class _ElectedTopic(Fields, frozen=True):
    topic: str
    partitions: list[Int32]


class _ElectionResult(Fields, frozen=True):
    topic: str
    partition_result: list[_Error]


class _ElectLeaders(_Request, frozen=True):
    topic_partitions: list[_ElectedTopic] | None = None


class _LeadersElected(_Response, frozen=True, kw_only=True):
    replica_election_results: list[_ElectionResult]


def _elections(request: _ElectLeaders, response: _LeadersElected | None) -> _Resources:
    results = response.replica_election_results if response else []
    errors = {result.topic: _first_error(result.partition_result) for result in results}
    counts = {result.topic: len(result.partition_result) for result in results}
    if request.topic_partitions is not None:
        counts = {topic.topic: len(topic.partitions) for topic in request.topic_partitions}
    return [resource("topic", t, errors.get(t), partitions=count) for t, count in counts.items()]


# ALTER_PARTITION_REASSIGNMENTS


class _Partition(Fields, frozen=True):
    partition_index: Int32


class _ReassignedTopic(Fields, frozen=True):
    name: str
    partitions: list[_Partition]


class _ReassignedTopicErrors(Fields, frozen=True):
    name: str
    partitions: list[_Error]


class _Reassign(_Request, frozen=True, kw_only=True):
    topics: list[_ReassignedTopic]


class _Reassigned(_Response, frozen=True, kw_only=True):
    responses: list[_ReassignedTopicErrors]


def _reassignments(request: _Reassign, response: _Reassigned | None) -> _Resources:
    errors = {t.name: _first_error(t.partitions) for t in (response.responses if response else ())}
    return [
        resource("topic", t.name, errors.get(t.name), partitions=len(t.partitions))
        for t in request.topics
    ]


# ALTER_USER_SCRAM_CREDENTIALS


class _Credential(Fields, frozen=True):
    name: str


class _UserError(_Error, frozen=True):
    user: str


class _AlterScram(_Request, frozen=True, kw_only=True):
    deletions: list[_Credential]
    upsertions: list[_Credential]


class _ScramAltered(_Response, frozen=True, kw_only=True):
    results: list[_UserError]


def _users(request: _AlterScram, response: _ScramAltered | None) -> _Resources:
    errors = {result.user: result.error_code for result in (response.results if response else ())}
    names = dict.fromkeys(c.name for c in (*request.deletions, *request.upsertions))
    return [resource("user", name, errors.get(name)) for name in names]


def _first_error(results: Iterable[_Error]) -> int:
    """Of partitions; 0 if there is none."""
    return next((result.error_code for result in results if result.error_code), 0)


@dataclass(frozen=True)
class _Write:
    request: msgspec.json.Decoder[Any]
    response: msgspec.json.Decoder[Any]
    resources: Callable[[Any, Any], _Resources]

    @staticmethod
    def of(request: type, response: type, resources: Callable[[Any, Any], _Resources]) -> "_Write":
        return _Write(msgspec.json.Decoder(request), msgspec.json.Decoder(response), resources)


_WRITES = {
    20: _Write.of(_DeleteTopics, _TopicsDeleted, _deleted_topics),
    30: _Write.of(_CreateAcls, _AclsCreated, _created_acls),
    31: _Write.of(_DeleteAcls, _AclsDeleted, _deleted_acls),
    37: _Write.of(_CreatePartitions, _PartitionsCreated, _grown_topics),
    43: _Write.of(_ElectLeaders, _LeadersElected, _elections),
    45: _Write.of(_Reassign, _Reassigned, _reassignments),
    49: _Write.of(_AlterClientQuotas, _ClientQuotasAltered, _quotas),
    51: _Write.of(_AlterScram, _ScramAltered, _users),
    57: _Write.of(_UpdateFeatures, _FeaturesUpdated, _features),
}
API_KEYS = tuple(_WRITES)


def read(envelope: Envelope) -> TypedRows:
    """The write of one line; its resources are None where the request is missing."""
    write = _WRITES[envelope.request_header.request_api_key]
    request = decode(envelope.request, write.request)
    response = decode(envelope.response, write.response)
    error = None if response is None else response.error_code
    if request is None:
        return TypedRows(metadata_write=(None, error, None))
    resources = write.resources(request, response)
    return TypedRows(metadata_write=(request.validate_only, error, resources))
