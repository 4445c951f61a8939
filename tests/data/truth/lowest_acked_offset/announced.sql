-- When a response first showed each broker that a write is applied everywhere: replayed, and recorded.
SELECT v.recording, v.broker_id, min_by(computed.verdict, built_at) AS verdict,
    v.known_at IS NOT DISTINCT FROM min(built_at) AS is_same
FROM metadata_write_visibility AS v
JOIN metadata_write_outcomes AS w
    USING (recording, variant, parameter, parameter_value, request_id)
JOIN computed ON computed.recording = v.recording
    AND computed.broker_id = v.broker_id AND highest_offset >= offset_high
WHERE v.variant = 'lowest_acked_offset' AND v.parameter = 'none' AND evidence = 'heartbeat'
GROUP BY v.recording, v.request_id, v.broker_id, v.known_at
