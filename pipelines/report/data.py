"""What the report says, as small plain values: read from the tables, bounded, in a fixed order.

Every query is an aggregation or a summary table: what comes back grows with the number of
recordings, nodes and replicas, never with the length of a log. Only the recordings asked for are
read; every table is partitioned by them. What is read of a rule's outcomes, the module named after
the rule says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import ModuleType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.phases import steady_phases
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.report import accuracy, logs
from kip_replay.pipelines.report.accuracy import Check
from kip_replay.pipelines.report.logs import Logs
from kip_replay.pipelines.report.reading import plain
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
from kip_replay.pipelines.warehouse.tables import WRITERS, Read, Warehouse
from kip_replay.replay.schema import (
    BANDWIDTH_SUMMARY,
    BROKER_HEARTBEATS,
    INGESTED_FILES,
    LATENCY_SUMMARY,
    PREDICTION_ACCURACY,
    REJECTED_LINES,
    REQUESTS,
    Table,
)

_PARTS: Mapping[str, ModuleType] = {
    part.RULE: part for part in (hwm_parking, incremental_fetch, min_isr_acks, lowest_acked_offset)
}
#: Rules that the report can tell of, in the order in which it does.
RULE_NAMES = tuple(_PARTS)
#: Groups of latency_summary that are shown of sweeps, and those shown besides without one.
_SWEPT_GROUPS, _PLAIN_GROUPS = ("all", "replica_kind"), ("node_id", "api_name")

_Query = Callable[[], DataFrame]


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
    """One Spark action for each query; side by side, since starting one costs most."""

    def chosen(table: Table) -> DataFrame:
        return warehouse.read(table).where(F.col("recording").isin([*names]))

    def summed(table: Table) -> DataFrame:
        return chosen(table).where(F.col("rule").isin([*rules]))

    queries: dict[str, _Query] = {}
    for rule in rules:
        for name, query in (
            _PARTS[rule].queries(_of_rule(chosen, rule), _values(chosen, rule)).items()
        ):
            queries[f"{rule}.{name}"] = query
    queries |= {
        "spans": lambda: logs.spans(chosen(REQUESTS)),
        "files": lambda: logs.files(chosen(INGESTED_FILES)),
        "latencies": lambda: summed(LATENCY_SUMMARY).where(_shown_groups()),
        "bandwidth": lambda: summed(BANDWIDTH_SUMMARY).where(F.col("api_name") == "FETCH"),
        "accuracy": lambda: summed(PREDICTION_ACCURACY).where(
            accuracy.shown() & F.col("recorded_in").isin([*names])
        ),
    }
    with ThreadPoolExecutor(WRITERS) as pool:
        found = pool.map(lambda query: query().collect(), queries.values())
        rows: dict[str, list[Row]] = dict(zip(queries, found, strict=True))
    # Logs without a rejected line are the common case, and then there is nothing to ask for.
    any_rejected = any(row["rejected"] for row in rows["files"])
    rows["rejected"] = logs.rejected(chosen(REJECTED_LINES)).collect() if any_rejected else []
    return rows


def _shown_groups() -> Column:
    kind = F.col("group_kind")
    return kind.isin(*_SWEPT_GROUPS) | (plain() & kind.isin(*_PLAIN_GROUPS))


def _of_rule(chosen: Read, rule: str) -> Read:
    """Tables of the recordings at hand, those with a rule cut down to it."""

    def read(table: Table) -> DataFrame:
        rows = chosen(table)
        return rows.where(F.col("rule") == rule) if "rule" in rows.columns else rows

    return read


def _values(chosen: Read, rule: str) -> _Query:
    """The values behind a rule's rows of latency_summary."""

    def values() -> DataFrame:
        latencies = next(steps.latencies for steps in RULES if steps.name == rule)
        if latencies is None:
            raise ValueError(f"{rule} sums up no latencies")
        phases = steady_phases(chosen(REQUESTS), chosen(BROKER_HEARTBEATS))
        return latencies(_of_rule(chosen, rule), phases)

    return values


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
