-- How late replicas learn that the metadata log's high watermark moved, in the steady phase, by kind of replica and variant.
-- variant: recorded, without_kip_1166 or with_kip_1166
-- replica_kind: voter or broker
-- advances: advances of the high watermark times replicas
-- unknown: whose lag the log can't decide
-- p50_ms: lag at rank floor(0.5 * (n - 1)), the unknown ranked last, as in latency_summary
-- p90_ms: likewise; null of fewer than 10
-- p99_ms: likewise; null of fewer than 100
SELECT recording, variant, group_value AS replica_kind,
  count + unknown_count AS advances, unknown_count AS unknown, p50_ms,
  CASE WHEN count + unknown_count >= 10 THEN p90_ms END AS p90_ms,
  CASE WHEN count + unknown_count >= 100 THEN p99_ms END AS p99_ms, max_ms
FROM latency_summary
WHERE metric = 'high_watermark_lag' AND group_kind = 'replica_kind' AND parameter = 'none'
