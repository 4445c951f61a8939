-- Of sessions no older than the log: reads and redirects that come out as recorded; of those from
-- followers, responses that were not built before the follower could give the record (stamps of two logs
-- leave 2 ms open); of those that waited, responses near the estimate.
WITH mine AS (
    SELECT reads.*, record_bytes > 0 AS is_read
    FROM reads JOIN wanted ON recording = predicted_from AND recording = recorded_in
        AND variant = own_variant
    WHERE reason IS DISTINCT FROM $older
)
SELECT recording, metric, 'all' AS group_kind, 'all' AS group_value,
    count(*) FILTER (holds) / count(*) AS value, count(*) FILTER (holds IS NOT NULL) AS sample_count,
    count(*) FILTER (holds IS NULL) AS unknown_count
FROM (
    SELECT recording, 'reads_as_recorded' AS metric, replica_id = node_id AS holds
    FROM mine WHERE is_read
    UNION ALL
    SELECT recording, 'redirects_as_recorded', replica_id = preferred_read_replica
    FROM mine WHERE preferred_read_replica IS NOT NULL
    UNION ALL
    SELECT recording, 'given_no_sooner', unix_micros(built_at) + 2000 >= unix_micros(given_at_earliest)
    FROM mine WHERE is_read AND node_id <> leader_id AND replica_id = node_id
    UNION ALL
    SELECT recording, 'given_within_10_ms',
        abs(unix_micros(built_at) - unix_micros(given_at)) <= 10000
    FROM mine WHERE is_read AND is_awaited AND replica_id = node_id
)
GROUP BY recording, metric
