"""DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS: configs and the writes among them.

Source: ``DescribeConfigsResponse.json``, ``IncrementalAlterConfigs*.json``, ``AlterConfigs*.json``;
``org.apache.kafka.common.config.ConfigResource.Type``. Kafka masks values that may be secret in its
log of the two writing APIs only; here they are null everywhere.
"""

from typing import Any

from .bodies import Body, Row, Structs, TypedRows, decode_request, decode_response, resource
from .envelope import Envelope, Int8, Int16

DESCRIBE_CONFIGS = 32
ALTER_CONFIGS = 33
INCREMENTAL_ALTER_CONFIGS = 44

_MASK = "[hidden]"
_RESOURCE_TYPES = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}
#: ``AlterConfigOp.OpType``
_OPERATIONS = {0: "set", 1: "delete", 2: "append", 3: "subtract"}


_describe_response = Body(
    results=Structs(
        error_code=Int16,
        resource_type=Int8,
        resource_name=str,
        configs=Structs(
            name=str, value=(str | None, None), config_source=(Int8 | None, None), is_sensitive=bool
        ),
    )
)


def _alter_request(**config: Any) -> Body:
    return Body(
        resources=Structs(
            resource_type=Int8,
            resource_name=str,
            configs=Structs(name=str, value=(str | None, None), **config),
        ),
        validate_only=bool,
    )


_alter_requests = {
    ALTER_CONFIGS: _alter_request(config_operation=(Int8, 0)),  # it only sets
    INCREMENTAL_ALTER_CONFIGS: _alter_request(config_operation=Int8),
}
_alter_response = Body(responses=Structs(error_code=Int16, resource_type=Int8, resource_name=str))


def shown(value: str | None, is_sensitive: bool = False) -> str | None:
    """A value, None where it is secret or masked."""
    return None if is_sensitive or value == _MASK else value


def resource_type(code: int) -> str:
    """``topic``, ``broker``, ...; ``type-N`` for one that a newer Kafka adds."""
    return _RESOURCE_TYPES.get(code, f"type-{code}")


def read_describe(envelope: Envelope) -> TypedRows:
    response = decode_response(envelope, _describe_response)
    rows: dict[tuple[str, str, str], Row] = {}
    for described in response.results if response else ():
        type_, resource_name = resource_type(described.resource_type), described.resource_name
        for config in described.configs:
            value = shown(config.value, config.is_sensitive)
            rows[type_, resource_name, config.name] = (
                type_,
                resource_name,
                config.name,
                value,
                "describe",
                config.config_source,
                described.error_code,
            )
    return TypedRows(configs=list(rows.values()))


def read_alter(envelope: Envelope) -> TypedRows:
    """What was altered, each resource with its error; no config with ``validateOnly``."""
    request = decode_request(envelope, _alter_requests[envelope.request_header.request_api_key])
    response = decode_response(envelope, _alter_response)
    error = None if response is None else 0
    if request is None:
        return TypedRows(metadata_write=(None, error, None))
    errors = {
        (result.resource_type, result.resource_name): result.error_code
        for result in (response.responses if response else ())
    }
    resources = [
        resource(
            resource_type(altered.resource_type),
            altered.resource_name,
            errors.get((altered.resource_type, altered.resource_name)),
            configs=len({config.name for config in altered.configs}),
        )
        for altered in request.resources
    ]
    write = (request.validate_only, error, resources)
    if request.validate_only:
        return TypedRows(metadata_write=write)
    return TypedRows(metadata_write=write, configs=_altered(request, errors))


def _altered(request: Any, errors: dict[tuple[int, str], int]) -> list[Row]:
    rows: dict[tuple[int, str, str, int], Row] = {}
    for altered in request.resources:
        of_resource = (altered.resource_type, altered.resource_name)
        for config in altered.configs:
            operation = config.config_operation
            rows[(*of_resource, config.name, operation)] = (
                resource_type(altered.resource_type),
                altered.resource_name,
                config.name,
                None if operation == 1 else shown(config.value),
                _OPERATIONS.get(operation, f"operation-{operation}"),
                None,
                errors.get(of_resource),
            )
    return list(rows.values())
