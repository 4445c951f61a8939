-- Every figure is of the steady phase. A change of metadata is a request that wrote some: an
-- ALTER_PARTITION that the controller accepted, or one of metadata_writes. Where only recent rows are
-- seen, as big a share of the sums stands for their time as they have of all lags.
WITH advances AS (
  SELECT recording, variant,
    count(DISTINCT (leader_id, leader_epoch, high_watermark)) AS advances,
    count(*) FILTER (WHERE NOT is_voter AND verdict <> 'not_applicable') AS of_brokers,
    count(*) FILTER (WHERE is_voter AND verdict <> 'not_applicable') AS of_voters
  FROM high_watermark_lag WHERE parameter = 'none' AND phase = 'steady'
  GROUP BY recording, variant
),
lags AS (
  SELECT recording, variant, coalesce(max(CASE group_value WHEN 'broker' THEN mean_ms END), max(mean_ms)) AS mean_ms,
    sum(count + unknown_count) AS lags
  FROM latency_summary
  WHERE metric = 'high_watermark_lag' AND group_kind = 'replica_kind' AND parameter = 'none'
  GROUP BY recording, variant
),
sent AS (
  SELECT recording, variant, max(span_s) AS span_s,
    sum(CASE WHEN direction = 'request' THEN requests END) AS fetches,
    sum(CASE WHEN direction = 'request' THEN requests - unknown_size_requests END) AS sized,
    sum(bytes) AS bytes, sum(record_bytes) AS record_bytes
  FROM bandwidth_summary WHERE rule = 'hwm_parking' AND parameter = 'none'
  GROUP BY recording, variant
),
written AS (
  -- not what the broker of a combined node forwards: the controller has a line of it
  SELECT recording, node_id, built_at, request_id FROM metadata_writes
  ANTI JOIN (SELECT DISTINCT recording, broker_id FROM broker_heartbeats) AS brokers
    ON metadata_writes.recording = brokers.recording AND node_id = broker_id AND NOT is_forwarded
  WHERE error_code = 0 AND NOT coalesce(validate_only, false)
  UNION ALL
  SELECT recording, node_id, built_at, request_id FROM isr_changes
  WHERE source = 'ALTER_PARTITION' AND error_code = 0
),
changes AS (
  SELECT w.recording, count(DISTINCT request_id) AS changes
  FROM written AS w JOIN steady_phases AS p ON p.recording = w.recording
    JOIN (SELECT DISTINCT recording, leader_id FROM high_watermark_lag) AS l
    ON l.recording = w.recording AND l.leader_id = w.node_id
  WHERE unix_micros(built_at) >= from_us AND unix_micros(built_at) < until_us
  GROUP BY w.recording
),
sides AS (
  SELECT recording, variant, advances, of_brokers / advances AS brokers,
    1 + of_voters / advances AS voters, of_replicas, span_s * share AS span_s,
    fetches * share AS fetches, sized * share AS sized, bytes * share AS bytes, record_bytes * share AS record_bytes, mean_ms
  FROM (
    SELECT *, (of_brokers + of_voters) / 1e0 AS of_replicas,
      coalesce((of_brokers + of_voters) / nullif(lags, 0), 1e0) AS share
    FROM advances JOIN sent USING (recording, variant) LEFT JOIN lags USING (recording, variant)
  ) AS each
  WHERE span_s > 0
),
measured AS (
  SELECT b.recording, b.advances AS count, b.brokers AS field__brokers, b.voters AS field__voters,
    coalesce(changes, 0) / b.span_s AS field__changes_per_second,
    b.record_bytes / b.of_replicas AS field__record_bytes_per_advance,
    -- beside the NoOpRecord that the controller appends every 500 ms
    CASE WHEN changes >= 30 THEN (b.advances - 2 * b.span_s) / changes END
      AS cost__advances_per_change,
    b.fetches / b.of_replicas AS cost__fetches_per_advance_without,
    a.fetches / a.of_replicas AS cost__fetches_per_advance_with,
    (b.bytes - b.record_bytes) / b.sized AS cost__bytes_per_fetch_without,
    (a.bytes - a.record_bytes) / a.sized AS cost__bytes_per_fetch_with,
    b.mean_ms * b.advances / b.span_s / 1e3 AS cost__lag_advances_without,
    a.mean_ms AS cost__lag_ms_with, a.mean_ms AS after__mean_lag_ms,
    b.mean_ms AS before__mean_lag_ms,
    b.fetches / b.span_s AS before__metadata_fetches_per_second,
    a.fetches / a.span_s AS after__metadata_fetches_per_second,
    b.bytes / b.span_s AS before__metadata_bytes_per_second,
    a.bytes / a.span_s AS after__metadata_bytes_per_second
  FROM parking_sides AS p
    JOIN sides AS b ON b.recording = p.recording AND b.variant = p.before
    JOIN sides AS a ON a.recording = p.recording AND a.variant = p.after
    LEFT JOIN changes AS c ON c.recording = p.recording
  WHERE b.advances >= 30
)
SELECT recording, 'hwm_parking' AS rule, name, value, count
FROM measured UNPIVOT (
  value FOR name IN (
    field__brokers, field__voters, field__changes_per_second, field__record_bytes_per_advance,
    cost__advances_per_change, cost__fetches_per_advance_without, cost__fetches_per_advance_with,
    cost__bytes_per_fetch_without, cost__bytes_per_fetch_with, cost__lag_advances_without,
    cost__lag_ms_with, before__mean_lag_ms, after__mean_lag_ms,
    before__metadata_fetches_per_second, after__metadata_fetches_per_second,
    before__metadata_bytes_per_second, after__metadata_bytes_per_second)
)
