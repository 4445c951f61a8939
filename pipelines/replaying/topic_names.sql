-- Names of topic ids, of all of the log: as the view of this name has them.
SELECT recording, topic_id, min(topic) AS name FROM named_topics GROUP BY recording, topic_id
