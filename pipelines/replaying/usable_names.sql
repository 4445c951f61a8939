-- Names of topic ids that requests up to a time may carry. A topic that is created later is none of
-- them; one that is only mentioned later may have been there all the time. A topic that a CREATE_TOPICS
-- line names can have been used up to a minute before that line was written.
SELECT topic_id, min(topic) AS name FROM named_topics
GROUP BY topic_id HAVING coalesce(min(created_us) - 60000000, 0) <= $until_us
