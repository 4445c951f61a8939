-- How long each FETCH waits.
SELECT recording, rule, variant, parameter, parameter_value, 'fetch_wait' AS metric,
    CAST(round(wait_ms * 1000) AS BIGINT) AS value_us, unix_micros(built_at) AS at_us,
    unnest([{'kind': 'all', 'value': 'all'}, {'kind': 'log',
        'value': CASE WHEN is_metadata THEN 'metadata' ELSE 'topics' END}]) AS of_group
FROM sooner_outcomes
