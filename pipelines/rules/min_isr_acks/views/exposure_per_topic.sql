-- With acks=min.insync.replicas: what producers of each topic gain, and for how long records are exposed.
-- batches: partitions of PRODUCE requests that were replayed
-- unknown: those that the log can't decide
-- acks_all_p50_ms: time until acks=all gets its response, at rank floor(0.5 * (n - 1)), the unknown ranked last
-- min_isr_p50_ms: time until acks=min.insync.replicas gets its response, likewise
-- saved_mean_ms: how much sooner the response comes, mean
-- exposed: batches whose response comes before the whole ISR had them
-- exposure_p50_ms: from the early response until the whole ISR had the batch, likewise; none where it is refused
-- exposure_p99_ms: likewise
-- exposure_max_ms: longest
WITH produced AS (
  SELECT *, verdict = 'unknown' OR min_isr_error = 0 AS may_expose,
    partition_acks_all_latency_ms AS acks_all_ms, partition_min_isr_latency_ms AS min_isr_ms
  FROM produce_ack_outcomes WHERE parameter = 'none' AND verdict <> 'not_applicable'
)
SELECT recording, topic,
  count(*) FILTER (WHERE verdict = 'replayed') AS batches,
  count(*) FILTER (WHERE verdict = 'unknown') AS unknown,
  get(sort_array(collect_list(acks_all_ms)), CAST(floor(0.5 * (count(*) - 1)) AS INT))
    AS acks_all_p50_ms,
  get(sort_array(collect_list(min_isr_ms)), CAST(floor(0.5 * (count(*) - 1)) AS INT))
    AS min_isr_p50_ms,
  avg(acks_all_ms - min_isr_ms) AS saved_mean_ms,
  count(*) FILTER (WHERE exposure_ms > 0) AS exposed,
  get(sort_array(collect_list(exposure_ms)),
    CAST(floor(0.5 * (count(*) FILTER (WHERE may_expose) - 1)) AS INT)) AS exposure_p50_ms,
  get(sort_array(collect_list(exposure_ms)),
    CAST(floor(0.99 * (count(*) FILTER (WHERE may_expose) - 1)) AS INT)) AS exposure_p99_ms,
  max(exposure_ms) AS exposure_max_ms
FROM produced GROUP BY recording, topic
