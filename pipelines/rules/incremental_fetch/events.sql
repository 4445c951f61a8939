-- FETCHes of topic partitions, as the rule reads them: recording, node_id, INPUT_SCHEMA. Before those
-- of a node goes one row with the names of all topic ids: from v13 on a FETCH has only ids.
WITH events AS (
    SELECT recording, node_id, request_id, api_version, client_id, connection, replica_id,
        replica_epoch, unix_micros(received_at) AS received_us,
        unix_micros(dequeued_at) AS dequeued_us, unix_micros(built_at) AS built_us, session_id,
        session_epoch, rack_id, cluster_id, request_partitions, forgotten_partitions, throttle_ms,
        error_code, response_session_id, response_partitions, node_endpoints, request_bytes,
        response_bytes
    FROM fetches
    -- The metadata log has no sessions; where there is no request, the client id shows it.
    WHERE NOT coalesce(is_cluster_metadata, starts_with(client_id, 'raft-client-'), FALSE)
        AND completed_at > $since_at AND received_at <= $until_at
),
names AS (
    SELECT recording, array_sort(list({'topic_id': topic_id, 'topic': name})) AS topic_names
    FROM topic_names GROUP BY recording
)
SELECT recording, node_id, request_id, api_version, client_id, connection, replica_id,
    replica_epoch, received_us, dequeued_us, built_us, session_id, session_epoch, rack_id,
    cluster_id, request_partitions, forgotten_partitions, throttle_ms, error_code,
    response_session_id, response_partitions, node_endpoints, request_bytes, response_bytes
FROM events
UNION ALL BY NAME
SELECT nodes.recording, nodes.node_id, '' AS request_id, 0 AS dequeued_us, names.topic_names
FROM (SELECT DISTINCT recording, node_id FROM events) AS nodes
JOIN names ON names.recording = nodes.recording
