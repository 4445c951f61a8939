-- Values for latency_summary: how much later records come that another replica than the leader gives.
SELECT recording, rule, variant, parameter, parameter_value, 'added_delay' AS metric,
    CASE WHEN verdict = 'replayed' THEN CAST(round(added_ms * 1000) AS BIGINT) END AS value_us,
    unix_micros(built_at) AS at_us,
    unnest([{'kind': 'all', 'value': 'all'}, {'kind': 'topic', 'value': topic},
        {'kind': 'client_id', 'value': coalesce(client_id, '')}]) AS of_group
FROM closest_replica_outcomes
WHERE variant <> 'leader' AND record_bytes > 0 AND replica_id IS DISTINCT FROM leader_id
