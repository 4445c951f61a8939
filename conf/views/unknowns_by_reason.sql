-- What the logs could not decide, and why: every outcome that is unknown counts as a miss.
-- recording: name of the recording
-- rule: hwm_parking, incremental_fetch, min_isr_acks or lowest_acked_offset
-- variant: recorded, or the protocol that was replayed
-- table_name: outcome table that has the rows
-- reason: why it is unknown
-- outcomes: rows, sweeps included
WITH undecided AS (
  SELECT recording, rule, variant, 'fetch_parking_outcomes' AS table_name, reason
  FROM fetch_parking_outcomes WHERE verdict = 'unknown'
  UNION ALL
  SELECT recording, rule, variant, 'high_watermark_lag' AS table_name, reason
  FROM high_watermark_lag WHERE verdict = 'unknown'
  UNION ALL
  SELECT recording, rule, variant, 'fetch_session_outcomes' AS table_name, reason
  FROM fetch_session_outcomes WHERE verdict = 'unknown'
  UNION ALL
  SELECT recording, rule, variant, 'produce_ack_outcomes' AS table_name, reason
  FROM produce_ack_outcomes WHERE verdict = 'unknown'
  UNION ALL
  SELECT recording, rule, variant, 'heartbeat_outcomes' AS table_name, reason
  FROM heartbeat_outcomes WHERE verdict = 'unknown'
  UNION ALL
  SELECT recording, rule, variant, 'metadata_write_outcomes' AS table_name, reason
  FROM metadata_write_outcomes WHERE verdict = 'unknown'
  UNION ALL
  SELECT recording, rule, variant, 'metadata_write_visibility' AS table_name, reason
  FROM metadata_write_visibility WHERE verdict = 'unknown'
)
SELECT recording, rule, variant, table_name, reason, count(*) AS outcomes
FROM undecided
GROUP BY recording, rule, variant, table_name, reason
