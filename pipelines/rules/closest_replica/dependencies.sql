-- What outcomes up to a time follow from besides the log up to it: names of topic ids, who first led
-- what consumers read by then, and where brokers are.
SELECT 'name' AS what, topic_id AS topic, NULL AS id, name AS value FROM usable_names
UNION ALL
SELECT 'led', t.topic, t.leader_epoch, concat_ws(' ', CAST(t.partition AS VARCHAR),
    CAST(t.leader_id AS VARCHAR))
FROM (SELECT *, min(leader_epoch) OVER (PARTITION BY topic, partition) AS first_epoch
    FROM named_terms) AS t
SEMI JOIN (SELECT DISTINCT coalesce(n.name, r.topic, r.topic_id) AS topic, r.partition
    FROM read_partitions AS r LEFT JOIN topic_names AS n ON n.topic_id = r.topic_id
    WHERE r.stated_us <= $until_us) AS r
ON r.topic = t.topic AND r.partition = t.partition
WHERE t.leader_epoch = t.first_epoch
UNION ALL
SELECT 'rack', rack, broker_id, NULL FROM broker_racks
ORDER BY what, topic, id, value
