"""Rows of any table, made at random from few values: the same for the same table."""

import random
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pyarrow as pa

from kip_replay.replay.table import Table

_VALUES: dict[str, list[Any]] = {
    "recording": ["one", "two"],
    "rule": ["hwm_parking"],
    "verdict": ["replayed", "replayed", "unknown", "not_applicable"],
    "phase": ["steady", "steady", "starting"],
    "variant": ["recorded", "with_kip_1166", "lowest_acked_offset", "estimated"],
    "evidence": ["heartbeat", "estimated"],
    "parameter": ["none", "none", "session_slots"],
    "parameter_value": [8, 16],
    "event": ["created", "refused", "evicted", "closed"],
    "source": ["ALTER_PARTITION", "ALTER_PARTITION", "METADATA"],
    "operation": ["set", "describe"],
    "kind": ["broker_epoch", "high_watermark"],
    "replica_id": [-1, 1, 2, 3],
    "acks": [-1, 0, 1],
    "resource_type": ["topic", "broker"],
    "api_name": ["FETCH", "PRODUCE"],
    "connection": [f"a:1-b:{port}-0-0" for port in range(200)],
    "error_code": [0, 0, 0, 6, 70],
    "min_isr_error": [0, 0, 0, 6],
}


def made_value(numbers: random.Random, name: str, kind: pa.DataType, nullable: bool) -> Any:
    if nullable and name != "is_voter" and numbers.random() < 0.1:
        return None
    if name in _VALUES:
        return numbers.choice(_VALUES[name])
    if pa.types.is_map(kind):
        return [("name", "value")]
    if pa.types.is_list(kind):
        count = numbers.randrange(4)
        return [made_value(numbers, "", kind.value_type, False) for _ in range(count)]
    if pa.types.is_struct(kind):
        return {field.name: made_value(numbers, field.name, field.type, True) for field in kind}
    if pa.types.is_timestamp(kind):
        micros = timedelta(microseconds=numbers.randrange(10**8))
        return datetime(2026, 11, 20, 20, 36, tzinfo=UTC) + micros
    if pa.types.is_floating(kind):
        return numbers.randrange(40) / 8  # exact in binary: sums are the same in any order
    if pa.types.is_boolean(kind):
        return numbers.random() < 0.5
    if pa.types.is_integer(kind):
        return numbers.randrange(5)
    return f"{name or 'text'}-{numbers.randrange(3)}"


@cache
def made_rows(table: Table, count: int) -> pa.Table:
    numbers = random.Random(table.name)
    rows = [
        {c.name: made_value(numbers, c.name, c.type, c.nullable) for c in table.columns}
        for _ in range(count)
    ]
    for number, row in enumerate(rows):
        if "request_id" in row:
            row["request_id"] = f"{number:032x}"
    return pa.Table.from_pylist(rows, table.arrow_schema)
