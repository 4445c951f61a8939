-- The hundred slowest requests of each recording and API, and which part of the time was the longest.
-- recording: name of the recording
-- api_name: API of the request
-- rank: 1 is the slowest of its API
-- total_ms: from arrival until the response was sent
-- longest_part: request_queue, local, remote, throttle, response_queue or send
-- longest_part_ms: how long that took
-- node_id: node that got the request
-- client_id: clientId, null if the client sent none
-- received_at: arrival
-- connection: local host:port-remote host:port-processor-index
-- request_id: key of requests
WITH ranked AS (
  SELECT *,
    row_number() OVER (
      PARTITION BY recording, api_name ORDER BY total_ms DESC, request_id
    ) AS rank,
    greatest(
      coalesce(request_queue_ms, 0), coalesce(local_ms, 0), coalesce(remote_ms, 0),
      coalesce(throttle_ms, 0), coalesce(response_queue_ms, 0), coalesce(send_ms, 0)
    ) AS longest_part_ms
  FROM requests
  WHERE total_ms IS NOT NULL
)
SELECT
  recording, api_name, rank, total_ms,
  CASE longest_part_ms
    WHEN request_queue_ms THEN 'request_queue'
    WHEN local_ms THEN 'local'
    WHEN remote_ms THEN 'remote'
    WHEN throttle_ms THEN 'throttle'
    WHEN response_queue_ms THEN 'response_queue'
    WHEN send_ms THEN 'send'
  END AS longest_part,
  longest_part_ms, node_id, client_id, received_at, connection, request_id
FROM ranked
WHERE rank <= 100
