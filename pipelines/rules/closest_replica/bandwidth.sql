-- Reads for bandwidth_summary, by broker and whether they cross zones: each is there once as such that
-- does, with no bytes if it does not, and once as the others. Bytes are those of records: what FETCHes
-- take besides is another amount where one broker gets those of several.
SELECT recording, rule, variant, parameter, parameter_value, node_id, side.kind AS client_kind,
    dequeued_at, built_at, 1 AS request_partitions, 1 AS response_partitions, side.bytes AS record_bytes,
    0 * side.bytes AS request_bytes, side.bytes AS response_bytes
FROM (
    SELECT recording, rule, variant, parameter, parameter_value,
        coalesce(replica_id, leader_id, node_id) AS node_id, dequeued_at, built_at, unnest([
            {'kind': 'other zone', 'bytes': CASE WHEN is_cross_zone THEN record_bytes
                WHEN NOT is_cross_zone THEN 0 END},
            {'kind': CASE WHEN is_cross_zone IS NULL THEN 'zone not known' ELSE 'same zone' END,
                'bytes': CASE WHEN is_cross_zone THEN 0 ELSE record_bytes END}]) AS side
    FROM closest_replica_outcomes WHERE parameter = 'none' AND record_bytes > 0
)
