-- name: events
-- FETCHes of topic partitions, as the rule reads them: recording, node_id, INPUT_SCHEMA. Before those
-- of a node goes one row with the names of all topic ids: from v13 on a FETCH has only ids. Before the
-- first FETCH of a session that is older than the log goes one with the partitions that it had.
-- Stamps are cut to milliseconds: of two FETCHes of a connection correlation ids tell the order.
WITH in_turn AS (
    SELECT recording, node_id, request_id, dequeued_at, built_at, lag(dequeued_at) OVER (
        PARTITION BY recording, node_id, connection, client_id
        ORDER BY correlation_id NULLS LAST, request_id) AS before_at
    FROM fetches WHERE connection IS NOT NULL AND completed_at > $since_at
        AND received_at <= $until_at + INTERVAL 1 MILLISECOND
),
late AS (
    SELECT recording, node_id, request_id, unix_micros(before_at) + 1 AS turn_us FROM in_turn
    WHERE before_at >= dequeued_at AND before_at < dequeued_at + INTERVAL 1 MILLISECOND
        AND before_at < built_at
),
events AS (
    SELECT f.recording, f.node_id, f.request_id, api_version, client_id, connection, replica_id,
        replica_epoch, unix_micros(received_at) AS received_us,
        coalesce(turn_us, unix_micros(dequeued_at)) AS dequeued_us, unix_micros(built_at) AS built_us,
        session_id, session_epoch, rack_id, cluster_id, request_partitions, forgotten_partitions,
        throttle_ms, error_code, response_session_id, response_partitions, node_endpoints,
        request_bytes, response_bytes
    FROM fetches AS f LEFT JOIN late AS l ON l.recording = f.recording
        AND l.node_id = f.node_id AND l.request_id = f.request_id
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
UNION ALL BY NAME
SELECT recording, node_id, request_id, api_version, client_id, connection, replica_id,
    replica_epoch, unix_micros(held_from) - 1 AS dequeued_us, session_id,
    session_epoch - 1 AS session_epoch,
    list_transform(partitions, lambda p: {
        'topic_id': CASE WHEN api_version >= 13 THEN p.topic_id END,
        'topic': CASE WHEN api_version < 13 THEN p.topic END, 'partition': p.partition,
        'current_leader_epoch': CAST(NULL AS INT), 'fetch_offset': CAST(NULL AS BIGINT),
        'last_fetched_epoch': CAST(NULL AS INT), 'log_start_offset': CAST(NULL AS BIGINT),
        'partition_max_bytes': CAST(NULL AS INT), 'replica_directory_id': CAST(NULL AS VARCHAR),
        'high_watermark': 9223372036854775807}) AS request_partitions
FROM held_sessions
WHERE held_from > $since_at AND held_from <= $until_at
-- name: dependencies
-- What outcomes up to a time follow from besides the log up to it: the names of topic ids.
SELECT topic_id, name FROM usable_names ORDER BY topic_id
