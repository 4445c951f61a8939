-- The hundred metadata writes of each recording that some broker applied last, as estimated, and the lines of that broker that show it.
-- recording: name of the recording
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
-- last_broker_id: broker that applied it last
-- was_fenced: it was fenced, which ended the stale time, before it had applied it
-- learned_at: the FETCH response by which that broker learned of the commit was built
-- learned_request_id: key of that FETCH in requests; null: not in the log
-- shown_offset: currentMetadataOffset of its first heartbeat from the offset on
-- shown_to: controller that it was sent to
-- shown_at: arrival of that heartbeat; null: none in the log
-- shown_request_id: its key in requests
-- waiting_ms: from the request until the writer knows from the lowest acknowledged offset; null: not known
-- interval_ms: the least heartbeat interval that was replayed; null: none
-- interval_waiting_ms: likewise with that interval; null: not known
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
late AS (
  SELECT * FROM ranked WHERE rank <= 100
),
intervals AS (
  SELECT recording, min(parameter_value) AS interval_ms
  FROM metadata_write_outcomes
  WHERE variant = 'lowest_acked_offset' AND parameter = 'broker_heartbeat_interval_ms'
  GROUP BY recording
),
waits AS (
  SELECT
    l.recording, l.request_id,
    max(o.read_after_write_ms) FILTER (WHERE o.parameter = 'none') AS waiting_ms,
    max(i.interval_ms) AS interval_ms,
    max(o.read_after_write_ms) FILTER (
      WHERE o.parameter = 'broker_heartbeat_interval_ms' AND o.parameter_value = i.interval_ms
    ) AS interval_waiting_ms
  FROM metadata_write_outcomes AS o
  JOIN late AS l ON l.recording = o.recording AND l.request_id = o.request_id
  LEFT JOIN intervals AS i ON i.recording = o.recording
  WHERE o.variant = 'lowest_acked_offset'
  GROUP BY l.recording, l.request_id
),
learned AS (
  SELECT l.recording, l.request_id, min(v.applied_at_earliest) AS learned_at,
    min(v.applied_at) AS applied_at
  FROM metadata_write_visibility AS v
  JOIN late AS l ON l.recording = v.recording AND l.request_id = v.request_id
    AND l.last_broker_id = v.broker_id
  WHERE v.variant = 'lowest_acked_offset' AND v.parameter = 'none' AND v.evidence = 'estimated'
  GROUP BY l.recording, l.request_id
),
carried AS (
  SELECT l.recording, l.request_id, min(f.request_id) AS learned_request_id
  FROM fetches AS f
  JOIN late AS l ON l.recording = f.recording AND l.controller_id = f.node_id
    AND l.last_broker_id = f.replica_id
  JOIN learned AS n ON n.recording = l.recording AND n.request_id = l.request_id
    AND n.learned_at = f.built_at
  WHERE f.is_cluster_metadata
  GROUP BY l.recording, l.request_id
),
beats AS (
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
  SELECT w.recording, w.request_id, explode(w.resources) AS each
  FROM metadata_writes AS w
  JOIN late AS l ON l.recording = w.recording AND l.request_id = w.request_id
),
resources AS (
  SELECT recording, request_id, each.resource_type AS resource_type, each.name AS resource_name,
    row_number() OVER (
      PARTITION BY recording, request_id ORDER BY each.resource_type NULLS LAST, each.name NULLS LAST
    ) AS place
  FROM written
  WHERE each.error_code = 0
)
SELECT
  l.recording, l.rank, l.stale_window_ms AS stale_ms, l.controller_id, l.api_name, l.client_id,
  l.via_broker, s.resource_type, s.resource_name, l.responded_at, l.offset_high AS metadata_offset,
  l.last_broker_id, n.applied_at IS NULL OR n.applied_at > l.applied_everywhere_at AS was_fenced,
  n.learned_at, c.learned_request_id, b.shown_offset, b.shown_to, b.shown_at,
  b.shown_request_id, w.waiting_ms, w.interval_ms, w.interval_waiting_ms, l.request_id,
  r.source_file, r.line_number
FROM late AS l
JOIN requests AS r ON r.recording = l.recording AND r.request_id = l.request_id
LEFT JOIN waits AS w ON w.recording = l.recording AND w.request_id = l.request_id
LEFT JOIN learned AS n ON n.recording = l.recording AND n.request_id = l.request_id
LEFT JOIN carried AS c ON c.recording = l.recording AND c.request_id = l.request_id
LEFT JOIN beats AS b
  ON b.recording = l.recording AND b.request_id = l.request_id AND b.place = 1
LEFT JOIN resources AS s
  ON s.recording = l.recording AND s.request_id = l.request_id AND s.place = 1
