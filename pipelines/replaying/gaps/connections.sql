-- Connections that the logs have requests of: is_opened by an API_VERSIONS, is_numbered if what it skips
-- was sent to other nodes.
SELECT recording, node_id, connection, any_value(client_id) AS client_id,
    min(received_at) AS first_at, max(completed_at) AS last_at,
    bool_or(api_name = 'API_VERSIONS') AS is_opened,
    bool_or(NOT is_raft AND api_name IN (
        'FETCH', 'FIND_COORDINATOR', 'HEARTBEAT', 'CONSUMER_GROUP_HEARTBEAT')) AS is_consumer,
    bool_and(NOT is_raft AND NOT is_rdkafka AND api_name NOT IN (
        'WRITE_TXN_MARKERS', 'ADD_PARTITIONS_TO_TXN'))
        AND max(correlation_id) - min(correlation_id) < 1000 * count(*) AS is_numbered
FROM numbered_requests GROUP BY recording, node_id, connection
