-- Requests that failed, by client, API, topic and error, as far as bodies are read: of FETCH, PRODUCE, INIT_PRODUCER_ID, METADATA, heartbeats, members of groups, and what writes metadata.
-- is_client: false of brokers and controllers among themselves
-- subject: topic, or another resource, that the error is of; null: the whole request
-- error_code: Kafka's error code
-- error_name: its name; null if it is newer than Kafka 4.3
-- errors: requests that have this error of this subject
-- requests: those of them that no other subject counts: they sum up to the requests that failed so
-- of_requests: all requests of the client and API
WITH failed AS (
  SELECT *, row_number() OVER (PARTITION BY recording, request_id, error_code ORDER BY subject NULLS FIRST) AS place
  FROM stated_errors
),
sent AS (
  SELECT *, count(*) OVER (PARTITION BY recording, client_id, api_name) AS of_requests
  FROM requests WHERE NOT is_forwarded
),
clients AS (SELECT DISTINCT recording, client_id, true AS is_client FROM client_api_versions)
SELECT s.recording, s.client_id, coalesce(is_client, false) AS is_client, s.api_name,
  coalesce(name, subject) AS subject, f.error_code, error_name,
  count(*) AS errors, count(*) FILTER (WHERE place = 1) AS requests, max(of_requests) AS of_requests
FROM failed AS f
  JOIN sent AS s ON s.recording = f.recording AND s.request_id = f.request_id
  LEFT JOIN clients AS c ON c.recording = s.recording AND c.client_id IS NOT DISTINCT FROM s.client_id
  LEFT JOIN topic_names AS t ON t.recording = f.recording AND t.topic_id = f.subject
  LEFT JOIN error_names AS n ON n.error_code = f.error_code
GROUP BY s.recording, s.client_id, is_client, s.api_name, coalesce(name, subject), f.error_code, error_name
