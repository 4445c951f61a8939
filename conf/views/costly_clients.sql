-- The ten clients with most bytes, those with most requests and those with most dollars, a row for each setting of theirs that would save, where a rule or a finding says so.
-- rank: by bytes both ways, 1 has most
-- bytes: both ways; null: of none of its requests they are known
-- setting: what to set or do; null: nothing is known that saves
-- saved: how much that would save, of findings what they are about, of the whole log
-- unit: dollars a month, bytes, FETCHes or batches
WITH loads AS (
  SELECT recording, principal, client_id, sum(requests) AS requests, sum(handler_ms) AS handler_ms,
    coalesce(sum(request_bytes) + sum(response_bytes), sum(request_bytes), sum(response_bytes)) AS bytes, sum(cross_zone_dollars) AS cross_zone_dollars,
    sum(CASE WHEN api_name = 'FETCH' THEN cross_zone_dollars END) AS read_dollars
  FROM usage WHERE is_client GROUP BY recording, principal, client_id
),
ranked AS (
  SELECT *, row_number() OVER (PARTITION BY recording ORDER BY bytes DESC NULLS LAST, requests DESC, client_id, principal) AS rank,
    row_number() OVER (PARTITION BY recording ORDER BY requests DESC, client_id, principal) AS by_requests,
    row_number() OVER (PARTITION BY recording ORDER BY cross_zone_dollars DESC NULLS LAST, client_id, principal) AS by_dollars
  FROM loads
),
reads AS (SELECT recording, client_id, sum(dollars_closest) AS closest FROM reads_by_client GROUP BY recording, client_id),
savings AS (
  SELECT l.recording, l.client_id, 'client.rack, and replica.selector.class of the brokers' AS setting,
    sum(read_dollars) - max(closest) AS saved, 'dollars a month' AS unit
  FROM loads AS l JOIN reads AS c ON c.recording = l.recording AND c.client_id = l.client_id GROUP BY l.recording, l.client_id
  UNION ALL SELECT recording, coalesce(client_id, '-'), 'max.incremental.fetch.session.cache.slots of the brokers',
    sum(overhead_bytes - incremental_bytes), 'bytes'
  FROM costly_fetchers GROUP BY recording, coalesce(client_id, '-')
  UNION ALL SELECT recording, subject, action, count,
    CASE code WHEN 'tiny_batches' THEN 'batches' WHEN 'no_fetch_session' THEN 'bytes' ELSE 'FETCHes' END
  FROM findings WHERE code IN ('idle_polling', 'tiny_batches', 'no_fetch_session', 'new_sessions')
)
SELECT r.recording, rank, principal, r.client_id, requests, bytes, handler_ms, cross_zone_dollars, setting, saved, unit
FROM ranked AS r LEFT JOIN savings AS s ON s.recording = r.recording AND s.client_id = r.client_id AND saved >= 5e-3
WHERE least(rank, by_requests, CASE WHEN cross_zone_dollars > 0 THEN by_dollars ELSE 11 END) <= 10
