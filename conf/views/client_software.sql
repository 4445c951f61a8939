-- Which client libraries sent what, and which of them use no fetch sessions, by what their connections do. What a broker forwards counts as its ENVELOPE; FETCHes are those of topic partitions.
-- software_name: what the connection calls its library in API_VERSIONS; null if it did not say, as fetchers of brokers
-- software_version: likewise
-- client_kind: consumer, follower, producer, replica (of the metadata log) or other: what the connection did
-- client_ids: client ids
-- connections: connections
-- nodes: nodes that they went to
-- requests: requests
-- fetches: FETCHes of topic partitions
-- produces: PRODUCEs
-- request_bytes: on the wire; those of unknown size count nothing
-- response_bytes: likewise
-- without_session: FETCHes that request no session (session 0, epoch -1)
-- new_sessions: FETCHes that request a new one (epoch 0)
-- refused: those of them that got none, without an error
-- incremental: FETCHes within a session
-- session_errors: responses with a session error (70, 71 or 106)
WITH topic_fetches AS (SELECT * FROM fetches WHERE NOT is_cluster_metadata),
of_connections AS (
  SELECT r.recording, r.node_id, r.connection, r.client_id,
    count(*) AS requests,
    count(*) FILTER (WHERE api_name = 'PRODUCE') AS produces,
    sum(r.request_bytes) AS request_bytes,
    sum(r.response_bytes) AS response_bytes,
    -- the line of API_VERSIONS itself does not say it yet
    max(nullif(software_name, 'unknown')) AS software_name,
    max(nullif(software_version, 'unknown')) AS software_version,
    CASE
      WHEN max(replica_id) >= 0 THEN 'follower'
      WHEN count(f.request_id) > 0 THEN 'consumer'
      WHEN count(*) FILTER (WHERE api_name = 'PRODUCE') > 0 THEN 'producer'
      WHEN count(*) FILTER (WHERE api_name = 'FETCH') > 0 THEN 'replica'
      ELSE 'other'
    END AS client_kind,
    count(f.request_id) AS fetches,
    count(*) FILTER (WHERE session_id = 0 AND session_epoch = -1) AS without_session,
    count(*) FILTER (WHERE session_epoch = 0) AS new_sessions,
    count(*) FILTER (
      WHERE session_epoch = 0 AND response_session_id = 0 AND error_code = 0
    ) AS refused,
    count(*) FILTER (WHERE session_epoch > 0) AS incremental,
    count(*) FILTER (WHERE error_code IN (70, 71, 106)) AS session_errors
  FROM requests AS r LEFT JOIN topic_fetches AS f
    ON f.recording = r.recording AND f.request_id = r.request_id
  WHERE NOT is_forwarded GROUP BY r.recording, r.node_id, r.connection, r.client_id
)
SELECT recording, software_name, software_version, client_kind,
  count(DISTINCT client_id) AS client_ids,
  count(DISTINCT connection) AS connections,
  count(DISTINCT node_id) AS nodes,
  sum(requests) AS requests,
  sum(fetches) AS fetches,
  sum(produces) AS produces,
  sum(request_bytes) AS request_bytes,
  sum(response_bytes) AS response_bytes,
  sum(without_session) AS without_session,
  sum(new_sessions) AS new_sessions,
  sum(refused) AS refused,
  sum(incremental) AS incremental,
  sum(session_errors) AS session_errors
FROM of_connections GROUP BY recording, software_name, software_version, client_kind
