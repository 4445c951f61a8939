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
