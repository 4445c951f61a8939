-- FETCHes of sessions no older than the log that come out as recorded, lists and bytes; over all of it.
SELECT recording, 'fetches_as_recorded' AS metric, 'all' AS group_kind, 'all' AS group_value,
    count(*) FILTER (equals_recorded) / count(*) AS value, count(*) AS sample_count,
    count(*) FILTER (verdict = 'unknown') AS unknown_count
FROM fetch_session_outcomes
WHERE variant = 'incremental' AND parameter = 'none'
    AND (equals_recorded IS NOT NULL OR verdict = 'unknown' AND reason <> $began_before_log)
GROUP BY recording
