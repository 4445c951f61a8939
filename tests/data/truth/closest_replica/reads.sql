-- Outcomes that brokers can be held against, where they have racks: of a client whose zone is only stated
-- they know nothing.
-- has_moved: the closest replica is not the leader; recorded_added_ms: what the broker that was read
-- from added.
SELECT *, bool_or(variant = 'closest' AND replica_id <> leader_id) OVER of_read AS has_moved,
    CASE WHEN node_id = leader_id THEN 0
        ELSE max(CASE WHEN variant = 'closest' AND replica_id = node_id THEN added_ms END) OVER of_read
        END AS recorded_added_ms
FROM closest_replica_outcomes
SEMI JOIN (SELECT DISTINCT recording FROM brokers WHERE rack IS NOT NULL) AS racks USING (recording)
WHERE parameter = 'none' AND (has_rack_id OR client_zone IS NULL)
WINDOW of_read AS (PARTITION BY recording, request_id, topic, partition)
