-- FETCHes for bandwidth_summary. How long one beside a gap waited is unknown; that it was sent is not.
SELECT recording, rule, variant, parameter, parameter_value, leader_id AS node_id, dequeued_at,
    built_at, CASE WHEN is_voter THEN 'voter' ELSE 'broker' END AS client_kind,
    1 AS request_partitions, 1 AS response_partitions, request_bytes, response_bytes, record_bytes
FROM fetch_parking_outcomes WHERE verdict = 'replayed' OR reason = $log_gap
