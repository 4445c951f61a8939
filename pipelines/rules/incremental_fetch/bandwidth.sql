-- FETCHes for bandwidth_summary; of those between bounds the least bytes. One of which a variant is
-- unknown was sent, and its size counts under none.
SELECT recording, rule, variant, parameter, parameter_value, node_id, dequeued_at, built_at,
    client_kind, request_partitions, response_partitions, record_bytes,
    CASE WHEN is_known THEN request_bytes END AS request_bytes,
    CASE WHEN is_known THEN response_bytes END AS response_bytes
FROM compared
