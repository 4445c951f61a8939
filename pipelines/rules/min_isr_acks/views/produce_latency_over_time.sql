-- How long producers wait over time, and for how long records are exposed, by variant.
-- metric: closed_loop_latency (a request, producers react), produce_request_latency (a request that arrives as recorded) or exposure (a partition of a request), as in latency_summary
-- variant: recorded, acks_all or acks_min_insync_replicas
-- bucket_at: the bucket begins; the PRODUCE arrived in it, as recorded
-- outcomes: requests that waited for all replicas, or partitions of them
-- unknown: those that the log can't decide
-- p50_ms: at rank floor(0.5 * (n - 1)), the unknown ranked last
-- p90_ms: likewise; null of fewer than 10
-- p99_ms: likewise; null of fewer than 100
WITH produced AS (
  SELECT * FROM produce_ack_outcomes WHERE parameter = 'none' AND verdict <> 'not_applicable'
),
arrived AS (
  SELECT recording, min(received_at) AS received_at,
    max(request_recorded_latency_ms) AS recorded,
    CASE WHEN bool_and(verdict = 'replayed') THEN max(request_acks_all_latency_ms) END AS acks_all,
    CASE WHEN bool_and(verdict = 'replayed') THEN max(request_min_isr_latency_ms) END
      AS acks_min_insync_replicas
  FROM produced WHERE acks = -1 GROUP BY recording, request_id, node_id
),
reacting AS (SELECT * FROM produce_closed_loop_outcomes WHERE parameter = 'none'),
waits AS (
  SELECT recording, 'closed_loop_latency' AS metric, variant, recorded_received_at AS event_at,
    latency_ms AS value_ms
  FROM reacting
  UNION ALL
  SELECT recording, 'closed_loop_latency', 'recorded', recorded_received_at,
    request_recorded_latency_ms
  FROM reacting
  WHERE variant = 'acks_min_insync_replicas' AND request_recorded_latency_ms IS NOT NULL
  UNION ALL
  SELECT recording, 'produce_request_latency', variant, received_at, value_ms
  FROM arrived UNPIVOT INCLUDE NULLS (
    value_ms FOR variant IN (recorded, acks_all, acks_min_insync_replicas))
  UNION ALL
  SELECT recording, 'exposure', variant, received_at, exposure_ms
  FROM produced WHERE verdict = 'unknown' OR min_isr_error = 0
)
SELECT recording, metric, variant,
  timestamp_micros(unix_micros(event_at) - unix_micros(event_at) % (bucket_s * 1000000)) AS bucket_at, bucket_s,
  count(*) AS outcomes,
  count(*) FILTER (WHERE value_ms IS NULL) AS unknown,
  get(sort_array(collect_list(value_ms)), CAST(floor(0.5 * (count(*) - 1)) AS INT)) AS p50_ms,
  CASE WHEN count(*) >= 10 THEN get(sort_array(collect_list(value_ms)), CAST(floor(0.9 * (count(*) - 1)) AS INT)) END AS p90_ms,
  CASE WHEN count(*) >= 100 THEN get(sort_array(collect_list(value_ms)), CAST(floor(0.99 * (count(*) - 1)) AS INT)) END AS p99_ms
FROM waits JOIN time_buckets USING (recording) GROUP BY ALL
