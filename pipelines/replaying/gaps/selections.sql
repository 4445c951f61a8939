-- Recordings whose logs are a selection of requests, by plain facts of all nodes together.
--   * deprecated_only: every request is of a deprecated version, and such are logged at INFO.
--   * sampled: of the connections that number what they send to one node, nine in ten skip numbers, in
--     each quarter of the lines at one line in ten or more. A file that is missing is skipped once.
--   * no_fetch: there is no FETCH, though consumers commit, brokers send heartbeats, replicas stay in sync or
--     all is METADATA.
WITH facts AS (
    SELECT recording, bool_and(is_deprecated) AS is_deprecated, bool_or(api_name = 'FETCH') AS has_fetch,
        bool_and(api_name = 'METADATA') AND count(*) >= 10 AND count(DISTINCT connection) > 1
            AS is_metadata
    FROM logged_requests GROUP BY recording
),
steps AS (
    SELECT *, ntile(4) OVER (PARTITION BY recording ORDER BY received_at, request_id) AS quarter
    FROM (
        SELECT recording, node_id, connection, received_at, request_id, ids_skipped > envelopes AS skips,
            count(*) OVER (PARTITION BY recording, node_id, connection) AS of_connection
        FROM numbered_requests WHERE has_one_destination AND ids_skipped IS NOT NULL)
    WHERE of_connection >= 8
),
skipping AS (
    SELECT recording FROM (
        SELECT recording, bool_or(skips) AS skips FROM steps GROUP BY recording, node_id, connection)
    GROUP BY recording HAVING count(*) >= 3 AND 10 * count_if(skips) >= 9 * count(*)
),
sampled AS (
    SELECT recording FROM (
        SELECT recording, count(*) AS lines, count_if(skips) AS skip
        FROM steps SEMI JOIN skipping USING (recording) GROUP BY recording, quarter)
    GROUP BY recording HAVING sum(lines) >= 50 AND bool_and(10 * skip >= lines)
),
implied AS (
    SELECT recording FROM logged_requests WHERE api_name = 'OFFSET_COMMIT'
    GROUP BY recording, client_id HAVING max(received_at) >= min(received_at) + INTERVAL 10 SECOND
    UNION ALL
    SELECT recording FROM logged_requests WHERE api_name = 'BROKER_HEARTBEAT'
    GROUP BY recording, node_id HAVING count(DISTINCT client_id) > 1
        AND max(received_at) >= min(received_at) + INTERVAL 10 SECOND
    UNION ALL
    SELECT recording FROM isr_changes SEMI JOIN logged_requests AS r
        ON r.recording = isr_changes.recording AND r.node_id = leader_id
    WHERE source = 'METADATA' AND error_code = 0 AND size(isr) > 1
        AND built_at > $since_at - INTERVAL 11 MINUTE
    GROUP BY recording, topic, partition, leader_id
    HAVING max(built_at) >= min(built_at) + INTERVAL 60 SECOND
)
SELECT recording, 'deprecated_only' AS evidence FROM facts WHERE is_deprecated
UNION ALL
SELECT recording, 'sampled' FROM sampled
UNION ALL
SELECT recording, 'no_fetch' FROM facts
WHERE NOT is_deprecated AND NOT has_fetch
    AND (is_metadata OR recording IN (SELECT recording FROM implied))
