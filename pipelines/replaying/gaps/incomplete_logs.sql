-- Logs that begin late, end early, are empty or absent, of nodes that others' lines show to have run.
WITH logs AS (
    SELECT *, min(begun_at) OVER (PARTITION BY recording) AS begins_at
    FROM (
        SELECT recording, node_id, min(first_received_at) AS first_at,
            max(last_completed_at) AS last_at
        FROM ingested_files WHERE requests > 0 GROUP BY recording, node_id)
    LEFT JOIN (
        SELECT recording, node_id, min(completed_at) AS begun_at FROM logged_requests
        GROUP BY recording, node_id) AS begun USING (recording, node_id)
),
-- FETCHes that nodes that have run for a while respond to.
going_on AS (
    SELECT recording, node_id, min_by(received_at, (session_epoch, request_id)) AS received_at
    FROM logged_fetches WHERE session_id > 0 AND session_epoch > 0
    GROUP BY recording, node_id, session_id HAVING min(session_epoch) > 1
    UNION ALL
    SELECT recording, node_id, received_at
    FROM logged_fetches JOIN connections USING (recording, node_id, connection)
    WHERE NOT is_opened AND received_at = first_at AND replica_id >= 0 AND leader_epoch IS NOT NULL
),
-- When a log shows that a controller is active, and the ends of all logs.
led AS (
    SELECT recording, led_at, lead(led_at) OVER (PARTITION BY recording ORDER BY led_at) AS next_at
    FROM (
        SELECT recording, completed_at AS led_at FROM logged_fetches WHERE leader_epoch IS NOT NULL
        UNION ALL SELECT recording, greatest(first_at, $since_at) FROM logs
        UNION ALL SELECT recording, last_at FROM logs WHERE $is_final) AS times
),
known AS (
    SELECT recording, broker_id AS node_id, TRUE AS has_run FROM broker_heartbeats
    WHERE completed_at > $since_at - INTERVAL 11 MINUTE
    UNION ALL
    SELECT recording, replica_id, NOT is_metadata FROM logged_fetches WHERE replica_id >= 0
    UNION ALL SELECT recording, subject_id, TRUE FROM metadata_offsets WHERE kind = 'broker_epoch'
    UNION ALL SELECT recording, voter, FALSE FROM voters SEMI JOIN logs USING (recording)
)
SELECT DISTINCT recording, node_id, NULL AS after_at, begun_at AS before_at,
    'begins_late' AS evidence
FROM logs JOIN going_on USING (recording, node_id)
-- Seconds after another's.
WHERE first_at > begins_at + INTERVAL 5 SECOND AND received_at < begun_at + INTERVAL 2 SECOND
    AND begun_at > $since_at
    AND NOT EXISTS (
        FROM logged_requests AS r WHERE r.recording = logs.recording AND api_name = 'VOTE'
            AND r.received_at BETWEEN begun_at - INTERVAL 10 SECOND AND begun_at)
UNION ALL
-- A leader that still announces itself to voters, seconds after the end of its own log.
SELECT recording, logs.node_id, last_at, NULL, 'ends_early'
FROM logs WHERE $is_final AND EXISTS (
    FROM logged_requests AS r WHERE r.recording = logs.recording AND r.node_id <> logs.node_id
        AND api_name = 'BEGIN_QUORUM_EPOCH' AND client_id = 'raft-client-' || logs.node_id
        AND received_at > logs.last_at + INTERVAL 5 SECOND)
UNION ALL
-- A log may be empty of a broker that was down, and of a controller that got no request while another
-- one was active, though it fetched from that.
SELECT recording, node_id, NULL, NULL,
    CASE WHEN bool_or(is_given) THEN 'logger_off' ELSE 'no_log' END
FROM known ANTI JOIN logs USING (recording, node_id)
LEFT JOIN (SELECT DISTINCT recording, node_id, TRUE AS is_given FROM ingested_files) AS given
    USING (recording, node_id)
GROUP BY recording, node_id
HAVING bool_or(has_run) OR NOT coalesce(bool_or(is_given), FALSE)
    OR recording IN (SELECT recording FROM led WHERE next_at > led_at + INTERVAL 5 SECOND)
