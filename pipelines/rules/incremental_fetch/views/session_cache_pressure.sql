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
