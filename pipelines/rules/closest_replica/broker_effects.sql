-- For each broker: what it sends to consumers and gets of them, from leaders and from the closest replica.
SELECT recording, 'closest_replica' AS rule, node_id, 'broker' AS node_kind,
  'consumer_bytes_per_second' AS figure,
  coalesce(sum(CASE WHEN variant = 'leader' THEN bytes END), 0) / max(span_s) AS before,
  coalesce(sum(CASE WHEN variant = 'closest' THEN bytes END), 0) / max(span_s) AS after,
  sum(CASE WHEN variant = 'leader' THEN requests END) AS count
FROM bandwidth_summary
WHERE rule = 'closest_replica' AND parameter = 'none' AND span_s > 0
GROUP BY recording, node_id
