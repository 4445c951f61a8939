-- name: costly_fetchers
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
-- name: fetch_bytes_over_time
-- What FETCHes of topic partitions take on the wire over time, by variant of the session protocol and kind of client.
-- variant: recorded, full, incremental or incremental_draft
-- bucket_at: the bucket begins; the FETCH was taken up in it
-- fetches: FETCHes
-- unknown: those whose bytes are not known; they count nothing below
-- request_bytes: bytes of the requests
-- response_bytes: bytes of the responses
-- record_bytes: bytes of records in them
-- bytes_per_second: both ways, over the whole bucket, also where the log begins or ends within it
-- overhead_per_second: those that are not records
WITH known AS (
  SELECT *, verdict IN ('replayed', 'bounded') AS is_known FROM fetch_session_outcomes
  WHERE parameter = 'none' AND verdict <> 'not_applicable'
),
summed AS (
  SELECT recording, variant, client_kind,
    timestamp_micros(unix_micros(dequeued_at) - unix_micros(dequeued_at) % (bucket_s * 1000000)) AS bucket_at, bucket_s,
    count(*) AS fetches,
    count(*) FILTER (WHERE NOT is_known OR request_bytes IS NULL OR response_bytes IS NULL) AS unknown,
    coalesce(sum(request_bytes) FILTER (WHERE is_known), 0) AS request_bytes,
    coalesce(sum(response_bytes) FILTER (WHERE is_known), 0) AS response_bytes,
    coalesce(sum(record_bytes) FILTER (WHERE is_known AND response_bytes IS NOT NULL), 0)
      AS record_bytes
  FROM known JOIN time_buckets USING (recording) GROUP BY ALL
)
SELECT *, (request_bytes + response_bytes) / bucket_s AS bytes_per_second,
  (request_bytes + response_bytes - record_bytes) / bucket_s AS overhead_per_second
FROM summed
-- name: peak_sessions
-- The most fetch sessions that each broker would have at a time, if every client that may have one requests one, with slots for all or for N.
-- slots: max.incremental.fetch.session.cache.slots; null: enough for all
-- sessions: sessions that were opened
-- peak_sessions: the most that were open at a time; at least, where sessions are unknown, as those that began before the log
-- peak_at: when that many were open first
-- evicted: sessions that lost their slot
WITH steps AS (
  SELECT recording, node_id, variant, parameter_value AS slots, event_at,
    CASE WHEN event = 'created' THEN 1 ELSE 0 END AS opened,
    CASE WHEN event IN ('evicted', 'closed') THEN 1 ELSE 0 END AS closed,
    CASE WHEN event = 'evicted' THEN 1 ELSE 0 END AS evicted
  FROM fetch_session_evictions WHERE parameter IN ('none', 'session_slots')
),
counted AS (
  SELECT recording, node_id, variant, slots, event_at,
    sum(opened) AS opened, sum(evicted) AS evicted,
    sum(sum(opened) - sum(closed)) OVER (
      PARTITION BY recording, node_id, variant, slots ORDER BY event_at NULLS LAST
    ) AS open_sessions
  FROM steps GROUP BY recording, node_id, variant, slots, event_at
),
beside_peak AS (
  SELECT *,
    max(open_sessions) OVER (PARTITION BY recording, node_id, variant, slots) AS peak
  FROM counted
)
SELECT recording, node_id, variant, CASE WHEN slots >= 0 THEN slots END AS slots,
  sum(opened) AS sessions,
  max(open_sessions) AS peak_sessions,
  min(event_at) FILTER (WHERE open_sessions = peak) AS peak_at,
  sum(evicted) AS evicted
FROM beside_peak GROUP BY recording, node_id, variant, slots
-- name: session_cache_pressure
-- Fetch sessions with N cache slots: how many are created, refused, evicted and closed on each broker.
-- slots: max.incremental.fetch.session.cache.slots
-- sessions: sessions that something happened to
-- created: sessions created
-- refused: sessions for which there was no slot
-- evicted: sessions that another took the slot of
-- closed: sessions that their client closed
SELECT recording,
  parameter_value AS slots,
  node_id,
  count(DISTINCT session_key) AS sessions,
  count(*) FILTER (WHERE event = 'created') AS created,
  count(*) FILTER (WHERE event = 'refused') AS refused,
  count(*) FILTER (WHERE event = 'evicted') AS evicted,
  count(*) FILTER (WHERE event = 'closed') AS closed
FROM fetch_session_evictions WHERE parameter = 'session_slots'
GROUP BY recording, parameter_value, node_id
