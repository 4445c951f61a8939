-- How late replicas learn that the metadata log's high watermark moved, in the steady phase, by kind of replica and variant.
-- variant: recorded, without_kip_1166 or with_kip_1166
-- parameter: what a sweep varies, or none
-- parameter_value: the value it took, -1 without a sweep
-- replica_kind: voter or broker
-- advances: advances of the high watermark times replicas
-- unknown: whose lag the log can't decide
-- p50_ms: lag at rank floor(0.5 * (n - 1)), the unknown ranked last, as in latency_summary
-- p90_ms: likewise
-- p99_ms: likewise
-- max_ms: largest
WITH ranked AS (
  SELECT *,
    row_number() OVER (
      PARTITION BY recording, variant, parameter, parameter_value, is_voter
      ORDER BY lag_ms NULLS LAST
    ) - 1 AS lag_rank,
    count(*) OVER (PARTITION BY recording, variant, parameter, parameter_value, is_voter) - 1
      AS last_rank
  FROM high_watermark_lag WHERE phase = 'steady' AND verdict <> 'not_applicable'
)
SELECT recording, variant, parameter, parameter_value,
  CASE WHEN is_voter THEN 'voter' ELSE 'broker' END AS replica_kind,
  count(*) AS advances,
  count(*) FILTER (WHERE verdict = 'unknown') AS unknown,
  max(lag_ms) FILTER (WHERE lag_rank = floor(0.5 * last_rank)) AS p50_ms,
  max(lag_ms) FILTER (WHERE lag_rank = floor(0.9 * last_rank)) AS p90_ms,
  max(lag_ms) FILTER (WHERE lag_rank = floor(0.99 * last_rank)) AS p99_ms,
  max(lag_ms) AS max_ms
FROM ranked GROUP BY recording, variant, parameter, parameter_value, is_voter
