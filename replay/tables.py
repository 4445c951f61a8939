"""Tables of summaries, checks and bookkeeping, and the list of all tables of the warehouse."""

import pyarrow as pa

from .log_tables import HELD_TABLES, LOG_GAPS, LOG_TABLES, OBSERVATIONS
from .rules import RULES
from .table import AT, BOOL, INT, LONG, MS, RECORDING, TEXT, Column, Required, Table

#: Of what a figure is.
_GROUP = (
    Required("metric", TEXT, "what is measured"),
    Required("group_kind", TEXT, "what the group is: replica_kind, replica_id, ..."),
    Required("group_value", TEXT, "which one"),
)

LATENCY_SUMMARY = Table.of_outcomes(
    "latency_summary",
    "Latencies per metric and group, exact percentiles of integer microseconds",
    (
        *_GROUP,
        Column("count", LONG, "values"),
        Column("unknown_count", LONG, "rows without a value, never counted as small"),
        Column("mean_ms", MS, "sum of integer microseconds / count"),
        *(
            Column(f"p{q}_ms", MS, f"at rank floor(0.{q} * (n - 1)), the unknown ranked last")
            for q in (50, 90, 95, 99, 999)
        ),
        Column("max_ms", MS, "largest"),
        *(
            Column(f"p{q}_{end}_ms", MS, f"{end} end of the 90 % interval; null: too little data")
            for q in (50, 90, 99)
            for end in ("low", "high")
        ),
    ),
    key=("metric", "group_kind", "group_value"),
    verdict=False,
)

LATENCY_HISTOGRAMS = Table.of_outcomes(
    "latency_histograms",
    "How often each latency occurs: what latency_summary is made of, and a growing log adds to",
    (
        *_GROUP,
        Required("block_us", LONG, "length of a block of clock time; 0: one block is all the time"),
        Required("block", LONG, "which block: microseconds since 1970 // block_us"),
        Column(
            "counts",
            pa.list_(pa.struct([("value_us", LONG), ("occurs", LONG)])),
            "each value, in order, and how often it occurs; null: rows without a value",
        ),
    ),
    key=("metric", "group_kind", "group_value", "block"),
    verdict=False,
)

LATENCY_CURVES = Table.of_outcomes(
    "latency_curves",
    "Distributions of latencies: at most 200 points of each, as exact as latency_summary",
    (
        *_GROUP,
        Required("value_us", LONG, "the largest value of a slice of the ranks"),
        Column("from_us", LONG, "the least value of the slice"),
        Column("up_to", LONG, "how many values are not above value_us"),
        Column("total", LONG, "how many values there are, the unknown included"),
    ),
    key=("metric", "group_kind", "group_value", "value_us"),
    verdict=False,
)

BANDWIDTH_SUMMARY = Table.of_outcomes(
    "bandwidth_summary",
    "Requests and bytes on the wire per API, node, kind of client and direction, steady phase",
    (
        Required("api_name", TEXT, "API"),
        Required("node_id", INT, "node that got the request"),
        Required("client_kind", TEXT, "voter, broker, follower, consumer, ..."),
        Required("direction", TEXT, "request or response"),
        Column("requests", LONG, "requests"),
        Column("partitions", LONG, "partitions in them; those of unknown size count nothing"),
        Column("bytes", LONG, "bytes on the wire; those of unknown size count nothing"),
        Column("unknown_size_requests", LONG, "requests whose size a variant does not know"),
        Column("record_bytes", LONG, "bytes of records in them"),
        Column("overhead_bytes", LONG, "bytes - record_bytes"),
        Column("span_s", MS, "seconds of the steady phase, less gaps in the node's log"),
        Column("requests_per_second", MS, "requests / span_s"),
        Column("bytes_per_second", MS, "bytes / span_s"),
        Column("requests_per_block", pa.list_(LONG), "in each block of the phase, 32 at most"),
        Column("partitions_per_block", pa.list_(LONG), "partitions likewise"),
        Column("bytes_per_block", pa.list_(LONG), "bytes likewise"),
        Column("seconds_per_block", pa.list_(MS), "of span_s in each block"),
    ),
    key=("api_name", "node_id", "client_kind", "direction"),
    verdict=False,
)

PAIRED_DIFFERENCES = Table(
    "paired_differences",
    "What becomes of a figure from one variant to another, in the same blocks of time; a percentile"
    " has a row with three values or more beyond it",
    (
        RECORDING,
        Required("rule", TEXT, "name of the rule"),
        Required("metric", TEXT, "of latency_summary; of traffic: fetches, bytes, partitions"),
        Required("figure", TEXT, "p50, p90, p99; of traffic: per_second, mean (of a FETCH)"),
        *_GROUP[1:],
        Required("before_variant", TEXT, "variant that is compared"),
        Required("after_variant", TEXT, "variant that it is compared with"),
        Column("unit", TEXT, "ms, /s, B/s or partitions"),
        Column("before", MS, "the figure under before_variant; null: unknown"),
        Column("after", MS, "under after_variant"),
        Column("low", MS, "low end of the 90 % interval of after - before; null: too little data"),
        Column("high", MS, "high end"),
        Column("count", LONG, "values known under both, FETCHes of traffic"),
        Column("unknown_count", LONG, "the most that are unknown under either"),
    ),
    key=(
        *("recording", "rule", "metric", "figure", "group_kind", "group_value"),
        *("before_variant", "after_variant"),
    ),
)

PREDICTION_ACCURACY = Table.of_outcomes(
    "prediction_accuracy",
    "Each prediction beside what real brokers did",
    (
        Required("predicted_from", TEXT, "recording the prediction was made from"),
        Required("recorded_in", TEXT, "recording it is held against; the same for a self-check"),
        *_GROUP,
        Column("kind", TEXT, "other_cluster, self_check, bound, draft or two_runs: never added up"),
        Column("unit", TEXT, "unit of predicted, recorded, error and tolerance"),
        Column("baseline", MS, "what a constant or a naive guess gives"),
        Column("predicted", MS, "the replay's figure; of two_runs what predicted_from has"),
        Column("recorded", MS, "what the brokers did"),
        Column("error", MS, "predicted - recorded"),
        Column("relative_error", MS, "error / recorded"),
        Column("tolerance", MS, "largest |error| that passes, in the unit; null for none set"),
        Column("passed", BOOL, "|error| <= tolerance"),
        Column("sample_count", LONG, "values behind predicted"),
        Column("unknown_count", LONG, "outcomes that were unknown: each counts as a miss"),
        Column("is_enough", BOOL, "30 values or more, of recordings with 10 s or more"),
    ),
    key=("predicted_from", "recorded_in", "metric", "group_kind", "group_value"),
    verdict=False,
)

#: What a change does to a figure, as in ``headlines``.
_EFFECT = pa.struct(
    [("figure", TEXT), ("unit", TEXT), *((name, MS) for name in ("before", "after", "low", "high"))]
)

HEADLINES = Table(
    "headlines",
    "The figures that decisions rest on: what each rule's change does to them in a recording",
    (
        RECORDING,
        Required("rule", TEXT, "rule"),
        Required("figure", TEXT, "metric and percentile, or rate"),
        Required("role", TEXT, "gain or price"),
        Column("place", INT, "its place among those of the rule, from 0"),
        Column("unit", TEXT, "ms, /s, B/s"),
        Column("group_kind", TEXT, "what it is of, as in latency_summary: all, replica_kind, ..."),
        Column("group_value", TEXT, "which one"),
        Column("before_variant", TEXT, "a protocol that was replayed, or none"),
        Column("after_variant", TEXT, "likewise, with the change"),
        Column("before", MS, "the figure without the change; null: too many unknown"),
        Column("after", MS, "the figure with it"),
        Column("low", MS, "low end of the 90 % interval of after - before; null: too little data"),
        Column("high", MS, "high end"),
        Column("count", LONG, "values behind it"),
        Column("unknown_count", LONG, "those that are unknown: as the slowest, or without bytes"),
        Column(
            "limit_name",
            TEXT,
            "setting or fact that is the least gain or the highest price",
        ),
        Column("limit", MS, "its value"),
        Column("self_check", TEXT, "metric of prediction_accuracy that checks the prediction"),
        Column("self_checks", LONG, "self-checks of it in this recording, with enough values"),
        Column("self_checks_passed", LONG, "those within their tolerance"),
        Column("self_check_error", MS, "largest relative error of the others; widens the interval"),
    ),
    key=("recording", "rule", "figure"),
)

DECISIONS = Table(
    "decisions",
    "What to do about each rule in a recording, and why; sentences are in the rule's page.toml",
    (
        RECORDING,
        Required("rule", TEXT, "rule"),
        Required(
            "advice",
            TEXT,
            "do it, don't, already in use, in no release yet, not enough data, or withheld",
        ),
        Required("reason", TEXT, "code of the reason"),
        Column("facts", pa.map_(TEXT, TEXT), "what was counted, and what the reason names"),
        Column("gain", _EFFECT, "what it gains; null: not known"),
        Column("price", pa.list_(_EFFECT), "what it costs"),
        Column("paste", TEXT, "lines to paste where the advice is to do it"),
        Column("rests_on", pa.list_(TEXT), "limits with their settings, and self-checks"),
    ),
    key=("recording", "rule"),
)

QUALITY_RESULTS = Table(
    "quality_results",
    "What is expected of the tables, and whether it is so",
    (
        RECORDING,
        Required("suite", TEXT, "suite of the expectation: bronze, outcomes, summaries, ..."),
        Required("table_name", TEXT, "table that it is of"),
        Required("expectation", TEXT, "its name in the suite"),
        Column("column_name", TEXT, "column that it is of, if of one"),
        Column("severity", TEXT, "info, warning or critical: what it means that rows fail"),
        Column("success", BOOL, "no row failed"),
        Column("observed", TEXT, "what was seen, in words"),
        Column("failing_rows", LONG, "rows that failed; of a query, the rows that it gave"),
        Column("rows_checked", LONG, "rows of the recording in the table"),
        Column("says", TEXT, "what is expected, in words"),
    ),
    key=("recording", "suite", "table_name", "expectation"),
)

QUALITY_FAILURES = Table(
    "quality_failures",
    "The first rows that failed an expectation, to look at; quality_results says how many failed",
    (
        RECORDING,
        Required("suite", TEXT, "suite of the expectation"),
        Required("table_name", TEXT, "table that it is of"),
        Required("expectation", TEXT, "its name in the suite"),
        Required("number", INT, "from 1, in the order of failing_row"),
        Column("failing_row", TEXT, "JSON: its key and what helps to see why, or the query's row"),
    ),
    key=("recording", "suite", "table_name", "expectation", "number"),
)

REPLAY_STATE = Table(
    "replay_state",
    "What a rule carries from one increment of the log to the next",
    (
        RECORDING,
        Required("rule", TEXT, "rule"),
        Required("state_key", TEXT, "replay key, e.g. the leader's node id"),
        Required("as_of", AT, "built_at of the last request fed"),
        Column("state", pa.binary(), "the state, MessagePack"),
        Column("fingerprint", TEXT, "rule and configuration it belongs to"),
        Column("checksum", TEXT, "of the other columns: a state that was altered is not resumed"),
    ),
    key=("recording", "rule", "state_key", "as_of"),
)

LINEAGE = Table(
    "lineage",
    "What the rows of each step follow from; a step that is being written, or was killed, has none",
    (
        RECORDING,
        Required("step", TEXT, "a rule, summaries, accuracy/<recording>, quality, ..."),
        Column("follows_from", TEXT, "fingerprint of its code, its settings and what it read"),
        Column("committed_at", AT, "after the step's last write"),
        Column(
            "row_counts",
            pa.list_(pa.struct([("table_name", TEXT), ("rows", LONG)])),
            "rows of the recording in each table that only this step writes, at its last write;"
            " of replay_state those of the step",
        ),
    ),
    key=("recording", "step"),
)

CLOCK_BOUNDS = Table(
    "clock_bounds",
    "How far each node's clock was ahead of that of the active controller, as the logs bound it",
    (
        RECORDING,
        Required("node_id", INT, "the node"),
        Required("reference_id", INT, "the controller that responded to most heartbeats"),
        Column("offset_earliest_ms", MS, "ahead by at least; negative: behind; null: no bound"),
        Column("offset_latest_ms", MS, "ahead by at most; null: no bound"),
        Required(
            "clocks",
            TEXT,
            "same: as far as the bounds show; differ: certainly; contradicted: no offset that stays"
            " the same explains the logs; not_bounded: a bound is missing",
        ),
        Column("is_compared", BOOL, "outcomes compare its times with other nodes'"),
        Column("forwarded_pairs", LONG, "writes forwarded from or to it, there and back"),
        Column("image_pairs", LONG, "metadata images held against heartbeats and FETCHes"),
        Column("topic_pairs", LONG, "new topics in METADATA held against their creation"),
    ),
    key=("recording", "node_id", "reference_id"),
)

_OF_RULES = (table for rule in RULES.values() for table in rule.tables)
_DECIDED = (HEADLINES, DECISIONS)
_SUMS = (
    LATENCY_SUMMARY,
    LATENCY_HISTOGRAMS,
    LATENCY_CURVES,
    BANDWIDTH_SUMMARY,
    PAIRED_DIFFERENCES,
    PREDICTION_ACCURACY,
)
_CHECKS = (QUALITY_RESULTS, QUALITY_FAILURES, REPLAY_STATE, CLOCK_BOUNDS, LINEAGE)
_ALL = (
    *LOG_TABLES,
    *OBSERVATIONS,
    LOG_GAPS,
    *HELD_TABLES,
    *_OF_RULES,
    *_SUMS,
    *_DECIDED,
    *_CHECKS,
)
TABLES = {table.name: table for table in _ALL}
