-- For each replica of the metadata log: how late it learns of a change, and what it sends; replayed on
-- both sides, as headlines are.
WITH measured AS (
  SELECT o.recording, variant, CAST(replica_id AS STRING) AS replica, 'metadata_fetches_per_second' AS figure,
    count(*) * 1e6 / max(until_us - from_us) AS value, count(*) AS count
  FROM fetch_parking_outcomes AS o JOIN steady_phases AS p ON p.recording = o.recording
  WHERE parameter = 'none' AND verdict <> 'not_applicable'
    AND unix_micros(dequeued_at) >= from_us AND unix_micros(dequeued_at) < until_us
  GROUP BY o.recording, variant, replica_id
  UNION ALL
  SELECT recording, variant, group_value, metric || '_' || percentile, value, count + unknown_count
  FROM latency_summary UNPIVOT (value FOR percentile IN (p50_ms, p90_ms))
  WHERE group_kind = 'replica_id' AND parameter = 'none'
    AND metric IN ('high_watermark_lag_of_changes', 'high_watermark_lag_at_any_moment')
)
SELECT m.recording, 'hwm_parking' AS rule, replica_id AS node_id,
  CASE WHEN is_voter THEN 'voter' ELSE 'broker' END AS node_kind, figure,
  max(CASE variant WHEN 'without_kip_1166' THEN value END) AS before,
  max(CASE variant WHEN 'with_kip_1166' THEN value END) AS after,
  min(CASE WHEN variant <> 'recorded' THEN count END) AS count
FROM measured AS m
JOIN (SELECT DISTINCT recording, replica_id, is_voter FROM fetch_parking_outcomes) AS r
  ON r.recording = m.recording AND CAST(replica_id AS STRING) = replica
GROUP BY m.recording, replica_id, is_voter, figure
