"""SQL that all rules share: every query sums up, whatever the length of a log."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import duckdb

from kip_replay.pipelines.analysis.intervals import BLOCKS
from kip_replay.pipelines.page.values import Row
from kip_replay.replay.outcomes import NOT_SWEPT

#: No sweep.
PLAIN = "parameter = 'none'"
_BLOCKS = range(1, BLOCKS + 1)
#: The value of a sweep's parameter; null where there is no sweep.
AT = f"nullif(parameter_value, {NOT_SWEPT}) AS at"

_BOUNDS = ", ".join(f"p{q}_low_ms, p{q}_high_ms" for q in (50, 90, 99))


def spreads(rule: str, sweep: str) -> str:
    """Percentiles of a rule's latencies, those of sweeps by fewer groups."""
    return f"""
        SELECT recording, metric, variant, group_kind, group_value, {AT},
            count, unknown_count, p50_ms, p90_ms, p99_ms, max_ms,
            {_BOUNDS}
        FROM latency_summary
        WHERE rule = '{rule}' AND (
            {PLAIN} AND group_kind IN ('all', 'replica_kind', 'node_id', 'api_name')
            OR parameter = '{sweep}' AND group_kind IN ('all', 'replica_kind'))"""


def curves(rule: str) -> str:
    """The distributions of a rule's latencies: smallest value, and points in ms and shares."""
    return f"""
        SELECT recording, metric, variant, group_value, min(from_us) / 1000,
            list([value_us / 1000, up_to / total] ORDER BY value_us)
        FROM latency_curves WHERE rule = '{rule}' GROUP BY ALL"""


def traffic(rule: str, sweep: str) -> str:
    """FETCHes in the steady phase by kind of client, summed over nodes."""
    ways = [
        f"sum({column}) FILTER (direction {'=' if way == 'request' else '!='} 'request')"
        for column in ("requests", "partitions", "bytes")
        for way in ("request", "response")
    ]
    ways += ["sum(record_bytes)", "sum(unknown_size_requests)"]
    is_request = "FILTER (direction = 'request')"
    lists = {"requests": is_request, "partitions": is_request, "bytes": ""}
    blocks = [
        f"[{', '.join(f'coalesce(sum({of}_per_block[{n}]) {only}, 0)' for n in _BLOCKS)}]"
        "[:coalesce(max(len(requests_per_block)), 0)]"
        for of, only in lists.items()
    ]
    return f"""
        SELECT recording, variant, client_kind, {AT},
            {", ".join(f"coalesce({way}, 0)" for way in ways)},
            sum(requests) / sum(requests / span_s),
            {", ".join(blocks)}
        FROM bandwidth_summary
        WHERE rule = '{rule}' AND api_name = 'FETCH' AND parameter IN ('none', '{sweep}')
        GROUP BY ALL"""


def counted(table: str, what: str, also: Mapping[str, str] | None = None) -> str:
    """How many outcomes have each verdict and reason, without sweeps.

    ``what``: SQL for what a row is of. ``also``: conditions, of which rows are counted too.
    """
    counts = [f", count(*) FILTER ({met}) AS {name}" for name, met in (also or {}).items()]
    return f"""
        SELECT recording, variant, {what} AS what, verdict, reason, count(*) AS n{"".join(counts)}
        FROM {table} WHERE {PLAIN} GROUP BY recording, variant, {what}, verdict, reason"""


def broker_config(name: str) -> str:
    """The whole numbers that brokers returned to DESCRIBE_CONFIGS for a config: ``in_force``."""
    return f"""
        SELECT DISTINCT recording, try_cast(value AS BIGINT) AS in_force FROM configs
        WHERE resource_type = 'broker' AND operation = 'describe' AND name = '{name}'
            AND in_force IS NOT NULL
        ORDER BY ALL"""


def as_rows(found: duckdb.DuckDBPyConnection) -> list[Row]:
    columns = [column[0] for column in found.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]


def by_recording(database: duckdb.DuckDBPyConnection, sql: str) -> dict[str, list[Row]]:
    return grouped(as_rows(database.execute(sql)))


def grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["recording"]].append(row)
    return found
