-- name: latencies
-- How long each FETCH waits.
SELECT recording, rule, variant, parameter, parameter_value, 'fetch_wait' AS metric,
    CAST(round(wait_ms * 1000) AS BIGINT) AS value_us, unix_micros(built_at) AS at_us,
    {'kind': 'all', 'value': 'all'} AS of_group
FROM sooner_outcomes
-- name: facts
-- FETCHes.
SELECT recording, count(*) AS requests, FALSE AS in_use, FALSE AS is_mixed
FROM sooner_outcomes WHERE variant = 'recorded' GROUP BY recording
-- name: wanted
SELECT predicted_from, recorded_in, 'sooner' AS own_variant, TRUE AS is_judged FROM pairs
