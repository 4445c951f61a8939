-- Percentiles of what clients noted, of records that the closest replica is not the leader for, and of
-- the others.
SELECT recording, variant, metric || '_' || figure AS metric,
    CASE group_value WHEN 'all' THEN 'all' ELSE 'client_topic' END AS group_kind, group_value,
    'ms' AS unit, value / 1e3 AS value, NULL AS baseline, sample_count, unknown_count
FROM distributions WHERE figure <> 'mean'
