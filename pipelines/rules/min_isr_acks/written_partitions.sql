-- The partitions that each leader's PRODUCEs are for.
SELECT DISTINCT recording, node_id, p.topic, p.topic_id, p.partition
FROM (SELECT recording, node_id, unnest(partitions) AS p FROM produces)
