-- Reads for bandwidth_summary, by broker and whether they cross zones: each is there once as such that
-- does, with no bytes if it does not, and once as the others.
SELECT recording, rule, variant, parameter, parameter_value, node_id, side.kind AS client_kind,
    dequeued_at, built_at, 1 AS request_partitions, 1 AS response_partitions,
    side.share * record_bytes AS record_bytes, side.share * request_bytes AS request_bytes,
    side.share * (response_bytes + record_bytes) AS response_bytes
FROM (
    SELECT recording, rule, variant, parameter, parameter_value,
        coalesce(replica_id, leader_id, node_id) AS node_id, dequeued_at, built_at, record_bytes,
        request_bytes, response_bytes, unnest([
            {'kind': 'other zone', 'share': CASE WHEN is_cross_zone THEN 1
                WHEN NOT is_cross_zone THEN 0 END},
            {'kind': CASE WHEN is_cross_zone IS NULL THEN 'zone not known' ELSE 'same zone' END,
                'share': CASE WHEN is_cross_zone THEN 0 ELSE 1 END}]) AS side
    FROM closest_replica_outcomes WHERE parameter = 'none' AND record_bytes > 0
)
