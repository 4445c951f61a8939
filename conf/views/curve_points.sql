-- Distributions of latencies as points: at most 201 of each, none of sweeps.
-- metric: as in latency_summary
-- group_kind: likewise
-- group_value: likewise
-- ms: a value
-- share: of all values, the unknown included, those that are not above it
SELECT recording, rule, variant, metric, group_kind, group_value, value_us / 1e3 AS ms,
  up_to / CAST(total AS DOUBLE) AS share
FROM latency_curves WHERE parameter = 'none'
UNION ALL
SELECT recording, rule, variant, metric, group_kind, group_value, min(from_us) / 1e3, 0e0
FROM latency_curves WHERE parameter = 'none'
GROUP BY recording, rule, variant, metric, group_kind, group_value
