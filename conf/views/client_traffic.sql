-- Requests and bytes of every client, by API and node: who makes the traffic.
-- software_name: what the client calls its library, null if it did not say
-- requests: requests
-- request_bytes: on the wire; those of unknown size count nothing
-- response_bytes: likewise
-- mean_total_ms: from arrival until the response was sent, mean
-- max_total_ms: the slowest
-- throttled: requests that were throttled
SELECT recording, node_id, client_id, software_name, api_name,
  count(*) AS requests,
  sum(request_bytes) AS request_bytes,
  sum(response_bytes) AS response_bytes,
  avg(total_ms) AS mean_total_ms,
  max(total_ms) AS max_total_ms,
  count(*) FILTER (WHERE throttle_ms > 0) AS throttled
FROM requests GROUP BY recording, node_id, client_id, software_name, api_name
