-- What each value of a swept parameter gives: percentiles of latencies, and rates.
-- metric: as in latency_summary; of traffic fetches or overhead (bytes besides records)
-- group_kind: likewise; of traffic all
-- group_value: likewise
-- figure: p50, p90, p99 (ms) or per_second
-- value: the figure; null: unknown; p90 is of ten values or more, p99 of a hundred
WITH rates AS (
  SELECT recording, rule, variant, parameter, parameter_value,
    sum(CASE direction WHEN 'request' THEN requests / span_s END) AS fetches,
    sum(overhead_bytes / span_s) AS overhead
  FROM bandwidth_summary WHERE parameter <> 'none' AND span_s > 0
  GROUP BY recording, rule, variant, parameter, parameter_value
)
SELECT recording, rule, variant, parameter, parameter_value, metric, group_kind, group_value,
  figure, CASE figure WHEN 'p50' THEN p50_ms WHEN 'p90' THEN p90_ms ELSE p99_ms END AS value
FROM latency_summary CROSS JOIN (VALUES ('p50'), ('p90'), ('p99')) AS figures(figure)
WHERE parameter <> 'none' AND (figure = 'p50' OR count + unknown_count >= CASE figure WHEN 'p90' THEN 10 ELSE 100 END)
UNION ALL
SELECT recording, rule, variant, parameter, parameter_value, metric, 'all', 'all', 'per_second',
  CASE metric WHEN 'fetches' THEN fetches ELSE overhead END
FROM rates CROSS JOIN (VALUES ('fetches'), ('overhead')) AS metrics(metric)
