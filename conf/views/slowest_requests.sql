-- The hundred slowest requests of each recording and API, and the longest part of their time. Waiting that the client wishes is left out: for data up to max.wait, for other members of a group.
-- api_name: API of the request
-- rank: 1 is the slowest of its API
-- slow_ms: total_ms less waited_ms
-- total_ms: from arrival until the response was sent
-- waited_ms: remote time of FETCH up to its max.wait, and of SHARE_FETCH, JOIN_GROUP and SYNC_GROUP; else 0
-- longest_part: request_queue, local, remote (less waited_ms), response_queue or send
-- longest_part_ms: how long that took
-- node_id: node that got the request
-- client_id: clientId, null if the client sent none
-- received_at: arrival
-- connection: local host:port-remote host:port-processor-index
-- request_id: key of requests
-- source_file: file of the log
-- line_number: line in it
WITH overdue AS (
  SELECT recording, request_id, max_wait_ms, row_number() OVER (
    PARTITION BY recording ORDER BY
      unix_micros(completed_at) - unix_micros(received_at)
        - least(unix_micros(built_at) - unix_micros(handled_at), max_wait_ms * 1000) DESC,
      request_id
  ) AS place
  FROM fetches
),
timed AS (
  SELECT recording, request_id, api_name, least(remote_ms, max_wait_ms) AS waited_ms, total_ms
  FROM overdue JOIN requests USING (recording, request_id) WHERE place <= 200
  UNION ALL
  SELECT recording, request_id, api_name,
    CASE WHEN api_name IN ('SHARE_FETCH', 'JOIN_GROUP', 'SYNC_GROUP') THEN remote_ms END,
    total_ms
  FROM requests WHERE api_name <> 'FETCH'
),
ranked AS (
  SELECT recording, request_id, coalesce(waited_ms, 0) AS waited_ms,
    row_number() OVER (
      PARTITION BY recording, api_name ORDER BY total_ms - coalesce(waited_ms, 0) DESC, request_id
    ) AS rank
  FROM timed WHERE total_ms IS NOT NULL
),
slow AS (
  SELECT r.*, rank, waited_ms, total_ms - waited_ms AS slow_ms,
    coalesce(remote_ms, 0) - waited_ms AS other_remote_ms
  FROM requests AS r JOIN ranked USING (recording, request_id) WHERE rank <= 100
),
divided AS (
  SELECT *,
    greatest(request_queue_ms, local_ms, other_remote_ms, response_queue_ms, send_ms)
      AS longest_part_ms
  FROM slow
)
SELECT recording, api_name, rank, slow_ms, total_ms, waited_ms,
  CASE longest_part_ms
    WHEN request_queue_ms THEN 'request_queue'
    WHEN local_ms THEN 'local'
    WHEN other_remote_ms THEN 'remote'
    WHEN response_queue_ms THEN 'response_queue'
    WHEN send_ms THEN 'send'
  END AS longest_part,
  longest_part_ms, node_id, client_id, received_at, connection, request_id, source_file, line_number
FROM divided
