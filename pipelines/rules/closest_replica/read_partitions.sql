-- Partitions that consumers read or were redirected from: since when, UTC microseconds.
SELECT recording, r.topic, r.topic_id, r.partition, min(unix_micros(built_at)) AS stated_us
FROM (SELECT recording, built_at, unnest(list_filter(response_partitions, lambda p:
        p.record_bytes > 0 OR p.preferred_read_replica >= 0)) AS r
    FROM fetches WHERE replica_id = -1 AND error_code = 0 AND NOT is_cluster_metadata)
GROUP BY ALL
