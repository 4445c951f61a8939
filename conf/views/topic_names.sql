-- Names of topic ids, as responses that have both show them.
-- topic_id: topic id
-- name: topic name
SELECT recording, topic_id, max(topic) AS name
FROM topics WHERE topic_id IS NOT NULL AND topic <> topic_id GROUP BY recording, topic_id
