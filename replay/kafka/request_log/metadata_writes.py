"""Requests that write to the metadata log: what they write, the errors returned, topics, configs.

Source: the message schemas of each API; ``org.apache.kafka.common.config.ConfigResource.Type``.
Errors are matched by name; ACLs, quotas and users have no name here. ``partitions`` is a count
where the API speaks of partitions. With ``validateOnly`` nothing is written: a write without topics
and configs. Kafka masks values that may be secret in its log of the two APIs that alter configs
only; here they are null everywhere.
"""

from collections.abc import Callable
from typing import Any

from .line import Envelope
from .reading import Reader, Row, TypedRows

_Resources = list[dict[str, Any]]
_MASK = "[hidden]"
_RESOURCE_TYPES = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}
#: ``AlterConfigOp.OpType``
_OPERATIONS = {0: "set", 1: "delete", 2: "append", 3: "subtract"}


def _resource(
    resource_type: str, name: str | None, error_code: int | None, **of_type: int | None
) -> dict[str, Any]:
    """An element of ``metadata_writes.resources``: what a write is about, and its error."""
    return {"resource_type": resource_type, "name": name, "error_code": error_code, **of_type}


# --- topics, features, and what has no name here


def _writes(text: str, resources: Callable[[Any, Any, int | None], _Resources]) -> Reader:
    """Reads an API whose response has ``results``; no resources where the request is missing."""

    def rows(request: Any, response: Any, _: Envelope) -> TypedRows:
        error = None if response is None else response.error_code
        if request is None:
            return {"metadata_writes": [(None, error, None)]}
        written = resources(request, (response and response.results) or (), error)
        return {"metadata_writes": [(getattr(request, "validate_only", False), error, written)]}

    return Reader(text, rows)


def _errors(results: Any, name: str = "name") -> dict[Any, int]:
    return {getattr(result, name): result.error_code for result in results}


_DELETE_TOPICS = """
DeleteTopicsRequest request
  Topics []DeleteTopicState 6+
    Name string 6+ nullableVersions=6+ default=null, TopicId uuid 6+
  TopicNames []string 0-5
DeleteTopicsResponse response
  Responses []DeletableTopicResult 0+ column=results
    Name string 0+ nullableVersions=6+ default=null, TopicId uuid 6+, ErrorCode int16 0+
  ErrorCode int16 0+ default=0
"""


def _deleted_topics(request: Any, results: Any, _: int | None) -> _Resources:
    errors = _errors(results, "topic_id") | _errors(results)
    topics = request.topics or ()
    names = [*(request.topic_names or ()), *(t.name or t.topic_id or "" for t in topics)]
    return [_resource("topic", name, errors.get(name)) for name in names]


_CREATE_PARTITIONS = """
CreatePartitionsRequest request
  Topics []CreatePartitionsTopic 0+
    Name string 0+, Count int32 0+
  ValidateOnly bool 0+
CreatePartitionsResponse response
  Results []CreatePartitionsTopicResult 0+
    Name string 0+, ErrorCode int16 0+
  ErrorCode int16 0+ default=0
"""


def _grown_topics(request: Any, results: Any, _: int | None) -> _Resources:
    errors, topics = _errors(results), request.topics
    return [_resource("topic", t.name, errors.get(t.name), partitions=t.count) for t in topics]


_UPDATE_FEATURES = """
UpdateFeaturesRequest request
  FeatureUpdates []FeatureUpdateKey 0+
    Feature string 0+, MaxVersionLevel int16 0+
  ValidateOnly bool 0+ default=false
UpdateFeaturesResponse response
  ErrorCode int16 0+
  Results []UpdatableFeatureResult 0-1
    Feature string 0+, ErrorCode int16 0+
"""


def _features(request: Any, results: Any, error: int | None) -> _Resources:
    """From v2 on, one error is that of all."""
    errors = _errors(results, "feature")
    levels = [(update.feature, update.max_version_level) for update in request.feature_updates]
    return [_resource("feature", f, errors.get(f, error), feature_level=to) for f, to in levels]


def _topics_of(results: str, name: str, partitions: str) -> Reader:
    """Reads an API whose response lists partitions of topics, each with its error."""
    text = f"""
Request request
Response response
  {results} []Topic 0+ column=results
    {name} string 0+ column=name
    {partitions} []Partition 0+ column=partitions
      ErrorCode int16 0+
  ErrorCode int16 0+ default=0
"""

    def resources(_: Any, results: Any, __: int | None) -> _Resources:
        topics = [(topic.name, [p.error_code for p in topic.partitions]) for topic in results]
        return [
            _resource("topic", name, next(filter(None, errors), 0), partitions=len(errors))
            for name, errors in topics
        ]

    return _writes(text, resources)


def _errors_of(resource_type: str, results: str) -> Reader:
    """Reads an API whose response lists errors, and of which no more is read."""
    text = f"""
Request request
  ValidateOnly bool 0+ default=false
Response response
  {results} []Result 0+ column=results
    ErrorCode int16 0+
  ErrorCode int16 0+ default=0
"""

    def resources(_: Any, results: Any, __: int | None) -> _Resources:
        return [_resource(resource_type, None, result.error_code) for result in results]

    return _writes(text, resources)


# --- configs


def _not_secret(value: str | None, is_sensitive: bool = False) -> str | None:
    """Returns a value, None where it is secret or masked."""
    return None if is_sensitive or value == _MASK else value


def _type(resource: Any) -> str:
    """``topic``, ``broker``, ...; ``type-N`` for one that a newer Kafka adds."""
    return _RESOURCE_TYPES.get(resource.resource_type, f"type-{resource.resource_type}")


_DESCRIBE_CONFIGS = """
DescribeConfigsResponse response
  Results []DescribeConfigsResult 0+
    ErrorCode int16 0+, ResourceType int8 0+, ResourceName string 0+
    Configs []DescribeConfigsResourceResult 0+
      Name string 0+, Value string 0+ nullableVersions=0+ default=null
      ConfigSource int8 0+ nullableVersions=0+ default=null, IsSensitive bool 0+
"""


def _described_configs(_: Any, response: Any, __: Envelope) -> TypedRows:
    rows: dict[Row, Row] = {}
    for resource in response.results if response else ():
        for config in resource.configs:
            key = _type(resource), resource.resource_name, config.name
            value = _not_secret(config.value, config.is_sensitive)
            rows[key] = (*key, value, "describe", config.config_source, resource.error_code)
    return {"configs": [*rows.values()]}


_ALTER_CONFIGS = """
AlterConfigsRequest request
  Resources []AlterConfigsResource 0+
    ResourceType int8 0+, ResourceName string 0+
    Configs []AlterableConfig 0+
      Name string 0+, ConfigOperation int8 0+ %s, Value string 0+ nullableVersions=0+ default=null
  ValidateOnly bool 0+
AlterConfigsResponse response
  Responses []AlterConfigsResourceResponse 0+
    ErrorCode int16 0+, ResourceType int8 0+, ResourceName string 0+
"""


def _altered_configs(request: Any, response: Any, _: Envelope) -> TypedRows:
    """Reads what was altered, each resource with its error."""
    error = None if response is None else 0
    if request is None:
        return {"metadata_writes": [(None, error, None)]}
    errors = {
        (_type(result), result.resource_name): result.error_code
        for result in (response.responses if response else ())
    }
    resources, rows = [], dict[Row, Row]()
    for altered in request.resources:
        resource = (_type(altered), altered.resource_name)
        error_code = errors.get(resource)
        configs = len({config.name for config in altered.configs})
        resources.append(_resource(*resource, error_code, configs=configs))
        for config in altered.configs:
            number = config.config_operation
            operation = _OPERATIONS.get(number, f"operation-{number}")
            value = None if operation == "delete" else _not_secret(config.value)
            key = (*resource, config.name)
            rows[(*key, operation)] = (*key, value, operation, None, error_code)
    write = (request.validate_only, error, resources)
    altered_rows = [] if request.validate_only else [*rows.values()]
    return {"metadata_writes": [write], "configs": altered_rows}


# --- new topics, with their configs

_CREATE_TOPICS = """
CreateTopicsRequest request
  Topics []CreatableTopic 0+
    Name string 0+, NumPartitions int32 0+, ReplicationFactor int16 0+
    Assignments []CreatableReplicaAssignment 0+
      BrokerIds []int32 0+
    Configs []CreatableTopicConfig 0+
      Name string 0+, Value string 0+ nullableVersions=0+ default=null
  ValidateOnly bool 0+ default=false
CreateTopicsResponse response
  Topics []CreatableTopicResult 0+
    Name string 0+, TopicId uuid 7+, ErrorCode int16 0+, NumPartitions int32 0+ default=-1
    ReplicationFactor int16 0+ default=-1
    Configs []CreatableTopicConfigs 0+ nullableVersions=0+ default=null
      Name string 0+, Value string 0+ nullableVersions=0+ default=null
      ConfigSource int8 0+ default=-1, IsSensitive bool 0+
"""


def _created_topics(request: Any, response: Any, _: Envelope) -> TypedRows:
    requested = {topic.name: topic for topic in (request.topics if request else ())}
    returned = {topic.name: topic for topic in (response.topics if response else ())}
    resources: _Resources = []
    topics: list[Row] = []
    configs: list[Row] = []
    for name in requested if request else returned:
        new, result = requested.get(name), returned.get(name)
        error = result.error_code if result else None
        partitions, factor = sizes = _sizes(new, result)
        # More than an INT32 can be requested, and is refused.
        replicas = min((partitions or 0) * (factor or 0), 2**31 - 1) or None
        named = len({config.name for config in new.configs}) if new else None
        counts = {"partitions": partitions, "replicas": replicas, "configs": named}
        resources.append(_resource("topic", name, error, **counts))
        topic_id = result.topic_id if result and error == 0 else None
        topics.append((name, topic_id, *sizes, None, error))
        configs += [("topic", name, *config, error) for config in _configs(new, result)]
    validate_only = request.validate_only if request else None
    write = (validate_only, None if response is None else 0, resources)
    if validate_only:
        return {"metadata_writes": [write]}
    return {"metadata_writes": [write], "topics": topics, "configs": configs}


def _sizes(requested: Any, returned: Any) -> list[int | None]:
    """Returns partitions and replication factor: as returned, else assigned, else requested."""
    assignments = requested.assignments if requested else ()
    assigned = {
        "num_partitions": len(assignments),
        "replication_factor": len(assignments[0].broker_ids) if assignments else 0,
    }
    return [
        _size(returned, name) or count or _size(requested, name) for name, count in assigned.items()
    ]


def _size(topic: Any, name: str) -> int | None:
    """-1 is "unknown" in the response, and "the broker's default" in the request."""
    count = getattr(topic, name, -1)
    return count if count > 0 else None


def _configs(requested: Any, returned: Any) -> list[Row]:
    """Requested configs are set; others that the response lists are described. One row each."""
    rows: dict[str, Row] = {
        config.name: (config.name, _not_secret(config.value), "set", None)
        for config in (requested.configs if requested else ())
    }
    set_by_request = set(rows)
    for config in (returned.configs or ()) if returned else ():
        operation = "set" if config.name in set_by_request else "describe"
        value = _not_secret(config.value, config.is_sensitive)
        rows[config.name] = (config.name, value, operation, config.config_source)
    return [*rows.values()]


READERS = {
    19: Reader(_CREATE_TOPICS, _created_topics),
    20: _writes(_DELETE_TOPICS, _deleted_topics),
    30: _errors_of("acl", "Results"),
    31: _errors_of("acl", "FilterResults"),
    32: Reader(_DESCRIBE_CONFIGS, _described_configs),
    33: Reader(_ALTER_CONFIGS % "default=0", _altered_configs),  # it only sets
    37: _writes(_CREATE_PARTITIONS, _grown_topics),
    43: _topics_of("ReplicaElectionResults", "Topic", "PartitionResult"),
    44: Reader(_ALTER_CONFIGS % "", _altered_configs),
    45: _topics_of("Responses", "Name", "Partitions"),
    49: _errors_of("client_quota", "Entries"),
    51: _errors_of("user", "Results"),
    57: _writes(_UPDATE_FEATURES, _features),
}
