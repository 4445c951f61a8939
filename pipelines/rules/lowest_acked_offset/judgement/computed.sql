-- Heartbeats at which a controller noted what responses carry under the draft, beside what the replay
-- has for these: lowestActiveOffset, null if no broker counts. A broker has one heartbeat under way
-- at a time; stamps leave 2 ms open.
SELECT h.recording, h.broker_id, h.verdict,
    lowest_acknowledged_offset_raw IS NOT DISTINCT FROM lowest_active_offset AS is_same
FROM heartbeat_outcomes AS h
JOIN lowest_acked_observations AS noted ON noted.recording = h.recording
    AND noted.controller_id = h.controller_id AND noted.broker_id = h.broker_id
    AND unix_micros(noted_at) >= unix_micros(received_at) - 2000
    AND unix_micros(noted_at) <= unix_micros(built_at) + 2000
WHERE variant = 'lowest_acked_offset' AND parameter = 'none'
