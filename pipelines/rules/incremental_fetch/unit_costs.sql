-- Bytes of a FETCH and its response besides records are a line over the partitions that they list,
-- fitted to full and incremental FETCHes together, by kind of client. Rates and partitions are of
-- the steady phase; sessions those that are open on average, if each gets one. None
-- where more than one in five FETCHes are unknown.
WITH fetched AS (
  SELECT recording, variant, client_kind, node_id, session_key, dequeued_at,
    CAST(request_bytes AS DOUBLE) AS request_bytes,
    CAST(request_partitions AS DOUBLE) AS requested,
    CAST(response_bytes - record_bytes AS DOUBLE) AS response_bytes,
    CAST(response_partitions AS DOUBLE) AS returned
  FROM fetch_session_outcomes
  WHERE parameter = 'none' AND verdict IN ('replayed', 'bounded') AND variant IN ('full', 'incremental')
    AND client_kind IN ('follower', 'consumer') AND request_bytes + response_bytes IS NOT NULL
),
fitted AS (
  SELECT recording, client_kind,
    regr_slope(request_bytes, requested) AS request_slope,
    regr_slope(response_bytes, returned) AS response_slope,
    regr_intercept(request_bytes, requested) + regr_intercept(response_bytes, returned) AS fixed
  FROM fetched GROUP BY recording, client_kind
),
opened AS (
  SELECT f.recording, client_kind, max(until_us - from_us) AS span_us,
    max(unix_micros(dequeued_at)) - min(unix_micros(dequeued_at)) AS open_us
  FROM fetched AS f JOIN steady_phases AS p ON p.recording = f.recording
  WHERE variant = 'incremental'
    AND unix_micros(dequeued_at) >= from_us AND unix_micros(dequeued_at) < until_us
  GROUP BY f.recording, client_kind, node_id, session_key
),
sessions AS (
  SELECT recording, client_kind, sum(open_us) / max(span_us) AS sessions
  FROM opened GROUP BY recording, client_kind HAVING sum(open_us) > 0
),
sent AS (
  SELECT recording, client_kind, variant,
    sum(CASE WHEN direction = 'request' THEN sized END) AS fetches,
    sum(CASE WHEN direction = 'request' THEN sized END) / max(span_s) AS per_second,
    sum(CASE WHEN direction = 'request' THEN partitions END)
      / sum(CASE WHEN direction = 'request' THEN sized END) AS requested,
    sum(CASE WHEN direction = 'response' THEN partitions END)
      / sum(CASE WHEN direction = 'response' THEN sized END) AS returned,
    sum(overhead_bytes) / max(span_s) AS bytes_per_second
  FROM (SELECT *, requests - unknown_size_requests AS sized FROM bandwidth_summary) AS b
  WHERE rule = 'incremental_fetch' AND parameter = 'none' AND span_s > 0
  GROUP BY recording, client_kind, variant HAVING 5 * sum(sized) >= 4 * sum(requests)
),
measured AS (
  SELECT b.recording, b.client_kind, b.fetches AS count, sessions AS field___sessions,
    b.per_second / sessions AS field___fetches_per_second_and_session,
    b.requested AS field___partitions_per_session,
    a.requested AS field___partitions_changed_per_fetch,
    a.returned AS field___partitions_returned_per_fetch,
    fixed AS cost___bytes_per_fetch,
    request_slope AS cost___request_bytes_per_partition,
    response_slope AS cost___response_bytes_per_partition,
    b.bytes_per_second AS before___overhead_bytes_per_second,
    a.bytes_per_second AS after___overhead_bytes_per_second
  FROM sent AS b
    JOIN sent AS a ON a.recording = b.recording AND a.client_kind = b.client_kind
    JOIN fitted AS f ON f.recording = b.recording AND f.client_kind = b.client_kind
    JOIN sessions AS s ON s.recording = b.recording AND s.client_kind = b.client_kind
  WHERE b.variant = 'full' AND a.variant = 'incremental' AND b.fetches >= 30
)
SELECT recording, 'incremental_fetch' AS rule, replace(name, '___', '__' || client_kind || '_') AS name,
  value, count
FROM measured UNPIVOT (
  value FOR name IN (
    field___sessions, field___fetches_per_second_and_session, field___partitions_per_session,
    field___partitions_changed_per_fetch, field___partitions_returned_per_fetch,
    cost___bytes_per_fetch, cost___request_bytes_per_partition,
    cost___response_bytes_per_partition, before___overhead_bytes_per_second,
    after___overhead_bytes_per_second)
)
