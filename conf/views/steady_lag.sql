-- How late replicas learn that the metadata log's high watermark moved, in the steady phase, by kind of replica and variant.
-- engines: spark, duckdb
-- recording: name of the recording
-- variant: recorded, without_kip_1166 or with_kip_1166
-- parameter: what a sweep varies, or none
-- parameter_value: the value it took, or none
-- replica_kind: voter or broker
-- advances: advances of the high watermark times replicas
-- unknown: of which the log can't tell the lag
-- p50_ms: median lag of those that are known
-- p90_ms: 90th percentile
-- p99_ms: 99th percentile
-- max_ms: largest
SELECT
  recording, variant, parameter, parameter_value,
  CASE WHEN is_voter THEN 'voter' ELSE 'broker' END AS replica_kind,
  count(*) AS advances,
  count(*) FILTER (WHERE verdict = 'unknown') AS unknown,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY lag_ms) AS p50_ms,
  percentile_cont(0.9) WITHIN GROUP (ORDER BY lag_ms) AS p90_ms,
  percentile_cont(0.99) WITHIN GROUP (ORDER BY lag_ms) AS p99_ms,
  max(lag_ms) AS max_ms
FROM high_watermark_lag
WHERE phase = 'steady' AND verdict <> 'not_applicable'
GROUP BY recording, variant, parameter, parameter_value, is_voter
