-- The slowest requests, the slowest of all first: up to a hundred of each recording and API. Waiting that the client wishes is left out: for data up to max.wait, for other members of a group.
-- slow_ms: from arrival until the response was sent, less such waiting
-- longest_part: request_queue, local, remote (less such waiting), response_queue or send
-- longest_part_ms: how long that took
WITH timed AS (
  SELECT r.recording, r.request_id, r.api_name, r.total_ms, coalesce(CASE
      WHEN r.api_name = 'FETCH' THEN least(r.remote_ms, f.max_wait_ms)
      WHEN r.api_name IN ('SHARE_FETCH', 'JOIN_GROUP', 'SYNC_GROUP') THEN r.remote_ms
    END, 0) AS waited_ms
  FROM requests AS r
  LEFT JOIN fetches AS f ON f.recording = r.recording AND f.request_id = r.request_id
),
ranked AS (
  SELECT recording, request_id, waited_ms, row_number() OVER (
    PARTITION BY recording, api_name ORDER BY total_ms - waited_ms DESC, request_id) AS rank
  FROM timed WHERE total_ms IS NOT NULL
),
slow AS (
  SELECT r.*, round(total_ms - waited_ms, 3) AS slow_ms,
    round(coalesce(remote_ms, 0) - waited_ms, 3) AS other_remote_ms
  FROM requests AS r JOIN ranked USING (recording, request_id) WHERE rank <= 100
),
divided AS (
  SELECT *,
    greatest(request_queue_ms, local_ms, other_remote_ms, response_queue_ms, send_ms)
      AS longest_part_ms
  FROM slow
)
SELECT recording, api_name, slow_ms,
  CASE longest_part_ms
    WHEN request_queue_ms THEN 'request_queue'
    WHEN local_ms THEN 'local'
    WHEN other_remote_ms THEN 'remote'
    WHEN response_queue_ms THEN 'response_queue'
    WHEN send_ms THEN 'send'
  END AS longest_part,
  longest_part_ms, node_id, client_id, received_at, source_file, line_number
FROM divided ORDER BY slow_ms DESC, recording, source_file, line_number
