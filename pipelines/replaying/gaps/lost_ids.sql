-- Correlation ids that a connection skips and that no line has: of a client with one destination all,
-- of others those that no line of the client has about that time, on any node (clocks may differ).
--   * What several connections skip was sent to the node that took up nothing for longest.
--   * A request to a node that dies is lost too, and ends a connection; of a consumer also requests
--     that it does not get to send then (ConsumerNetworkClient).
--   * Of a connection for heartbeats the request that waits for it has the id before that of
--     API_VERSIONS.
--   * A number that skips others while time runs back was damaged: nothing is missing before it.
WITH skipped AS (
    SELECT recording, n.client_id, node_id, connection, request_id, received_at, completed_at,
        envelopes, is_consumer, previous_at, after_at, last_request_id,
        unix_micros(received_at) - unix_micros(previous_at) AS silent_us, explode(range(
            correlation_id - ids_skipped, correlation_id - ids_skipped + least(ids_skipped, 100)
        )) AS id
    FROM numbered_requests AS n JOIN connections USING (recording, node_id, connection)
    WHERE ids_skipped > 0 AND after_at <= completed_at AND NOT has_one_destination
        AND (is_numbered OR has_one_leader)
),
unseen AS (
    SELECT * FROM skipped WHERE NOT EXISTS (
        FROM logged_requests AS r WHERE r.recording = skipped.recording AND NOT r.is_forwarded
            AND r.client_id IS NOT DISTINCT FROM skipped.client_id AND r.correlation_id = skipped.id
            AND r.received_at BETWEEN skipped.previous_at - INTERVAL 2 MINUTE
                AND skipped.received_at + INTERVAL 2 MINUTE)
),
-- Nodes that take nothing up for seconds: they are paused or down, and what was sent to them
-- then may never be logged, as what was sent before their logs begin.
quiet AS (
    SELECT DISTINCT recording, client_id, node_id AS quiet_id, quiet_from, quiet_until
    FROM (
        SELECT recording, node_id, received_at AS quiet_from, lead(received_at) OVER (
            PARTITION BY recording, node_id ORDER BY received_at) AS quiet_until
        FROM logged_requests
        UNION ALL BY NAME
        SELECT recording, node_id, min(completed_at) AS quiet_until FROM logged_requests
        GROUP BY recording, node_id)
    JOIN connections USING (recording, node_id)
    WHERE coalesce(quiet_until > quiet_from + INTERVAL 2 SECOND, quiet_from IS NULL)
)
SELECT recording, node_id, after_at, completed_at AS before_at, last_request_id,
    request_id AS next_request_id, ids_skipped - envelopes AS lines_missing,
    'correlation_id' AS evidence
FROM numbered_requests
WHERE ids_skipped - envelopes BETWEEN 1 AND 1000000000 AND has_one_destination
    AND after_at <= completed_at
    AND NOT (is_to_controller AND is_second AND ids_skipped - envelopes = 1)
UNION ALL
SELECT recording, node_id, after_at, completed_at, last_request_id, request_id,
    count(*) - any_value(envelopes), 'correlation_id'
FROM unseen
WHERE NOT EXISTS (
    FROM connections AS other WHERE other.recording = unseen.recording
        AND other.client_id IS NOT DISTINCT FROM unseen.client_id
        AND NOT (other.node_id = unseen.node_id AND other.connection = unseen.connection)
        AND other.last_at < unseen.received_at + INTERVAL 1 SECOND
        AND other.last_at > unseen.after_at - CASE WHEN unseen.is_consumer
            THEN INTERVAL 1 MINUTE ELSE INTERVAL 1 SECOND END)
AND NOT EXISTS (
    FROM quiet WHERE quiet.recording = unseen.recording
        AND quiet.client_id IS NOT DISTINCT FROM unseen.client_id
        AND (quiet_id <> unseen.node_id AND quiet_from < unseen.received_at OR quiet_from IS NULL)
        AND quiet_until > unseen.previous_at)
AND NOT EXISTS (
    FROM unseen AS other WHERE other.recording = unseen.recording
        AND other.client_id IS NOT DISTINCT FROM unseen.client_id AND other.id = unseen.id
        AND other.previous_at < unseen.received_at + INTERVAL 1 SECOND
        AND unseen.previous_at < other.received_at + INTERVAL 1 SECOND
        AND other.silent_us > unseen.silent_us)
GROUP BY recording, node_id, after_at, completed_at, last_request_id, request_id
HAVING count(*) > any_value(envelopes)
