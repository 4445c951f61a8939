-- name: wanted
-- Brokers ran sessions if some recorded FETCH is not full. Two recordings of one protocol show how
-- much two runs differ, and predict nothing: they are left out.
WITH own AS (
    SELECT recording,
        CASE WHEN bool_or(NOT is_full) THEN 'incremental' ELSE 'full' END AS variant
    FROM fetch_session_outcomes WHERE variant = 'recorded' AND parameter = 'none' GROUP BY recording
)
SELECT predicted_from, recorded_in, TRUE AS is_judged,
    CASE WHEN predicted_from = recorded_in THEN 'known/' ELSE '' END || own.variant AS own_variant
FROM pairs
JOIN own ON own.recording = recorded_in
JOIN own AS ran ON ran.recording = predicted_from
WHERE predicted_from = recorded_in OR ran.variant <> own.variant
-- name: observed
-- In the steady phase, by kind of client. Of an unknown outcome no partitions and bytes count.
-- known/V, recorded/known/V: but for sessions older than the log.
-- same_set: FETCHes whose client requests the same partitions as before. Bursts of new ones come
-- when an application happens to begin, not when the protocol says so.
SELECT recording, side AS variant, metric, client_kind AS group_value,
    CASE WHEN is_known OR side = 'recorded' AND verdict <> 'unknown' THEN
        CASE WHEN metric LIKE '%request_partitions' THEN request_partitions
            WHEN metric LIKE '%response_partitions' THEN response_partitions
            ELSE request_bytes + coalesce(response_bytes, 0) END END AS value
FROM (
    SELECT *, unnest(CASE variant WHEN 'recorded'
        THEN ['recorded', 'recorded/known/full', 'recorded/known/incremental']
        ELSE [variant, 'known/' || variant] END) AS side
    FROM compared JOIN phases USING (recording)
) AS each
CROSS JOIN (VALUES
    ('request_partitions'), ('response_partitions'),
    ('same_set_request_partitions'), ('same_set_response_partitions'), ('fetch_bytes')
) AS metrics(metric)
WHERE parameter = 'none' AND NOT (is_older AND side LIKE '%known/%')
    AND unix_micros(dequeued_at) >= from_us AND unix_micros(dequeued_at) < until_us
    AND (metric NOT LIKE 'same_set%'
        OR added_partitions = 0 AND coalesce(forgotten_partitions, 0) = 0)
-- name: measures
-- Partitions and bytes of a FETCH; percentiles of bytes say nothing more than their mean.
SELECT recording, variant,
    CASE WHEN metric = 'fetch_bytes' THEN metric ELSE metric || '_' || figure END AS metric,
    'client_kind' AS group_kind, group_value,
    CASE WHEN metric = 'fetch_bytes' THEN 'bytes' ELSE 'partitions' END AS unit, value,
    NULL AS baseline, sample_count, unknown_count
FROM distributions WHERE metric <> 'fetch_bytes' OR figure = 'mean'
-- name: shares
-- FETCHes of sessions no older than the log that come out as recorded, lists and bytes; over all of it.
SELECT recording, 'fetches_as_recorded' AS metric, 'all' AS group_kind, 'all' AS group_value,
    count(*) FILTER (equals_recorded) / count(*) AS value, count(*) AS sample_count,
    count(*) FILTER (verdict = 'unknown') AS unknown_count
FROM fetch_session_outcomes
WHERE variant = 'incremental' AND parameter = 'none'
    AND (equals_recorded IS NOT NULL OR verdict = 'unknown' AND reason <> $began_before_log)
GROUP BY recording
-- name: shown
-- The baseline of another cluster: that nothing changes. A self-check of no FETCH is none.
SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit,
    CASE WHEN predicted_from <> recorded_in THEN unchanged END AS baseline,
    predicted, recorded, is_judged, NULL AS scale, sample_count, unknown_count
FROM side_by_side WHERE predicted_from <> recorded_in OR sample_count + unknown_count > 0
