-- For each leader: how long producers that react wait with acks=all and with acks=min.insync.replicas,
-- replayed on both sides as headlines are, and how long records would be exposed.
SELECT recording, 'min_isr_acks' AS rule, CAST(group_value AS INT) AS node_id,
  'leader' AS node_kind,
  metric || '_' || percentile AS figure,
  max(CASE WHEN metric = 'exposure' THEN 0 WHEN variant = 'acks_all' THEN value END) AS before,
  max(CASE WHEN variant = 'acks_min_insync_replicas' THEN value END) AS after,
  min(count + unknown_count) AS count
FROM latency_summary UNPIVOT (value FOR percentile IN (p50_ms, p90_ms))
WHERE group_kind = 'node_id' AND parameter = 'none'
  AND (metric = 'closed_loop_latency' AND variant IN ('acks_all', 'acks_min_insync_replicas')
    OR metric = 'exposure' AND variant = 'acks_min_insync_replicas')
GROUP BY recording, group_value, metric, percentile
