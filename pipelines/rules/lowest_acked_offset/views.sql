-- name: slow_metadata_writes
-- The hundred metadata writes of each recording that some broker showed last, as estimated, and the lines of that broker that show it.
-- rank: 1 is the latest
-- stale_ms: how long after the response a client may have read stale metadata there, estimated
-- controller_id: controller that wrote it
-- api_name: API of the write
-- client_id: clientId of the write, null if the client sent none
-- via_broker: broker that forwarded it; null: sent to the controller
-- resource_type: what was written: topic, broker, ...; the first of them
-- resource_name: its name
-- responded_at: the controller had built the response
-- metadata_offset: its last record's offset is at most this
-- last_broker_id: broker that showed it last
-- was_fenced: it was fenced, which ended the stale time, before it showed it
-- learned_at: the FETCH response by which that broker learned of the commit was built
-- learned_after_ms: how long after responded_at
-- learned_request_id: key of that FETCH in requests; null: not in the log
-- learned_source_file: its file of the log
-- learned_line_number: its line in it
-- shown_offset: currentMetadataOffset of its first heartbeat from the offset on
-- shown_to: controller that it was sent to
-- shown_at: arrival of that heartbeat; null: none in the log
-- shown_request_id: its key in requests
-- shown_source_file: its file of the log
-- shown_line_number: its line in it
-- waiting_ms: from the request until the writer knows from the lowest acknowledged offset; null: not known
-- request_id: key of requests
-- source_file: file of the log
-- line_number: line in it
WITH ranked AS (
  SELECT *, row_number() OVER (
    PARTITION BY recording ORDER BY stale_window_ms DESC, responded_at NULLS LAST, request_id
  ) AS rank
  FROM metadata_write_outcomes
  WHERE variant = 'estimated' AND parameter = 'none' AND stale_window_ms IS NOT NULL
),
late AS (SELECT * FROM ranked WHERE rank <= 100),
waits AS (
  SELECT recording, request_id, o.read_after_write_ms AS waiting_ms
  FROM metadata_write_outcomes AS o JOIN late USING (recording, request_id)
  WHERE o.variant = 'lowest_acked_offset' AND o.parameter = 'none'
),
learned AS (
  SELECT recording, request_id, min(applied_at_earliest) AS learned_at,
    min(v.shown_at) AS showed_at
  FROM metadata_write_visibility AS v JOIN late AS l USING (recording, request_id)
  WHERE v.variant = 'lowest_acked_offset' AND v.parameter = 'none' AND v.evidence = 'estimated'
    AND v.broker_id = l.last_broker_id
  GROUP BY recording, request_id
),
carried AS (
  SELECT l.recording, l.request_id, min(f.request_id) AS learned_request_id
  FROM fetches AS f
  JOIN late AS l ON l.recording = f.recording AND l.controller_id = f.node_id
    AND l.last_broker_id = f.replica_id
  JOIN learned AS n ON n.recording = l.recording AND n.request_id = l.request_id
    AND n.learned_at = f.built_at
  WHERE f.is_cluster_metadata GROUP BY l.recording, l.request_id
),
heartbeats AS (
  SELECT
    l.recording, l.request_id, h.request_id AS shown_request_id, h.node_id AS shown_to, h.received_at AS shown_at,
    h.current_metadata_offset AS shown_offset,
    row_number() OVER (
      PARTITION BY l.recording, l.request_id ORDER BY h.dequeued_at NULLS LAST, h.request_id
    ) AS place
  FROM broker_heartbeats AS h
  JOIN late AS l ON l.recording = h.recording AND l.last_broker_id = h.broker_id
  WHERE h.current_metadata_offset >= l.offset_high AND h.error_code = 0
),
written AS (
  SELECT recording, request_id, explode(resources) AS each
  FROM metadata_writes JOIN late USING (recording, request_id)
),
resources AS (
  SELECT recording, request_id, each.resource_type AS resource_type, each.name AS resource_name,
    row_number() OVER (
      PARTITION BY recording, request_id ORDER BY each.resource_type NULLS LAST, each.name NULLS LAST
    ) AS place
  FROM written WHERE each.error_code = 0
)
SELECT l.recording, rank, stale_window_ms AS stale_ms, controller_id, l.api_name, l.client_id,
  via_broker, s.resource_type, s.resource_name, responded_at, offset_high AS metadata_offset,
  last_broker_id, n.showed_at IS NULL OR n.showed_at > applied_everywhere_at AS was_fenced,
  learned_at, (unix_micros(learned_at) - unix_micros(responded_at)) / 1e3 AS learned_after_ms,
  learned_request_id, f.source_file AS learned_source_file, f.line_number AS learned_line_number,
  shown_offset, shown_to, shown_at, shown_request_id, h.source_file AS shown_source_file,
  h.line_number AS shown_line_number, waiting_ms,
  l.request_id, r.source_file, r.line_number
FROM late AS l
JOIN requests AS r USING (recording, request_id)
LEFT JOIN waits USING (recording, request_id)
LEFT JOIN learned AS n USING (recording, request_id)
LEFT JOIN carried USING (recording, request_id)
LEFT JOIN (SELECT * FROM heartbeats WHERE place = 1) AS b USING (recording, request_id)
LEFT JOIN (SELECT * FROM resources WHERE place = 1) AS s USING (recording, request_id)
LEFT JOIN requests AS f ON f.recording = l.recording AND f.request_id = learned_request_id
LEFT JOIN requests AS h ON h.recording = l.recording AND h.request_id = shown_request_id
-- name: stale_window_over_time
-- How long metadata writes were not applied everywhere, and what waiting for that costs, over time.
-- metric: stale_window (from the response until applied everywhere, today) or read_after_write (from the request until that is known), as in latency_summary
-- variant: evidence: estimated (when it was) or lowest_acked_offset (by heartbeats)
-- bucket_at: the bucket begins; the write arrived in it
-- outcomes: metadata writes
-- unknown: those that the log can't decide
-- p50_ms: at rank floor(0.5 * (n - 1)), the unknown ranked last
-- p90_ms: likewise; null of fewer than 10
-- p99_ms: likewise; null of fewer than 100
WITH writes AS (
  SELECT * FROM metadata_write_outcomes WHERE parameter = 'none' AND verdict <> 'not_applicable'
),
waits AS (
  SELECT recording, 'stale_window' AS metric, variant, received_at, stale_window_ms AS value_ms
  FROM writes
  UNION ALL
  SELECT recording, 'read_after_write', variant, received_at, read_after_write_ms FROM writes
)
SELECT recording, metric, variant,
  timestamp_micros(unix_micros(received_at) - unix_micros(received_at) % (bucket_s * 1000000)) AS bucket_at, bucket_s,
  count(*) AS outcomes,
  count(*) FILTER (WHERE value_ms IS NULL) AS unknown,
  get(sort_array(collect_list(value_ms)), CAST(floor(0.5 * (count(*) - 1)) AS INT)) AS p50_ms,
  CASE WHEN count(*) >= 10 THEN get(sort_array(collect_list(value_ms)), CAST(floor(0.9 * (count(*) - 1)) AS INT)) END AS p90_ms,
  CASE WHEN count(*) >= 100 THEN get(sort_array(collect_list(value_ms)), CAST(floor(0.99 * (count(*) - 1)) AS INT)) END AS p99_ms
FROM waits JOIN time_buckets USING (recording) GROUP BY ALL
