-- How long metadata writes were not applied everywhere, and what waiting for that costs, over time.
-- metric: stale_window (from the response until applied everywhere, today) or read_after_write (from the request until that is known), as in latency_summary
-- variant: evidence: estimated (when it was) or lowest_acked_offset (by heartbeats)
-- bucket_at: the bucket begins; the write arrived in it
-- outcomes: metadata writes
-- unknown: those that the log can't decide
-- p50_ms: at rank floor(0.5 * (n - 1)), the unknown ranked last
-- p90_ms: likewise; null of fewer than 10
-- p99_ms: likewise; null of fewer than 100
WITH writes AS (
  SELECT * FROM metadata_write_outcomes WHERE parameter = 'none' AND verdict <> 'not_applicable'
),
waits AS (
  SELECT recording, 'stale_window' AS metric, variant, received_at, stale_window_ms AS value_ms
  FROM writes
  UNION ALL
  SELECT recording, 'read_after_write', variant, received_at, read_after_write_ms FROM writes
)
SELECT recording, metric, variant,
  timestamp_micros(unix_micros(received_at) - unix_micros(received_at) % (bucket_s * 1000000)) AS bucket_at, bucket_s,
  count(*) AS outcomes,
  count(*) FILTER (WHERE value_ms IS NULL) AS unknown,
  get(sort_array(collect_list(value_ms)), CAST(floor(0.5 * (count(*) - 1)) AS INT)) AS p50_ms,
  CASE WHEN count(*) >= 10 THEN get(sort_array(collect_list(value_ms)), CAST(floor(0.9 * (count(*) - 1)) AS INT)) END AS p90_ms,
  CASE WHEN count(*) >= 100 THEN get(sort_array(collect_list(value_ms)), CAST(floor(0.99 * (count(*) - 1)) AS INT)) END AS p99_ms
FROM waits JOIN time_buckets USING (recording) GROUP BY ALL
