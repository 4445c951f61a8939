"""Tables of summaries, checks and bookkeeping, and the list of all tables of the warehouse."""

from .log_tables import HELD_TABLES, LOG_TABLES, LogGaps
from .records import Record, RecordingKey, WhatIf
from .rules import RULES
from .table import (
    At,
    Bool,
    Bytes,
    Int,
    Long,
    Longs,
    ManyMs,
    Map,
    Ms,
    RequiredAt,
    RequiredBool,
    RequiredInt,
    RequiredLong,
    RequiredText,
    Struct,
    Structs,
    Text,
    Texts,
    column,
    key,
    struct,
)

#: Version of the package, raised with any table: a warehouse's tables name the one that made them.
VERSION = "0.4.0"


class Group(Record):
    """The columns that say of what a figure is: its metric, and the group of rows behind it."""

    metric: RequiredText = key("what is measured")
    group_kind: RequiredText = key("what the group is: replica_kind, replica_id, ...")
    group_value: RequiredText = key("which one")


class LatencySummary(Record, name="latency_summary", shares=(WhatIf, Group)):
    """Latencies per metric and group, exact percentiles of integer microseconds."""

    count: Long = column("values")
    unknown_count: Long = column("rows without a value, never counted as small")
    mean_ms: Ms = column("sum of integer microseconds / count")
    p50_ms: Ms = column("at rank floor(0.50 * (n - 1)), the unknown ranked last")
    p90_ms: Ms = column("at rank floor(0.90 * (n - 1)), the unknown ranked last")
    p95_ms: Ms = column("at rank floor(0.95 * (n - 1)), the unknown ranked last")
    p99_ms: Ms = column("at rank floor(0.99 * (n - 1)), the unknown ranked last")
    p999_ms: Ms = column("at rank floor(0.999 * (n - 1)), the unknown ranked last")
    max_ms: Ms = column("largest")
    p50_low_ms: Ms = column("low end of the 90 % interval; null: too little data")
    p50_high_ms: Ms = column("high end of the 90 % interval; null: too little data")
    p90_low_ms: Ms = column("low end of the 90 % interval; null: too little data")
    p90_high_ms: Ms = column("high end of the 90 % interval; null: too little data")
    p99_low_ms: Ms = column("low end of the 90 % interval; null: too little data")
    p99_high_ms: Ms = column("high end of the 90 % interval; null: too little data")


class LatencyHistograms(Record, name="latency_histograms", shares=(WhatIf, Group)):
    """How often each latency occurs: latency_summary follows from it, a growing log adds to it."""

    block_us: RequiredLong = column("length of a block of clock time; 0: one block is all the time")
    block: RequiredLong = key("which block: microseconds since 1970 // block_us")
    counts: Structs = column(
        "each value, in order, and how often it occurs; null: rows without a value",
        struct("value_us int64, occurs int64"),
    )


class LatencyCurves(Record, name="latency_curves", shares=(WhatIf, Group)):
    """Distributions of latencies: at most 200 points of each, as exact as latency_summary."""

    value_us: RequiredLong = key("the largest value of a slice of the ranks")
    from_us: Long = column("the least value of the slice")
    up_to: Long = column("how many values are not above value_us")
    total: Long = column("how many values there are, the unknown included")


class BandwidthSummary(Record, name="bandwidth_summary", shares=(WhatIf,)):
    """Requests and bytes on the wire in the steady phase, per API, node, client kind, direction."""

    api_name: RequiredText = key("API")
    node_id: RequiredInt = key("node that got the request")
    client_kind: RequiredText = key("voter, broker, follower, consumer, ...")
    direction: RequiredText = key("request or response")
    requests: Long = column("requests")
    partitions: Long = column("partitions in them; those of unknown size count nothing")
    bytes: Long = column("bytes on the wire; those of unknown size count nothing")
    unknown_size_requests: Long = column("requests whose size a variant does not know")
    record_bytes: Long = column("bytes of records in them")
    overhead_bytes: Long = column("bytes - record_bytes")
    span_s: Ms = column("seconds of the steady phase, less gaps in the node's log")
    requests_per_second: Ms = column("requests / span_s")
    bytes_per_second: Ms = column("bytes / span_s")
    requests_per_block: Longs = column("in each block of the phase, 32 at most")
    partitions_per_block: Longs = column("partitions likewise")
    bytes_per_block: Longs = column("bytes likewise")
    seconds_per_block: ManyMs = column("of span_s in each block")


class PairedDifferences(Record, name="paired_differences", shares=(RecordingKey,)):
    """Differences of a figure between two variants, in the same blocks of time; a percentile only
    has a row where three values or more are beyond it.
    """

    rule: RequiredText = key("name of the rule")
    metric: RequiredText = key("of latency_summary; of traffic: fetches, bytes, partitions")
    figure: RequiredText = key("p50, p90, p99; of traffic: per_second, mean (of a FETCH)")
    group_kind: RequiredText = key("what the group is: replica_kind, replica_id, ...")
    group_value: RequiredText = key("which one")
    before_variant: RequiredText = key("variant that is compared")
    after_variant: RequiredText = key("variant that it is compared with")
    unit: Text = column("ms, /s, B/s or partitions")
    before: Ms = column("the figure under before_variant; null: unknown")
    after: Ms = column("under after_variant")
    low: Ms = column("low end of the 90 % interval of after - before; null: too little data")
    high: Ms = column("high end")
    count: Long = column("values known under both, FETCHes of traffic")
    unknown_count: Long = column("the most that are unknown under either")


class Pair(Record):
    """Which recordings a prediction is of."""

    predicted_from: RequiredText = key("recording the prediction was made from")
    recorded_in: RequiredText = key("recording it is held against; the same for a self-check")


class PredictionAccuracy(Record, name="prediction_accuracy", shares=(WhatIf, Pair, Group)):
    """Each prediction beside what real brokers did."""

    kind: Text = column("other_cluster, self_check, bound, draft or two_runs: never added up")
    unit: Text = column("unit of predicted, recorded, error and tolerance")
    baseline: Ms = column("what a constant or a naive guess gives")
    predicted: Ms = column("the replay's figure; of two_runs what predicted_from has")
    recorded: Ms = column("what the brokers did")
    error: Ms = column("predicted - recorded")
    relative_error: Ms = column("error / recorded")
    tolerance: Ms = column("largest |error| that passes, in the unit; null for none set")
    passed: Bool = column("|error| <= tolerance")
    sample_count: Long = column("values behind predicted")
    unknown_count: Long = column("outcomes that were unknown: each counts as a miss")
    is_enough: Bool = column("30 values or more, of recordings with 10 s or more")


class Incidents(Record, name="incidents", shares=(RecordingKey,)):
    """Incidents of the cluster and its clients, a span each: partitions, nodes, groups and requests
    that were offline, silent, restarted, rebalanced, refused or slow, and who was hit.
    """

    number: RequiredInt = key("from 1, by begin")
    kind: RequiredText = column(
        "offline_partitions, under_replicated, below_min_isr, not_enough_replicas, node_froze, "
        "node_died, node_fenced, node_restarted, node_stopped, rolling_restart, "
        "controller_handover, rebalance, connection_storm, missing_topic, failing_requests, "
        "throttled or saturated"
    )
    is_planned: Bool = column(
        "requested: a shutdown, a handover, and what followed from one; null: no line says"
    )
    begin_at: RequiredAt = column("when the first line shows it")
    end_at: At = column("when the first line shows its end; null: none does")
    subjects: Texts = column(
        "what it happened to, the five worst at most: partitions, nodes, a group, a topic, an API"
    )
    count: Long = column("how many of them: partitions, nodes, connections, requests, members")
    population: Long = column("of how many; null: of no number that is known")
    worst_s: Ms = column("seconds of the longest of them")
    cause: Text = column(
        "why, as far as lines say: an error's name; leave, join, rejoin or lost (a member of "
        "which no line says that it left); request queue, local or response queue"
    )
    caused_by: Text = column(
        "who did it: a client id, of refused requests the principal; null: no line says"
    )
    cause_number: Int = column("number of the incident that it followed from: of a node")
    node_id: Int = column("the node that it happened at; null: none or several")
    clients: Texts = column("client ids that were hit, the five with most at most")
    request_id: Text = column("the request that shows its begin")


class Load(Record):
    """The load of one client at one node by one API, and how much it is."""

    principal: RequiredText = key("authenticated principal")
    client_id: RequiredText = key("clientId")
    software: RequiredText = key(
        "name and version of the client's library: of the connection, else the only one of the "
        "same client id, principal and host"
    )
    group_id: RequiredText = key("group that requests name, likewise")
    zone: RequiredText = key(
        "where the client is, likewise: its rack id, or by client_zones; a broker's rack"
    )
    is_client: RequiredBool = key("false of brokers, controllers and kip-replay record")
    node_id: RequiredInt = key("node that got the requests")
    api_name: RequiredText = key("API")
    requests: Long = column(
        "requests; of a topic those that list it: one of several counts at each, and so do its "
        "errors"
    )
    request_bytes: Long = column(
        "on the wire; null of APIs whose sizes are not known: all but FETCH, PRODUCE and "
        "BROKER_HEARTBEAT"
    )
    response_bytes: Long = column("likewise")
    record_bytes: Long = column("bytes of records in FETCH responses and PRODUCE requests")
    handler_ms: Ms = column("in request handlers (localTimeMs)")
    throttle_ms: Ms = column("throttled")
    errors: Long = column("requests that failed, once by each error, as far as bodies are read")
    errors_by_name: Structs = column(
        "those, in order; null: none", struct("error string, requests int64")
    )
    cross_zone_bytes: Long = column(
        "of record_bytes, those of the time below to or from another zone than the node's; null: "
        "one of the two is not known"
    )
    cross_zone_dollars: Ms = column(
        "30 days at this rate, at the prices that are set for a GB across zones"
    )
    cross_zone_from_at: At = column("from then on, less gaps in the node's log: the steady phase")
    cross_zone_until_at: At = column("until then")


class Usage(Record, name="usage", shares=(RecordingKey, Load)):
    """The load by client, node and API, every request once; '-' stands for names that are in no
    line.
    """

    connections: Long = column("connections whose first request is one of them")
    fetch_sessions: Long = column("fetch sessions that were opened")


class TopicUsage(Record, name="topic_usage", shares=(RecordingKey, Load)):
    """The load by topic, '-' for APIs other than FETCH and PRODUCE: what a request takes besides
    records is shared out among its topics, by how many partitions of each it and its response
    list, so that the sums are those of usage.
    """

    topic: RequiredText = key("topic name, else topic id")


class Headlines(Record, name="headlines", shares=(RecordingKey,)):
    """The figures that decisions rest on: what each rule's change does to them in a recording."""

    rule: RequiredText = key("rule")
    figure: RequiredText = key("metric and percentile, or rate")
    role: RequiredText = column("gain or price")
    place: Int = column("its place among those of the rule, from 0")
    unit: Text = column("ms, /s, B/s")
    group_kind: Text = column("what it is of, as in latency_summary: all, replica_kind, ...")
    group_value: Text = column("which one")
    before_variant: Text = column("a protocol that was replayed, or none")
    after_variant: Text = column("likewise, with the change")
    before: Ms = column("the figure without the change; null: too many unknown")
    after: Ms = column("the figure with it")
    low: Ms = column("low end of the 90 % interval of after - before; null: too little data")
    high: Ms = column("high end")
    count: Long = column("values behind it")
    unknown_count: Long = column("those that are unknown: as the slowest, or without bytes")
    limit_name: Text = column("setting or fact that is the least gain or the highest price")
    limit: Ms = column("its value")
    self_check: Text = column("metric of prediction_accuracy that checks the prediction")
    self_checks: Long = column("self-checks of it in this recording, with enough values")
    self_checks_passed: Long = column("those within their tolerance")
    self_check_error: Ms = column("largest relative error of the others; widens the interval")


class Decisions(Record, name="decisions", shares=(RecordingKey,)):
    """The advice on each rule in a recording, and why; sentences are in the rule's page.toml."""

    rule: RequiredText = key("rule")
    advice: RequiredText = column(
        "do it, don't, already in use, in no release yet, not enough data, or withheld"
    )
    reason: RequiredText = column("code of the reason")
    facts: Map = column("what was counted, and what the reason names")
    gain: Struct = column(
        "what it gains; null: not known",
        struct("figure string, unit string, before double, after double, low double, high double"),
    )
    price: Structs = column(
        "what it costs",
        struct("figure string, unit string, before double, after double, low double, high double"),
    )
    paste: Text = column("lines to paste where the advice is to do it")
    rests_on: Texts = column("limits with their settings, and self-checks")


class QualityResult(RecordingKey, name="quality_results"):
    """Expectations of the tables, and whether rows meet them."""

    suite: RequiredText = key("suite of the expectation: keys, log, outcomes, summaries, a rule")
    table_name: RequiredText = key("table that it is of")
    expectation: RequiredText = key("its name in the suite")
    column_name: Text = column("column that it is of, if of one")
    severity: Text = column("warning or critical: what it means that rows fail")
    success: Bool = column("no row failed")
    observed: Text = column("what was seen, in words")
    failing_rows: Long = column("rows that failed; of a query, the rows that it gave")
    rows_checked: Long = column("rows of the recording in the table")
    says: Text = column("what is expected, in words")


class QualityFailures(Record, name="quality_failures", shares=(RecordingKey,)):
    """The first rows that failed an expectation, to look at; quality_results says how many
    failed.
    """

    suite: RequiredText = key("suite of the expectation")
    table_name: RequiredText = key("table that it is of")
    expectation: RequiredText = key("its name in the suite")
    number: RequiredInt = key("from 1, in the order of failing_row")
    failing_row: Text = column("JSON: its key and what helps to see why, or the query's row")


class ReplayState(Record, name="replay_state", shares=(RecordingKey,)):
    """The state of a rule's replays, from which they resume with the next increment of the log."""

    rule: RequiredText = key("rule")
    state_key: RequiredText = key("replay key, e.g. the leader's node id")
    as_of: RequiredAt = key("built_at of the last request fed")
    state: Bytes = column("the state, MessagePack")
    fingerprint: Text = column("rule and configuration it belongs to")


class Lineage(Record, name="lineage", shares=(RecordingKey,)):
    """Fingerprints of the code, settings and inputs that each step's rows follow from; a step that
    is being written, or was killed, has none.
    """

    step: RequiredText = key("a rule, summaries, accuracy/<recording>, quality, ...")
    follows_from: Text = column("fingerprint of its code, its settings and what it read")
    began_at: At = column("when its last run began, before the first write")
    committed_at: At = column("after the step's last write")
    files_written: Long = column("files that its last run added to its tables")
    rows_written: Long = column("rows in them")
    bytes_written: Long = column("bytes of them")


class ClockBounds(Record, name="clock_bounds", shares=(RecordingKey,)):
    """How far each node's clock was ahead of that of the active controller, as the logs bound
    it.
    """

    node_id: RequiredInt = key("the node")
    reference_id: RequiredInt = key("the controller that responded to most heartbeats")
    offset_earliest_ms: Ms = column("ahead by at least; negative: behind; null: no bound")
    offset_latest_ms: Ms = column("ahead by at most; null: no bound")
    clocks: RequiredText = column(
        "same: as far as the bounds show; differ: certainly; contradicted: no offset that stays "
        "the same explains the logs; not_bounded: a bound is missing"
    )
    is_compared: Bool = column("outcomes compare its times with other nodes'")
    forwarded_pairs: Long = column("writes forwarded from or to it, there and back")
    image_pairs: Long = column("metadata images held against heartbeats and FETCHes")


_OF_RULES = (table for rule in RULES.values() for table in rule.tables)
_DECIDED = (Incidents, Usage, TopicUsage, Headlines, Decisions)
_SUMS = (
    LatencySummary,
    LatencyHistograms,
    LatencyCurves,
    BandwidthSummary,
    PairedDifferences,
    PredictionAccuracy,
)
_CHECKS = (QualityResult, QualityFailures, ReplayState, ClockBounds, Lineage)
_ALL = (
    *LOG_TABLES,
    LogGaps,
    *HELD_TABLES,
    *_OF_RULES,
    *_SUMS,
    *_DECIDED,
    *_CHECKS,
)
TABLES = {table.name: table for table in _ALL}
