-- What recordings of one cluster are compared by: a figure a row, of which `kip-replay compare` shows two recordings beside each other.
-- kind: all, api, client, topic, error, incident or advice
-- name: API, client id, topic, API and error, kind of incidents, or rule
-- figure: requests_per_second, bytes_per_second (both ways), errors_per_hour, incidents, p99_..._ms of an API (of 100 requests or more, less waiting as in request_time_parts) or advice
-- value: the figure; null of advice, and where it is not known
-- says: the advice
WITH loads AS (
  SELECT recording, kind, name, requests, coalesce(request_bytes + response_bytes, request_bytes, response_bytes) AS bytes
  FROM load_by WHERE kind IN ('client', 'topic') AND name <> '-'
  UNION ALL SELECT recording, 'all', 'all', sum(requests),
    coalesce(sum(request_bytes) + sum(response_bytes), sum(request_bytes), sum(response_bytes))
  FROM usage GROUP BY recording
),
errors AS (
  SELECT recording, api_name, failed.error AS error, sum(failed.requests) AS requests
  FROM (SELECT recording, api_name, explode(errors_by_name) AS failed FROM usage) AS each
  GROUP BY recording, api_name, failed.error
),
counted AS (
  SELECT recording, kind, name, 'requests_per_second' AS figure, requests, 1 AS of_s FROM loads
  UNION ALL SELECT recording, kind, name, 'bytes_per_second', bytes, 1 FROM loads
  UNION ALL SELECT recording, 'error', api_name || ' ' || error, 'errors_per_hour', requests, 3600 FROM errors
  UNION ALL SELECT recording, 'all', 'all', 'errors_per_hour', sum(errors), 3600 FROM usage GROUP BY recording
)
SELECT recording, kind, name, figure, of_s * requests / nullif(span_s, 0) AS value, CAST(NULL AS STRING) AS says
FROM counted JOIN time_buckets USING (recording)
UNION ALL SELECT recording, 'api', api_name, 'p99_' || lower(api_name) || '_ms',
  get(sort_array(collect_list(own_ms)), CAST(floor(0.99 * (count(*) - 1)) AS INT)), NULL
FROM own_times GROUP BY recording, api_name HAVING count(*) >= 100
UNION ALL SELECT recording, 'incident', kind, 'incidents', count(*), NULL FROM incidents GROUP BY recording, kind
UNION ALL SELECT recording, 'advice', rule, 'advice', NULL, advice FROM decisions
