-- Heartbeats at which a controller noted what responses carry under the draft (lowestActiveOffset; and
-- the highest so far, which never falls), beside what the replay has for these. A note is of the next
-- response, but for 2 ms: stamps may be late.
WITH followed AS (
    SELECT h.*, lowest_active_offset, highest_offset, row_number() OVER (
        PARTITION BY h.recording, h.controller_id, h.broker_id, noted_at
        ORDER BY h.built_at, h.request_id) AS place
    FROM (SELECT *, max(lowest_active_offset) OVER (
        PARTITION BY recording ORDER BY noted_at, broker_id) AS highest_offset
        FROM lowest_acked_observations) AS noted
    JOIN heartbeat_outcomes AS h ON h.recording = noted.recording
        AND h.controller_id = noted.controller_id AND h.broker_id = noted.broker_id
        AND h.current_metadata_offset = noted.metadata_offset
        AND unix_micros(built_at) BETWEEN unix_micros(noted_at) - 2000
            AND unix_micros(noted_at) + 10000000
    WHERE variant = 'lowest_acked_offset' AND parameter = 'none'
)
SELECT *, lowest_acknowledged_offset_raw IS NOT DISTINCT FROM lowest_active_offset AS is_same
FROM followed WHERE place = 1
