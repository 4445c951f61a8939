-- With acks=min.insync.replicas: what producers of each topic gain, and for how long records are exposed.
-- parameter: min_insync_replicas where it is a what-if, else none
-- parameter_value: the min.insync.replicas assumed, -1 for what was in force
-- topic: topic name, else topic id
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
  FROM produce_ack_outcomes WHERE verdict <> 'not_applicable'
),
ranked AS (
  SELECT *,
    count(*) OVER (PARTITION BY recording, parameter, parameter_value, topic) - 1 AS last_rank,
    row_number() OVER (
      PARTITION BY recording, parameter, parameter_value, topic ORDER BY acks_all_ms NULLS LAST
    ) - 1 AS acks_all_rank,
    row_number() OVER (
      PARTITION BY recording, parameter, parameter_value, topic ORDER BY min_isr_ms NULLS LAST
    ) - 1 AS min_isr_rank,
    count(*) OVER (
      PARTITION BY recording, parameter, parameter_value, topic, may_expose
    ) - 1 AS last_exposure_rank,
    row_number() OVER (
      PARTITION BY recording, parameter, parameter_value, topic, may_expose
      ORDER BY exposure_ms NULLS LAST
    ) - 1 AS exposure_rank
  FROM produced
)
SELECT recording, parameter, parameter_value, topic,
  count(*) FILTER (WHERE verdict = 'replayed') AS batches,
  count(*) FILTER (WHERE verdict = 'unknown') AS unknown,
  max(acks_all_ms) FILTER (WHERE acks_all_rank = floor(0.5 * last_rank)) AS acks_all_p50_ms,
  max(min_isr_ms) FILTER (WHERE min_isr_rank = floor(0.5 * last_rank)) AS min_isr_p50_ms,
  avg(acks_all_ms - min_isr_ms) AS saved_mean_ms,
  count(*) FILTER (WHERE exposure_ms > 0) AS exposed,
  max(exposure_ms) FILTER (WHERE may_expose AND exposure_rank = floor(0.5 * last_exposure_rank))
    AS exposure_p50_ms,
  max(exposure_ms) FILTER (WHERE may_expose AND exposure_rank = floor(0.99 * last_exposure_rank))
    AS exposure_p99_ms,
  max(exposure_ms) AS exposure_max_ms
FROM ranked GROUP BY recording, parameter, parameter_value, topic
