-- For each broker: what FETCHes of topic partitions take besides records, in full and with sessions,
-- unless more than one in five is unknown;
-- the most sessions at a time if each that is requested gets one and all are known; the requests for
-- a session that got none.
SELECT recording, 'incremental_fetch' AS rule, node_id, 'leader' AS node_kind,
  'overhead_bytes_per_second' AS figure,
  sum(CASE WHEN variant = 'full' THEN overhead_bytes END) / max(span_s) AS before,
  sum(CASE WHEN variant = 'incremental' THEN overhead_bytes END) / max(span_s) AS after,
  sum(CASE WHEN variant = 'full' AND direction = 'request' THEN requests - unknown_size_requests END)
    AS count
FROM bandwidth_summary
WHERE rule = 'incremental_fetch' AND parameter = 'none' AND span_s > 0
GROUP BY recording, node_id HAVING 5 * sum(unknown_size_requests) <= sum(requests)
UNION ALL
SELECT p.recording, 'incremental_fetch', p.node_id, 'leader', 'sessions_at_once', NULL,
  peak_sessions, sessions
FROM peak_sessions AS p ANTI JOIN (
    SELECT recording, node_id FROM fetch_session_outcomes
    WHERE variant = 'incremental' AND parameter = 'none' AND verdict = 'unknown') AS u
  ON u.recording = p.recording AND u.node_id = p.node_id
WHERE variant = 'incremental' AND p.slots IS NULL
UNION ALL
SELECT recording, 'incremental_fetch', node_id, 'leader', 'refused_sessions',
  count(*) FILTER (WHERE session_epoch = 0 AND response_session_id = 0 AND error_code = 0),
  0, count(*)
FROM fetches WHERE NOT is_cluster_metadata GROUP BY recording, node_id
