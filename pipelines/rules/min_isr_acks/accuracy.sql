-- name: wanted
-- What acks=min.insync.replicas costs can also be held against a cluster whose ISR is no larger than
-- min.insync.replicas: there acks=all waits for just as many. A self-check needs no ISR: where none
-- is known, its responses are misses.
SELECT predicted_from, recorded_in,
    CASE WHEN predicted_from <> recorded_in AND other.is_minimal
        THEN 'acks_min_insync_replicas' ELSE coalesce(other.variant, 'acks_all') END AS own_variant,
    TRUE AS is_judged
FROM pairs
JOIN ran AS one ON one.recording = predicted_from
JOIN ran AS other ON other.recording = recorded_in
WHERE predicted_from = recorded_in
    OR coalesce(NOT one.is_minimal AND (other.is_minimal OR one.variant <> other.variant), FALSE)
-- name: spans
-- Producers go on while brokers come and go: figures are of the whole log.
SELECT recording, (max(unix_micros(received_at)) - min(unix_micros(received_at))) / 1e6 AS span_s
FROM produce_ack_outcomes GROUP BY recording
-- name: measures
-- PRODUCEs a second per leader, from first to last, are the recorded ones under every variant: how
-- many there would be is not in the log.
WITH produces AS (
    SELECT recording, node_id, count(DISTINCT request_id) AS sample_count,
        max(unix_micros(received_at)) - min(unix_micros(received_at)) AS span_us
    FROM produce_ack_outcomes WHERE parameter = 'none' AND verdict <> 'not_applicable' GROUP BY ALL
)
SELECT recording, CASE WHEN metric LIKE '%_of_known_%' THEN 'recorded/' || variant ELSE variant END
        AS variant, replace(metric, '_of_known', '') AS metric,
    group_kind, group_value, unit, value, NULL AS baseline, sample_count, unknown_count
FROM percentiles
-- of requests: how long one of its partitions took alone is not recorded where it has several
WHERE replace(metric, '_of_known', '') IN ('produce_request_latency_p50', 'produce_request_latency_p90',
        'closed_loop_latency_p50', 'closed_loop_latency_p90')
    AND group_kind IN ('all', 'node_id')
UNION ALL BY NAME
SELECT recording, variant, 'produces_per_second' AS metric, 'node_id' AS group_kind,
    node_id::VARCHAR AS group_value, '1/s' AS unit,
    sample_count * 1e6 / nullif(span_us, 0) AS value, sample_count, 0 AS unknown_count
FROM produces CROSS JOIN (
    VALUES ('recorded'), ('acks_all'), ('acks_min_insync_replicas')) AS variants(variant)
-- name: shares
-- The log says in which handler a follower's progress was noted and not when in it, so the time of
-- a response is an estimate between two bounds, which hold for 98 in 100; since the ISR is known.
WITH waited AS (
    SELECT recording, verdict = 'replayed' AS known, received_at,
        min(CASE verdict WHEN 'replayed' THEN received_at END) OVER (
            PARTITION BY recording, topic, partition) AS known_from,
        recorded_error = CASE own_variant WHEN 'acks_all' THEN acks_all_error
            ELSE min_isr_error END AS same,
        request_recorded_latency_ms BETWEEN
            CASE own_variant WHEN 'acks_all' THEN request_acks_all_latency_earliest_ms
                ELSE request_min_isr_latency_earliest_ms END
            AND CASE own_variant WHEN 'acks_all' THEN request_acks_all_latency_latest_ms
                ELSE request_min_isr_latency_latest_ms END AS between_bounds
    FROM produce_ack_outcomes
    JOIN wanted ON recording = predicted_from AND recording = recorded_in
    WHERE parameter = 'none' AND acks = -1 AND recorded_error IS NOT NULL
        AND verdict <> 'not_applicable'
)
SELECT recording, metric, 'all' AS group_kind, 'all' AS group_value,
    CASE metric WHEN 'responses_with_the_recorded_error'
        THEN count(*) FILTER (known AND same) / count(*)
        ELSE count(*) FILTER (known AND between_bounds) / nullif(count(*) FILTER (known), 0)
    END AS value,
    count(*) AS sample_count, count(*) FILTER (NOT known) AS unknown_count
FROM waited CROSS JOIN (VALUES
    ('responses_within_98_percent_bounds'), ('responses_with_the_recorded_error')) AS metrics(metric)
WHERE known_from IS NULL OR received_at >= known_from
GROUP BY recording, metric
-- name: shown
-- Across recordings producers react; the rest is of each PRODUCE as it arrived. The baseline of another
-- cluster: that producers wait as long there.
SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit,
    CASE WHEN predicted_from <> recorded_in AND unit = 'ms' THEN unchanged END AS baseline,
    predicted, recorded, TRUE AS is_judged, NULL AS scale, sample_count, unknown_count
FROM side_by_side
