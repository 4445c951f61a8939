"""min_isr_acks: how near replayed PRODUCE responses and latencies are to real brokers."""

from kip_replay.pipelines.analysis.accuracy import FEW, Judgement, Tolerance
from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS, RULE
from kip_replay.replay.outcomes import RECORDED, Verdict

#: What the stamps of a log leave open.
NEAR_MS = 2

# What a cluster's brokers ran is the protocol under which more of its responses come out near the
# recorded ones. What acks=min.insync.replicas costs can also be held against one whose ISR is no
# larger than min.insync.replicas: there acks=all waits for just as many. A self-check needs no ISR:
# where none is known, its responses are misses.
_WANTED = f"""
WITH near AS (
    SELECT recording, avg((len(isr) <= min_insync_replicas)::INT) > 0.9 AS is_minimal,
           count(*) FILTER (abs(request_min_isr_latency_ms - request_recorded_latency_ms)
               <= {NEAR_MS}) AS early,
           count(*) FILTER (abs(request_acks_all_latency_ms - request_recorded_latency_ms)
               <= {NEAR_MS}) AS late
    FROM produce_ack_outcomes WHERE parameter = 'none' AND acks = -1
    GROUP BY recording
),
ran AS (
    SELECT *, CASE WHEN early > late THEN '{ACKS_MIN_INSYNC_REPLICAS}'
              WHEN late > 0 THEN '{ACKS_ALL}' END AS variant
    FROM near
)
SELECT predicted_from, recorded_in,
       CASE WHEN predicted_from <> recorded_in AND other.is_minimal
            THEN '{ACKS_MIN_INSYNC_REPLICAS}' ELSE coalesce(other.variant, '{ACKS_ALL}') END
            AS own_variant
FROM pairs
JOIN ran AS one ON one.recording = predicted_from
JOIN ran AS other ON other.recording = recorded_in
WHERE predicted_from = recorded_in
    OR coalesce(NOT one.is_minimal AND (other.is_minimal OR one.variant <> other.variant), FALSE)"""

# PRODUCEs a second per leader, from first to last, are the recorded ones under every variant: how
# many there would be is not in the log.
_MEASURES = f"""
SELECT recording, variant, metric, group_kind, group_value, unit, value,
       sample_count, unknown_count
FROM percentiles
WHERE rule = '{RULE}' AND parameter = 'none'
    AND metric IN ('produce_latency_p50', 'produce_latency_p90',
                   'closed_loop_latency_p50', 'closed_loop_latency_p90')
    AND group_kind IN ('all', 'node_id', 'topic_partition')
UNION ALL BY NAME
SELECT recording, unnest(['{RECORDED}', '{ACKS_ALL}', '{ACKS_MIN_INSYNC_REPLICAS}']) AS variant,
       'produces_per_second' AS metric, 'node_id' AS group_kind, node_id::VARCHAR AS group_value,
       '1/s' AS unit, sample_count * 1e6 / nullif(span_us, 0) AS value,
       sample_count, 0 AS unknown_count
FROM (
    SELECT recording, node_id, count(DISTINCT request_id) AS sample_count,
           max(epoch_us(received_at)) - min(epoch_us(received_at)) AS span_us
    FROM produce_ack_outcomes
    WHERE parameter = 'none' AND verdict <> '{Verdict.NOT_APPLICABLE}' GROUP BY ALL
)"""

# The log says in which handler a follower's progress was noted and not when in it, so the time of a
# response is an estimate between two bounds, give or take what stamps of milliseconds leave open.
_SHARES = f"""
WITH waited AS (
    SELECT recording, own_variant = '{ACKS_ALL}' AS all_isr,
           verdict = '{Verdict.REPLAYED}' AS known,
           known AND recorded_error = CASE WHEN all_isr THEN acks_all_error ELSE min_isr_error END
               AS same,
           known AND request_recorded_latency_ms
               BETWEEN CASE WHEN all_isr THEN request_acks_all_latency_earliest_ms
                       ELSE request_min_isr_latency_earliest_ms END - {NEAR_MS}
               AND CASE WHEN all_isr THEN request_acks_all_latency_latest_ms
                   ELSE request_min_isr_latency_latest_ms END + {NEAR_MS} AS between_bounds
    FROM produce_ack_outcomes
    JOIN wanted ON recording = predicted_from AND recording = recorded_in
    WHERE parameter = 'none' AND acks = -1 AND recorded_error IS NOT NULL
        AND verdict <> '{Verdict.NOT_APPLICABLE}'
),
counted AS (
    SELECT recording, count(*) AS sample_count, count(*) FILTER (NOT known) AS unknown_count,
           count(*) FILTER (between_bounds) / nullif(count(*) FILTER (known), 0)
               AS answers_within_2_ms_of_bounds,
           count(*) FILTER (same) / count(*) AS answers_with_the_recorded_error
    FROM waited GROUP BY recording
)
SELECT recording, metric, value, sample_count, unknown_count
FROM counted UNPIVOT INCLUDE NULLS (value FOR metric IN (
    answers_within_2_ms_of_bounds, answers_with_the_recorded_error))"""

# Across recordings producers react; the rest is of each PRODUCE as it arrived. Partitions with few
# PRODUCEs are left out, the others shown. The baseline of another cluster: that producers wait as
# long there.
_SHOWN = f"""
SELECT * REPLACE (
    group_kind <> 'topic_partition'
        AND (predicted_from = recorded_in OR metric LIKE 'closed_loop_%') AS is_judged,
    CASE WHEN predicted_from <> recorded_in AND unit = 'ms' THEN unchanged END AS baseline)
FROM side_by_side
WHERE group_kind <> 'topic_partition' OR sample_count + unknown_count >= {FEW}"""

# Producers go on while brokers come and go: figures are of the whole log.
_SPANS = """
SELECT recording, (max(epoch_us(received_at)) - min(epoch_us(received_at))) / 1e6 AS span_s
FROM produce_ack_outcomes GROUP BY recording"""

JUDGEMENT = Judgement(
    wanted=_WANTED,
    spans=_SPANS,
    measures=_MEASURES,
    shares=_SHARES,
    shown=_SHOWN,
    bounds=("answers_within_2_ms_of_bounds",),
    tolerances=(
        *(
            tolerance
            for variant in (ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS)
            for tolerance in (
                Tolerance("answers_within_2_ms_of_bounds", variant, True, 0.0, None),
                Tolerance("answers_with_the_recorded_error", variant, True, 0.02, None),
                Tolerance("produce_latency_p50", variant, True, 0.5, 0.08),
                Tolerance("produce_latency_p90", variant, True, 1.0, 0.15),
                Tolerance("closed_loop_latency_p50", variant, True, 0.5, 0.08),
                Tolerance("closed_loop_latency_p90", variant, True, None, 0.15),
                Tolerance("closed_loop_latency_p50", variant, False, 0.5, 0.08),
                Tolerance("closed_loop_latency_p90", variant, False, None, 0.15),
            )
        ),
    ),
)
