-- name: events
-- FETCHes of the metadata log, as the rule reads them: recording, node_id, INPUT_SCHEMA.
-- What a version does not have is -1, as in Kafka's own defaults; only sizes may be null.
SELECT recording, node_id, request_id, coalesce(replica_id, -1) AS replica_id,
    coalesce(requested.current_leader_epoch, -1) AS leader_epoch,
    coalesce(correlation_id, -1) AS correlation_id, coalesce(api_version, -1) AS api_version,
    coalesce(unix_micros(received_at), -1) AS received_us,
    coalesce(unix_micros(dequeued_at), -1) AS dequeued_us,
    coalesce(unix_micros(built_at), -1) AS built_us,
    coalesce(unix_micros(completed_at), -1) AS completed_us,
    coalesce(CAST(max_wait_ms AS BIGINT) * 1000, -1) AS max_wait_us,
    coalesce(requested.fetch_offset, -1) AS fetch_offset,
    coalesce(requested.last_fetched_epoch, -1) AS last_fetched_epoch,
    coalesce(requested.high_watermark, $not_sent) AS high_watermark,
    CASE WHEN error_code IS NULL THEN $no_response WHEN error_code <> 0 THEN error_code
        ELSE coalesce(returned.error_code, 0) END AS error_code,
    coalesce(returned.high_watermark, -1) AS response_high_watermark,
    coalesce(returned.record_bytes, 0) AS record_bytes,
    coalesce(returned.diverging_epoch, -1) >= 0 AS is_diverging,
    coalesce(returned.snapshot_end_offset, -1) >= 0 AS is_snapshot,
    request_bytes, response_bytes
FROM (
    SELECT *, get(request_partitions, 0) AS requested, get(response_partitions, 0) AS returned
    FROM fetches
    WHERE is_cluster_metadata AND size(request_partitions) > 0
        AND completed_at > $since_at AND received_at <= $until_at)
-- name: dependencies
-- What lags up to a time follow from besides the log up to it: the phases until then.
SELECT least(from_us, $until_us + 1) AS from_us, least(until_us, $until_us + 1) AS until_us
FROM phases
