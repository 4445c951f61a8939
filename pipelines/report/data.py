"""What the report says, as small plain values: read from the tables, bounded, in a fixed order.

Every query is an aggregation or a summary table: what comes back grows with the number of
recordings, nodes and replicas, never with the length of a log. Only the recordings asked for are
read; every table is partitioned by them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from pipelines.errors import UserError
from pipelines.phases import STEADY
from pipelines.summaries import replica_kind
from pipelines.warehouse import WRITERS, Warehouse
from replay.outcomes import RECORDED, Verdict
from replay.rules import HWM_PARKING, WITH_KIP, WITHOUT_KIP, Completion
from replay.schema import (
    BANDWIDTH_SUMMARY,
    FETCH_PARKING_OUTCOMES,
    FETCHES,
    HIGH_WATERMARK_LAG,
    INGESTED_FILES,
    LATENCY_SUMMARY,
    PREDICTION_ACCURACY,
    REJECTED_LINES,
    REQUESTS,
    Table,
)

#: Points of a distribution: one for each half per cent of the values.
CURVE_POINTS = 200
#: Rejected lines shown for each reason, the characters of each, and reasons at most.
EXAMPLES, EXAMPLE_CHARACTERS, MOST_REASONS = 3, 200, 20
#: Kafka versions shown of one node's clients: a client may say anything it likes.
MOST_VERSIONS = 10
ALL_REPLICAS, BROKERS, VOTERS = "all", "broker", "voter"
#: Up to this share of FETCHes (either way) a cluster counts as running one protocol.
MIXED_FROM = 0.01


class Protocol(Enum):
    """Whether the recorded cluster ran KIP-1166, told by what its FETCHes say."""

    WITHOUT = WITHOUT_KIP
    WITH = WITH_KIP
    MIXED = "mixed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Lag:
    """Percentiles of the lag in ms; ``unknown`` values count as the slowest."""

    count: int
    unknown: int
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p999: float | None
    max: float | None


@dataclass(frozen=True)
class Curve:
    """An empirical distribution: (ms, share of all values up to it), rising, at most 200 points.

    ``start_ms`` is the smallest value. Where values are unknown the shares end below 1.
    """

    start_ms: float
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Traffic:
    """FETCHes of the metadata log in the steady phase, summed over leaders."""

    fetches: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    unknown_sizes: int = 0
    span_s: float = 0.0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.fetches + other.fetches,
            self.request_bytes + other.request_bytes,
            self.response_bytes + other.response_bytes,
            self.unknown_sizes + other.unknown_sizes,
            max(self.span_s, other.span_s),
        )

    @property
    def fetches_per_second(self) -> float | None:
        """FETCHes / span; None without a span."""
        return self.fetches / self.span_s if self.span_s > 0 else None

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes of requests and responses / span; None without a span."""
        both = self.request_bytes + self.response_bytes
        return both / self.span_s if self.span_s > 0 else None


@dataclass(frozen=True)
class Figures:
    """What one variant gives, by kind of replica (all, broker, voter)."""

    lag: Mapping[str, Lag] = field(default_factory=dict)
    curve: Mapping[str, Curve] = field(default_factory=dict)
    traffic: Mapping[str, Traffic] = field(default_factory=dict)

    @property
    def total_traffic(self) -> Traffic | None:
        """Over all kinds of replicas; None where nothing was summed."""
        return sum(self.traffic.values(), Traffic()) if self.traffic else None


@dataclass(frozen=True)
class SweepPoint:
    """Both variants under one value of ``max_wait_ms``."""

    max_wait_ms: int
    without_kip: Figures
    with_kip: Figures


@dataclass(frozen=True)
class NodeRead:
    """What was read of one node."""

    node_id: int
    files: int
    bytes_read: int
    lines_read: int
    requests: int
    rejected: int
    repeated: int
    contents: str = ""
    first_at: datetime | None = None
    last_at: datetime | None = None


@dataclass(frozen=True)
class RejectedLine:
    """A line that could not be read, cut."""

    node_id: int
    source_file: str
    line_number: int
    line: str
    line_bytes: int


@dataclass(frozen=True)
class Rejected:
    """The lines rejected for one reason, with the first few of them."""

    reason: str
    count: int
    examples: tuple[RejectedLine, ...]


@dataclass(frozen=True)
class Doubt:
    """Outcomes that were not replayed, and why. ``counts`` by variant."""

    what: str
    phase: str | None
    verdict: str
    reason: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Check:
    """A prediction that a tolerance is set for, beside what was recorded."""

    predicted_from: str
    recorded_in: str
    variant: str
    metric: str
    group_kind: str
    group_value: str
    unit: str
    baseline: float | None
    predicted: float | None
    recorded: float | None
    error: float | None
    tolerance: float
    passed: bool
    sample_count: int
    unknown_count: int

    @property
    def is_self_check(self) -> bool:
        """Predicted from the recording that it is held against."""
        return self.predicted_from == self.recorded_in

    @property
    def baseline_passed(self) -> bool | None:
        """Whether the naive guess is within the tolerance too; None where there is none."""
        if self.baseline is None or self.recorded is None:
            return None
        return abs(self.baseline - self.recorded) <= self.tolerance


@dataclass(frozen=True)
class RecordingReport:
    """All that the report says of one recording."""

    name: str
    protocol: Protocol = Protocol.UNKNOWN
    protocol_share: float = 0.0
    stated_version: str | None = None
    logged_versions: tuple[str, ...] = ()
    nodes: tuple[NodeRead, ...] = ()
    max_wait_ms: tuple[int, int] | None = None
    figures: Mapping[str, Figures] = field(default_factory=dict)
    sweep: tuple[SweepPoint, ...] = ()
    metadata_fetches: int = 0
    judged_answers: int = 0
    unexplained_answers: int = 0
    doubts: tuple[Doubt, ...] = ()
    rejected: tuple[Rejected, ...] = ()

    def of(self, variant: str) -> Figures:
        """The figures of a variant, empty where the tables have none."""
        return self.figures.get(variant, Figures())

    def source_of(self, variant: str) -> str:
        """Where the headline takes a protocol from: what was recorded where the cluster ran it."""
        return RECORDED if self.protocol.value == variant else variant

    @property
    def lag_kind(self) -> str:
        """Whose lag the headlines are about: brokers, else (no broker apart) the voters."""
        kinds = {kind for figures in self.figures.values() for kind in figures.lag}
        return BROKERS if BROKERS in kinds or VOTERS not in kinds else VOTERS

    @property
    def span_s(self) -> float:
        """Seconds of the steady phase; 0 where there was none."""
        spans = [t.span_s for f in self.figures.values() for t in f.traffic.values()]
        return max(spans, default=0.0)

    @property
    def lines_read(self) -> tuple[int, int, int, int]:
        """Lines read, requests, rejected and repeated lines."""
        nodes = self.nodes
        return (
            sum(n.lines_read for n in nodes),
            sum(n.requests for n in nodes),
            sum(n.rejected for n in nodes),
            sum(n.repeated for n in nodes),
        )

    @property
    def contents(self) -> str:
        """16 hex digits over the contents of all files: the same logs have the same."""
        said = "\n".join(f"{n.node_id}:{n.contents}" for n in self.nodes)
        return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Report:
    """All that the report says."""

    recordings: tuple[RecordingReport, ...]
    checks: tuple[Check, ...] = ()


# --- reading -------------------------------------------------------------------------------------

_Rows = Mapping[str, list[Row]]


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
    rows = _collected(warehouse, names)
    stated = kafka_versions or {}
    nodes = _by_recording(rows["files"])
    missing = [name for name in names if name not in nodes]
    if missing:
        raise UserError(
            f"recording {missing[0]!r} is not in the warehouse {warehouse.path}: run jobs.run "
            "with it and this --warehouse first"
        )
    split = {kind: _by_recording(of_all) for kind, of_all in rows.items()}
    return Report(
        recordings=tuple(
            _recording(name, {kind: of.get(name, []) for kind, of in split.items()}, stated)
            for name in names
        ),
        checks=_checks(rows["accuracy"], names),
    )


def _collected(warehouse: Warehouse, names: list[str]) -> dict[str, list[Row]]:
    """One Spark action for each query; side by side, since starting one costs most."""

    def chosen(table: Table) -> DataFrame:
        return warehouse.read(table).where(F.col("recording").isin(names))

    def replayed(table: Table) -> DataFrame:
        return chosen(table).where(F.col("rule") == HWM_PARKING.name)

    queries: dict[str, Callable[[], DataFrame]] = {
        "curves": lambda: _curve_points(replayed(HIGH_WATERMARK_LAG)),
        "requests": lambda: _spans(chosen(REQUESTS)),
        "verdicts": lambda: _verdicts(
            replayed(FETCH_PARKING_OUTCOMES), replayed(HIGH_WATERMARK_LAG)
        ),
        "max_wait": lambda: _max_wait(chosen(FETCHES)),
        "files": lambda: _files(chosen(INGESTED_FILES)),
        "lags": lambda: _lag_summaries(replayed(LATENCY_SUMMARY)),
        "traffic": lambda: replayed(BANDWIDTH_SUMMARY).where(F.col("api_name") == "FETCH"),
        "accuracy": lambda: replayed(PREDICTION_ACCURACY).where(
            F.col("tolerance").isNotNull() & F.col("recorded_in").isin(names)
        ),
    }
    with ThreadPoolExecutor(WRITERS) as pool:
        found = pool.map(lambda query: query().collect(), queries.values())
        rows = dict(zip(queries, found, strict=True))
    # Logs without a rejected line are the common case, and then there is nothing to ask for.
    rejected = any(row["rejected"] for row in rows["files"])
    rows["rejected"] = _rejected(chosen(REJECTED_LINES)).collect() if rejected else []
    return rows


def _plain() -> Column:
    """No sweep."""
    return F.col("parameter") == "none"


def _curve_points(lags: DataFrame) -> DataFrame:
    """At most CURVE_POINTS points of the distribution of each variant and kind of replica.

    Each is exact: the largest value of a slice of the ranks, and how many values it is not below.
    Computed from the histogram of distinct microseconds, so nothing is sorted row by row.
    """
    line = ("recording", "variant", "kind")
    applicable = F.col("verdict") != Verdict.NOT_APPLICABLE.value
    values = lags.where(_plain() & applicable & (F.col("phase") == STEADY)).select(
        "recording",
        "variant",
        replica_kind().alias("kind"),
        F.round(F.col("lag_ms") * 1000).cast("bigint").alias("value_us"),
    )
    histogram = values.groupBy(*line, "value_us").agg(F.count("*").alias("occurs"))
    whole = Window.partitionBy(*line)
    rising = whole.orderBy(F.col("value_us").asc_nulls_last()).rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    ranked = histogram.withColumn("up_to", F.sum("occurs").over(rising)).withColumn(
        "all", F.sum("occurs").over(whole)
    )
    ranks_per_slice = F.expr(f"((up_to - 1) * {CURVE_POINTS}) DIV all")
    return (
        ranked.where(F.col("value_us").isNotNull())
        .groupBy(*line, ranks_per_slice.alias("slice"))
        .agg(
            F.min("value_us").alias("from_us"),
            F.max("value_us").alias("value_us"),
            F.max("up_to").alias("up_to"),
            F.max("all").alias("all"),
        )
    )


def _spans(requests: DataFrame) -> DataFrame:
    """Per node: begin and end of its log, and the versions that Raft clients say of themselves."""
    is_raft_client = F.col("client_id").startswith("raft-client-") & (
        F.col("software_name") == "apache-kafka-java"
    )
    versions = F.collect_set(F.when(is_raft_client, F.col("software_version")))
    return requests.groupBy("recording", "node_id").agg(
        # As integers: a timestamp would be shown in this machine's zone.
        F.unix_micros(F.min("received_at")).alias("first_us"),
        F.unix_micros(F.max("completed_at")).alias("last_us"),
        F.slice(F.sort_array(versions), 1, MOST_VERSIONS).alias("versions"),
    )


def _verdicts(outcomes: DataFrame, lags: DataFrame) -> DataFrame:
    """How many answers and advances were replayed, did not apply or are unknown, and why."""
    nothing = F.lit(None).cast("string")
    answers = outcomes.where(_plain()).select(
        F.lit("answers").alias("what"),
        *("recording", "variant", "verdict", "reason"),
        nothing.alias("phase"),
        F.col("completion"),
        F.col("replica_high_watermark").isNotNull().cast("bigint").alias("says_high_watermark"),
    )
    advances = lags.where(_plain()).select(
        F.lit("advances").alias("what"),
        *("recording", "variant", "verdict", "reason"),
        F.col("phase"),
        nothing.alias("completion"),
        F.lit(0).cast("bigint").alias("says_high_watermark"),
    )
    group = ("what", "recording", "variant", "verdict", "reason", "phase", "completion")
    return (
        answers.unionByName(advances)
        .groupBy(*group)
        .agg(F.count("*").alias("n"), F.sum("says_high_watermark").alias("says"))
    )


def _max_wait(fetches: DataFrame) -> DataFrame:
    return (
        fetches.where(F.col("is_cluster_metadata"))
        .groupBy("recording")
        .agg(F.min("max_wait_ms").alias("least"), F.max("max_wait_ms").alias("most"))
    )


def _files(ingested: DataFrame) -> DataFrame:
    sums = ("bytes_read", "lines_read", "requests", "rejected", "repeated")
    return ingested.groupBy("recording", "node_id").agg(
        F.count("*").alias("files"),
        *(F.sum(name).alias(name) for name in sums),
        F.md5(F.concat_ws(",", F.sort_array(F.collect_set("content_hash")))).alias("contents"),
    )


def _lag_summaries(latencies: DataFrame) -> DataFrame:
    return latencies.where(
        (F.col("metric") == "high_watermark_lag")
        & F.col("group_kind").isin("all", "replica_kind")
        & F.col("parameter").isin("none", "max_wait_ms")
    )


def _rejected(lines: DataFrame) -> DataFrame:
    """Per recording and reason how many, and the first EXAMPLES of them."""
    of_reason = Window.partitionBy("recording", "reason")
    first = of_reason.orderBy("node_id", "source_file", "line_number", "line_id")
    return lines.select(
        *("recording", "reason", "node_id", "source_file", "line_number", "line_bytes"),
        F.substring("line", 1, EXAMPLE_CHARACTERS).alias("line"),
        F.row_number().over(first).alias("rank"),
        F.count("*").over(of_reason).alias("n"),
    ).where(F.col("rank") <= EXAMPLES)


# --- rows to values ------------------------------------------------------------------------------


def _by_recording(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["recording"], []).append(row)
    return found


def _recording(name: str, rows: _Rows, stated: Mapping[str, str]) -> RecordingReport:
    answers = [r for r in rows["verdicts"] if r["what"] == "answers" and r["variant"] == RECORDED]
    judged = [r for r in answers if r["verdict"] != Verdict.NOT_APPLICABLE.value]
    unexplained = [r for r in judged if r["completion"] == Completion.UNEXPLAINED.value]
    share = sum(r["says"] for r in answers) / max(1, sum(r["n"] for r in answers))
    waits = rows["max_wait"]
    return RecordingReport(
        name=name,
        protocol=protocol_of(share) if answers else Protocol.UNKNOWN,
        protocol_share=share,
        stated_version=stated.get(name),
        logged_versions=tuple(sorted({v for r in rows["requests"] for v in r["versions"]})),
        nodes=_nodes(rows),
        max_wait_ms=(waits[0]["least"], waits[0]["most"]) if waits else None,
        figures=_figures(rows, "none", "none"),
        sweep=_sweep(rows),
        metadata_fetches=sum(r["n"] for r in answers),
        judged_answers=sum(r["n"] for r in judged),
        unexplained_answers=sum(r["n"] for r in unexplained),
        doubts=_doubts(rows["verdicts"]),
        rejected=_rejected_by_reason(rows["rejected"]),
    )


def protocol_of(share: float) -> Protocol:
    """The protocol of a cluster of whose FETCHes this share says a high watermark (v18)."""
    if share <= MIXED_FROM:
        return Protocol.WITHOUT
    return Protocol.WITH if share >= 1 - MIXED_FROM else Protocol.MIXED


def _nodes(rows: _Rows) -> tuple[NodeRead, ...]:
    spans = {row["node_id"]: row for row in rows["requests"]}
    sums = ("files", "bytes_read", "lines_read", "requests", "rejected", "repeated", "contents")
    found = []
    for row in sorted(rows["files"], key=lambda r: r["node_id"]):
        span = spans.get(row["node_id"])
        found.append(
            NodeRead(
                node_id=row["node_id"],
                **{name: row[name] for name in sums},
                first_at=_utc(span["first_us"]) if span else None,
                last_at=_utc(span["last_us"]) if span else None,
            )
        )
    return tuple(found)


def _utc(micros: int) -> datetime:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)


def _figures(rows: _Rows, parameter: str, value: str) -> dict[str, Figures]:
    def chosen(kind: str) -> list[Row]:
        return [
            r for r in rows[kind] if r["parameter"] == parameter and r["parameter_value"] == value
        ]

    lags, traffic = chosen("lags"), chosen("traffic")
    curves = rows["curves"] if parameter == "none" else []
    variants = sorted({row["variant"] for row in (*lags, *traffic)})
    return {
        variant: Figures(
            lag={row["group_value"]: _lag(row) for row in _of(lags, variant)},
            curve=_curves(_of(curves, variant)),
            traffic=_traffic(_of(traffic, variant)),
        )
        for variant in variants
    }


def _of(rows: Iterable[Row], variant: str) -> list[Row]:
    return [row for row in rows if row["variant"] == variant]


def _lag(row: Row) -> Lag:
    percentiles = ("p50", "p90", "p95", "p99", "p999", "max")
    return Lag(row["count"], row["unknown_count"], **{p: row[f"{p}_ms"] for p in percentiles})


def _curves(rows: Iterable[Row]) -> dict[str, Curve]:
    by_kind: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda r: (r["kind"], r["value_us"])):
        by_kind.setdefault(row["kind"], []).append(row)
    return {
        kind: Curve(
            found[0]["from_us"] / 1000,
            tuple((row["value_us"] / 1000, row["up_to"] / row["all"]) for row in found),
        )
        for kind, found in by_kind.items()
    }


def _traffic(rows: Iterable[Row]) -> dict[str, Traffic]:
    found: dict[str, Traffic] = {}
    for row in rows:
        asked = row["direction"] == "request"
        part = Traffic(
            # Each FETCH is counted once: with its request.
            fetches=row["requests"] if asked else 0,
            request_bytes=row["bytes"] if asked else 0,
            response_bytes=0 if asked else row["bytes"],
            unknown_sizes=row["unknown_size_requests"],
            span_s=row["span_s"],
        )
        found[row["client_kind"]] = found.get(row["client_kind"], Traffic()) + part
    return dict(sorted(found.items()))


def _sweep(rows: _Rows) -> tuple[SweepPoint, ...]:
    values = {
        row["parameter_value"]
        for row in (*rows["lags"], *rows["traffic"])
        if row["parameter"] == "max_wait_ms"
    }
    points = []
    for value in sorted(values, key=int):
        figures = _figures(rows, "max_wait_ms", value)
        points.append(
            SweepPoint(
                int(value),
                figures.get(WITHOUT_KIP, Figures()),
                figures.get(WITH_KIP, Figures()),
            )
        )
    return tuple(points)


def _doubts(rows: Iterable[Row]) -> tuple[Doubt, ...]:
    counts: dict[tuple[str, str, str, str], dict[str, int]] = {}
    for row in rows:
        if row["verdict"] != Verdict.REPLAYED.value:
            key = (row["what"], row["verdict"], row["reason"] or "", row["phase"] or "")
            of_variant = counts.setdefault(key, {})
            of_variant[row["variant"]] = of_variant.get(row["variant"], 0) + row["n"]
    return tuple(
        Doubt(what, phase or None, verdict, reason, found)
        for (what, verdict, reason, phase), found in sorted(counts.items())
    )


def _rejected_by_reason(rows: Iterable[Row]) -> tuple[Rejected, ...]:
    by_reason: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda r: r["rank"]):
        by_reason.setdefault(row["reason"] or "", []).append(row)
    every = [
        Rejected(reason, found[0]["n"], tuple(_rejected_line(row) for row in found))
        for reason, found in by_reason.items()
    ]
    every.sort(key=lambda rejected: (-rejected.count, rejected.reason))
    return tuple(every[:MOST_REASONS])


def _rejected_line(row: Row) -> RejectedLine:
    return RejectedLine(
        row["node_id"],
        row["source_file"] or "",
        row["line_number"],
        row["line"] or "",
        row["line_bytes"] or 0,
    )


def _checks(rows: Iterable[Row], names: list[str]) -> tuple[Check, ...]:
    """Self-checks first, then pairs in the order of the recordings, each by metric."""
    place = {name: number for number, name in enumerate(names)}
    fields = tuple(Check.__dataclass_fields__)
    checks = [Check(**{name: row[name] for name in fields}) for row in rows]

    def order(check: Check) -> tuple[Any, ...]:
        return (
            not check.is_self_check,
            place[check.predicted_from],
            place[check.recorded_in],
            check.variant,
            check.metric,
            check.group_kind,
            # Replica ids by number and not as text.
            check.group_value.zfill(12),
        )

    return tuple(sorted(checks, key=order))
