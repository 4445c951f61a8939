"""What the report says, as small plain values: read from the tables, bounded, in a fixed order.

Every query is an aggregation or a summary table: what comes back grows with the number of
recordings, nodes and replicas, never with the length of a log. Only the recordings asked for are
read; every table is partitioned by them. What is read of a rule's outcomes, the module named after
the rule says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import duckdb
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.report import accuracy, logs
from kip_replay.pipelines.report.accuracy import Check
from kip_replay.pipelines.report.logs import Logs
from kip_replay.pipelines.report.reading import PLAIN
from kip_replay.pipelines.report.values import Row
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.rules.hwm_parking import figures as hwm_parking
from kip_replay.pipelines.rules.hwm_parking.figures import HwmParking
from kip_replay.pipelines.rules.incremental_fetch import figures as incremental_fetch
from kip_replay.pipelines.rules.incremental_fetch.figures import IncrementalFetch
from kip_replay.pipelines.rules.lowest_acked_offset import figures as lowest_acked_offset
from kip_replay.pipelines.rules.lowest_acked_offset.figures import LowestAckedOffset
from kip_replay.pipelines.rules.min_isr_acks import figures as min_isr_acks
from kip_replay.pipelines.rules.min_isr_acks.figures import MinIsrAcks
from kip_replay.pipelines.warehouse.tables import Warehouse

_PARTS: Mapping[str, ModuleType] = {
    part.RULE: part for part in (hwm_parking, incremental_fetch, min_isr_acks, lowest_acked_offset)
}
#: Rules that the report can tell of, in the order in which it does.
RULE_NAMES = tuple(_PARTS)
#: Groups of latency_summary that are shown of sweeps, and those shown besides without one.
_SHOWN_GROUPS = f"""
    (group_kind IN ('all', 'replica_kind') OR {PLAIN} AND group_kind IN ('node_id', 'api_name'))"""


@dataclass(frozen=True)
class RecordingReport:
    """All that the report says of one recording."""

    name: str
    logs: Logs = field(default_factory=Logs)
    hwm_parking: HwmParking = field(default_factory=HwmParking)
    incremental_fetch: IncrementalFetch = field(default_factory=IncrementalFetch)
    min_isr_acks: MinIsrAcks = field(default_factory=MinIsrAcks)
    lowest_acked_offset: LowestAckedOffset = field(default_factory=LowestAckedOffset)


@dataclass(frozen=True)
class Report:
    """All that the report says. ``rules``: those that were replayed."""

    recordings: tuple[RecordingReport, ...]
    checks: tuple[Check, ...] = ()
    rules: tuple[str, ...] = RULE_NAMES


def replayed_rules() -> tuple[str, ...]:
    """Rules that a run replays and that the report can tell of."""
    wired = {steps.name for steps in RULES}
    return tuple(name for name in RULE_NAMES if name in wired)


def read_report(
    warehouse: Warehouse,
    recordings: Sequence[str],
    kafka_versions: Mapping[str, str] | None = None,
) -> Report:
    """The report's content for recordings, in the order given.

    ``kafka_versions``: what manifests say, by recording; shown beside what the logs say.
    Raises UserError if a table is missing or a recording is not in the warehouse.
    """
    names = list(dict.fromkeys(recordings))
    rules = replayed_rules()
    rows = _collected(warehouse, names, rules)
    split = {query: _by_recording(of_all) for query, of_all in rows.items()}
    missing = [name for name in names if name not in split["files"]]
    if missing:
        raise UserError(
            f"recording {missing[0]!r} is not in the warehouse {warehouse.path}: run jobs.run "
            "with it and this --warehouse first"
        )
    stated = kafka_versions or {}
    return Report(
        recordings=tuple(
            _recording(
                name, {query: of.get(name, []) for query, of in split.items()}, rules, stated
            )
            for name in names
        ),
        checks=accuracy.checks(rows["accuracy"], rules, names),
        rules=rules,
    )


def _collected(
    warehouse: Warehouse, names: Sequence[str], rules: Sequence[str]
) -> dict[str, list[Row]]:
    """The rows of each query."""
    queries = {
        f"{rule}.{name}": sql for rule in rules for name, sql in _PARTS[rule].queries().items()
    }
    queries |= {
        "spans": logs.SPANS,
        "files": logs.FILES,
        "rejected": logs.REJECTED,
        "latencies": f"FROM latency_summary WHERE {_SHOWN_GROUPS}",
        "bandwidth": "FROM bandwidth_summary WHERE api_name = 'FETCH'",
        "accuracy": f"FROM prediction_accuracy WHERE {accuracy.SHOWN}",
    }
    with warehouse.database(names) as database:
        rows = {name: _rows(database.execute(sql)) for name, sql in queries.items()}
    for table in ("latencies", "bandwidth", "accuracy"):
        rows[table] = [row for row in rows[table] if row["rule"] in rules]
    rows["accuracy"] = [row for row in rows["accuracy"] if row["recorded_in"] in names]
    return rows


def _rows(found: duckdb.DuckDBPyConnection) -> list[Row]:
    columns = [column[0] for column in found.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]


# --- rows to values ------------------------------------------------------------------------------


def _by_recording(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["recording"], []).append(row)
    return found


def _recording(
    name: str, rows: Mapping[str, list[Row]], rules: Sequence[str], stated: Mapping[str, str]
) -> RecordingReport:
    parts = {rule: _PARTS[rule].from_rows(_rows_of(rows, rule)) for rule in rules}
    return RecordingReport(name=name, logs=logs.from_rows(rows, stated.get(name)), **parts)


def _rows_of(rows: Mapping[str, list[Row]], rule: str) -> dict[str, list[Row]]:
    """A rule's own queries, and its rows of the summaries."""
    mine = {
        query.removeprefix(f"{rule}."): found
        for query, found in rows.items()
        if query.startswith(f"{rule}.")
    }
    return mine | {
        table: [row for row in rows[table] if row["rule"] == rule]
        for table in ("latencies", "bandwidth")
    }
