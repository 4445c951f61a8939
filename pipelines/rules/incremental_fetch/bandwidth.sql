-- FETCHes for bandwidth_summary; of those between bounds the least bytes.
SELECT recording, rule, variant, parameter, parameter_value, node_id, dequeued_at, built_at,
    client_kind, request_partitions, response_partitions, request_bytes, response_bytes, record_bytes
FROM fetch_session_outcomes WHERE verdict IN ('replayed', 'bounded')
