-- Partitions and bytes of a FETCH; percentiles of bytes say nothing more than their mean.
SELECT recording, variant,
    CASE WHEN metric = 'fetch_bytes' THEN metric ELSE metric || '_' || figure END AS metric,
    'client_kind' AS group_kind, group_value,
    CASE WHEN metric = 'fetch_bytes' THEN 'bytes' ELSE 'partitions' END AS unit, value,
    NULL AS baseline, sample_count, unknown_count
FROM distributions WHERE metric <> 'fetch_bytes' OR figure = 'mean'
