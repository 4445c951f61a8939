-- For each leader: how long producers with acks=all wait (recorded), how long they would wait with
-- acks=min.insync.replicas if they react, and how long records would be exposed.
SELECT recording, 'min_isr_acks' AS rule, CAST(group_value AS INT) AS node_id,
  'leader' AS node_kind,
  CASE metric WHEN 'exposure' THEN 'exposure_' ELSE 'produce_latency_' END || percentile AS figure,
  max(CASE WHEN metric = 'exposure' THEN 0 WHEN variant = 'recorded' THEN value END) AS before,
  max(CASE WHEN variant = 'acks_min_insync_replicas' THEN value END) AS after,
  min(count + unknown_count) AS count
FROM latency_summary UNPIVOT (value FOR percentile IN (p50_ms, p90_ms))
WHERE group_kind = 'node_id' AND parameter = 'none'
  AND (metric = 'closed_loop_latency' AND variant IN ('recorded', 'acks_min_insync_replicas')
    OR metric = 'exposure' AND variant = 'acks_min_insync_replicas')
GROUP BY recording, group_value, metric, percentile
