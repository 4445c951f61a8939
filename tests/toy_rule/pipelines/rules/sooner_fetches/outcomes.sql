-- name: latencies
-- How long each FETCH waits.
SELECT recording, rule, variant, parameter, parameter_value, 'fetch_wait' AS metric,
    CAST(round(wait_ms * 1000) AS BIGINT) AS value_us, unix_micros(built_at) AS at_us,
    unnest([{'kind': 'all', 'value': 'all'}, {'kind': 'log',
        'value': CASE WHEN is_metadata THEN 'metadata' ELSE 'topics' END}]) AS of_group
FROM sooner_outcomes
-- name: facts
-- FETCHes.
SELECT recording, count(*) AS requests, FALSE AS in_use, FALSE AS is_mixed
FROM sooner_outcomes WHERE variant = 'recorded' GROUP BY recording
-- name: wanted
SELECT predicted_from, recorded_in, 'sooner' AS own_variant, TRUE AS is_judged FROM pairs
-- name: measures
-- The baseline of a prediction is that nothing changes.
SELECT p.recording, p.variant, p.metric, p.group_kind, p.group_value, p.unit, p.value,
    own.value AS baseline, p.sample_count, p.unknown_count
FROM percentiles AS p
LEFT JOIN percentiles AS own ON own.recording = p.recording AND own.rule = p.rule
    AND own.metric = p.metric AND own.group_value = p.group_value AND own.variant = 'recorded'
WHERE p.rule = 'sooner_fetches'
