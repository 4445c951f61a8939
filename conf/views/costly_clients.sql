-- The ten clients with most bytes, the ten with most requests and the ten with most dollars, and what a setting of theirs would save where a rule or a finding says: a row for each setting.
-- rank: by bytes both ways, 1 has most
-- bytes: both ways
-- setting: what to set; null: nothing is known that saves
-- saved: how much of the unit that would save
-- unit: of saved: dollars a month, bytes, FETCHes or batches (of the whole log)
-- handler_ms: in request handlers
WITH loads AS (
  SELECT recording, principal, client_id, sum(requests) AS requests,
    coalesce(sum(request_bytes), 0) + coalesce(sum(response_bytes), 0) AS bytes, sum(handler_ms) AS handler_ms,
    sum(cross_zone_dollars) AS cross_zone_dollars,
    sum(CASE WHEN api_name = 'FETCH' THEN cross_zone_dollars END) AS read_dollars
  FROM usage WHERE is_client GROUP BY recording, principal, client_id
),
ranked AS (
  SELECT *, row_number() OVER (PARTITION BY recording ORDER BY bytes DESC, requests DESC, client_id, principal) AS rank,
    row_number() OVER (PARTITION BY recording ORDER BY requests DESC, client_id, principal) AS by_requests,
    row_number() OVER (PARTITION BY recording ORDER BY cross_zone_dollars DESC NULLS LAST, client_id, principal) AS by_dollars
  FROM loads
),
closest AS (
  SELECT recording, client_id, sum(dollars_closest) AS dollars FROM reads_by_client GROUP BY recording, client_id
),
savings AS (
  SELECT l.recording, l.client_id, 'client.rack, and replica.selector.class of the brokers' AS setting,
    sum(read_dollars) - max(dollars) AS saved, 'dollars a month' AS unit
  FROM loads AS l JOIN closest AS c ON c.recording = l.recording AND c.client_id = l.client_id
  GROUP BY l.recording, l.client_id HAVING sum(read_dollars) - max(dollars) >= 5e-3
  UNION ALL SELECT recording, coalesce(client_id, '-'), 'max.incremental.fetch.session.cache.slots of the brokers',
    sum(overhead_bytes - incremental_bytes), 'bytes'
  FROM costly_fetchers GROUP BY recording, coalesce(client_id, '-') HAVING sum(overhead_bytes - incremental_bytes) > 0
  UNION ALL SELECT recording, subject, CASE code WHEN 'idle_polling' THEN 'fetch.max.wait.ms and fetch.min.bytes'
      WHEN 'tiny_batches' THEN 'linger.ms and batch.size' WHEN 'no_fetch_session' THEN 'a client library with fetch sessions'
      ELSE 'one consumer from poll to poll' END, count,
    CASE code WHEN 'tiny_batches' THEN 'batches' WHEN 'no_fetch_session' THEN 'bytes' ELSE 'FETCHes' END
  FROM findings WHERE code IN ('idle_polling', 'tiny_batches', 'no_fetch_session', 'new_sessions')
)
SELECT r.recording, rank, principal, r.client_id, requests, bytes, handler_ms, cross_zone_dollars, setting, saved, unit
FROM ranked AS r LEFT JOIN savings AS s ON s.recording = r.recording AND s.client_id = r.client_id
WHERE least(rank, by_requests, CASE WHEN cross_zone_dollars > 0 THEN by_dollars ELSE 11 END) <= 10
