-- Bytes on the wire over time, by node, client, API and direction; records apart from what the protocol takes.
-- direction: request or response
-- bucket_at: the bucket begins; the request arrived in it, or the response was sent
-- messages: requests, or responses
-- unknown_size: those of APIs whose size is not known (all but FETCH, PRODUCE and BROKER_HEARTBEAT): they count no bytes
-- bytes: bytes on the wire
-- record_bytes: bytes of records in them: FETCH responses and PRODUCE requests
-- messages_per_second: over the whole bucket, also where the log begins or ends within it
-- bytes_per_second: likewise
WITH returned AS (
  SELECT recording, request_id, explode(response_partitions) AS listed FROM fetches
),
produced AS (SELECT recording, request_id, explode(partitions) AS listed FROM produces),
carried AS (
  SELECT recording, request_id, 'response' AS direction, sum(listed.record_bytes) AS record_bytes
  FROM returned GROUP BY recording, request_id
  UNION ALL
  SELECT recording, request_id, 'request', sum(listed.record_bytes)
  FROM produced GROUP BY recording, request_id
),
messages AS (
  SELECT recording, request_id, node_id, client_id, api_name, 'request' AS direction,
    received_at AS event_at, request_bytes AS bytes
  FROM requests
  UNION ALL
  SELECT recording, request_id, node_id, client_id, api_name, 'response', completed_at,
    response_bytes
  FROM requests WHERE has_response
),
summed AS (
  SELECT recording, node_id, client_id, api_name, direction,
    timestamp_micros(unix_micros(event_at) - unix_micros(event_at) % (bucket_s * 1000000)) AS bucket_at, bucket_s,
    count(*) AS messages,
    count(*) FILTER (WHERE bytes IS NULL) AS unknown_size,
    coalesce(sum(bytes), 0) AS bytes,
    coalesce(sum(record_bytes) FILTER (WHERE bytes IS NOT NULL), 0) AS record_bytes
  FROM messages LEFT JOIN carried USING (recording, request_id, direction)
    JOIN time_buckets USING (recording)
  GROUP BY ALL
)
SELECT *, messages / bucket_s AS messages_per_second, bytes / bucket_s AS bytes_per_second
FROM summed
