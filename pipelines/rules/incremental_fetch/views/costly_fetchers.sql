-- The hundred clients of each recording whose FETCHes of topic partitions cost the most bytes besides records, why, and the costliest FETCH of each.
-- rank: 1 costs the most
-- fetches: FETCHes
-- full_fetches: those that list every partition
-- without_session: those that request none (session 0, epoch -1)
-- new_sessions: those that request a new one (epoch 0)
-- refused: those of them that got none
-- session_errors: responses with a session error
-- unknown: FETCHes whose bytes are not known; they count nothing below
-- overhead_bytes: bytes both ways that are not records
-- incremental_bytes: likewise if every session that is requested found a slot; null: not known of some
-- request_partitions: partitions that the costliest lists
-- request_bytes: bytes of its request
-- response_bytes: bytes of its response
-- record_bytes: bytes of records there
-- own_ms: from its arrival until the response was sent, less waiting
WITH sized AS (
  SELECT *, variant = 'recorded' AS is_recorded,
    request_bytes + response_bytes - record_bytes AS overhead,
    row_number() OVER (
      PARTITION BY recording, variant, node_id, client_id, client_kind
      ORDER BY request_bytes + response_bytes - record_bytes DESC NULLS LAST, request_id
    ) AS place
  FROM fetch_session_outcomes WHERE parameter = 'none' AND variant IN ('recorded', 'incremental')
),
sums AS (
  SELECT recording, node_id, client_id, client_kind,
    count(*) FILTER (WHERE is_recorded) AS fetches,
    count(*) FILTER (WHERE is_recorded AND is_full) AS full_fetches,
    count(*) FILTER (WHERE is_recorded AND session_epoch = -1 AND session_id = 0) AS without_session,
    count(*) FILTER (WHERE is_recorded AND session_epoch = 0) AS new_sessions,
    count(*) FILTER (WHERE is_recorded AND session_error <> 0) AS session_errors,
    count(*) FILTER (WHERE is_recorded AND overhead IS NULL) AS unknown,
    sum(overhead) FILTER (WHERE is_recorded) AS overhead_bytes,
    CASE WHEN count(*) FILTER (WHERE NOT is_recorded AND overhead IS NULL) = 0
      THEN sum(overhead) FILTER (WHERE NOT is_recorded) END AS incremental_bytes
  FROM sized GROUP BY recording, node_id, client_id, client_kind
),
costly AS (
  SELECT *, row_number() OVER (
    PARTITION BY recording ORDER BY overhead_bytes DESC, node_id, client_id NULLS LAST, client_kind
  ) AS rank
  FROM sums WHERE overhead_bytes IS NOT NULL
),
refusals AS (
  SELECT recording, node_id, client_id, replica_id >= 0 AS is_follower,
    count(*) FILTER (WHERE response_session_id = 0) AS refused
  FROM fetches WHERE session_epoch = 0 AND error_code = 0 AND NOT is_cluster_metadata
  GROUP BY recording, node_id, client_id, replica_id >= 0
)
SELECT c.recording, c.rank, c.node_id, c.client_id, c.client_kind, c.fetches, c.full_fetches,
  c.without_session, c.new_sessions,
  CASE c.client_kind WHEN 'consumer_without_sessions' THEN 0 ELSE coalesce(n.refused, 0) END
    AS refused,
  c.session_errors, c.unknown, c.overhead_bytes, c.incremental_bytes, o.request_partitions,
  o.request_bytes, o.response_bytes, o.record_bytes, o.session_epoch, r.received_at,
  r.total_ms - coalesce(r.remote_ms, 0) AS own_ms, r.request_id, r.source_file, r.line_number
FROM costly AS c
JOIN sized AS o ON o.recording = c.recording AND o.node_id = c.node_id
  AND o.client_id IS NOT DISTINCT FROM c.client_id AND o.client_kind = c.client_kind
  AND o.is_recorded AND o.place = 1
JOIN requests AS r ON r.recording = o.recording AND r.request_id = o.request_id
LEFT JOIN refusals AS n ON n.recording = c.recording AND n.node_id = c.node_id
  AND n.client_id IS NOT DISTINCT FROM c.client_id
  AND n.is_follower = (c.client_kind = 'follower')
WHERE c.rank <= 100
