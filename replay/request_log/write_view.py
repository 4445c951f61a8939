"""Other requests that write to the metadata log: what they write and what was answered.

Source: the message schemas of each API. Answers are matched by name, or by position where the API
answers by position (ACLs). ``partitions`` is a count where the API speaks of partitions.
"""

from collections.abc import Callable, Iterable

import msgspec

from .bodies import Fields, Row, Told, decode, resource
from .envelope import Envelope, Int8, Int16, Int32

DELETE_TOPICS = 20
CREATE_ACLS = 30
DELETE_ACLS = 31
CREATE_PARTITIONS = 37
ELECT_LEADERS = 43
ALTER_PARTITION_REASSIGNMENTS = 45
ALTER_CLIENT_QUOTAS = 49
ALTER_USER_SCRAM_CREDENTIALS = 51
UPDATE_FEATURES = 57


class _DeletedTopic(Fields, frozen=True):
    name: str | None = None
    topic_id: str | None = None


class _DeletedTopicAnswer(Fields, frozen=True):
    error_code: Int16
    name: str | None = None
    topic_id: str | None = None


class _DeleteTopics(Fields, frozen=True):
    topic_names: tuple[str, ...] = ()
    topics: tuple[_DeletedTopic, ...] = ()  # v6+


class _DeleteTopicsAnswer(Fields, frozen=True):
    responses: list[_DeletedTopicAnswer]


class _GrownTopic(Fields, frozen=True):
    name: str
    count: Int32


class _CreatePartitions(Fields, frozen=True):
    topics: list[_GrownTopic]
    validate_only: bool = False


class _Named(Fields, frozen=True):
    name: str
    error_code: Int16


class _CreatePartitionsAnswer(Fields, frozen=True):
    results: list[_Named]


class _Feature(Fields, frozen=True):
    feature: str
    max_version_level: Int16


class _FeatureAnswer(Fields, frozen=True):
    feature: str
    error_code: Int16


class _UpdateFeatures(Fields, frozen=True):
    feature_updates: list[_Feature]
    validate_only: bool = False


class _UpdateFeaturesAnswer(Fields, frozen=True):
    error_code: Int16
    results: tuple[_FeatureAnswer, ...] = ()  # v0 and v1


class _Entity(Fields, frozen=True):
    entity_type: str
    entity_name: str | None = None


class _Quota(Fields, frozen=True):
    entity: list[_Entity]


class _QuotaAnswer(Fields, frozen=True):
    error_code: Int16
    entity: list[_Entity]


class _AlterClientQuotas(Fields, frozen=True):
    entries: list[_Quota]
    validate_only: bool = False


class _AlterClientQuotasAnswer(Fields, frozen=True):
    entries: list[_QuotaAnswer]


class _Acl(Fields, frozen=True):
    resource_type: Int8
    resource_name: str


class _AclFilter(Fields, frozen=True):
    resource_type_filter: Int8
    resource_name_filter: str | None = None


class _Answer(Fields, frozen=True):
    error_code: Int16


class _CreateAcls(Fields, frozen=True):
    creations: list[_Acl]


class _CreateAclsAnswer(Fields, frozen=True):
    results: list[_Answer]


class _DeleteAcls(Fields, frozen=True):
    filters: list[_AclFilter]


class _DeleteAclsAnswer(Fields, frozen=True):
    filter_results: list[_Answer]


class _ElectedTopic(Fields, frozen=True):
    topic: str
    partitions: list[Int32]


class _ElectionResult(Fields, frozen=True):
    topic: str
    partition_result: list[_Answer]


class _ElectLeaders(Fields, frozen=True):
    topic_partitions: list[_ElectedTopic] | None = None  # None: all


class _ElectLeadersAnswer(Fields, frozen=True):
    replica_election_results: list[_ElectionResult]
    error_code: Int16 = 0


class _ReassignedPartition(Fields, frozen=True):
    partition_index: Int32


class _ReassignedTopic(Fields, frozen=True):
    name: str
    partitions: list[_ReassignedPartition]


class _ReassignedTopicAnswer(Fields, frozen=True):
    name: str
    partitions: list[_Answer]


class _Reassign(Fields, frozen=True):
    topics: list[_ReassignedTopic]


class _ReassignAnswer(Fields, frozen=True):
    responses: list[_ReassignedTopicAnswer]
    error_code: Int16 = 0


class _Credential(Fields, frozen=True):
    name: str


class _AlterScram(Fields, frozen=True):
    deletions: list[_Credential]
    upsertions: list[_Credential]


class _User(Fields, frozen=True):
    user: str
    error_code: Int16


class _AlterScramAnswer(Fields, frozen=True):
    results: list[_User]


_delete_topics = msgspec.json.Decoder(_DeleteTopics)
_delete_topics_answer = msgspec.json.Decoder(_DeleteTopicsAnswer)
_create_partitions = msgspec.json.Decoder(_CreatePartitions)
_create_partitions_answer = msgspec.json.Decoder(_CreatePartitionsAnswer)
_update_features = msgspec.json.Decoder(_UpdateFeatures)
_update_features_answer = msgspec.json.Decoder(_UpdateFeaturesAnswer)
_alter_quotas = msgspec.json.Decoder(_AlterClientQuotas)
_alter_quotas_answer = msgspec.json.Decoder(_AlterClientQuotasAnswer)
_create_acls = msgspec.json.Decoder(_CreateAcls)
_create_acls_answer = msgspec.json.Decoder(_CreateAclsAnswer)
_delete_acls = msgspec.json.Decoder(_DeleteAcls)
_delete_acls_answer = msgspec.json.Decoder(_DeleteAclsAnswer)
_elect_leaders = msgspec.json.Decoder(_ElectLeaders)
_elect_leaders_answer = msgspec.json.Decoder(_ElectLeadersAnswer)
_reassign = msgspec.json.Decoder(_Reassign)
_reassign_answer = msgspec.json.Decoder(_ReassignAnswer)
_alter_scram = msgspec.json.Decoder(_AlterScram)
_alter_scram_answer = msgspec.json.Decoder(_AlterScramAnswer)


def _no_top_level(answer: object | None) -> int | None:
    """``error_code`` of an API that has none at the top: 0 once answered."""
    return None if answer is None else 0


def _worst(results: Iterable[_Answer]) -> int:
    """The first error among partitions, else 0."""
    return next((result.error_code for result in results if result.error_code), 0)


def _delete_topics_row(envelope: Envelope) -> Row:
    asked = decode(envelope.request, _delete_topics)
    answer = decode(envelope.response, _delete_topics_answer)
    if asked is None:
        return (None, _no_top_level(answer), None)
    errors: dict[str | None, int] = {}
    for response in answer.responses if answer else ():
        errors[response.topic_id] = errors[response.name] = response.error_code
    names = [*asked.topic_names, *(t.name or t.topic_id or "" for t in asked.topics)]
    rows = [resource("topic", name, errors.get(name)) for name in names]
    return (False, _no_top_level(answer), rows)


def _create_partitions_row(envelope: Envelope) -> Row:
    asked = decode(envelope.request, _create_partitions)
    answer = decode(envelope.response, _create_partitions_answer)
    if asked is None:
        return (None, _no_top_level(answer), None)
    errors = {result.name: result.error_code for result in (answer.results if answer else ())}
    rows = [resource("topic", t.name, errors.get(t.name), partitions=t.count) for t in asked.topics]
    return (asked.validate_only, _no_top_level(answer), rows)


def _update_features_row(envelope: Envelope) -> Row:
    asked = decode(envelope.request, _update_features)
    answer = decode(envelope.response, _update_features_answer)
    error = answer.error_code if answer else None
    if asked is None:
        return (None, error, None)
    errors = {result.feature: result.error_code for result in (answer.results if answer else ())}
    # v2 answers one error for all
    rows = [
        resource(
            "feature",
            f.feature,
            errors.get(f.feature, error),
            feature_level=f.max_version_level,
        )
        for f in asked.feature_updates
    ]
    return (asked.validate_only, error, rows)


def _entity_name(entity: list[_Entity]) -> str:
    """``user=alice,client-id=<default>``, in a fixed order."""
    parts = (f"{e.entity_type}={e.entity_name or '<default>'}" for e in entity)
    return ",".join(sorted(parts))


def _alter_quotas_row(envelope: Envelope) -> Row:
    asked = decode(envelope.request, _alter_quotas)
    answer = decode(envelope.response, _alter_quotas_answer)
    if asked is None:
        return (None, _no_top_level(answer), None)
    errors = {_entity_name(e.entity): e.error_code for e in (answer.entries if answer else ())}
    names = [_entity_name(entry.entity) for entry in asked.entries]
    rows = [resource("client_quota", name, errors.get(name)) for name in names]
    return (asked.validate_only, _no_top_level(answer), rows)


def _by_position(names: list[str | None], results: list[_Answer] | None) -> Row:
    answered = results is not None and len(results) == len(names)
    errors = [r.error_code for r in results] if results and answered else [None] * len(names)
    rows = [resource("acl", name, error) for name, error in zip(names, errors, strict=True)]
    return (False, None if results is None else 0, rows)


def _create_acls_row(envelope: Envelope) -> Row:
    asked = decode(envelope.request, _create_acls)
    answer = decode(envelope.response, _create_acls_answer)
    if asked is None:
        return (None, _no_top_level(answer), None)
    names: list[str | None] = [creation.resource_name for creation in asked.creations]
    return _by_position(names, answer.results if answer else None)


def _delete_acls_row(envelope: Envelope) -> Row:
    asked = decode(envelope.request, _delete_acls)
    answer = decode(envelope.response, _delete_acls_answer)
    if asked is None:
        return (None, _no_top_level(answer), None)
    names = [filter_.resource_name_filter for filter_ in asked.filters]
    return _by_position(names, answer.filter_results if answer else None)


def _elect_leaders_row(envelope: Envelope) -> Row:
    asked = decode(envelope.request, _elect_leaders)
    answer = decode(envelope.response, _elect_leaders_answer)
    results = answer.replica_election_results if answer else []
    error = answer.error_code if answer else None
    if asked is None:
        return (None, error, None)
    errors = {result.topic: _worst(result.partition_result) for result in results}
    if asked.topic_partitions is None:
        counts = {result.topic: len(result.partition_result) for result in results}
    else:
        counts = {topic.topic: len(topic.partitions) for topic in asked.topic_partitions}
    rows = [resource("topic", n, errors.get(n), partitions=count) for n, count in counts.items()]
    return (False, error, rows)


def _reassign_row(envelope: Envelope) -> Row:
    asked = decode(envelope.request, _reassign)
    answer = decode(envelope.response, _reassign_answer)
    error = answer.error_code if answer else None
    if asked is None:
        return (None, error, None)
    errors = {t.name: _worst(t.partitions) for t in (answer.responses if answer else ())}
    rows = [
        resource("topic", t.name, errors.get(t.name), partitions=len(t.partitions))
        for t in asked.topics
    ]
    return (False, error, rows)


def _alter_scram_row(envelope: Envelope) -> Row:
    asked = decode(envelope.request, _alter_scram)
    answer = decode(envelope.response, _alter_scram_answer)
    if asked is None:
        return (None, _no_top_level(answer), None)
    errors = {result.user: result.error_code for result in (answer.results if answer else ())}
    names = dict.fromkeys(c.name for c in (*asked.deletions, *asked.upsertions))
    rows = [resource("user", name, errors.get(name)) for name in names]
    return (False, _no_top_level(answer), rows)


#: (validate_only, error_code, resources) of each API, resources None where the request is missing.
_ROWS: dict[int, Callable[[Envelope], Row]] = {
    DELETE_TOPICS: _delete_topics_row,
    CREATE_ACLS: _create_acls_row,
    DELETE_ACLS: _delete_acls_row,
    CREATE_PARTITIONS: _create_partitions_row,
    ELECT_LEADERS: _elect_leaders_row,
    ALTER_PARTITION_REASSIGNMENTS: _reassign_row,
    ALTER_CLIENT_QUOTAS: _alter_quotas_row,
    ALTER_USER_SCRAM_CREDENTIALS: _alter_scram_row,
    UPDATE_FEATURES: _update_features_row,
}
API_KEYS = tuple(_ROWS)


def read(envelope: Envelope) -> Told:
    """The write that one line of these APIs tells."""
    return Told(metadata_write=_ROWS[envelope.request_header.request_api_key](envelope))
