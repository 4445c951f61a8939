-- When each broker was first told that a write is applied everywhere: replayed, and by the controller.
SELECT v.recording, v.request_id, v.broker_id, v.known_at, min(noted_at) AS told_at
FROM metadata_write_visibility AS v
JOIN metadata_write_outcomes AS w
    USING (recording, variant, parameter, parameter_value, request_id)
JOIN lowest_acked_observations AS noted ON noted.recording = v.recording
    AND noted.broker_id = v.broker_id AND lowest_active_offset >= offset_high
WHERE variant = 'lowest_acked_offset' AND parameter = 'none' AND evidence = 'heartbeat'
GROUP BY v.recording, v.request_id, v.broker_id, v.known_at
