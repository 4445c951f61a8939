-- For each broker: the writes for which the others waited for it, and for how long (the stale window,
-- as estimated); the draft does not shorten it.
WITH waited AS (
  SELECT o.recording, last_broker_id AS node_id, count(*) AS count, count(*) / 1e0 AS last_writes,
    get(sort_array(collect_list(stale_window_ms)),
      CAST(floor(0.5 * (count(stale_window_ms) - 1)) AS INT)) AS stale_window_p50_ms,
    max(stale_window_ms) AS stale_window_max_ms
  FROM metadata_write_outcomes AS o JOIN steady_phases AS p ON p.recording = o.recording
  WHERE parameter = 'none' AND variant = 'estimated' AND verdict = 'replayed'
    AND last_broker_id IS NOT NULL
    AND unix_micros(received_at) >= from_us AND unix_micros(received_at) < until_us
  GROUP BY o.recording, last_broker_id
)
SELECT recording, 'lowest_acked_offset' AS rule, node_id, 'last_broker' AS node_kind, figure,
  value AS before, NULL AS after, count
FROM waited UNPIVOT (
  value FOR figure IN (last_writes, stale_window_p50_ms, stale_window_max_ms)
)
