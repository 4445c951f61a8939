-- Where the time of requests goes, by node and API: in which queue, on disk, or waiting for others.
-- node_id: node that got the request
-- api_name: API
-- requests: requests
-- total_ms: from arrival until the response was sent, mean
-- request_queue_ms: waiting for a request handler, mean
-- local_ms: in the handler, mean
-- remote_ms: waiting for other nodes, data or the Raft queue, mean
-- throttle_ms: throttled, mean
-- response_queue_ms: waiting for a network thread, mean
-- send_ms: being sent, mean
-- p99_total_ms: the whole at rank floor(0.99 * (n - 1)), the unknown ranked last
SELECT recording, node_id, api_name,
  count(*) AS requests,
  avg(total_ms) AS total_ms,
  avg(request_queue_ms) AS request_queue_ms,
  avg(local_ms) AS local_ms,
  avg(remote_ms) AS remote_ms,
  avg(throttle_ms) AS throttle_ms,
  avg(response_queue_ms) AS response_queue_ms,
  avg(send_ms) AS send_ms,
  get(sort_array(collect_list(total_ms)), CAST(floor(0.99 * (count(*) - 1)) AS INT)) AS p99_total_ms
FROM requests GROUP BY recording, node_id, api_name
