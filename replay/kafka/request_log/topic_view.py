"""CREATE_TOPICS: topics, configs and the write itself.

Source: ``CreateTopicsRequest.json``, ``CreateTopicsResponse.json`` (v5+ returns sizes and configs,
v7+ ids). With ``validateOnly`` nothing is created: a write without topics and configs.
"""

from typing import Any

from .bodies import At, Body, Row, Structs, TypedRows, decode_request, decode_response, resource
from .config_view import shown
from .envelope import Envelope, Int8, Int16, Int32

API_KEY = 19

_request = Body(
    topics=Structs(
        name=str,
        num_partitions=Int32,
        replication_factor=Int16,
        assignments=Structs(broker_ids=list[Int32]),
        configs=Structs(name=str, value=(str | None, None)),
    ),
    validate_only=(bool, False),
)
_response = Body(
    topics=Structs(
        name=str,
        topic_id=At("7+", str, None),
        error_code=Int16,
        num_partitions=(Int32, -1),
        replication_factor=(Int16, -1),
        configs=(
            Structs(
                name=str, value=(str | None, None), config_source=(Int8, -1), is_sensitive=bool
            ).or_null(),
            None,
        ),
    )
)


def read(envelope: Envelope) -> TypedRows:
    request = decode_request(envelope, _request)
    response = decode_response(envelope, _response)
    requested = {topic.name: topic for topic in (request.topics if request else ())}
    returned = {topic.name: topic for topic in (response.topics if response else ())}
    names = list(requested) if request else list(returned)
    pairs = {name: (requested.get(name), returned.get(name)) for name in names}
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


def _resource(name: str, requested: Any, returned: Any) -> dict[str, Any]:
    error = returned.error_code if returned else None
    configs = len({config.name for config in requested.configs}) if requested else None
    partitions, factor = _size(requested, returned)
    # More than an INT32 can be requested, and is refused.
    replicas = min((partitions or 0) * (factor or 0), 2**31 - 1) or None
    sizes = {"partitions": partitions, "replicas": replicas, "configs": configs}
    return resource("topic", name, error, **sizes)


def _topic(name: str, requested: Any, returned: Any) -> Row:
    return (
        name,
        returned.topic_id if returned and returned.error_code == 0 else None,
        *_size(requested, returned),
        None,
        returned.error_code if returned else None,
    )


def _size(requested: Any, returned: Any) -> list[int | None]:
    """Partitions and replication factor: as returned, else as assigned, else as requested."""
    assignments = requested.assignments if requested else ()
    assigned = {
        "num_partitions": len(assignments),
        "replication_factor": len(assignments[0].broker_ids) if assignments else 0,
    }
    return [
        _known(returned, name) or of or _known(requested, name) for name, of in assigned.items()
    ]


def _known(topic: Any, name: str) -> int | None:
    """-1 is "unknown" in the response, and "the broker's default" in the request."""
    count = getattr(topic, name, -1)
    return count if count > 0 else None


def _configs(name: str, requested: Any, returned: Any) -> list[Row]:
    """Requested configs are set; others that the response lists are described. One row each."""
    error = returned.error_code if returned else None
    rows: dict[str, Row] = {
        config.name: ("topic", name, config.name, shown(config.value), "set", None, error)
        for config in (requested.configs if requested else ())
    }
    set_by_request = set(rows)
    for config in (returned.configs or ()) if returned else ():
        operation = "set" if config.name in set_by_request else "describe"
        value = shown(config.value, config.is_sensitive)
        source = config.config_source
        rows[config.name] = ("topic", name, config.name, value, operation, source, error)
    return list(rows.values())
