-- Values of writes that arrived in the steady phase, for latency_summary. stale_window: from the
-- controller's response until every broker had applied it (today). read_after_write: from the request
-- until the broker that forwarded it knows that.
WITH writes AS (
    SELECT o.* FROM metadata_write_outcomes AS o JOIN phases ON phases.recording = o.recording
    WHERE verdict <> 'not_applicable'
        AND unix_micros(received_at) >= from_us AND unix_micros(received_at) < until_us
)
SELECT recording, rule, variant, parameter, parameter_value, 'stale_window' AS metric,
    CAST(round(stale_window_ms * 1000) AS BIGINT) AS value_us, unix_micros(received_at) AS at_us,
    unnest([{'kind': 'all', 'value': 'all'}, {'kind': 'api_name', 'value': api_name}]) AS of_group
FROM writes
UNION ALL
SELECT recording, rule, variant, parameter, parameter_value, 'read_after_write',
    CAST(round(read_after_write_ms * 1000) AS BIGINT), unix_micros(received_at),
    unnest([{'kind': 'all', 'value': 'all'}, {'kind': 'api_name', 'value': api_name}])
FROM writes
