-- Load by principal, client, group and topic: sums over usage, of topics over topic_usage.
-- kind: principal, client, group or topic
-- name: which one; '-': no line names it
-- requests: requests; of topics those that list it
WITH kinds AS (SELECT * FROM (VALUES ('principal'), ('client'), ('group')) AS t(kind)),
loads AS (
  SELECT recording, kind, CASE kind WHEN 'principal' THEN principal WHEN 'client' THEN client_id ELSE group_id END AS name,
    requests, request_bytes, response_bytes, record_bytes, handler_ms, throttle_ms, errors, connections, fetch_sessions,
    cross_zone_bytes, cross_zone_dollars, cross_zone_from_at, cross_zone_until_at
  FROM usage CROSS JOIN kinds
  UNION ALL SELECT recording, 'topic', topic, requests, request_bytes, response_bytes, record_bytes, handler_ms,
    throttle_ms, errors, NULL, NULL, cross_zone_bytes, cross_zone_dollars, cross_zone_from_at, cross_zone_until_at
  FROM topic_usage
)
SELECT recording, kind, name, sum(requests) AS requests, sum(request_bytes) AS request_bytes,
  sum(response_bytes) AS response_bytes, sum(record_bytes) AS record_bytes, sum(handler_ms) AS handler_ms,
  sum(throttle_ms) AS throttle_ms, sum(errors) AS errors, sum(connections) AS connections,
  sum(fetch_sessions) AS fetch_sessions, sum(cross_zone_bytes) AS cross_zone_bytes, sum(cross_zone_dollars) AS cross_zone_dollars,
  min(cross_zone_from_at) AS cross_zone_from_at, max(cross_zone_until_at) AS cross_zone_until_at
FROM loads GROUP BY recording, kind, name
