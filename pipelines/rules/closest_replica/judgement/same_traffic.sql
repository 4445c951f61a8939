-- Bytes of records that both of a pair served of the same partitions with the same leader, by client,
-- topic and broker: as predicted from one, and as the other recorded.
WITH spans AS (
    SELECT recording, client_id, topic, partition, any_value(leader_id) AS leader_id,
        min(leader_id) = max(leader_id) AS has_one, min(fetch_offset) AS first_offset,
        max(fetch_offset) AS last_offset
    FROM reads WHERE variant = 'leader' AND record_bytes > 0
    GROUP BY recording, client_id, topic, partition
),
shared AS (
    SELECT wanted.*, one.client_id, one.topic, one.partition,
        greatest(one.first_offset, other.first_offset) AS from_offset,
        least(one.last_offset, other.last_offset) AS until_offset
    FROM wanted
    JOIN spans AS one ON one.recording = predicted_from
    JOIN spans AS other ON other.recording = recorded_in AND other.client_id = one.client_id
        AND other.topic = one.topic AND other.partition = one.partition
        AND other.leader_id = one.leader_id
    WHERE predicted_from <> recorded_in AND one.has_one AND other.has_one
)
SELECT s.predicted_from, s.recorded_in, s.own_variant, r.client_id, r.topic,
    CASE WHEN is_predicted THEN r.replica_id ELSE r.node_id END AS broker_id,
    is_predicted, r.record_bytes, r.is_cross_zone
FROM (SELECT *, unnest([TRUE, FALSE]) AS is_predicted FROM shared) AS s
JOIN reads AS r ON r.client_id = s.client_id AND r.topic = s.topic AND r.partition = s.partition
    AND r.recording = CASE WHEN is_predicted THEN s.predicted_from ELSE s.recorded_in END
    AND r.variant = s.own_variant
    AND r.fetch_offset >= from_offset AND r.fetch_offset < until_offset
