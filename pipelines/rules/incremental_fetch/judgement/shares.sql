-- Recorded incremental FETCHes that come out the same, lists and bytes; over the whole recording.
SELECT recording, 'fetches_as_recorded' AS metric, 'all' AS group_kind, 'all' AS group_value,
    count(*) FILTER (equals_recorded) / count(*) AS value, count(*) AS sample_count,
    count(*) FILTER (verdict = 'unknown') AS unknown_count
FROM fetch_session_outcomes
WHERE variant = 'incremental' AND parameter = 'none'
    AND (equals_recorded IS NOT NULL OR verdict = 'unknown')
GROUP BY recording
