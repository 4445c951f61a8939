-- For each replica of the metadata log: how late it learns of a change, and what it sends.
WITH steady AS (
  SELECT o.recording, variant, replica_id, is_voter, count(*) AS count,
    count(*) * 1e6 / max(until_us - from_us) AS metadata_fetches_per_second
  FROM fetch_parking_outcomes AS o JOIN steady_phases AS p ON p.recording = o.recording
  WHERE parameter = 'none' AND verdict <> 'not_applicable'
    AND unix_micros(dequeued_at) >= from_us AND unix_micros(dequeued_at) < until_us
  GROUP BY o.recording, variant, replica_id, is_voter
),
measured AS (
  SELECT s.recording, s.variant, replica_id, is_voter, s.count, metadata_fetches_per_second,
    p50_ms AS high_watermark_lag_p50_ms, p90_ms AS high_watermark_lag_p90_ms
  FROM steady AS s LEFT JOIN latency_summary AS l
    ON l.recording = s.recording AND l.variant = s.variant AND l.parameter = 'none'
    AND metric = 'high_watermark_lag' AND group_kind = 'replica_id'
    AND group_value = CAST(replica_id AS STRING)
)
SELECT m.recording, 'hwm_parking' AS rule, replica_id AS node_id,
  CASE WHEN is_voter THEN 'voter' ELSE 'broker' END AS node_kind, figure,
  max(CASE WHEN variant = before THEN value END) AS before,
  max(CASE WHEN variant = after THEN value END) AS after,
  min(CASE WHEN variant IN (before, after) THEN count END) AS count
FROM measured UNPIVOT (
  value FOR figure IN (
    metadata_fetches_per_second, high_watermark_lag_p50_ms, high_watermark_lag_p90_ms)
) AS m JOIN parking_sides AS s ON s.recording = m.recording
GROUP BY m.recording, replica_id, is_voter, figure
