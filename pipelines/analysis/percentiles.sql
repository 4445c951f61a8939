-- p50, p90 and p99 of latency_summary, each in the form of a measure.
SELECT rule, recording, variant, parameter, parameter_value, metric || '_' || figure AS metric,
    group_kind, group_value, 'ms' AS unit,
    CASE figure WHEN 'p50' THEN p50_ms WHEN 'p90' THEN p90_ms WHEN 'p99' THEN p99_ms END AS value,
    count AS sample_count, unknown_count
FROM latency_summary CROSS JOIN (VALUES ('p50'), ('p90'), ('p99')) AS figures(figure)
