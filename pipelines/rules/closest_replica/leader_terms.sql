-- Who leads a partition with an epoch, as METADATA, ALTER_PARTITION and followers' FETCHes have it:
-- since when, UTC microseconds.
SELECT recording, topic, topic_id, partition, leader_epoch, leader_id, min(at_us) AS stated_us
FROM (
    SELECT recording, topic, topic_id, partition, leader_epoch, leader_id,
        unix_micros(built_at) AS at_us
    FROM isr_changes WHERE leader_id >= 0 AND leader_epoch >= 0
    UNION ALL
    SELECT recording, p.topic, p.topic_id, p.partition, p.current_leader_epoch, node_id,
        unix_micros(dequeued_at)
    FROM (SELECT recording, node_id, dequeued_at, unnest(request_partitions) AS p
        FROM fetches WHERE replica_id >= 0 AND NOT is_cluster_metadata)
    WHERE p.current_leader_epoch >= 0
) AS shown
GROUP BY ALL
