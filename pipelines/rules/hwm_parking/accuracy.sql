-- name: wanted
-- The brokers of a recording ran the KIP if their FETCHes carry a high watermark. Two recordings of
-- one protocol show how much two runs differ, and predict nothing: they are not judged.
WITH own AS (
    SELECT recording, CASE WHEN bool_or(replica_high_watermark IS NOT NULL)
        THEN 'with_kip_1166' ELSE 'without_kip_1166' END AS variant
    FROM fetch_parking_outcomes WHERE variant = 'recorded' GROUP BY recording
)
SELECT predicted_from, recorded_in, own.variant AS own_variant,
    predicted_from = recorded_in OR ran.variant <> own.variant AS is_judged
FROM pairs
JOIN own ON own.recording = recorded_in
LEFT JOIN own AS ran ON ran.recording = predicted_from
-- name: measures
-- Baseline of the lag: parked for a random part of 500 ms without the KIP, not at all with it. Of
-- FETCHes: one for each replica and advance of the high watermark, two with the KIP. A FETCH
-- that no rule explains is predicted with another completion, so those of a completion leave it out.
WITH guesses AS (
    SELECT recording, variant, count(DISTINCT replica_id) AS replicas,
        CASE variant WHEN 'without_kip_1166' THEN 1 WHEN 'with_kip_1166' THEN 2 END
            * count(DISTINCT (leader_id, leader_epoch, high_watermark)) AS per_replica
    FROM high_watermark_lag WHERE parameter = 'none' AND phase = 'steady'
    GROUP BY recording, variant
),
counts AS (
    SELECT recording, variant, replica_id, completion, count(*) AS fetches,
        count(*) FILTER (verdict = 'unknown') AS unknown_count,
        sum(coalesce(request_bytes, 0) + coalesce(response_bytes, 0)) AS bytes
    FROM fetch_parking_outcomes JOIN phases USING (recording)
    WHERE parameter = 'none' AND verdict <> 'not_applicable'
        AND unix_micros(dequeued_at) >= from_us AND unix_micros(dequeued_at) < until_us
    GROUP BY GROUPING SETS (
        (recording, variant), (recording, variant, replica_id), (recording, variant, completion))
),
guessed AS (
    SELECT counts.*, replicas, per_replica, (until_us - from_us) / 1e6 AS span_s,
        replica_id IS NULL AND completion IS NULL AS is_all
    FROM counts JOIN phases USING (recording) LEFT JOIN guesses USING (recording, variant)
)
SELECT recording, variant, metric, group_kind, group_value, unit, value,
    CASE variant WHEN 'with_kip_1166' THEN 0 WHEN 'without_kip_1166' THEN
        CASE right(metric, 3) WHEN 'p50' THEN 250 WHEN 'p90' THEN 450 WHEN 'p99' THEN 495 END
            END AS baseline,
    sample_count, unknown_count
FROM percentiles
WHERE (metric LIKE 'high_watermark_lag_p%' OR metric IN (
        'high_watermark_lag_at_any_moment_p50', 'high_watermark_lag_of_changes_p50'))
    AND group_kind = 'replica_kind'
UNION ALL BY NAME
SELECT recording, variant, 'fetches_per_second' AS metric, 'all' AS group_kind,
    'all' AS group_value, '1/s' AS unit, fetches / span_s AS value,
    per_replica * replicas / span_s AS baseline, fetches - unknown_count AS sample_count, unknown_count
FROM guessed WHERE is_all
UNION ALL BY NAME
SELECT recording, variant, 'fetch_bytes_per_second' AS metric, 'all' AS group_kind,
    'all' AS group_value, 'bytes/s' AS unit, bytes / span_s AS value,
    fetches - unknown_count AS sample_count, unknown_count
FROM guessed WHERE is_all
UNION ALL BY NAME
SELECT recording, variant, 'fetches' AS metric,
    CASE WHEN completion IS NULL THEN 'replica_id' ELSE 'completion' END AS group_kind,
    coalesce(completion, replica_id::VARCHAR) AS group_value, 'count' AS unit, fetches AS value,
    CASE WHEN completion IS NULL THEN per_replica END AS baseline,
    fetches - unknown_count AS sample_count, unknown_count
FROM guessed WHERE NOT is_all AND completion IS DISTINCT FROM 'unexplained'
-- name: shares
-- The open-loop check: the share of a leader's responses that the rule explains, once it has begun.
SELECT recording, 'responses_explained' AS metric, 'all' AS group_kind, 'all' AS group_value,
    count(*) FILTER (verdict = 'replayed' AND completion <> 'unexplained') / count(*) AS value,
    count(*) AS sample_count, count(*) FILTER (verdict = 'unknown') AS unknown_count
FROM fetch_parking_outcomes
WHERE variant = 'recorded' AND verdict <> 'not_applicable' AND reason IS DISTINCT FROM $middle_of_epoch
GROUP BY recording
-- name: shown
-- Voters are shown and not judged. One FETCH more of a rare completion is no large error: it is
-- held against all FETCHes.
SELECT predicted_from, recorded_in, variant, metric, group_kind, group_value, unit, baseline,
    predicted, recorded, is_judged AND group_value <> 'voter' AS is_judged,
    CASE group_kind WHEN 'completion' THEN sum(recorded) OVER (
        PARTITION BY predicted_from, recorded_in, metric, group_kind) END AS scale,
    sample_count, unknown_count
FROM side_by_side
