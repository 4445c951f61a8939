-- With acks=min.insync.replicas: what producers of each topic gain, and for how long records are exposed.
-- engines: spark, duckdb
-- recording: name of the recording
-- parameter: min_insync_replicas where it is a what-if, else none
-- parameter_value: the min.insync.replicas assumed, or none for what was in force
-- topic: topic name, else topic id
-- batches: partitions of PRODUCE requests that were replayed
-- unknown: those of which the log can't tell
-- acks_all_p50_ms: median time until acks=all is answered
-- min_isr_p50_ms: median time until acks=min.insync.replicas is answered
-- saved_mean_ms: how much sooner the answer comes, mean
-- exposed: batches answered before the whole ISR had them
-- exposure_p50_ms: from the early answer until the whole ISR had the batch, median
-- exposure_p99_ms: 99th percentile
-- exposure_max_ms: longest
SELECT
  recording, parameter, parameter_value, topic,
  count(*) FILTER (WHERE verdict = 'replayed') AS batches,
  count(*) FILTER (WHERE verdict = 'unknown') AS unknown,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY partition_acks_all_latency_ms) AS acks_all_p50_ms,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY partition_min_isr_latency_ms) AS min_isr_p50_ms,
  avg(partition_acks_all_latency_ms - partition_min_isr_latency_ms) AS saved_mean_ms,
  count(*) FILTER (WHERE exposure_ms > 0) AS exposed,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY exposure_ms) AS exposure_p50_ms,
  percentile_cont(0.99) WITHIN GROUP (ORDER BY exposure_ms) AS exposure_p99_ms,
  max(exposure_ms) AS exposure_max_ms
FROM produce_ack_outcomes
WHERE verdict <> 'not_applicable'
GROUP BY recording, parameter, parameter_value, topic
