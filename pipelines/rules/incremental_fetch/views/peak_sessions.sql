-- The most fetch sessions that each broker held at a time: as its log shows, and replayed with slots for all or for N.
-- variant: recorded, or incremental: every client that may have a session requests one
-- slots: max.incremental.fetch.session.cache.slots: of recorded as DESCRIBE_CONFIGS returned last, null where no line has it; of incremental the what-if, null: enough for all
-- sessions: sessions that were opened
-- peak_sessions: the most that were open at a time; incremental: at least, where sessions are unknown, as those that began before the log; recorded: one that no FETCH closed, and whose loss no FETCH shows, is open to the end of the log
-- peak_at: when that many were open first
-- evicted: sessions that lost their slot; recorded: those that a FETCH did not find any more, which a restart of the broker does as well
WITH responses AS (
  SELECT recording, node_id, session_id, session_epoch, response_session_id, error_code, built_at
  FROM fetches WHERE NOT is_cluster_metadata
),
sightings AS (
  SELECT recording, node_id, response_session_id AS session_id, built_at AS opened_at,
    NULL AS closed_at, false AS is_lost
  FROM responses WHERE response_session_id <> 0 AND error_code = 0
  UNION ALL
  SELECT recording, node_id, session_id, NULL, built_at, error_code = 70
  FROM responses WHERE session_id <> 0 AND (session_epoch <= 0 OR error_code = 70)
),
recorded AS (
  SELECT recording, node_id, session_id,
    min(opened_at) AS opened_at,
    min(closed_at) AS closed_at,
    bool_or(is_lost) AS is_lost
  FROM sightings GROUP BY recording, node_id, session_id
),
steps AS (
  SELECT recording, node_id, 'recorded' AS variant, -1 AS slots, opened_at AS event_at,
    1 AS opened, 0 AS closed, 0 AS evicted
  FROM recorded WHERE opened_at IS NOT NULL
  UNION ALL
  SELECT recording, node_id, 'recorded', -1, closed_at, 0, 1, CASE WHEN is_lost THEN 1 ELSE 0 END
  FROM recorded WHERE closed_at >= opened_at
  UNION ALL
  SELECT recording, node_id, variant, parameter_value, event_at,
    CASE WHEN event = 'created' THEN 1 ELSE 0 END,
    CASE WHEN event IN ('evicted', 'closed') THEN 1 ELSE 0 END,
    CASE WHEN event = 'evicted' THEN 1 ELSE 0 END
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
),
peaks AS (
  SELECT recording, node_id, variant, slots,
    sum(opened) AS sessions,
    max(open_sessions) AS peak_sessions,
    min(event_at) FILTER (WHERE open_sessions = peak) AS peak_at,
    sum(evicted) AS evicted
  FROM beside_peak GROUP BY recording, node_id, variant, slots
),
described AS (
  SELECT recording, TRY_CAST(resource_name AS INT) AS node_id,
    max_by(TRY_CAST(value AS BIGINT), built_at) AS described_slots
  FROM configs
  WHERE name = 'max.incremental.fetch.session.cache.slots' AND source = 'DESCRIBE_CONFIGS'
    AND resource_type = 'broker' AND error_code = 0
  GROUP BY 1, 2
)
SELECT recording, node_id, variant,
  CASE WHEN variant = 'recorded' THEN described_slots WHEN slots >= 0 THEN slots END AS slots,
  sessions, peak_sessions, peak_at, evicted
FROM peaks LEFT JOIN described USING (recording, node_id)
