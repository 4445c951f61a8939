-- FETCHes of the metadata log: how often each replica sends one, what completes it, how long it waits.
-- variant: recorded, without_kip_1166 or with_kip_1166
-- completion: records, high_watermark, timeout, diverging, snapshot, error or unexplained
-- fetches: FETCHes
-- parked_ms: how long the leader let them wait, mean
-- response_bytes: bytes of the responses
SELECT recording, variant, replica_id, is_voter, completion,
  count(*) AS fetches,
  avg(parked_ms) AS parked_ms,
  sum(response_bytes) AS response_bytes
FROM fetch_parking_outcomes WHERE parameter = 'none'
GROUP BY recording, variant, replica_id, is_voter, completion
