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
WHERE rule = 'min_isr_acks' AND parameter = 'none'
    -- of requests: how long one of its partitions took alone is not recorded where it has several
    AND replace(metric, '_of_known', '') IN ('produce_request_latency_p50', 'produce_request_latency_p90',
        'closed_loop_latency_p50', 'closed_loop_latency_p90')
    AND group_kind IN ('all', 'node_id')
UNION ALL BY NAME
SELECT recording, variant, 'produces_per_second' AS metric, 'node_id' AS group_kind,
    node_id::VARCHAR AS group_value, '1/s' AS unit,
    sample_count * 1e6 / nullif(span_us, 0) AS value, sample_count, 0 AS unknown_count
FROM produces CROSS JOIN (
    VALUES ('recorded'), ('acks_all'), ('acks_min_insync_replicas')) AS variants(variant)
