-- Metadata writes whose response came before every broker had applied them, as recorded.
-- evidence: estimate (when it was) or heartbeats (a bound: they come every few seconds)
-- applied_everywhere_at: every unfenced broker had applied it, of bounds at the latest; estimate: every broker showed it; null: not known within the log
-- stale_window_ms: how long a client may have read stale metadata somewhere; null: not known
-- read_after_write_ms: what waiting for the lowest acknowledged offset would cost the writer; estimate: for it to be everywhere
SELECT recording,
  CASE variant WHEN 'estimated' THEN 'estimate' ELSE 'heartbeats' END AS evidence,
  request_id, api_name, client_id, responded_at, applied_everywhere_at,
  stale_window_ms, last_broker_id, read_after_write_ms, reason
FROM metadata_write_outcomes
WHERE parameter = 'none' AND variant IN ('estimated', 'lowest_acked_offset')
  AND verdict <> 'not_applicable'
  AND (applied_everywhere_at IS NULL OR applied_everywhere_at > responded_at)
