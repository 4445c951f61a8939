-- FETCHes in the logs, with their first partition: that of the metadata log is the only one. A leader's
-- epoch is known where it responded without an error.
SELECT recording, request_id, node_id, connection, client_id, correlation_id, received_at,
    completed_at, replica_id, session_id, session_epoch::BIGINT AS session_epoch,
    coalesce(is_cluster_metadata, FALSE) AS is_metadata,
    CASE WHEN is_cluster_metadata AND error_code = 0 AND get(response_partitions, 0).error_code = 0
        THEN get(request_partitions, 0).current_leader_epoch END AS leader_epoch,
    get(request_partitions, 0).fetch_offset AS fetch_offset,
    get(request_partitions, 0).last_fetched_epoch AS last_fetched_epoch,
    get(response_partitions, 0).record_bytes AS record_bytes,
    get(response_partitions, 0).high_watermark AS high_watermark,
    coalesce(get(response_partitions, 0).diverging_epoch, -1) >= 0 AS is_diverging
FROM fetches WHERE completed_at > $since_at - INTERVAL 11 MINUTE
