-- FETCHes for bandwidth_summary. One that is unknown was sent all the same, and has no size. Of one
-- beside a gap only how long it waited is unknown.
SELECT recording, rule, variant, parameter, parameter_value, leader_id AS node_id, dequeued_at,
    built_at, CASE WHEN is_voter THEN 'voter' ELSE 'broker' END AS client_kind,
    1 AS request_partitions, 1 AS response_partitions, record_bytes,
    CASE WHEN verdict <> 'unknown' OR reason = $log_gap THEN request_bytes END AS request_bytes,
    CASE WHEN verdict <> 'unknown' OR reason = $log_gap THEN response_bytes END AS response_bytes
FROM fetch_parking_outcomes WHERE verdict <> 'not_applicable'
