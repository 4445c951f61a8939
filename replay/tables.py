"""Tables of summaries, checks and bookkeeping, and the list of all tables of the warehouse."""

from .log_tables import HELD_TABLES, LOG_GAPS, LOG_TABLES
from .rules import RULES
from .table import OUTCOME_COLUMNS, RECORDING_COLUMN, table

#: Of the package, changed with any table: tables of a warehouse have that which made them.
VERSION = "0.3.0"
#: Of what a figure is.
_GROUP = """
metric      text* what is measured
group_kind  text* what the group is: replica_kind, replica_id, ...
group_value text* which one
"""

LATENCY_SUMMARY = table(f"""
latency_summary: Latencies per metric and group, exact percentiles of integer microseconds
{OUTCOME_COLUMNS}
{_GROUP}
count         long values
unknown_count long rows without a value, never counted as small
mean_ms       ms   sum of integer microseconds / count
p50_ms        ms   at rank floor(0.50 * (n - 1)), the unknown ranked last
p90_ms        ms   at rank floor(0.90 * (n - 1)), the unknown ranked last
p95_ms        ms   at rank floor(0.95 * (n - 1)), the unknown ranked last
p99_ms        ms   at rank floor(0.99 * (n - 1)), the unknown ranked last
p999_ms       ms   at rank floor(0.999 * (n - 1)), the unknown ranked last
max_ms        ms   largest
p50_low_ms    ms   low end of the 90 % interval; null: too little data
p50_high_ms   ms   high end of the 90 % interval; null: too little data
p90_low_ms    ms   low end of the 90 % interval; null: too little data
p90_high_ms   ms   high end of the 90 % interval; null: too little data
p99_low_ms    ms   low end of the 90 % interval; null: too little data
p99_high_ms   ms   high end of the 90 % interval; null: too little data
""")

LATENCY_HISTOGRAMS = table(f"""
latency_histograms: How often each latency occurs: what latency_summary is made of, and a \
    growing log adds to
{OUTCOME_COLUMNS}
{_GROUP}
block_us long!    length of a block of clock time; 0: one block is all the time
block    long*    which block: microseconds since 1970 // block_us
counts   []struct each value, in order, and how often it occurs; null: rows without a value
  value_us long, occurs long
""")

LATENCY_CURVES = table(f"""
latency_curves: Distributions of latencies: at most 200 points of each, as exact as \
    latency_summary
{OUTCOME_COLUMNS}
{_GROUP}
value_us long* the largest value of a slice of the ranks
from_us  long  the least value of the slice
up_to    long  how many values are not above value_us
total    long  how many values there are, the unknown included
""")

BANDWIDTH_SUMMARY = table(f"""
bandwidth_summary: Requests and bytes on the wire per API, node, kind of client and direction, \
    steady phase
{OUTCOME_COLUMNS}
api_name              text*  API
node_id               int*   node that got the request
client_kind           text*  voter, broker, follower, consumer, ...
direction             text*  request or response
requests              long   requests
partitions            long   partitions in them; those of unknown size count nothing
bytes                 long   bytes on the wire; those of unknown size count nothing
unknown_size_requests long   requests whose size a variant does not know
record_bytes          long   bytes of records in them
overhead_bytes        long   bytes - record_bytes
span_s                ms     seconds of the steady phase, less gaps in the node's log
requests_per_second   ms     requests / span_s
bytes_per_second      ms     bytes / span_s
requests_per_block    []long in each block of the phase, 32 at most
partitions_per_block  []long partitions likewise
bytes_per_block       []long bytes likewise
seconds_per_block     []ms   of span_s in each block
""")

PAIRED_DIFFERENCES = table(f"""
paired_differences: What becomes of a figure from one variant to another, in the same blocks of \
    time; a percentile has a row with three values or more beyond it
{RECORDING_COLUMN}
rule           text* name of the rule
metric         text* of latency_summary; of traffic: fetches, bytes, partitions
figure         text* p50, p90, p99; of traffic: per_second, mean (of a FETCH)
group_kind     text* what the group is: replica_kind, replica_id, ...
group_value    text* which one
before_variant text* variant that is compared
after_variant  text* variant that it is compared with
unit           text  ms, /s, B/s or partitions
before         ms    the figure under before_variant; null: unknown
after          ms    under after_variant
low            ms    low end of the 90 % interval of after - before; null: too little data
high           ms    high end
count          long  values known under both, FETCHes of traffic
unknown_count  long  the most that are unknown under either
""")

PREDICTION_ACCURACY = table(f"""
prediction_accuracy: Each prediction beside what real brokers did
{OUTCOME_COLUMNS}
predicted_from text* recording the prediction was made from
recorded_in    text* recording it is held against; the same for a self-check
{_GROUP}
kind           text  other_cluster, self_check, bound, draft or two_runs: never added up
unit           text  unit of predicted, recorded, error and tolerance
baseline       ms    what a constant or a naive guess gives
predicted      ms    the replay's figure; of two_runs what predicted_from has
recorded       ms    what the brokers did
error          ms    predicted - recorded
relative_error ms    error / recorded
tolerance      ms    largest |error| that passes, in the unit; null for none set
passed         bool  |error| <= tolerance
sample_count   long  values behind predicted
unknown_count  long  outcomes that were unknown: each counts as a miss
is_enough      bool  30 values or more, of recordings with 10 s or more
""")

INCIDENTS = table(f"""
incidents: What happened to the cluster and its clients, a span each: what was offline, silent, \
    restarted, rebalanced, refused or slow, and who was hit
{RECORDING_COLUMN}
number        int*   from 1, by begin
kind          text!  offline_partitions, under_replicated, below_min_isr, not_enough_replicas, \
    node_froze, node_died, node_fenced, node_restarted, node_stopped, rolling_restart, \
    controller_handover, rebalance, connection_storm, missing_topic, failing_requests, throttled \
    or saturated
is_planned    bool   requested: a shutdown, a handover, and what followed from one; \
    null: no line says
begin_at      at!    when the first line shows it
end_at        at     when the first line shows its end; null: none does
subjects      []text what it happened to, the five worst at most: partitions, nodes, a \
    group, a topic, an API
count         long   how many of them: partitions, nodes, connections, requests, members
population    long   of how many; null: of no number that is known
worst_s       ms     seconds of the longest of them
cause         text   why, as far as lines say: an error's name; leave, join, rejoin or lost (a \
    member of which no line says that it left); request queue, local or response queue
caused_by     text   who did it: a client id, of refused requests the principal; null: no line \
    says
cause_number  int    number of the incident that it followed from: of a node
node_id       int    the node that it happened at; null: none or several
clients       []text client ids that were hit, the five with most at most
request_id    text   the request that shows its begin
""")

HEADLINES = table(f"""
headlines: The figures that decisions rest on: what each rule's change does to them in a \
    recording
{RECORDING_COLUMN}
rule               text* rule
figure             text* metric and percentile, or rate
role               text! gain or price
place              int   its place among those of the rule, from 0
unit               text  ms, /s, B/s
group_kind         text  what it is of, as in latency_summary: all, replica_kind, ...
group_value        text  which one
before_variant     text  a protocol that was replayed, or none
after_variant      text  likewise, with the change
before             ms    the figure without the change; null: too many unknown
after              ms    the figure with it
low                ms    low end of the 90 % interval of after - before; null: too little data
high               ms    high end
count              long  values behind it
unknown_count      long  those that are unknown: as the slowest, or without bytes
limit_name         text  setting or fact that is the least gain or the highest price
limit              ms    its value
self_check         text  metric of prediction_accuracy that checks the prediction
self_checks        long  self-checks of it in this recording, with enough values
self_checks_passed long  those within their tolerance
self_check_error   ms    largest relative error of the others; widens the interval
""")

DECISIONS = table(f"""
decisions: What to do about each rule in a recording, and why; sentences are in the rule's \
    page.toml
{RECORDING_COLUMN}
rule     text*    rule
advice   text!    do it, don't, already in use, in no release yet, not enough data, or withheld
reason   text!    code of the reason
facts    map      what was counted, and what the reason names
gain     struct   what it gains; null: not known
  figure text, unit text, before ms, after ms, low ms, high ms
price    []struct what it costs
  figure text, unit text, before ms, after ms, low ms, high ms
paste    text     lines to paste where the advice is to do it
rests_on []text   limits with their settings, and self-checks
""")

QUALITY_RESULTS = table(f"""
quality_results: What is expected of the tables, and whether it is so
{RECORDING_COLUMN}
suite        text* suite of the expectation: keys, log, outcomes, summaries, a rule
table_name   text* table that it is of
expectation  text* its name in the suite
column_name  text  column that it is of, if of one
severity     text  info, warning or critical: what it means that rows fail
success      bool  no row failed
observed     text  what was seen, in words
failing_rows long  rows that failed; of a query, the rows that it gave
rows_checked long  rows of the recording in the table
says         text  what is expected, in words
""")

QUALITY_FAILURES = table(f"""
quality_failures: The first rows that failed an expectation, to look at; quality_results says \
    how many failed
{RECORDING_COLUMN}
suite       text* suite of the expectation
table_name  text* table that it is of
expectation text* its name in the suite
number      int*  from 1, in the order of failing_row
failing_row text  JSON: its key and what helps to see why, or the query's row
""")

REPLAY_STATE = table(f"""
replay_state: What a rule carries from one increment of the log to the next
{RECORDING_COLUMN}
rule        text* rule
state_key   text* replay key, e.g. the leader's node id
as_of       at*   built_at of the last request fed
state       bytes the state, MessagePack
fingerprint text  rule and configuration it belongs to
""")

LINEAGE = table(f"""
lineage: What the rows of each step follow from; a step that is being written, or was killed, \
    has none
{RECORDING_COLUMN}
step          text*    a rule, summaries, accuracy/<recording>, quality, ...
follows_from  text     fingerprint of its code, its settings and what it read
began_at      at       when its last run began, before the first write
committed_at  at       after the step's last write
files_written long     files that its last run added to its tables
rows_written  long     rows in them
bytes_written long     bytes of them
""")

CLOCK_BOUNDS = table(f"""
clock_bounds: How far each node's clock was ahead of that of the active controller, as the logs \
    bound it
{RECORDING_COLUMN}
node_id            int*  the node
reference_id       int*  the controller that responded to most heartbeats
offset_earliest_ms ms    ahead by at least; negative: behind; null: no bound
offset_latest_ms   ms    ahead by at most; null: no bound
clocks             text! same: as far as the bounds show; differ: certainly; contradicted: no \
    offset that stays the same explains the logs; not_bounded: a bound is missing
is_compared        bool  outcomes compare its times with other nodes'
forwarded_pairs    long  writes forwarded from or to it, there and back
image_pairs        long  metadata images held against heartbeats and FETCHes
""")

_OF_RULES = (table for rule in RULES.values() for table in rule.tables)
_DECIDED = (INCIDENTS, HEADLINES, DECISIONS)
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
    LOG_GAPS,
    *HELD_TABLES,
    *_OF_RULES,
    *_SUMS,
    *_DECIDED,
    *_CHECKS,
)
TABLES = {table.name: table for table in _ALL}
