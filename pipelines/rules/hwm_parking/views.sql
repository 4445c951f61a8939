-- name: lag_over_time
-- How late replicas learn that the metadata log's high watermark moved, over time, by kind of replica and variant.
-- variant: recorded, without_kip_1166 or with_kip_1166
-- replica_kind: voter or broker
-- bucket_at: the bucket begins; the high watermark moved in it
-- outcomes: advances of the high watermark times replicas that were not away
-- steady: those of the steady phase, which latency_summary counts
-- unknown: those whose lag the log can't decide
-- p50_ms: lag at rank floor(0.5 * (n - 1)), the unknown ranked last
-- p90_ms: likewise; null of fewer than 10
-- p99_ms: likewise; null of fewer than 100
SELECT recording, variant, CASE WHEN is_voter THEN 'voter' ELSE 'broker' END AS replica_kind,
  timestamp_micros(unix_micros(leader_at) - unix_micros(leader_at) % (bucket_s * 1000000)) AS bucket_at, bucket_s,
  count(*) AS outcomes,
  count(*) FILTER (WHERE phase = 'steady') AS steady,
  count(*) FILTER (WHERE lag_ms IS NULL) AS unknown,
  get(sort_array(collect_list(lag_ms)), CAST(floor(0.5 * (count(*) - 1)) AS INT)) AS p50_ms,
  CASE WHEN count(*) >= 10 THEN get(sort_array(collect_list(lag_ms)), CAST(floor(0.9 * (count(*) - 1)) AS INT)) END AS p90_ms,
  CASE WHEN count(*) >= 100 THEN get(sort_array(collect_list(lag_ms)), CAST(floor(0.99 * (count(*) - 1)) AS INT)) END AS p99_ms
FROM high_watermark_lag JOIN time_buckets USING (recording)
WHERE parameter = 'none' AND verdict <> 'not_applicable' GROUP BY ALL
-- name: slow_high_watermarks
-- The hundred advances of the metadata log's high watermark in each recording that a replica learned of last, in the steady phase, and the FETCH it learned by.
-- rank: 1 is the latest
-- lag_ms: from the advance until the response that carried it was built, recorded
-- replica_id: replica that learned
-- is_voter: it is a controller
-- leader_id: active controller
-- high_watermark: what it advanced to
-- leader_at: the high watermark advanced
-- fetch_offset: fetchOffset of the FETCH; this and what follows of it is null where it is not in the log
-- fetch_at: arrival of the FETCH; before leader_at if it was there already
-- max_wait_ms: its max.wait
-- decision: immediate or parked
-- completion: records, high_watermark, drain, timeout, diverging, snapshot, error or unexplained
-- parked_ms: from its handler until the response was built; null: not known
-- replica_high_watermark: highWatermark that it sent; null without KIP-1166
-- stale_fetch_id: key in requests of the FETCH before it, if that was responded to after leader_at; null: it was not
-- stale_completion: of that FETCH, likewise
-- stale_parked_ms: likewise
-- stale_high_watermark: high watermark that its response still carried; -1: none
-- stale_source_file: its file of the log
-- stale_line_number: its line in it
-- with_kip_1166_ms: lag with KIP-1166, replayed; null: not known
-- without_kip_1166_ms: likewise without
-- client_id: clientId of the FETCH
-- request_id: its key in requests
-- source_file: file of the log
-- line_number: line in it
WITH ranked AS (
  SELECT *, row_number() OVER (
    PARTITION BY recording
    ORDER BY lag_ms DESC, leader_at NULLS LAST, leader_id, leader_epoch, replica_id, high_watermark
  ) AS rank
  FROM high_watermark_lag
  WHERE variant = 'recorded' AND parameter = 'none' AND phase = 'steady' AND lag_ms IS NOT NULL
),
late AS (SELECT * FROM ranked WHERE rank <= 100),
replayed AS (
  SELECT recording, rank, max(o.lag_ms) FILTER (WHERE o.variant = 'with_kip_1166') AS with_ms,
    max(o.lag_ms) FILTER (WHERE o.variant = 'without_kip_1166') AS without_ms
  FROM high_watermark_lag AS o
  JOIN late USING (recording, leader_id, leader_epoch, replica_id, high_watermark)
  WHERE o.parameter = 'none' AND o.variant <> 'recorded' GROUP BY recording, rank
),
learned AS (
  SELECT
    p.*, l.rank, row_number() OVER (PARTITION BY recording, l.rank ORDER BY p.sequence) AS place
  FROM fetch_parking_outcomes AS p
  JOIN late AS l USING (recording, leader_id, leader_epoch, replica_id)
  WHERE p.variant = 'recorded' AND p.parameter = 'none' AND p.built_at = l.learned_at
    AND p.response_high_watermark >= l.high_watermark
),
stale AS (
  SELECT p.*, l.rank, row_number() OVER (
      PARTITION BY recording, l.rank ORDER BY p.built_at DESC, p.sequence DESC
    ) AS place
  FROM fetch_parking_outcomes AS p
  JOIN late AS l USING (recording, leader_id, leader_epoch, replica_id)
  WHERE p.variant = 'recorded' AND p.parameter = 'none' AND p.built_at >= l.leader_at
    AND p.built_at < l.learned_at
)
SELECT l.recording, l.rank, l.lag_ms, l.replica_id, l.is_voter, l.leader_id, l.high_watermark,
  l.leader_at, f.fetch_offset, f.received_at AS fetch_at, q.max_wait_ms, f.decision, f.completion,
  f.parked_ms, f.replica_high_watermark, t.recorded_request_id AS stale_fetch_id,
  t.completion AS stale_completion, t.parked_ms AS stale_parked_ms,
  t.response_high_watermark AS stale_high_watermark, s.source_file AS stale_source_file,
  s.line_number AS stale_line_number, o.with_ms AS with_kip_1166_ms,
  o.without_ms AS without_kip_1166_ms, r.client_id, r.request_id, r.source_file, r.line_number
FROM late AS l
LEFT JOIN (SELECT * FROM learned WHERE place = 1) AS f USING (recording, rank)
LEFT JOIN replayed AS o USING (recording, rank)
LEFT JOIN (SELECT * FROM stale WHERE place = 1) AS t USING (recording, rank)
LEFT JOIN requests AS s ON s.recording = t.recording AND s.request_id = t.recorded_request_id
LEFT JOIN requests AS r ON r.recording = f.recording AND r.request_id = f.recorded_request_id
LEFT JOIN fetches AS q ON q.recording = f.recording AND q.request_id = f.recorded_request_id
-- name: steady_lag
-- How late replicas learn that the metadata log's high watermark moved, in the steady phase, by kind of replica and variant.
-- variant: recorded, without_kip_1166 or with_kip_1166
-- replica_kind: voter or broker
-- advances: advances of the high watermark times replicas
-- unknown: whose lag the log can't decide
-- p50_ms: lag at rank floor(0.5 * (n - 1)), the unknown ranked last, as in latency_summary
-- p90_ms: likewise; null of fewer than 10
-- p99_ms: likewise; null of fewer than 100
SELECT recording, variant, group_value AS replica_kind,
  count + unknown_count AS advances, unknown_count AS unknown, p50_ms,
  CASE WHEN count + unknown_count >= 10 THEN p90_ms END AS p90_ms,
  CASE WHEN count + unknown_count >= 100 THEN p99_ms END AS p99_ms, max_ms
FROM latency_summary
WHERE metric = 'high_watermark_lag' AND group_kind = 'replica_kind' AND parameter = 'none'
