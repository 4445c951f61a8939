-- How late replicas learn that the metadata log's high watermark moved, over time, by kind of replica and variant.
-- variant: recorded, without_kip_1166 or with_kip_1166
-- replica_kind: voter or broker
-- bucket_at: the bucket begins; the high watermark moved in it
-- outcomes: advances of the high watermark times replicas that were not away
-- steady: those of the steady phase, which latency_summary counts
-- unknown: those whose lag the log can't decide
-- p50_ms: lag at rank floor(0.5 * (n - 1)), the unknown ranked last
-- p90_ms: likewise; null of fewer than 10
-- p99_ms: likewise; null of fewer than 100
SELECT recording, variant, CASE WHEN is_voter THEN 'voter' ELSE 'broker' END AS replica_kind,
  timestamp_micros(unix_micros(leader_at) - unix_micros(leader_at) % (bucket_s * 1000000)) AS bucket_at, bucket_s,
  count(*) AS outcomes,
  count(*) FILTER (WHERE phase = 'steady') AS steady,
  count(*) FILTER (WHERE lag_ms IS NULL) AS unknown,
  get(sort_array(collect_list(lag_ms)), CAST(floor(0.5 * (count(*) - 1)) AS INT)) AS p50_ms,
  CASE WHEN count(*) >= 10 THEN get(sort_array(collect_list(lag_ms)), CAST(floor(0.9 * (count(*) - 1)) AS INT)) END AS p90_ms,
  CASE WHEN count(*) >= 100 THEN get(sort_array(collect_list(lag_ms)), CAST(floor(0.99 * (count(*) - 1)) AS INT)) END AS p99_ms
FROM high_watermark_lag JOIN time_buckets USING (recording)
WHERE parameter = 'none' AND verdict <> 'not_applicable' GROUP BY ALL
