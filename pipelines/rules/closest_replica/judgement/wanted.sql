-- Brokers had a selector if a consumer was redirected, or read from a follower.
WITH ran AS (
    SELECT recording, CASE WHEN bool_or(node_id <> leader_id OR preferred_read_replica IS NOT NULL)
        THEN 'closest' ELSE 'leader' END AS variant
    FROM reads WHERE variant = 'leader' GROUP BY recording
)
SELECT predicted_from, recorded_in, own.variant AS own_variant, TRUE AS is_judged
FROM pairs
JOIN ran AS own ON own.recording = recorded_in
JOIN ran AS one ON one.recording = predicted_from
WHERE predicted_from = recorded_in OR one.variant <> own.variant
