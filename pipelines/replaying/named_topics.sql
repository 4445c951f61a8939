-- Names of topic ids, and when CREATE_TOPICS first returned one (UTC microseconds, null: it did not).
SELECT recording, topic_id, topic,
    min(unix_micros(built_at)) FILTER (WHERE source = 'CREATE_TOPICS') AS created_us
FROM topics WHERE topic_id IS NOT NULL AND topic <> topic_id
GROUP BY recording, topic_id, topic
