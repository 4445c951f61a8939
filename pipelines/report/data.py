"""What the report prints, read from the tables: bounded, and in a fixed order.

Every query sums up, so the rows grow with recordings, nodes and replicas, not with a log's length.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from kip_replay.pipelines.analysis.intervals import Interval
from kip_replay.pipelines.analysis.views import create_views, in_order, read_views
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.page import accuracy, reading
from kip_replay.pipelines.page.accuracy import Check
from kip_replay.pipelines.page.values import Curve, Percentiles, Row, RuleFigures, Traffic
from kip_replay.pipelines.page.view import Beside, Block, Chart, Slowest, Timeline
from kip_replay.pipelines.report import logs
from kip_replay.pipelines.report.bandwidth import Bandwidth, bandwidths, variants
from kip_replay.pipelines.report.logs import Logs
from kip_replay.pipelines.report.timeline import timelines, traffic_timeline
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import LOG_GAPS
from kip_replay.replay.tables import TABLES

#: Checks that failed and matter, the worst first; what voters call their cluster; the nodes that
#: the rates of each rule are sums over; brokers; rules of which not everything is final yet, since
#: the logs still grow (what an increment follows from has several parts).
QUERIES = (
    """
        SELECT recording, table_name, expectation, severity, failing_rows, says
        FROM quality_results WHERE NOT success AND severity IN ('critical', 'warning')
        ORDER BY recording, severity, table_name, expectation""",
    """
        SELECT DISTINCT recording, cluster_id FROM fetches
        WHERE is_cluster_metadata AND cluster_id IS NOT NULL ORDER BY ALL LIMIT 100""",
    "SELECT DISTINCT recording, rule, node_id FROM bandwidth_summary ORDER BY ALL",
    "SELECT DISTINCT recording, broker_id FROM broker_heartbeats ORDER BY ALL",
    "SELECT recording, step AS rule FROM lineage WHERE follows_from LIKE '% % % %'",
)


@dataclass(frozen=True)
class Report:
    """Logs of the recordings; their figures and the accuracy of predictions by rule.

    ``failures`` to ``growing``: rows of ``QUERIES`` by recording.
    """

    logs: Sequence[Logs]
    figures: Mapping[str, Sequence[RuleFigures]]
    checks: Sequence[Check] = ()
    failures: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    clusters: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    summed: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    brokers: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    growing: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    #: By rule and recording.
    over_time: Mapping[tuple[str, str], Sequence[Chart]] = field(default_factory=dict)
    slowest: Mapping[tuple[str, str], Slowest] = field(default_factory=dict)
    #: By recording: who sends what.
    traffic: Mapping[str, Sequence[Block]] = field(default_factory=dict)

    @property
    def compared(self) -> list[list[str]]:
        """Recordings that are held against each other together, the others each alone."""
        together = {one.recording: [one.recording] for one in self.logs}
        for check in self.checks:
            one, other = together[check.predicted_from], together[check.recorded_in]
            if one is not other:
                one += other
                together |= dict.fromkeys(other, one)
        order = [*together]
        groups = {id(names): sorted(names, key=order.index) for names in together.values()}
        return [*groups.values()]


def read_report(
    warehouse: Warehouse,
    recordings: Sequence[str],
    kafka_versions: Mapping[str, str] | None = None,
    is_drawn: bool = True,
) -> Report:
    """The report's content for recordings, in the order given.

    ``kafka_versions``: what manifests say, by recording; shown beside what the logs say.
    ``is_drawn``: with what happens over time, who sends what, and what was slowest.
    Raises UserError if a recording is not in the warehouse.
    """
    names = list(dict.fromkeys(recordings))
    rules = {steps.name: steps.figures for steps in RULES}
    with warehouse.database(names) as database:
        files = reading.by_recording(database, logs.FILES)
        missing = [name for name in names if name not in files]
        if missing:
            raise UserError(
                f"recording {missing[0]!r} is not in the warehouse {warehouse.path}: run "
                "`kip-replay run` with it and this --warehouse first"
            )
        others = [reading.by_recording(database, sql) for sql in (logs.REJECTED, logs.CLOCKS)]
        others.append(reading.grouped(warehouse.rows(LOG_GAPS, names).to_pylist()))
        stated = kafka_versions or {}
        read = [Logs(n, stated.get(n), files[n], *(of.get(n, []) for of in others)) for n in names]
        figures = {r: rule_figures(database, k, read) for r, k in rules.items()}
        rows = reading.as_rows(database.execute(accuracy.query()))
        checks = accuracy.checks(rows, [*rules], names)
        found: Any = (reading.by_recording(database, sql) for sql in QUERIES)
        report = Report(read, figures, checks, *found)
        return _drawn(database, report, names) if is_drawn else report


def _drawn(database: duckdb.DuckDBPyConnection, report: Report, names: Sequence[str]) -> Report:
    create_views(database, in_order(read_views(), TABLES))
    seen: set[str] = set()
    over_time: dict[tuple[str, str], Sequence[Chart]] = {}
    slowest: dict[tuple[str, str], Slowest] = {}
    for steps in RULES:
        for name in names:
            drawn = timelines(database, Timeline.of(steps.name), name)
            over_time[steps.name, name] = [_listed(chart, seen, name) for chart in drawn]
        found = steps.slowest(database) if steps.slowest else {}
        slowest |= {(steps.name, name): of for name, of in found.items()}
    sent = bandwidths(database)
    traffic = {name: _traffic_blocks(database, name, sent, report.figures, seen) for name in names}
    return replace(report, over_time=over_time, slowest=slowest, traffic=traffic)


def _traffic_blocks(
    database: duckdb.DuckDBPyConnection,
    name: str,
    sent: Mapping[str, Bandwidth],
    figures: Mapping[str, Sequence[RuleFigures]],
    seen: set[str],
) -> list[Block]:
    """Who sends what in a recording: in all, with each rule's variants, and over time."""
    mine = [one for every in figures.values() for one in every if one.recording == name]
    pictures = sent[name].pictures if name in sent else []
    drawn = (_listed(chart, seen, name) for chart in traffic_timeline(database, name))
    return [Beside([*pictures, *variants(mine)]), *drawn]


def _listed(chart: Chart, seen: set[str], recording: str) -> Chart:
    """Of the charts over time of a recording only the first lists what all of them mark."""
    is_first = recording not in seen
    seen.add(recording)
    return replace(chart, lists_marks=is_first)


def rule_figures(
    database: duckdb.DuckDBPyConnection, kind: type[RuleFigures], recordings: Iterable[Logs]
) -> list[RuleFigures]:
    """The figures of a rule in each recording: the summaries, and its QUERIES by name."""
    spreads = _tuples(database, reading.spreads(kind.NAME, kind.SWEEP))
    curves = _tuples(database, reading.curves(kind.NAME))
    traffic = _tuples(database, reading.traffic(kind.NAME, kind.SWEEP))
    rows = {query: reading.by_recording(database, sql) for query, sql in kind.QUERIES.items()}
    return [
        kind(
            one.recording,
            one.version,
            {row[:5]: _percentiles(row) for row in spreads.get(one.recording, ())},
            {r[:3]: Curve(r[3], tuple(map(tuple, r[4]))) for r in curves.get(one.recording, ())},
            {row[:3]: _traffic(row[3:]) for row in traffic.get(one.recording, ())},
            {query: found.get(one.recording, []) for query, found in rows.items()},
        )
        for one in recordings
    ]


def _percentiles(row: Sequence[Any]) -> Percentiles:
    ends = iter(row[11:])
    intervals = {
        name: None if low is None else Interval(low, high)
        for name, low, high in zip(("p50", "p90", "p99"), ends, ends, strict=False)
    }
    return Percentiles(*row[5:11], intervals)


def _traffic(row: Sequence[Any]) -> Traffic:
    return replace(Traffic(*row[:-3]), per_block=tuple(map(tuple, row[-3:])))


def _tuples(database: duckdb.DuckDBPyConnection, sql: str) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for recording, *row in database.execute(sql).fetchall():
        found[recording].append(tuple(row))
    return found
