-- What each value of a swept parameter gives: percentiles of latencies, and rates.
-- rule: rule
-- variant: protocol that was replayed
-- parameter: what was swept
-- parameter_value: the value it took
-- metric: as in latency_summary; of traffic fetches or overhead (bytes besides records)
-- group_kind: likewise; of traffic all
-- group_value: likewise
-- figure: p50, p90, p99 (ms) or per_second
-- value: the figure; null: unknown, or a percentile of fewer than five values
WITH percentiles AS (
  SELECT *, explode(CASE WHEN count + unknown_count >= 5 THEN [
      {'figure': 'p50', 'value': p50_ms}, {'figure': 'p90', 'value': p90_ms},
      {'figure': 'p99', 'value': p99_ms}] ELSE [{'figure': 'p50', 'value': p50_ms}] END) AS of
  FROM latency_summary WHERE parameter <> 'none'
),
rates AS (
  SELECT recording, rule, variant, parameter, parameter_value,
    sum(CASE direction WHEN 'request' THEN requests / span_s END) AS fetches,
    sum(overhead_bytes / span_s) AS overhead
  FROM bandwidth_summary WHERE parameter <> 'none' AND span_s > 0
  GROUP BY recording, rule, variant, parameter, parameter_value
)
SELECT recording, rule, variant, parameter, parameter_value, metric, group_kind, group_value,
  of.figure AS figure, of.value AS value
FROM percentiles
UNION ALL
SELECT recording, rule, variant, parameter, parameter_value, 'fetches', 'all', 'all',
  'per_second', fetches
FROM rates
UNION ALL
SELECT recording, rule, variant, parameter, parameter_value, 'overhead', 'all', 'all',
  'per_second', overhead
FROM rates
