-- The stale window of CREATE_TOPICS as estimated, beside what clients saw of it, and how far
-- estimates are off; the baseline is what heartbeats prove.
WITH stale_windows AS (
    SELECT recording, variant, 'create_topics_' || metric AS metric, value, sample_count,
        unknown_count
    FROM percentiles
    WHERE rule = 'lowest_acked_offset' AND parameter = 'none' AND group_value = 'CREATE_TOPICS'
        AND metric IN ('stale_window_p50', 'stale_window_p90')
),
observed_ms AS (
    SELECT recording, variant, metric || '_' || figure AS metric, value / 1000 AS value,
        sample_count, unknown_count
    FROM distributions WHERE figure <> 'mean'
),
measured AS (
    SELECT one.recording, 'lowest_acked_offset' AS variant, one.metric, one.value,
        proved.value AS baseline, one.sample_count, one.unknown_count
    FROM stale_windows AS one
    LEFT JOIN stale_windows AS proved ON proved.recording = one.recording
        AND proved.metric = one.metric AND proved.variant = 'lowest_acked_offset'
    WHERE one.variant = 'estimated'
    UNION ALL BY NAME
    SELECT one.recording, one.variant, one.metric, one.value, proved.value AS baseline,
        one.sample_count, one.unknown_count
    FROM observed_ms AS one
    LEFT JOIN observed_ms AS proved ON proved.recording = one.recording
        AND proved.metric = one.metric AND proved.variant = 'proved'
    WHERE one.variant <> 'proved'
)
SELECT recording, variant, metric, value, baseline, sample_count, unknown_count,
    'all' AS group_kind, 'all' AS group_value, 'ms' AS unit
FROM measured
UNION ALL BY NAME
SELECT recording, 'lowest_acked_offset' AS variant, metric,
    count(*) FILTER (is_same AND verdict <> 'unknown') / count(*) AS value,
    NULL AS baseline, count(*) FILTER (verdict <> 'unknown') AS sample_count,
    count(*) FILTER (verdict = 'unknown') AS unknown_count, 'broker_id' AS group_kind,
    CAST(broker_id AS VARCHAR) AS group_value, 'share' AS unit
FROM (
    SELECT recording, broker_id, verdict, is_same, 'responses_as_computed' AS metric FROM computed
    UNION ALL
    SELECT recording, broker_id, verdict, is_same, 'writes_known_as_returned' FROM announced)
GROUP BY recording, metric, broker_id
