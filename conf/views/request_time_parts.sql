-- Where the time of requests goes, by node and API: in which queue, on disk, or waiting for others.
-- requests: requests
-- per_second: of the whole recording
-- total_ms: from arrival until the response was sent, mean
-- request_queue_ms: waiting for a request handler, mean
-- local_ms: in the handler, mean
-- remote_ms: waiting for other nodes, data or the Raft queue, mean
-- throttle_ms: throttled, mean
-- response_queue_ms: waiting for a network thread, mean
-- send_ms: being sent, mean
-- p99_total_ms: the whole at rank floor(0.99 * (n - 1)), the unknown ranked last; null of fewer than 100
-- p50_own_ms: likewise of rank floor(0.5 * (n - 1)), less remote_ms where the client wishes to wait: for data (FETCH, SHARE_FETCH), for other members (JOIN_GROUP, SYNC_GROUP)
-- p99_own_ms: likewise of rank floor(0.99 * (n - 1)); null of fewer than 100
SELECT recording, node_id, api_name,
  count(*) AS requests,
  count(*) / nullif(max(span_s), 0) AS per_second,
  avg(total_ms) AS total_ms,
  avg(request_queue_ms) AS request_queue_ms,
  avg(local_ms) AS local_ms,
  avg(remote_ms) AS remote_ms,
  avg(throttle_ms) AS throttle_ms,
  avg(response_queue_ms) AS response_queue_ms,
  avg(send_ms) AS send_ms,
  CASE WHEN count(*) >= 100 THEN get(sort_array(collect_list(total_ms)), CAST(floor(0.99 * (count(*) - 1)) AS INT)) END AS p99_total_ms,
  get(sort_array(collect_list(own_ms)), CAST(floor(0.5 * (count(*) - 1)) AS INT)) AS p50_own_ms,
  CASE WHEN count(*) >= 100 THEN get(sort_array(collect_list(own_ms)), CAST(floor(0.99 * (count(*) - 1)) AS INT)) END AS p99_own_ms
FROM own_times JOIN time_buckets USING (recording) GROUP BY recording, node_id, api_name
