-- What outcomes up to a time follow from besides the log up to it: names of topic ids, who first led
-- what consumers read by then, and where brokers are.
SELECT 'name' AS what, topic_id AS topic, NULL AS id, name AS value FROM usable_names
UNION ALL
SELECT 'led', topic, leader_epoch, concat_ws(' ', CAST(partition AS VARCHAR),
    CAST(leader_id AS VARCHAR))
FROM named_terms WHERE leader_epoch = first_epoch AND read_us <= $until_us
UNION ALL
SELECT 'rack', rack, broker_id, NULL FROM broker_racks
ORDER BY what, topic, id, value
