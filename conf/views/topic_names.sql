-- Names of topic ids, as responses that have both show them.
-- name: topic name
SELECT recording, topic_id, min(topic) AS name
-- A topic's error takes nothing from that: METADATA returns the id that the broker's image has for a
-- name (KafkaApis.getTopicMetadata), and where the image has only one of the two, the other is missing
-- (3: no id; 100: no name, its id stands for it).
FROM topics WHERE topic_id IS NOT NULL AND topic <> topic_id GROUP BY recording, topic_id
